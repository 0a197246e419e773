package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/daemon"
	"countersign/internal/lab/dbtest"
)

// TestWhichEndIsAsked: a command asks the end whose data directory or settings file is in use, at the address that
// is noted there, whoever's token it shows; where that is not known nothing is asked.
func TestWhichEndIsAsked(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	const token = "cst_0123456789012345678901234567890123456789"
	asked := ""
	listen := func(e end) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = strings.TrimSpace(asked + " " + string(e) + " " + r.Header.Get("Authorization"))
			_, _ = w.Write([]byte(`{}`))
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	urls := map[end]string{serviceEnd: listen(serviceEnd), gatewayEnd: listen(gatewayEnd)}
	// data makes the data directory of an end; noted: a daemon ran there.
	data := func(t *testing.T, dir string, e end, noted bool) {
		t.Helper()
		ok(t, os.MkdirAll(dir, 0o700))
		ok(t, os.WriteFile(filepath.Join(dir, daemon.TokenFile), []byte(token+"\n"), 0o600))
		if noted {
			b, _ := json.Marshal(daemon.Address{URL: urls[e], End: string(e)})
			ok(t, os.WriteFile(filepath.Join(dir, daemon.AddressFile), b, 0o600))
		}
	}
	service, gateway := string(serviceEnd)+" Bearer "+token, string(gatewayEnd)+" Bearer "+token
	oneHere, bothHere := []end{gatewayEnd}, []end{serviceEnd, gatewayEnd}
	// In each case gw is the data directory of a gateway, old is one in which none ran, and t holds the token.
	for name, c := range map[string]struct {
		here     []end // whose default data directories are there
		settings string
		env      map[string]string
		args     string
		asked    string // empty: nobody
		fails    string
	}{
		"a token beside a data directory":     {args: "tasks list --data gw --token " + token, asked: gateway},
		"a token of the environment":          {env: map[string]string{"COUNTERSIGN_TOKEN": token}, args: "tasks list --data gw", asked: gateway},
		"the default of the one that is here": {here: oneHere, args: "alarms list --token " + token, asked: gateway},
		"the service is here":                 {here: []end{serviceEnd}, args: "alarms list", asked: service},
		"both are here": {here: bothHere, args: "tasks list --token " + token,
			fails: "the service in ./countersign-data and the gateway in ./countersign-gateway-data\n  try: give --service or --gateway."},
		"both are here, and one is meant": {here: bothHere, args: "tasks list --gateway", asked: gateway},
		"a settings file": {here: []end{serviceEnd}, settings: "[gateway]\ndata = \"DIR/gw\"\n",
			args: "tasks list --config set.toml --token " + token, asked: gateway},
		"a settings file of both": {settings: "[gateway]\n[serve]\ndata = \"/var/own\"\n", args: "tasks list --config set.toml --token " + token,
			fails: "the service in /var/own and the gateway in ./countersign-gateway-data"},
		"a command of one end, and a directory of the other": {args: "merchants list --data gw",
			fails: "gw is the data directory of a gateway, and the command is for the service"},
		"an operation of one end": {here: bothHere, args: "api orders", asked: gateway},
		"a directory that names no address": {args: "tasks list --gateway --data old --token " + token,
			fails: "old does not say where the API of the gateway is\n  try: give --api URL"},
		"the same with its own token": {args: "tasks list --gateway --data old", fails: "does not say where the API"},
		"an address that was given":   {args: "tasks list --data gw --api " + urls[serviceEnd], asked: service},
		"an end's variable before that of both": {env: map[string]string{"COUNTERSIGN_GATEWAY_API": urls[gatewayEnd], "COUNTERSIGN_API": "http://127.0.0.1:1"},
			args: "tasks list --gateway --token " + token, asked: gateway},
		"a token without its @": {args: "tasks list --data gw --token t", fails: "--token: a file of this name exists: give @t to read it"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			data(t, "gw", gatewayEnd, true)
			data(t, "old", gatewayEnd, false)
			for _, e := range c.here {
				data(t, defaultData[e], e, true)
			}
			for file, text := range map[string]string{"t": token, "set.toml": strings.ReplaceAll(c.settings, "DIR", dir)} {
				ok(t, os.WriteFile(file, []byte(text), 0o600))
			}
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			asked = ""
			status, _, errOut := shell(t, "", strings.Fields(c.args)...)
			if asked != c.asked || (status == exitDone) != (c.fails == "") || !strings.Contains(errOut, c.fails) {
				t.Errorf("status %d, asked %q, want %q\n%swant %s", status, asked, c.asked, errOut, c.fails)
			}
		})
	}
}
