package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/cli"
)

// signInProvider is a provider whose person signs in when the second question comes.
func signInProvider(t *testing.T, who *atomic.Value) *httptest.Server {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := base64.RawURLEncoding.EncodeToString
	var asked atomic.Int64
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		say := func(status int, v any) {
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(v)
		}
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			say(200, map[string]any{"issuer": s.URL, "authorization_endpoint": s.URL + "/a", "token_endpoint": s.URL + "/t", "jwks_uri": s.URL + "/k", "device_authorization_endpoint": s.URL + "/d"})
		case "/k":
			say(200, map[string]any{"keys": []any{map[string]any{"kty": "RSA", "alg": "RS256", "kid": "1", "n": text(key.N.Bytes()), "e": text(big.NewInt(int64(key.E)).Bytes())}}})
		case "/d":
			asked.Store(0)
			say(200, map[string]any{"device_code": "device", "user_code": "BCDF-GHJK", "verification_uri": s.URL + "/here", "expires_in": 600, "interval": 1})
		case "/t":
			if who.Load() == "nobody" {
				say(400, map[string]any{"error": "access_denied"})
				return
			}
			if r.PostFormValue("grant_type") != "refresh_token" && asked.Add(1) == 1 {
				say(400, map[string]any{"error": "authorization_pending"})
				return
			}
			now := time.Now().Unix()
			of, _, has := r.BasicAuth()
			if !has {
				of = r.PostFormValue("client_id")
			}
			claims, _ := json.Marshal(map[string]any{"iss": s.URL, "aud": of, "sub": who.Load(), "name": "Ann\x1b[2J", "groups": []string{"desk", "wallet-desk"}, "iat": now, "exp": now + 3600})
			signed := text([]byte(`{"alg":"RS256","kid":"1"}`)) + "." + text(claims)
			sum := sha256.Sum256([]byte(signed))
			b, _ := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
			say(200, map[string]any{"access_token": "a", "token_type": "Bearer", "expires_in": 300, "refresh_token": "r", "id_token": signed + "." + text(b)})
		default:
			say(404, map[string]any{})
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestLogin signs in from the shell. Commands then act as the person, and neither after the end of
// the session nor at another API.
func TestLogin(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "settings"))
	t.Chdir(dir)
	who := &atomic.Value{}
	who.Store("ann")
	p := signInProvider(t, who)
	data := filepath.Join(dir, "data")
	d := startDaemon(t, "serve", "--data", data, "--listen", "127.0.0.1:0", "--oidc-issuer", p.URL, "--oidc-client", "shell", "--oidc-groups", "desk=operator")
	at := []string{"--api", d.url}
	must := func(args ...string) string {
		t.Helper()
		status, out, errOut := shell(t, "", append(args, at...)...)
		if status != exitDone {
			t.Fatalf("%s: %d %s%s", args, status, out, errOut)
		}
		return out
	}
	fails := func(what string, args ...string) {
		t.Helper()
		status, out, errOut := shell(t, "", append(args, at...)...)
		if status == exitDone || !strings.Contains(errOut, what) {
			t.Errorf("%s: %d %s%s, want %q", args, status, out, errOut, what)
		}
	}
	subject := func(args ...string) string {
		t.Helper()
		var self client.Self
		mustShell(t, &self, "", append(append([]string{"api", "self"}, at...), args...)...)
		return self.Subject
	}
	fails("countersign login", "api", "self")
	fails("nobody is signed in", "logout")
	out := must("login")
	if !strings.Contains(out, "Open "+p.URL+"/here\nand enter the code BCDF-GHJK\n") || !strings.Contains(out, "operator") || strings.Contains(out, "\x1b") || strings.Contains(out, "cso_") {
		t.Errorf("%q", out)
	}
	if got := subject(); got != "oidc:ann" {
		t.Errorf("after login: %q", got)
	}
	for _, args := range [][]string{{"--data", data}, {"--token", "@" + filepath.Join(data, "admin.token")}} {
		if got := subject(args...); got != "" {
			t.Errorf("with %s: %q", args, got)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "settings", "countersign", "sessions", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	// It is for this API: another one is not sent it, and its daemon's note does not lead to it.
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("another API was sent %q", r.Header.Get("Authorization")[:10])
		}
	}))
	defer other.Close()
	if status, _, errOut := shell(t, "", "api", "self", "--api", other.URL); status == exitDone || !strings.Contains(errOut, "no token") {
		t.Errorf("another API: %d %s", status, errOut)
	}
	// A file that others may read is not used.
	if err := os.Chmod(files[0], 0o644); err != nil {
		t.Fatal(err)
	}
	fails("can be read by others", "api", "self")
	if err := os.Chmod(files[0], 0o600); err != nil {
		t.Fatal(err)
	}
	// Another login takes its place, and the first session ends.
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var first cli.Session
	if err := json.Unmarshal(b, &first); err != nil {
		t.Fatal(err)
	}
	who.Store("bob")
	must("login")
	if got := subject(); got != "oidc:bob" {
		t.Errorf("after another login: %q", got)
	}
	fails("401", "api", "self", "--token", first.Secret)
	t.Setenv("COUNTERSIGN_TOKEN", "x")
	fails("login takes no token", "login")
	_ = os.Unsetenv("COUNTERSIGN_TOKEN")
	// A session that is over is told, and no other token takes its place.
	kept, err := cli.KeptSession(d.url, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	over := kept
	over.Expires = time.Now().Add(-time.Second)
	if err := cli.KeepSession(over); err != nil {
		t.Fatal(err)
	}
	fails("countersign login", "api", "self")
	if err := cli.KeepSession(kept); err != nil {
		t.Fatal(err)
	}
	must("logout")
	fails("401", "api", "self", "--token", kept.Secret)
	fails("no token", "api", "self")
	if left, _ := filepath.Glob(filepath.Join(dir, "settings", "countersign", "sessions", "*")); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
	// Who refuses at the provider is told so, and not to look for a token.
	who.Store("nobody")
	if status, _, errOut := shell(t, "", append([]string{"login"}, at...)...); status == exitDone || !strings.Contains(errOut, "refused at the identity provider") || strings.Contains(errOut, "token") {
		t.Errorf("a refused login: %d %s", status, errOut)
	}
	fails("no token", "api", "self")
	who.Store("ann")
	// An API that does not answer keeps nobody signed in here.
	must("login")
	d.kill()
	fails("was forgotten here", "logout")
	fails("no token", "api", "self")
	if grep := d.output.String(); strings.Contains(grep, "cso_") || strings.Contains(grep, "device\"") {
		t.Error("the log has a secret")
	}
}

