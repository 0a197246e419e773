package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPermitVerify holds the subcommand to the vectors.
func TestPermitVerify(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../../testdata/vectors/permits.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	dir, n := t.TempDir(), 0
	words := map[string]string{"forged": "is not signed by this key", "malformed": "the note is no permit", "differs": "another execution", "duplicate": "given before"}
	for line := range strings.Lines(string(file)) {
		n++
		var v struct{ Name, Key, Note, Claim, Address, ChainName, Symbol, Amount, Result string }
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		key := filepath.Join(dir, "key")
		if err := os.WriteFile(key, []byte(v.Key+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"permit", "verify", "-", "--key", "@" + key, "--claim", v.Claim, "--address", v.Address, "--amount", v.Amount, "--chain", v.ChainName, "--symbol", v.Symbol}
		status, out, errOut := shell(t, v.Note, args...)
		if good := v.Result == "good"; good != (status == exitDone) || good != strings.HasPrefix(out, "good: ") || !strings.Contains(errOut, words[v.Result]) {
			t.Errorf("%s: status %d\n%s%s", v.Name, status, out, errOut)
		}
		if v.Result != "duplicate" {
			continue
		}
		if status, out, _ := shell(t, v.Note, append(args, "--duplicate")...); status != exitDone || !strings.Contains(out, "duplicate: true") {
			t.Errorf("%s with --duplicate: status %d\n%s", v.Name, status, out)
		}
	}
	if n < 15 {
		t.Errorf("%d vectors", n)
	}
	if status, _, _ := shell(t, "", "permit", "verify", "-", "--key", "x"); status != exitUsage {
		t.Errorf("without a claim: status %d", status)
	}
	if status, _, errOut := shell(t, "", "permit", "verify", "-", "--key", "x", "--claim", "c", "--address", "a", "--amount", "1,5"); status != exitFailed || !strings.Contains(errOut, "--amount") {
		t.Errorf("a wrong amount: status %d %s", status, errOut)
	}
}
