package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/semver"

	"countersign/merchant"
)

// installation is a service and a gateway with one merchant, shop, and a signed link.
type installation struct {
	t       *testing.T
	dir     string
	url     map[string]string // of the databases, by end; empty for SQLite
	flags   map[string][]string
	daemons map[string]*process
}

var bothEnds = []string{"serve", "gateway"}

func newInstallation(t *testing.T, url map[string]string) *installation {
	return &installation{t, t.TempDir(), url, map[string][]string{}, map[string]*process{}}
}

// begin starts both ends on what is in their databases, and makes the merchant if there is none.
func (c *installation) begin() {
	c.t.Helper()
	c.flags["serve"] = []string{"--listen", "127.0.0.1:0", "--allow-private", "--allow-http"}
	c.start("serve")
	shop, at := filepath.Join(c.data("gateway"), "shop"), freePort(c.t)
	to := "http://" + at
	c.flags["gateway"] = []string{"--listen", at, "--api-listen", "127.0.0.1:0", "--service-key", filepath.Join(shop, "service.b64"),
		"--api-key", "@" + filepath.Join(shop, "api.key"), "--service-signing-key", filepath.Join(shop, "signer"), "--public-url", to}
	urls := []string{"notifyUrl=" + to + merchant.DefaultNotifyPath, "withdrawUrl=" + to + merchant.DefaultWithdrawPath}
	if _, err := os.Stat(shop); err == nil {
		c.start("gateway")
	} else {
		c.call("serve", append([]string{"merchants", "add", "shop", "finalCodes=2000-2999", "key.bits=1024", "--out", shop}, urls...)...)
		var shown struct{ ServiceSigningKey string }
		c.read(&shown, "serve", "merchants", "show", "shop")
		ok(c.t, os.WriteFile(filepath.Join(shop, "signer"), []byte(shown.ServiceSigningKey), 0o600))
		c.start("gateway")
		c.daemons["gateway"].stop(c.t) // it has its pair now
		urls = append(urls, "answerKey="+publicOf(c.t, c.args("gateway")))
		c.start("gateway")
	}
	c.call("serve", append([]string{"merchants", "edit", "shop"}, urls...)...)
}

// fill makes a deposit, a released withdrawal and what left has.
func (c *installation) fill() {
	c.t.Helper()
	for _, end := range bothEnds {
		c.call(end, "audit", "checkpoint") // so that there is what it can say of its log
	}
	c.deposit("before")
	c.booked("before")
	const order = `{"callBackId": "order", "tenantUserId": "7", `
	const details = `"address": "TJ", "chainName": "TRON", "symbol": "USDT", "amount": "1.5"}`
	c.call("gateway", "api", "addOrder", "-d", order+details)
	c.call("serve", "api", "createWithdrawal", "-d", strings.Replace(order, "{", `{"merchant": "shop", `, 1)+`"details": {`+details+"}")
	c.until("the withdrawal is released", func() bool {
		status, _, _ := shell(c.t, "", c.words("serve", "withdrawals", "release", "shop/order", "claim=one")...)
		return status == exitDone
	})
	for _, row := range left {
		c.call(row.end, row.made...)
	}
}

// goesOn holds both ends to what fill has made with this program, or with an earlier release: it is known, so nothing is
// credited again and nothing permitted twice, and what comes is done.
func (c *installation) goesOn(release string) {
	c.t.Helper()
	c.booked("before")
	if out := c.call("serve", "withdrawals", "show", "shop/order"); !strings.Contains(out, `"released"`) {
		c.t.Errorf("the withdrawal is %s", out)
	}
	for _, row := range left {
		if semver.IsValid("v"+release) && semver.Compare("v"+release, "v"+row.since) < 0 {
			continue
		}
		if out := c.call(row.end, row.shown...); !strings.Contains(out, row.as) {
			c.t.Errorf("%s of %s has no %s: %s", strings.Join(row.shown, " "), row.end, row.as, out)
		}
	}
	c.deposit("before")
	if status, out, errOut := shell(c.t, "", c.words("serve", "withdrawals", "release", "shop/order", "claim=another")...); status != exitFailed || !strings.Contains(errOut, "409") {
		c.t.Errorf("a second claim got a permit: %s%s", out, errOut)
	}
	c.deposit("after")
	c.booked("after")
	if n := strings.Count(c.call("gateway", "deposits", "list"), `"trackingId":"before"`); n != 1 {
		c.t.Errorf("the first deposit is booked %d times", n)
	}
	c.verified()
}