// TestSignInPage runs the settings of docs/signin.md as they are written, but for the provider's
// address and the place of the secret.
func TestSignInPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/signin.md")
	if err != nil {
		t.Fatal(err)
	}
	_, settings, _ := strings.Cut(string(page), "```toml\n")
	settings, _, found := strings.Cut(settings, "```")
	if !found {
		t.Fatal("docs/signin.md has no settings")
	}
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Chdir(dir)
	who := &atomic.Value{}
	who.Store("ann")
	p := signInProvider(t, who)
	for from, to := range map[string]string{"https://id.example.com/realms/company": p.URL, "/etc/countersign/oidc.secret": filepath.Join(dir, "secret")} {
		if strings.Count(settings, from) != 1 {
			t.Fatalf("the settings have %q not once:\n%s", from, settings)
		}
		settings = strings.Replace(settings, from, to, 1)
	}
	for name, text := range map[string]string{"secret": "a secret", "settings.toml": settings} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := startDaemon(t, "--config", filepath.Join(dir, "settings.toml"), "serve", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0")
	if status, out, errOut := shell(t, "", "login", "--api", d.url); status != exitDone || !strings.Contains(out, ", operator, until ") {
		t.Errorf("%d %s%s", status, out, errOut)
	}
}

// deviceAPI answers questions one after the other.
type deviceAPI struct {
	begun   client.DeviceBegun
	answers []any // an error, or a client.DeviceSignedIn
}

