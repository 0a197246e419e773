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

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/lab/dbtest"
)

// TestHandover: what a merchant needs comes in files of their own, and nothing
// that is shown once is lost.
func TestHandover(t *testing.T) {
	t.Parallel()
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	dir, api := t.TempDir(), theService(t).flags
	out := filepath.Join(dir, "handed")
	add := func(id string, args ...string) []string {
		return slices.Concat([]string{"merchants", "add", id, "notifyUrl=http://127.0.0.1:1/n", "withdrawUrl=http://127.0.0.1:1/w"}, args, api)
	}
	status, printed, errOut := shell(t, "", add("handed", "key.bits=1024", "--out", out)...)
	if status != exitDone || !strings.Contains(printed, "1024 bits") {
		t.Fatalf("status %d\n%s%s", status, printed, errOut)
	}
	file := func(name string) string {
		t.Helper()
		path := filepath.Join(out, name)
		info := must(os.Stat(path))
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		b := must(os.ReadFile(path))
		return string(b)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	key := must(envelope.ParseKey([]byte(file("service.b64"))))
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
	ok(t, os.WriteFile(occupied, nil, 0o600))
	for _, dir := range []string{out, occupied} {
		if status, printed, errOut := shell(t, "", add("other", "--out", dir)...); status != exitFailed || printed != "" {
			t.Errorf("--out %s: status %d, %s%s", dir, status, printed, errOut)
		}
	}
	ok(t, os.Remove(filepath.Join(out, "service.b64")))
	if status, _, errOut := shell(t, "", add("other", "--out", out)...); status != exitFailed || !strings.Contains(errOut, "exists and is not overwritten") {
		t.Errorf("half a directory: status %d, %s", status, errOut)
	}
	if status, _, _ := shell(t, "", append([]string{"merchants", "show", "other"}, api...)...); status != exitFailed {
		t.Errorf("a merchant was made without its files")
	}

	// A merchant with a pair of its own seals answers to the service's, and has
	// the API key that the service was given.
	public := filepath.Join(dir, "public.b64")
	ok(t, os.WriteFile(public, []byte(key.PublicBase64()), 0o600))
	out = filepath.Join(dir, "nested", "own")
	mustShell(t, nil, "", add("handed-own", "scheme=merchant", "key.publicKey=@"+public, "apiKey="+testAPIKey.Reveal(), "--out", out)...)
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
	ok(t, errors.Join(err, os.Remove(dir)))
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
	d := theService(t)
	data := d.data
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no token":            {[]string{"merchants", "list", "--api", d.url, "--data", t.TempDir()}, "no token"},
		"another's token":     {[]string{"api", "order", "x", "--api", d.url, "--token", "cst_0123456789012345678901234567890123456789"}, "--api " + d.url + " may be the other end's API"},
		"a wrong token":       {[]string{"merchants", "list", "--api", d.url, "--token", "cst_0123456789012345678901234567890123456789"}, "the token is not of this API"},
		"a broken token":      {[]string{"merchants", "list", "--api", d.url, "--token", "no token"}, "has a character that no token has"},
		"nobody there":        {[]string{"withdrawals", "list", "--api", "http://127.0.0.1:1", "--data", data}, "nothing answers at http://127.0.0.1:1"},
		"no URL":              {[]string{"callbacks", "list", "--api", "127.0.0.1", "--data", data}, "must be http or https"},
		"a role of the other": {[]string{"token", "new", "n", "role=app", "--service", "--api", d.url, "--data", data}, "Roles of the gateway, with --gateway: [viewer app approver admin]"},
		"no such merchant":    {[]string{"merchants", "show", "none", "--api", d.url, "--data", data}, "404"},
		"no such order":       {[]string{"withdrawals", "release", "none/order-1", "claim=a", "--api", d.url, "--data", data}, "there is no such withdrawal\n  try: countersign search TEXT"},
		"a merchant's name":   {[]string{"withdrawals", "show", "none/", "--api", d.url, "--data", data}, "there is no such withdrawal"},
	} {
		status, out, errOut := shell(t, "", tt.args...)
		if status != exitFailed || out != "" || !strings.Contains(errOut, tt.want) {
			t.Errorf("%s: status %d, want %q\n%s%s", name, status, tt.want, out, errOut)
		}
	}
}
