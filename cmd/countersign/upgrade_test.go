package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/semver"

	"countersign/internal/lab/dbtest"
	"countersign/merchant"
)

// fixtureKey is the master key of the databases in testdata/releases. It protects nothing.
const fixtureKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

// left is what a release leaves beside a deposit and a released withdrawal. What a release
// adds to the databases gets its row here first, with the number of that release.
var left = []struct {
	since, end string
	made       []string // the command that makes it
	shown      []string // the one that shows it
	as         string
}{
	{"0.1.0", "serve", []string{"token", "new", "ops", "role=operator"}, []string{"api", "tokens"}, `"ops"`},
	{"0.1.0", "serve", []string{"merchants", "edit", "shop", "name=A shop"}, []string{"merchants", "show", "shop"}, `"A shop"`},
	{"0.1.0", "serve", []string{"tasks", "note", "release.shop/order", "text=kept 1"}, []string{"tasks", "show", "release.shop/order"}, "kept 1"},
	{"0.1.0", "gateway", []string{"token", "new", "app", "role=app"}, []string{"api", "tokens"}, `"app"`},
	{"0.1.0", "gateway", []string{"tasks", "note", "order.order", "text=kept 2"}, []string{"tasks", "show", "order.order"}, "kept 2"},
	{"0.1.0", "gateway", []string{"tasks", "note", "deposit.1", "text=kept 3"}, []string{"tasks", "show", "deposit.1"}, "kept 3"},
}

// TestUpgrade: the databases that each release left open with this program, which brings them
// up to date, knows what is in them, and goes on. What this program leaves itself is one of
// them; COUNTERSIGN_FIXTURE=DIR keeps it for the releases that come: CONTRIBUTING.md, Release.
func TestUpgrade(t *testing.T) {
	dbtest.Whole(t, "this test starts both ends eight times and more")
	needs(t, "psql")
	t.Setenv("COUNTERSIGN_MASTER_KEY", fixtureKey)
	own := os.Getenv("COUNTERSIGN_FIXTURE")
	if own == "" {
		own = filepath.Join(t.TempDir(), "own")
	}
	releases, err := filepath.Glob("testdata/releases/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			c := newInstallation(t, kind, "")
			c.fill()
			c.leave(filepath.Join(own, kind))
			for _, release := range append(releases, own) {
				t.Run(filepath.Base(release), func(t *testing.T) {
					c := newInstallation(t, kind, filepath.Join(release, kind))
					c.booked("before")
					if out := c.call("serve", "withdrawals", "show", "shop/order"); !strings.Contains(out, `"released"`) {
						t.Errorf("the withdrawal is %s", out)
					}
					for _, row := range left {
						if name := filepath.Base(release); release != own && semver.Compare("v"+name, "v"+row.since) < 0 {
							continue
						}
						if out := c.call(row.end, row.shown...); !strings.Contains(out, row.as) {
							t.Errorf("%s of %s has no %s: %s", strings.Join(row.shown, " "), row.end, row.as, out)
						}
					}
					// It is known, so nothing is credited again and nothing permitted twice.
					c.deposit("before")
					if status, out, _ := shell(t, "", c.words("serve", "withdrawals", "release", "shop/order", "claim=another")...); status == exitDone {
						t.Errorf("a second claim got a permit: %s", out)
					}
					c.deposit("after")
					c.booked("after")
					if n := strings.Count(c.call("gateway", "deposits", "list"), `"trackingId":"before"`); n != 1 {
						t.Errorf("the first deposit is booked %d times", n)
					}
					for _, end := range bothEnds {
						c.call(end, "audit", "export")
					}
				})
			}
		})
	}
}

// installation is a service and a gateway with one merchant, shop, and a signed link.
type installation struct {
	t       *testing.T
	dir     string
	url     map[string]string // of the databases, by end; empty for SQLite
	daemons map[string]*process
}

var bothEnds = []string{"serve", "gateway"}

// newInstallation starts both ends on a fixture, or new ones.
func newInstallation(t *testing.T, kind, fixture string) *installation {
	t.Helper()
	c := &installation{t, t.TempDir(), map[string]string{}, map[string]*process{}}
	for _, end := range bothEnds {
		if kind == "postgres" {
			c.url[end] = dbtest.Postgres(t)
		}
		if fixture != "" {
			c.bash(`mkdir "$2"; tar -xzf "$1.tgz" -C "$2"; [ -z "$3" ] || gzip -dc "$1.sql.gz" | psql -q -v ON_ERROR_STOP=1 "$3"`,
				filepath.Join(fixture, end), c.data(end), c.url[end])
		}
	}
	c.start("serve", "--listen", "127.0.0.1:0", "--allow-private", "--allow-http")
	shop := filepath.Join(c.data("gateway"), "shop")
	flags := []string{"--listen", freePort(t), "--api-listen", "127.0.0.1:0", "--service-key", filepath.Join(shop, "service.b64"),
		"--api-key", "@" + filepath.Join(shop, "api.key"), "--service-signing-key", filepath.Join(shop, "signer")}
	to := "http://" + flags[1]
	urls := []string{"notifyUrl=" + to + merchant.DefaultNotifyPath, "withdrawUrl=" + to + merchant.DefaultWithdrawPath}
	if fixture == "" {
		c.call("serve", append([]string{"merchants", "add", "shop", "finalCodes=2000-2999", "key.bits=1024", "--out", shop}, urls...)...)
		var shown struct{ ServiceSigningKey string }
		if err := json.Unmarshal([]byte(c.call("serve", "merchants", "show", "shop")), &shown); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(shop, "signer"), []byte(shown.ServiceSigningKey), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flags = append(flags, "--public-url", to)
	c.start("gateway", flags...)
	if fixture == "" { // the gateway has its pair now
		c.daemons["gateway"].stop(t)
		urls = append(urls, "answerKey="+publicOf(t, c.args("gateway", flags...)))
		c.start("gateway", flags...)
	}
	c.call("serve", append([]string{"merchants", "edit", "shop"}, urls...)...)
	return c
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

func (c *installation) data(end string) string { return filepath.Join(c.dir, end) }

// args returns the command line of an end.
func (c *installation) args(end string, flags ...string) []string {
	args := append([]string{end, "--data", c.data(end)}, flags...)
	if c.url[end] != "" {
		args = append(args, "--db", c.url[end])
	}
	return args
}

func (c *installation) start(end string, flags ...string) {
	c.t.Helper()
	c.daemons[end] = startDaemon(c.t, c.args(end, flags...)...)
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
			c.t.Fatalf("status %d: %s", status, d.failures())
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