// verified holds the logs of both ends to their keys.
func (c *installation) verified() {
	c.t.Helper()
	for _, end := range bothEnds {
		c.call(end, "audit", "export")
		c.call(end, "audit", "verify", "--key", c.call(end, "audit", "key"))
	}
}

func (c *installation) data(end string) string { return filepath.Join(c.dir, end) }

// at returns the flags that say where the data of an end are.
func (c *installation) at(end string) []string {
	args := []string{"--data", c.data(end)}
	if c.url[end] != "" {
		args = append(args, "--db", c.url[end])
	}
	return args
}

// args returns the command line of an end.
func (c *installation) args(end string) []string {
	return slices.Concat([]string{end}, c.at(end), c.flags[end])
}

func (c *installation) start(end string) {
	c.t.Helper()
	c.daemons[end] = startDaemon(c.t, c.args(end)...)
}

// words are those of a command at an end.
func (c *installation) words(end string, args ...string) []string {
	if end == "gateway" && (args[0] == "api" || args[0] == "audit" || args[0] == "token") {
		args = append(args, "--gateway")
	}
	return append(args, "--api", c.daemons[end].url, "--data", c.data(end))
}

func (c *installation) call(end string, args ...string) string {
	c.t.Helper()
	status, out, errOut := shell(c.t, "", c.words(end, args...)...)
	if status != exitDone {
		c.t.Fatalf("countersign %s: status %d: %s%s", strings.Join(args, " "), status, out, errOut)
	}
	return out
}

// read decodes the answer of a command.
func (c *installation) read(v any, end string, args ...string) {
	c.t.Helper()
	mustShell(c.t, v, "", c.words(end, args...)...)
}

func (c *installation) deposit(id string) {
	c.t.Helper()
	c.call("serve", "api", "addDeposits", "-d", `{"merchant": "shop", "trackingId": "`+id+`", "tenantUserId": "7", "chainName": "ETH", "symbol": "WETH", "amount": "7.4",
		"txId": "0x`+id+`", "txIndex": 5, "fromAddress": "0xef1c", "toAddress": "0x7054", "riskLevelFrom": 44, "riskLevelTo": 40}`)
}

func (c *installation) booked(id string) {
	c.t.Helper()
	c.until(id+" is booked", func() bool { return strings.Contains(c.call("gateway", "deposits", "list"), `"`+id+`"`) })
}

func (c *installation) until(what string, is func() bool) {
	c.t.Helper()
	waitUntil(c.t, what, func() string {
		return c.daemons["serve"].output.String() + c.daemons["gateway"].output.String()
	}, is)
}

// leave stops both ends and writes the fixture: each data directory, and the database if it is not in there.
func (c *installation) leave(to string) {
	c.t.Helper()
	for end, d := range c.daemons {
		if status := d.stop(c.t); status != 0 {
			c.t.Fatalf("status %d: %s", status, d.output)
		}
		// psql of another release does not know all of its own commands and settings.
		c.bash(`mkdir -p "$(dirname "$1")"; tar -czf "$1.tgz" -C "$2" .
			[ -z "$3" ] || "$(ls /usr/lib/postgresql/*/bin/pg_dump | tail -n 1)" --no-owner --no-privileges "$3" |
				grep -Ev '^(\\(un)?restrict|SET transaction_timeout)' | gzip > "$1.sql.gz"`,
			filepath.Join(to, end), c.data(end), c.url[end])
	}
}

// bash runs a script, which fails with any of its commands.
func (c *installation) bash(script string, args ...string) {
	c.t.Helper()
	cmd := exec.Command("bash", append([]string{"-e", "-o", "pipefail", "-c", script, "bash"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("%v: %s", err, out)
	}
}
