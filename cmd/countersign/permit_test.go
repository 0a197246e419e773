package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPermitVerify holds the subcommand to the vectors: each refusal has its own words.
func TestPermitVerify(t *testing.T) {
	t.Parallel()
	file := must(os.ReadFile("../../testdata/vectors/permits.jsonl"))
	dir, seen := t.TempDir(), map[string]int{}
	words := map[string]string{"good": "", "incomplete": "", "forged": "is not signed by this key", "malformed": "the note is not a permit", "differs": "another execution",
		"epoch": "that a restore has ended", "duplicate": "given before", "answer missing": "there is none", "answer unsigned": "it is not signed", "answer key": "not by this merchant's",
		"answer altered": "altered after it was signed", "answer malformed": "cannot be read", "answer refusal": "it is a refusal", "answer differs": "confirms something else"}
	save := func(name, text string) string {
		path := filepath.Join(dir, name)
		ok(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for line := range strings.Lines(string(file)) {
		var v struct{ Name, Key, Note, Merchant, Claim, Address, ChainName, Symbol, Amount, Epoch, MerchantKey, Answer, Result string }
		ok(t, json.Unmarshal([]byte(line), &v))
		seen[v.Result]++
		args := []string{"permit", "verify", "-", "--key", "@" + save("key", v.Key+"\n"), "--claim", v.Claim, "--address", v.Address, "--amount", v.Amount, "--chain", v.ChainName, "--symbol", v.Symbol, "--epoch", v.Epoch}
		if v.Merchant != "" {
			args = append(args, "--merchant", v.Merchant)
		}
		if v.MerchantKey != "" {
			args = append(args, "--merchant-key", "@"+save("merchant", v.MerchantKey+"\n"))
			if v.Answer != "" {
				args = append(args, "--answer", save("answer", v.Answer))
			}
		}
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
	for result := range words {
		if seen[result] == 0 {
			t.Errorf("no vector is %s", result)
		}
	}
	whole := []string{"--key", "x", "--claim", "c", "--address", "a", "--amount", "1.5", "--chain", "TRON", "--symbol", "USDT", "--epoch", "0"}
	for i := 0; i < len(whole); i += 2 {
		without := append(append([]string{"permit", "verify", "-"}, whole[:i]...), whole[i+2:]...)
		if status, _, errOut := shell(t, "", without...); status != exitUsage || !strings.Contains(errOut, whole[i]) {
			t.Errorf("without %s: status %d %s", whole[i], status, errOut)
		}
	}
	for _, x := range []struct{ flag, value, says string }{{"--amount", "1,5", "--amount"}, {"--symbol", "", "--symbol is empty"}, {"--chain", "", "--chain is empty"},
		{"--answer", "x", "give --merchant-key"}, {"--merchant-key", "x", "--merchant-key"}} {
		if status, _, errOut := shell(t, "", append(append([]string{"permit", "verify", "-"}, whole...), x.flag, x.value)...); status != exitFailed || !strings.Contains(errOut, x.says) {
			t.Errorf("%s %q: status %d %s", x.flag, x.value, status, errOut)
		}
	}
}
