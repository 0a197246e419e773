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
	data := func(t *testing.T, dir string, e end, noted bool) string {
		t.Helper()
		ok(t, os.MkdirAll(dir, 0o700))
		files := map[string]string{daemon.TokenFile: token + "\n"}
		if noted {
			b, _ := json.Marshal(daemon.Address{URL: urls[e], End: string(e)})
			files[daemon.AddressFile] = string(b)
		}
		for name, text := range files {
			ok(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		return dir
	}
	mine := func(e end) string { return string(e) + " Bearer " + token }
	for name, c := range map[string]struct {
		prepare func(t *testing.T)
		args    string
		asked   string // empty: nobody
		fails   string
	}{
		"a token beside a data directory": {func(t *testing.T) { data(t, "gw", gatewayEnd, true) },
			"tasks list --data gw --token " + token, mine(gatewayEnd), ""},
		"a token of the environment": {func(t *testing.T) { data(t, "gw", gatewayEnd, true); t.Setenv("COUNTERSIGN_TOKEN", token) },
			"tasks list --data gw", mine(gatewayEnd), ""},
		"the default of the one that is here": {func(t *testing.T) { data(t, defaultData[gatewayEnd], gatewayEnd, true) },
			"alarms list --token " + token, mine(gatewayEnd), ""},
		"the service is here": {func(t *testing.T) { data(t, defaultData[serviceEnd], serviceEnd, true) }, "alarms list", mine(serviceEnd), ""},
		"both are here": {func(t *testing.T) {
			data(t, defaultData[gatewayEnd], gatewayEnd, true)
			data(t, defaultData[serviceEnd], serviceEnd, true)
		}, "tasks list --token " + token, "", "the service in ./countersign-data and the gateway in ./countersign-gateway-data\n  try: give --service or --gateway."},
		"both are here, and one is meant": {func(t *testing.T) {
			data(t, defaultData[gatewayEnd], gatewayEnd, true)
			data(t, defaultData[serviceEnd], serviceEnd, true)
		}, "tasks list --gateway", mine(gatewayEnd), ""},
		"a settings file": {func(t *testing.T) {
			dir, _ := filepath.Abs(data(t, "gw", gatewayEnd, true))
			data(t, defaultData[serviceEnd], serviceEnd, true)
			_ = os.WriteFile("set.toml", []byte("[gateway]\ndata = \""+dir+"\"\n"), 0o600)
		}, "tasks list --config set.toml --token " + token, mine(gatewayEnd), ""},
		"a settings file of both": {func(*testing.T) {
			_ = os.WriteFile("set.toml", []byte("[gateway]\n[serve]\ndata = \"/var/own\"\n"), 0o600)
		},
			"tasks list --config set.toml --token " + token, "", "the service in /var/own and the gateway in ./countersign-gateway-data"},
		"a command of one end, and a directory of the other": {func(t *testing.T) { data(t, "gw", gatewayEnd, true) },
			"merchants list --data gw", "", "gw is the data directory of a gateway, and the command is for the service"},
		"an operation of one end": {func(t *testing.T) {
			data(t, defaultData[gatewayEnd], gatewayEnd, true)
			data(t, defaultData[serviceEnd], serviceEnd, true)
		}, "api orders", mine(gatewayEnd), ""},
		"a directory that names no address": {func(t *testing.T) { data(t, "old", gatewayEnd, false) },
			"tasks list --gateway --data old --token " + token, "", "old does not say where the API of the gateway is\n  try: give --api URL"},
		"the same with its own token": {func(t *testing.T) { data(t, "old", gatewayEnd, false) },
			"tasks list --gateway --data old", "", "does not say where the API"},
		"an address that was given": {func(t *testing.T) { data(t, "gw", gatewayEnd, true) },
			"tasks list --data gw --api " + urls[serviceEnd], mine(serviceEnd), ""},
		"an end's variable before that of both": {func(t *testing.T) {
			t.Setenv("COUNTERSIGN_GATEWAY_API", urls[gatewayEnd])
			t.Setenv("COUNTERSIGN_API", "http://127.0.0.1:1")
		}, "tasks list --gateway --token " + token, mine(gatewayEnd), ""},
		"a token without its @": {func(t *testing.T) { data(t, "gw", gatewayEnd, true); _ = os.WriteFile("t", []byte(token), 0o600) },
			"tasks list --data gw --token t", "", "--token: a file of this name exists: give @t to read it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			c.prepare(t)
			asked = ""
			status, _, errOut := shell(t, "", strings.Fields(c.args)...)
			if asked != c.asked || (status == exitDone) != (c.fails == "") || !strings.Contains(errOut, c.fails) {
				t.Errorf("status %d, asked %q, want %q\n%swant %s", status, asked, c.asked, errOut, c.fails)
			}
		})
	}
}
