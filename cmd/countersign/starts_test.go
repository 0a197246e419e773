package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/internal/lab/dbtest"
	"countersign/merchant"
)

// TestRefusedStarts: what cannot work is said at the start, by name, without a secret. A file with a secret that others
// may read or write is refused, with its mode and what to run. With --log-format json each line is JSON: who collects
// the log reads nothing else.
func TestRefusedStarts(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		ok(t, os.MkdirAll(filepath.Dir(path), 0o700))
		ok(t, os.WriteFile(path, []byte(text), 0o600))
		ok(t, os.Chmod(path, mode)) // whatever the umask is
		return path
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	public := countersigntest.NewService(t).MerchantKey().PublicBase64()
	_, private := pairOf(t)
	key, noKey, pair := file("key", public, 0o400), file("none", "SECRET", 0o600), file("pair", private, 0o600)
	signing := file("signing", string(must(envelope.GenerateSigningKey().PrivatePEM())), 0o600)
	masterKey := file("open/"+daemon.MasterKeyFile, strings.Repeat("ab", 32), 0o644)
	file("damaged/"+daemon.MasterKeyFile, "abcd", 0o600)
	file("token/"+tokenFile, "hello", 0o600)

	serve := func(args ...string) []string { return append([]string{"serve", "--listen", "127.0.0.1:0"}, args...) }
	fresh := func(args ...string) []string { return serve(append(args, "--data", at("fresh"))...) }
	gateway := func(args ...string) []string {
		return append([]string{"gateway", "--data", at("shop"), "--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0"}, args...)
	}
	keyed := func(args ...string) []string { return gateway(append(args, "--api-key", "k", "--service-key", key)...) }
	settings := func(daemon, text string) []string {
		return []string{daemon, "--data", at("fresh"), "--config", file(fmt.Sprintf("%x.toml", text), text, 0o600)}
	}
	type start struct {
		want string
		args []string
	}
	starts := []start{
		{"data directory", serve("--data", noKey)},
		{"chmod 600 " + masterKey, serve("--data", at("open"))},
		{"the database is incomplete", serve("--data", at("damaged"))},
		{"does not hold a token", serve("--data", at("token"))},
		{"listening on", fresh("--listen", "256.0.0.1:1")},
		{"listening on 28190: it names no port: write :28190", fresh("--listen", "28190")},
		{"below 0", fresh("--exchange-timeout=-1s")},
		{"retain-days", fresh("--retain-days", "36501")},
		{"retain-days", fresh("--retain-days=-1")},
		{"opening the database", fresh("--db", "postgres://127.0.0.1:1/none?connect_timeout=1")},
		{"log-level", fresh("--log-level", "loud")},
		{"log-format", fresh("--log-format", "xml")},
		{"unknown flag --nonsense", gateway("--nonsense")},
		{"no token", []string{"relay", "--from", "nonsense", "--data", dir}},

		{"serve has no setting lisen", settings("serve", "[serve]\nlisen = \"x\"\n")},
		{"there is no subcommand sevre", settings("serve", "[sevre]\nlisten = \"x\"\n")},
		{"listen is not a table", settings("serve", "listen = \"x\"\n")},
		{"settings file", settings("serve", "[serve\n")},
		{"--listen: [serve] of the settings file has a value that is not a text: write it in quotes", settings("serve", "[serve]\nlisten = 5")},
		{"--db: [serve] of the settings file has a value that is not a text", settings("serve", "[serve]\ndb = true")},
		{"--api-key: [gateway] of the settings file has a value that is not a text", settings("gateway", "[gateway]\napi-key = 5")},
		{"--callback-api-key: [gateway] of the settings file has a value that is not a text", settings("gateway", "[gateway]\ncallback-api-key = [\"a\", 5]")},
		{"gateway has no setting profile", settings("gateway", "[gateway.profile]\nbinding = \"seen\"\n")},

		{"--service-key is missing", gateway("--api-key", "k")},
		{"--api-key is missing", gateway("--service-key", key)},
		{"--service-key:", gateway("--api-key", "k", "--service-key", noKey)},
		{"no such file", gateway("--learn", "--api-key", "k", "--service-key", at("nowhere"))},
		{"--api-key", gateway("--api-key", "@"+at("nowhere"), "--service-key", key)},
		{"a path of its own", keyed("--notify-path", "/a", "--withdraw-path", "/a")},
		{"--policy", keyed("--policy", file("policy", "nonsense = 1", 0o600))},
		{"forward URL", keyed("--forward-url", "ftp://x", "--forward-secret", webhookSecret)},
		{"the forward URL must be https://HOST/PATH", keyed("--forward-url", "amqp://u:SECRET@x/q", "--forward-secret", webhookSecret)},
		{"give https://, or http:// to 127.0.0.1", keyed("--forward-url", "http://app.example/SECRET", "--forward-secret", webhookSecret)},
		{"--forward-only-new: there is no --forward-url", keyed("--forward-only-new")},
		{"--forward-secret:", keyed("--forward-url", "https://x", "--forward-secret", "SECRET")},
		{"--forward-secret is missing", keyed("--forward-url", "https://x")},
		{"--verify-secret is missing", keyed("--verify-url", "https://x")},
		{"--binding", keyed("--binding", "maybe")},
		{"--service-key: that is a private key", gateway("--api-key", "k", "--service-key", pair)},
		{"--response-key is missing", gateway("--api-key", "k", "--callback-api-key", "c", "--service-key", pair)},
		{"--callback-api-key is missing", gateway("--api-key", "k", "--service-key", pair, "--response-key", key)},
		{"--response-key: that is a private key", keyed("--response-key", pair)},
		{"--service-signing-key: that is a private key", keyed("--public-url", "https://x", "--service-signing-key", signing)},
		{"that is a private key", gateway("--api-key", "k", "--service-key", private)},
	}
	exposed := func(name, text string, mode os.FileMode) (path, says string) {
		path = file(name, text, mode)
		can := map[bool]string{true: "read", false: "written"}[mode&0o044 != 0]
		return path, fmt.Sprintf("%s can be %s by others (mode %04o): chmod 600 %s", path, can, mode, path)
	}
	// Both paths are the same, so that a gateway which takes an exposed file ends all the same.
	exposing := func(args ...string) []string {
		return gateway(append(args, "--notify-path", "/a", "--withdraw-path", "/a")...)
	}
	for _, mode := range []os.FileMode{0o604, 0o620, 0o602} {
		open, opened := exposed(fmt.Sprint(mode), public, mode)
		starts = append(starts, start{opened, exposing("--api-key", "k", "--service-key", open)})
	}
	open, opened := exposed("public", public, 0o640)
	openPair, openedPair := exposed("private", private, 0o640)
	call := func(args ...string) []string { return append(args, "--api", "http://127.0.0.1:1") }
	starts = append(starts,
		start{opened, exposing("--api-key", "k", "--service-key", open)},
		start{openedPair, exposing("--api-key", "k", "--service-key", openPair)},
		start{opened, exposing("--api-key", "k", "--service-key", key, "--response-key", open)},
		start{opened, exposing("--api-key", "@"+open, "--service-key", key)},
		start{opened, exposing("--api-key", "k", "--callback-api-key", "@"+open, "--service-key", key)},
		start{opened, exposing("--api-key", "k", "--service-key", key, "--forward-url", "https://x", "--forward-secret", "@"+open)},
		start{opened, exposing("--api-key", "k", "--service-key", key, "--forward-url", "@"+open)},
		start{opened, call("merchants", "list", "--token", "@"+open)},
		start{openedPair, call("merchants", "rotate", "stage", "m", "--token", "@"+noKey, "key.privateKey=@"+openPair)},
		start{opened, call("merchants", "rotate", "stage", "m", "--token", "@"+noKey, "key.publicKey=@"+open)})
	for _, c := range starts {
		status, out, errOut := shell(t, "", c.args...)
		if status == exitDone || out != "" || !strings.Contains(errOut, c.want) {
			t.Errorf("%q: status %d, want %q\n%s%s", c.args, status, c.want, out, errOut)
		}
		for _, secret := range []string{"SECRET", "BEGIN PRIVATE", public} {
			if strings.Contains(errOut, secret) {
				t.Errorf("%q prints %s", c.args, secret)
			}
		}
		if c.args[0] == "merchants" {
			continue
		}
		_, _, errOut = shell(t, "", slices.Insert(c.args, 1, "--log-format", "json")...)
		endsAsJSON(t, errOut, c.want)
	}
	_, _, errOut := shell(t, "", "serve", "--data", at("fresh"), "--config", file("settings.toml", "[serve]\nlog-format = \"json\"\nlisten = \"nonsense\"\n", 0o600))
	endsAsJSON(t, errOut, "listening on nonsense")
	if left, _ := filepath.Glob(at("*/" + tokenFile)); len(left) != 1 {
		t.Errorf("starts that failed left tokens: %q", left)
	}
	// An exposed policy is taken with a warning, and so is a pair by a person. What only the owner may use raises none.
	const allow = `default = "allow"`
	for policy, warns := range map[string]bool{file("open policy", allow, 0o640): true, file("own policy", allow, 0o600): false} {
		_, _, errOut := shell(t, "", exposing("--api-key", "@"+noKey, "--service-key", key, "--policy", policy)...)
		if !strings.Contains(errOut, "a path of its own") || strings.Contains(errOut, "level=WARN") != warns {
			t.Errorf("%s: %s", policy, errOut)
		}
	}
	for pair, warns := range map[string]bool{openPair: true, pair: false} {
		status, _, errOut := shell(t, "", "keys", "show", pair)
		if status != exitDone || strings.Contains(errOut, "warning: "+openedPair) != warns {
			t.Errorf("keys show %s: status %d, %s", pair, status, errOut)
		}
	}
}