func (a *deviceAPI) BeginDevice(context.Context) (client.DeviceBegun, error) { return a.begun, nil }
func (a *deviceAPI) Self(context.Context) (client.Self, error)               { return client.Self{}, nil }
func (a *deviceAPI) SignOut(context.Context) error                           { return nil }
func (a *deviceAPI) FinishDevice(context.Context, string) (client.DeviceSignedIn, error) {
	next := a.answers[0]
	if len(a.answers) > 1 {
		a.answers = a.answers[1:]
	}
	if err, is := next.(error); is {
		return client.DeviceSignedIn{}, err
	}
	return next.(client.DeviceSignedIn), nil
}

// TestLoginAsks: the shell asks at the provider's pace, more slowly when it is told so or gets no
// answer, and ends with a refusal and with the code. What it shows is ASCII.
func TestLoginAsks(t *testing.T) {
	waits, slower, in := client.DeviceSignedIn{Waits: true}, client.DeviceSignedIn{Waits: true, Slower: true}, client.DeviceSignedIn{Secret: "s"}
	away := client.ErrUnavailable
	for name, c := range map[string]struct {
		answers []any
		pauses  string
		err     string
	}{
		"at once":           {[]any{in}, "[5s]", ""},
		"waits":             {[]any{waits, waits, in}, "[5s 5s 5s]", ""},
		"slower":            {[]any{slower, slower, waits, in}, "[5s 10s 15s 15s]", ""},
		"away":              {[]any{away, away, waits, in}, "[5s 10s 20s 5s]", ""},
		"refused":           {[]any{waits, client.ErrUnauthorized}, "[5s 5s]", "not valid"},
		"nobody signs in":   {[]any{waits}, "", "nobody signed in before the code ended"},
		"says nothing":      {[]any{client.DeviceSignedIn{}}, "[5s]", "neither"},
		"away for too long": {[]any{away}, "", "nobody signed in before the code ended"},
	} {
		now := time.UnixMilli(1_700_000_000_000)
		var pauses []string
		var out bytes.Buffer
		api := &deviceAPI{client.DeviceBegun{Page: "https://id.example/\x1b[2J\u202e", UserCode: "A\nB", PageWithCode: "\x00", Interval: 5, Ends: client.TimeOf(now.Add(10 * time.Minute))}, c.answers}
		got, err := signIn(t.Context(), api, streams{out: &out}, func() time.Time { return now }, func(_ context.Context, d time.Duration) error {
			now = now.Add(d)
			pauses = append(pauses, d.String())
			return nil
		})
		switch {
		case c.err == "" && (err != nil || got.Secret != "s"), c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %v", name, err)
		case c.pauses != "" && "["+strings.Join(pauses, " ")+"]" != c.pauses:
			t.Errorf("%s: pauses %v, want %s", name, pauses, c.pauses)
		case strings.ContainsAny(out.String(), "\x1b\x00\u202e"), strings.Count(out.String(), "\n") != 3:
			t.Errorf("%s: it shows %q", name, out.String())
		}
		if now.After(api.begun.Ends.Time()) {
			t.Errorf("%s: it asked after the code ended", name)
		}
	}
	stopped := errors.New("interrupted")
	_, err := signIn(t.Context(), &deviceAPI{client.DeviceBegun{Interval: 5, Ends: client.TimeOf(time.Now().Add(time.Hour))}, []any{waits}}, streams{out: &bytes.Buffer{}}, time.Now,
		func(context.Context, time.Duration) error { return stopped })
	if !errors.Is(err, stopped) {
		t.Errorf("interrupted: %v", err)
	}
}
