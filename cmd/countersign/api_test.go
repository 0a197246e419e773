package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/lab/dbtest"
)

// TestHandover: what a merchant needs comes in files of their own, and nothing
// that is shown once is lost.
func TestHandover(t *testing.T) {
	t.Parallel()
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	dir := t.TempDir()
	data, out := filepath.Join(dir, "data"), filepath.Join(dir, "shop")
	d := startDaemon(t, "serve", "--data", data, "--listen", "127.0.0.1:0", "--allow-private", "--allow-http")
	api := []string{"--api", d.url, "--data", data}
	add := func(id string, args ...string) []string {
		return slices.Concat([]string{"merchants", "add", id, "notifyUrl=http://127.0.0.1:1/n", "withdrawUrl=http://127.0.0.1:1/w"}, args, api)
	}
	merchants := func() int {
		t.Helper()
		status, list, errOut := shell(t, "", append([]string{"merchants", "list"}, api...)...)
		if status != exitDone {
			t.Fatal(errOut)
		}
		return strings.Count(list, "\n")
	}

	status, printed, errOut := shell(t, "", add("shop", "key.bits=1024", "--out", out)...)
	if status != exitDone || !strings.Contains(printed, "1024 bits") {
		t.Fatalf("status %d\n%s%s", status, printed, errOut)
	}
	file := func(name string) string {
		t.Helper()
		path := filepath.Join(out, name)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	key, err := envelope.ParseKey([]byte(file("service.b64")))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(printed, key.Fingerprint()) {
		t.Errorf("%s\nhas no fingerprint %s", printed, key.Fingerprint())
	}
	for _, secret := range []string{file("service.b64"), file("api.key")} {
		secret = strings.TrimSpace(secret)
		if len(secret) < 20 {
			t.Errorf("%q is too short", secret)
		}
		if strings.Contains(printed+errOut, secret) {
			t.Error("a secret is elsewhere too")
		}
	}

	// A directory that holds one of the files, or is none, gets no merchant.
	occupied := filepath.Join(dir, "occupied")
	if err := os.WriteFile(occupied, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{out, occupied} {
		if status, printed, errOut := shell(t, "", add("other", "--out", dir)...); status != exitFailed || printed != "" {
			t.Errorf("--out %s: status %d, %s%s", dir, status, printed, errOut)
		}
	}
	if err := os.Remove(filepath.Join(out, "service.b64")); err != nil {
		t.Fatal(err)
	}
	if status, _, errOut := shell(t, "", add("other", "--out", out)...); status != exitFailed || !strings.Contains(errOut, "exists and is not overwritten") {
		t.Errorf("half a directory: status %d, %s", status, errOut)
	}
	if n := merchants(); n != 1 {
		t.Errorf("%d merchants were made, want 1", n)
	}

	// A merchant with a pair of its own seals answers to the service's, and has
	// the API key that the service was given.
	public := filepath.Join(dir, "public.b64")
	if err := os.WriteFile(public, []byte(key.PublicBase64()), 0o600); err != nil {
		t.Fatal(err)
	}
	out = filepath.Join(dir, "nested", "own")
	mustShell(t, nil, "", add("own", "scheme=merchant", "key.publicKey=@"+public, "apiKey="+testAPIKey.Reveal(), "--out", out)...)
	if _, err := envelope.ParseKey([]byte(file("response.b64"))); err != nil {
		t.Error(err)
	}
	if got := strings.TrimSpace(file("api.key")); got != testAPIKey.Reveal() {
		t.Errorf("the API key is %s", got)
	}
	if _, err := os.Stat(filepath.Join(out, "service.b64")); err == nil {
		t.Error("there is a service.b64 in scheme merchant")
	}
}

// TestHandoverFails: what could not be written is printed, whole.
func TestHandoverFails(t *testing.T) {
	made := client.CreatedMerchant{Merchant: client.Merchant{ID: "shop"}, PublicKey: "the-public-part", APIKey: "the-api-key"}
	var out, errOut bytes.Buffer
	answer, _ := json.Marshal(made)
	dir := filepath.Join(t.TempDir(), "gone")
	files, err := prepare(dir, "createMerchant")
	if err := errors.Join(err, os.Remove(dir)); err != nil {
		t.Fatal(err)
	}
	err = keep(streams{out: &out, err: &errOut}, files, nil, answer)
	if err == nil || !strings.Contains(err.Error(), "could not be written") {
		t.Errorf("%v", err)
	}
	var kept client.CreatedMerchant
	if err := json.Unmarshal(out.Bytes(), &kept); err != nil || kept.PublicKey != made.PublicKey || kept.APIKey != made.APIKey {
		t.Errorf("%s, %v", &out, err)
	}
}

// TestAskingTheWrongOne: what new users get wrong is said with what to try.
func TestAskingTheWrongOne(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	d := startDaemon(t, "serve", "--data", data, "--listen", "127.0.0.1:0")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no token":          {[]string{"merchants", "list", "--api", d.url, "--data", t.TempDir()}, "no token"},
		"another's token":   {[]string{"api", "order", "x", "--api", d.url, "--token", "cst_0123456789012345678901234567890123456789"}, "--api " + d.url + " may be the other end's API"},
		"a wrong token":     {[]string{"merchants", "list", "--api", d.url, "--token", "cst_0123456789012345678901234567890123456789"}, "the token is not of this API"},
		"a broken token":    {[]string{"merchants", "list", "--api", d.url, "--token", "no token"}, "has a character that no token has"},
		"nobody there":      {[]string{"withdrawals", "list", "--api", "http://127.0.0.1:1", "--data", data}, "nothing answers at http://127.0.0.1:1"},
		"no URL":            {[]string{"callbacks", "list", "--api", "127.0.0.1", "--data", data}, "must be http or https"},
		"no such merchant":  {[]string{"merchants", "show", "none", "--api", d.url, "--data", data}, "404"},
		"no such order":     {[]string{"withdrawals", "release", "none/order-1", "claim=a", "--api", d.url, "--data", data}, "there is no such withdrawal"},
		"a merchant's name": {[]string{"withdrawals", "show", "none/", "--api", d.url, "--data", data}, "there is no such withdrawal"},
	} {
		status, out, errOut := shell(t, "", tt.args...)
		if status != exitFailed || out != "" || !strings.Contains(errOut, tt.want) {
			t.Errorf("%s: status %d, want %q\n%s%s", name, status, tt.want, out, errOut)
		}
	}
}

// TestTokensOfBothEnds: the token commands ask the end that is meant, with the
// roles that it has. The secret goes to a file of its own or is printed.
func TestTokensOfBothEnds(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	dir := t.TempDir()
	serviceData := filepath.Join(dir, "service")
	service := startDaemon(t, "serve", "--data", serviceData, "--listen", "127.0.0.1:0")
	mustShell(t, nil, "", "merchants", "add", "shop", "notifyUrl=https://1.1.1.1/n", "withdrawUrl=https://1.1.1.1/w", "--data", serviceData)
	g := newGatewayDaemon(t)
	t.Setenv("COUNTERSIGN_SERVICE_API", service.url)
	t.Setenv("COUNTERSIGN_GATEWAY_API", g.d.url)
	t.Setenv("COUNTERSIGN_API", "http://127.0.0.1:1") // of both, where an end has none of its own
	ends := map[string][]string{"service": {"--data", serviceData}, "gateway": {"--gateway", "--data", g.data}}
	for role, has := range map[string]string{"viewer": "service gateway", "ingest": "service", "core": "service", "merchant": "service", "operator": "service", "app": "gateway", "admin": "service gateway"} {
		for end, flags := range ends {
			if role == "merchant" { // which is bound to one
				flags = append(slices.Clone(flags), "merchants=shop")
			}
			out := filepath.Join(dir, end+"-"+role)
			status, printed, errOut := shell(t, "", slices.Concat([]string{"token", "new", "n", "role=" + role, "--out", out}, flags)...)
			if !strings.Contains(has, end) {
				if status != exitFailed || !strings.Contains(errOut, "Roles of the gateway, with --gateway: [viewer app approver admin]") {
					t.Errorf("%s of the %s: %d %s", role, end, status, errOut)
				}
				if _, err := os.Stat(out); err == nil {
					t.Errorf("%s of the %s: there is a file without a token", role, end)
				}
				continue
			}
			var made client.Token
			if err := json.Unmarshal([]byte(printed), &made); err != nil || status != exitDone || string(made.Role) != role {
				t.Fatalf("%s of the %s: %d %s%s", role, end, status, printed, errOut)
			}
			info, err := os.Stat(out)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Fatalf("%v, %v", info, err)
			}
			secret, _ := os.ReadFile(out)
			if strings.Contains(printed+errOut, strings.TrimSpace(string(secret))) {
				t.Error("the secret is in the file and printed")
			}
			if status, _, errOut := shell(t, "", slices.Concat([]string{"token", "new", "n", "role=" + role, "--out", out}, flags)...); status != exitFailed ||
				!strings.Contains(errOut, "is not overwritten") {
				t.Errorf("the file again: %d %s", status, errOut)
			}
			mustShell(t, nil, "", slices.Concat([]string{"api", "revokeToken", made.ID}, ends[end])...)
		}
	}
	for end, flags := range ends {
		var list client.Tokens
		mustShell(t, &list, "", slices.Concat([]string{"api", "tokens"}, flags)...)
		if want := map[string]int{"service": 7, "gateway": 4}[end]; len(list.Tokens) != want { // the first, and those that were revoked
			t.Errorf("the %s has %d tokens", end, len(list.Tokens))
		}
		// What cannot be kept is not made.
		if status, _, _ := shell(t, "", slices.Concat([]string{"token", "new", "n", "role=viewer", "--out", filepath.Join(dir, "service-viewer", "t")}, flags)...); status != exitFailed {
			t.Error("a file as a directory")
		}
		mustShell(t, &list, "", slices.Concat([]string{"api", "tokens"}, flags)...)
		if i := slices.IndexFunc(list.Tokens, func(tok client.Token) bool { return tok.ID != "" && tok.Name != "first" && tok.Revoked == 0 }); i >= 0 {
			t.Errorf("the %s: token %+v is left and nobody has its secret", end, list.Tokens[i])
		}
	}
}

// TestShellShowsFacts: what a merchant must mend is among what the shell shows of a callback.
func TestShellShowsFacts(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	d := startDaemon(t, "serve", "--data", data, "--listen", "127.0.0.1:0", "--allow-private", "--allow-http")
	run := func(in string, args ...string) string {
		t.Helper()
		status, out, errOut := shell(t, in, append(args, "--api", d.url, "--data", data)...)
		if status != exitDone {
			t.Fatalf("%v: %s%s", args, out, errOut)
		}
		return out
	}
	run("", "merchants", "add", "shop", "key.bits=1024", "notifyUrl=http://127.0.0.1:1/n", "withdrawUrl=http://127.0.0.1:1/w")
	run(`{"merchant":"shop","callBackId":"w-1","tenantUserId":"u-1"}`, "withdrawals", "add", "-")
	var list struct{ ID string }
	if err := json.Unmarshal([]byte(run("", "callbacks", "list", "--json")), &list); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		out := run("", "api", "callback", list.ID)
		if strings.Contains(out, "connection refused") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it does not say why nobody was reached:\n%s", out)
		}
	}
}