// endsAsJSON: each line is JSON, and the last one is an error with want in its text or in what to try.
func endsAsJSON(t *testing.T, lines, want string) {
	t.Helper()
	var last struct {
		Level, Msg, Error string
		Try               []string
	}
	for line := range strings.Lines(lines) {
		last.Error = ""
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Errorf("%q is no JSON", line)
		}
	}
	if last.Level != "ERROR" || last.Msg != "stopped by an error" || !strings.Contains(last.Error+strings.Join(last.Try, "\n"), want) {
		t.Errorf("it ends with %+v, want %q", last, want)
	}
}

// TestGatewayKeys: both sets of keys are those of the flags, each with its own key for answers.
func TestGatewayKeys(t *testing.T) {
	var files, prints [2]string
	for i := range prints {
		key, _ := pairOf(t)
		files[i], prints[i] = secretFile(t, key.PublicBase64()), key.Fingerprint()
	}
	var m merchant.Config
	c := &gatewayCmd{ServiceKey: files[:], ResponseKey: []string{files[1], files[0]}}
	ok(t, c.readKeys(&m, streams{}))
	if got := [4]string{m.Key.Fingerprint(), m.NextKey.Fingerprint(), m.ResponseKey.Fingerprint(), m.NextResponseKey.Fingerprint()}; got != [4]string{prints[0], prints[1], prints[1], prints[0]} {
		t.Errorf("%q of %q", got, prints)
	}
}

