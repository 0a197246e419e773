package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/mod/semver"

	"countersign/internal/daemon"
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
			newInstallation(t, kind, nil).leave(filepath.Join(own, kind))
			for _, release := range append(releases, own) {
				t.Run(filepath.Base(release), func(t *testing.T) {
					c := newInstallation(t, kind, func(c *installation) { c.take(filepath.Join(release, kind)) })
					c.booked("before")
					if out := c.call("serve", "withdrawals", "show", "shop/order"); !strings.Contains(out, `"confirmed"`) && !strings.Contains(out, `"released"`) {
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
					for _, end := range []string{"serve", "gateway"} {
						c.call(end, "audit", "export")
					}
				})
			}
		})
	}
}

// installation is a service and a gateway with one merchant, shop.
type installation struct {
	t       *testing.T
	dir     string
	url     map[string]string // of the databases, by end; empty for SQLite
	daemons map[string]*process
}

// newInstallation starts both ends. Without before they are new, and get a deposit and a released
// withdrawal.
func newInstallation(t *testing.T, kind string, before func(*installation)) *installation {
	t.Helper()
	c := &installation{t, t.TempDir(), map[string]string{}, map[string]*process{}}
	for _, end := range []string{"serve", "gateway"} {
		if kind == "postgres" {
			c.url[end] = dbtest.Postgres(t)
		}
		if err := os.Mkdir(c.data(end), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if before != nil {
		before(c)
	}
	c.start("serve", "--listen", "127.0.0.1:0", "--allow-private", "--allow-http")
	shop := filepath.Join(c.data("gateway"), "shop")
	if before == nil {
		c.call("serve", "merchants", "add", "shop", "finalCodes=2000-2999", "key.bits=1024", "--out", shop, "notifyUrl=http://127.0.0.1:1/n", "withdrawUrl=http://127.0.0.1:1/w")
	}
	flags := []string{"--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0", "--service-key", filepath.Join(shop, "service.b64"), "--api-key", "@" + filepath.Join(shop, "api.key")}
	c.start("gateway", flags...)
	if before == nil {
		flags[1] = strings.TrimPrefix(c.daemons["gateway"].urls["callbacks"], "http://") // which signatures cover
		flags = c.link(flags)
		c.start("gateway", flags...)
	}
	to := c.daemons["gateway"].urls["callbacks"]
	c.call("serve", "merchants", "edit", "shop", "notifyUrl="+to+merchant.DefaultNotifyPath, "withdrawUrl="+to+merchant.DefaultWithdrawPath)
	if before != nil {
		return c
	}
	for _, end := range []string{"serve", "gateway"} {
		c.call(end, "audit", "checkpoint") // so that there is what it can say of its log
	}
	c.deposit("before")
	c.booked("before")
	const order = `{"callBackId": "order", "tenantUserId": "7", `
	const details = `"address": "TJ", "chainName": "TRON", "symbol": "USDT", "amount": "1.5"}`
	c.call("gateway", "api", "addOrder", "-d", order+details)
	c.call("serve", "api", "createWithdrawal", "-d", strings.Replace(order, "{", `{"merchant": "shop", `, 1)+`"details": {`+details+"}")
	c.until("the withdrawal is released", func() bool {
		status, _, _ := shell(t, "", c.words("serve", "withdrawals", "release", "shop/order", "claim=one")...)
		return status == exitDone
	})
	for _, row := range left {
		if row.made != nil {
			c.call(row.end, row.made...)
		}
	}
	return c
}

// link stops the gateway, has both ends sign, and gives the flags of the gateway.
func (c *installation) link(flags []string) []string {
	c.t.Helper()
	c.daemons["gateway"].stop(c.t)
	var shown struct{ ServiceSigningKey string }
	if err := json.Unmarshal([]byte(c.call("serve", "merchants", "show", "shop")), &shown); err != nil {
		c.t.Fatal(err)
	}
	signer := filepath.Join(c.data("gateway"), "signer")
	c.write(signer, []byte(shown.ServiceSigningKey))
	flags = append(flags, "--service-signing-key", signer, "--public-url", c.daemons["gateway"].urls["callbacks"])
	check := append([]string{"gateway", "--data", c.data("gateway")}, flags...)
	if c.url["gateway"] != "" {
		check = append(check, "--db", c.url["gateway"])
	}
	c.call("serve", "merchants", "edit", "shop", "answerKey="+publicOf(c.t, check))
	return flags
}

func (c *installation) data(end string) string { return filepath.Join(c.dir, end) }

func (c *installation) start(end string, flags ...string) {
	c.t.Helper()
	args := append([]string{end, "--data", c.data(end)}, flags...)
	if c.url[end] != "" {
		args = append(args, "--db", c.url[end])
	}
	c.daemons[end] = startDaemon(c.t, args...)
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

// files are what a fixture keeps of a data directory, beside the database.
var fixtureFiles = map[string][]string{"serve": {tokenFile}, "gateway": {tokenFile, "shop/service.b64", "shop/api.key"}}

// leave stops both ends and writes the fixture.
func (c *installation) leave(to string) {
	c.t.Helper()
	for end, d := range c.daemons {
		if status := d.stop(c.t); status != 0 {
			c.t.Fatalf("status %d: %s", status, d.failures())
		}
		for _, name := range fixtureFiles[end] {
			c.copy(filepath.Join(c.data(end), name), filepath.Join(to, end, name))
		}
		if c.url[end] == "" {
			c.pack(filepath.Join(to, end, "db.gz"), must(os.ReadFile(filepath.Join(c.data(end), daemon.DatabaseFile))))
			continue
		}
		tools, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump")
		if len(tools) == 0 {
			c.t.Fatal("there is no pg_dump")
		}
		dump, err := exec.Command(tools[len(tools)-1], "--no-owner", "--no-privileges", c.url[end]).Output()
		if err != nil {
			c.t.Fatal(err)
		}
		// psql of another release does not know all of its own commands and settings.
		dump = regexp.MustCompile(`(?m)^(\\(un)?restrict|SET transaction_timeout).*\n`).ReplaceAll(dump, nil)
		c.pack(filepath.Join(to, end, "sql.gz"), dump)
	}
}

// take lays a fixture where the ends begin.
func (c *installation) take(from string) {
	c.t.Helper()
	for end, names := range fixtureFiles {
		for _, name := range names {
			c.copy(filepath.Join(from, end, name), filepath.Join(c.data(end), name))
		}
		if c.url[end] == "" {
			c.write(filepath.Join(c.data(end), daemon.DatabaseFile), c.unpack(filepath.Join(from, end, "db.gz")))
			continue
		}
		restore := exec.Command("psql", "-q", "-v", "ON_ERROR_STOP=1", c.url[end])
		restore.Stdin = bytes.NewReader(c.unpack(filepath.Join(from, end, "sql.gz")))
		if out, err := restore.CombinedOutput(); err != nil {
			c.t.Fatalf("%v: %s", err, out)
		}
	}
}

func (c *installation) write(path string, b []byte) {
	c.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c *installation) copy(from, to string) {
	c.t.Helper()
	c.write(to, must(os.ReadFile(from)))
}

func (c *installation) pack(path string, b []byte) {
	c.t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	if err := w.Close(); err != nil {
		c.t.Fatal(err)
	}
	c.write(path, out.Bytes())
}

func (c *installation) unpack(path string) []byte {
	c.t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(must(os.ReadFile(path))))
	if err != nil {
		c.t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}
