package main

import (
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/lab/dbtest"
	"countersign/internal/reconcile"
)

// TestJSONErrors: what is wrong with JSON in a file is said as the APIs say it: the member, what
// came and what was expected, without names of Go.
func TestJSONErrors(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	dir := t.TempDir()
	if status, _, errOut := shell(t, "", "keys", "new", "--bits", "1024", "--out", filepath.Join(dir, "pair")); status != exitDone {
		t.Fatal(errOut)
	}
	private := filepath.Join(dir, "pair", "private.pem")
	policy := secretFile(t, "default = \"allow\"\n")
	try := func(order string) string {
		_, _, errOut := shell(t, "", "policy", "check", policy, "--order", order)
		return errOut
	}
	check := func(order string) string {
		_, _, errOut := shell(t, "", "check", "--order", secretFile(t, order), "--notify-url", "http://127.0.0.1:1/n", "--withdraw-url", "http://127.0.0.1:1/w",
			"--api-key", "k", "--key", private)
		return errOut
	}
	line := func(text string) string {
		err := reconcile.Lines(secretFile(t, text), func(reconcile.Line) error { return nil })
		if err == nil {
			return ""
		}
		return plainly(err)
	}
	for _, c := range []struct {
		from func(string) string
		text string
		want string
	}{
		{try, `{"tenantUserId":65515}`, "tenantUserId: the type number is not allowed here"},
		{try, `{"amount":1.5}`, `amount is a number; amounts are texts, such as "1.50"`},
		{try, `{"adress":"T"}`, `unknown field "adress"`},
		{try, `{"address"`, "it ends early"},
		{try, `{address}`, "invalid character"},
		{check, `{"callBackId":7}`, "callBackId: the type number is not allowed here"},
		{check, `{callBackId}`, "file: invalid character"},
		{check, `[]`, "all of it: the type array is not allowed here"},
		{line, "{}\n" + `{"txIndex":1.5}`, "file, line 2: txIndex: the type number is not allowed here"},
	} {
		got := c.from(c.text)
		if !strings.Contains(got, c.want) || strings.Contains(got, "Go ") || strings.Contains(got, " json:") {
			t.Errorf("%s: %s", c.text, got)
		}
	}
}