// TestCheckStart: --check says what a start would do, does nothing, and its exit status says
// whether the start would succeed.
func TestCheckStart(t *testing.T) {
	t.Parallel()
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	data := filepath.Join(t.TempDir(), "data")
	check := func(want int, texts ...string) {
		t.Helper()
		status, out, errOut := shell(t, "", "serve", "--check", "--data", data, "--listen", "127.0.0.1:0")
		if status != want || !json.Valid([]byte(out)) {
			t.Errorf("status %d: %s%s", status, out, errOut)
		}
		for _, text := range texts {
			if !strings.Contains(out, text) {
				t.Errorf("it does not say %q: %s", text, out)
			}
		}
	}
	check(exitDone, "data would be made", "its tables would be made", "master.key would be made", "is free")
	if _, err := os.Stat(data); err == nil {
		t.Error("it has made the data directory")
	}
	d := startDaemon(t, "serve", "--data", data, "--listen", "127.0.0.1:0")
	check(exitDone, "the daemon at "+d.url+" has it and runs")
	d.stop(t)
	check(exitDone, "its schema has number", "fingerprint ")
	key := filepath.Join(data, daemon.MasterKeyFile)
	ok(t, os.Rename(key, key+".away"))
	check(exitFailed, "the master key of the database is missing")
	ok(t, os.WriteFile(key, []byte(strings.Repeat("ab", 32)), 0o600))
	check(exitFailed, "the master key does not open this database")
}
