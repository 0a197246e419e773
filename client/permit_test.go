package client_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"countersign"
	"countersign/client"
)

var updatePermits = flag.Bool("update-permits", false, "write testdata/vectors/permits.jsonl anew")

// permitVector is one line of testdata/vectors/permits.jsonl (PROTOCOL.md, Vectors).
type permitVector struct {
	Name      string `json:"name"`
	Key       string `json:"key"`
	Note      string `json:"note"`
	Claim     string `json:"claim"`
	Address   string `json:"address"`
	ChainName string `json:"chainName"`
	Symbol    string `json:"symbol"`
	Amount    string `json:"amount"`
	Result    string `json:"result"`
}

// permitKey makes a pair in the form of package note from a seed.
func permitKey(t testing.TB, name string, seed byte) (note.Signer, string) {
	t.Helper()
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	verifier, err := note.NewEd25519VerifierKey(name, private.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	hash := strings.Split(verifier, "+")[1]
	signer, err := note.NewSigner("PRIVATE+KEY+" + name + "+" + hash + "+" + base64.StdEncoding.EncodeToString(append([]byte{1}, private.Seed()...)))
	if err != nil {
		t.Fatal(err)
	}
	return signer, verifier
}

func signText(t testing.TB, text string, signers ...note.Signer) string {
	t.Helper()
	signed, err := note.Sign(&note.Note{Text: text}, signers...)
	if err != nil {
		t.Fatal(err)
	}
	return string(signed)
}

func amountOf(t testing.TB, text string) countersign.Amount {
	t.Helper()
	a, err := countersign.ParseAmount(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// makePermits makes the vectors.
func makePermits(t testing.TB) (list []permitVector) {
	signer, key := permitKey(t, "countersign-service-test", 1)
	other, otherKey := permitKey(t, "countersign-service-other", 2)
	imitator, _ := permitKey(t, "countersign-service-test", 3)
	n := client.PermitNote{Merchant: "shop", CallBackID: "order-1", Withdrawal: "shop.01ARZ3NDEKTSV4RRFFQ69G5FAV", Claim: "wallet-7", Time: 1_795_597_200_000,
		Details: client.Details{Address: "TMerchantsCustomer", ChainName: "TRON", Symbol: "USDT", Amount: amountOf(t, "25000.50")}}
	text := n.Text()
	good := permitVector{Key: key, Note: signText(t, text, signer), Claim: n.Claim, Address: n.Details.Address, ChainName: "TRON", Symbol: "USDT", Amount: "25000.50", Result: "good"}
	add := func(name string, change func(*permitVector)) {
		v := good
		v.Name = name
		change(&v)
		list = append(list, v)
	}
	says := func(name, result, text string) {
		add(name, func(v *permitVector) { v.Note, v.Result = signText(t, text, signer), result })
	}
	replace := func(name, result, from, to string) { says(name, result, strings.Replace(text, from, to, 1)) }
	add("good", func(*permitVector) {})
	add("another claim", func(v *permitVector) { v.Claim, v.Result = "wallet-8", "differs" })
	add("another address", func(v *permitVector) { v.Address, v.Result = "TEvil", "differs" })
	add("another amount", func(v *permitVector) { v.Amount, v.Result = "25000.51", "differs" })
	add("another chain", func(v *permitVector) { v.ChainName, v.Result = "ETH", "differs" })
	add("another coin", func(v *permitVector) { v.Symbol, v.Result = "USDC", "differs" })
	replace("given before", "duplicate", "duplicate: false", "duplicate: true")
	add("another key", func(v *permitVector) { v.Key, v.Result = otherKey, "forged" })
	add("signed by another", func(v *permitVector) { v.Note, v.Result = signText(t, text, other), "forged" })
	add("signed by another of the same name", func(v *permitVector) { v.Note, v.Result = signText(t, text, imitator), "forged" })
	add("changed after it was signed", func(v *permitVector) {
		v.Note, v.Address, v.Result = strings.Replace(v.Note, "TMerchantsCustomer", "TEvil", 1), "TEvil", "forged"
	})
	add("no signature", func(v *permitVector) { v.Note, v.Result = text, "forged" })
	add("empty", func(v *permitVector) { v.Note, v.Result = "", "forged" })
	says("a checkpoint of the log", "malformed", "countersign-service-test\n7\n"+base64.StdEncoding.EncodeToString(make([]byte, 32))+"\n")
	replace("another version", "malformed", "permit/1", "permit/2")
	replace("a line is missing", "malformed", "symbol: USDT\n", "")
	replace("a line twice", "malformed", "symbol: USDT\n", "symbol: USDT\nsymbol: USDT\n")
	n.CallBackID = "a\nclaim: wallet-7%"
	says("a line end and a percent sign in a member", "good", n.Text())
	return list
}

func marshalPermits(t testing.TB, list []permitVector) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, v := range list {
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// verify gives the result of a vector.
func (v *permitVector) verify(t testing.TB) string {
	_, err := client.VerifyPermit(v.Note, v.Key, client.Execution{Claim: v.Claim,
		Details: client.Details{Address: v.Address, ChainName: v.ChainName, Symbol: v.Symbol, Amount: amountOf(t, v.Amount)}})
	switch {
	case err == nil:
		return "good"
	case errors.Is(err, client.ErrPermitForged):
		return "forged"
	case errors.Is(err, client.ErrPermitMalformed):
		return "malformed"
	case errors.Is(err, client.ErrPermitDiffers):
		return "differs"
	case errors.Is(err, client.ErrPermitDuplicate):
		return "duplicate"
	}
	return err.Error()
}

func TestPermitVectors(t *testing.T) {
	const path = "../testdata/vectors/permits.jsonl"
	list := makePermits(t)
	want := marshalPermits(t, list)
	if *updatePermits {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if file, err := os.ReadFile(path); err != nil || !bytes.Equal(file, want) {
		t.Errorf("%s is not what this test makes (%v); see -update-permits", path, err)
	}
	for _, v := range list {
		if got := v.verify(t); got != v.Result {
			t.Errorf("%s: %s, want %s", v.Name, got, v.Result)
		}
	}
}

// TestVerifyPermit: what the vectors do not show.
func TestVerifyPermit(t *testing.T) {
	signer, key := permitKey(t, "countersign-service-test", 1)
	n := client.PermitNote{Merchant: "shop", CallBackID: "a %\n\u0085\u2028\u007f b", Withdrawal: "shop.1", Claim: "c", Epoch: 7, Time: 1000, Duplicate: true,
		Details: client.Details{Address: "0xABCDEF0123456789abcdef0123456789ABCDEF01", ChainName: "ETH", Symbol: "ETH", Amount: amountOf(t, "1.50")}}
	signed := signText(t, n.Text(), signer)
	x := client.Execution{Claim: "c", Duplicate: true, Details: client.Details{Address: strings.ToLower(n.Details.Address), Amount: amountOf(t, "1.5")}}
	got, err := client.VerifyPermit(signed, key+"\n", x)
	if err != nil || got != n {
		t.Errorf("%+v, %v", got, err)
	}
	for name, change := range map[string]func(*client.Execution){
		"another merchant":   func(x *client.Execution) { x.Merchant = "other" },
		"another withdrawal": func(x *client.Execution) { x.CallBackID = "other" },
		"given before":       func(x *client.Execution) { x.Duplicate = false },
		"no claim":           func(x *client.Execution) { x.Claim = "" },
		"no address":         func(x *client.Execution) { x.Details.Address = "" },
		"no amount":          func(x *client.Execution) { x.Details.Amount = countersign.Amount{} },
	} {
		x := x
		change(&x)
		if _, err := client.VerifyPermit(signed, key, x); err == nil {
			t.Errorf("%s: it is allowed", name)
		}
	}
	// No byte of a note can be another.
	for i := range signed {
		for _, b := range []byte{signed[i] ^ 1, signed[i] ^ 0x20} {
			changed := signed[:i] + string(b) + signed[i+1:]
			if changed == signed {
				continue
			}
			if _, err := client.VerifyPermit(changed, key, x); err == nil {
				t.Fatalf("byte %d: %q is allowed", i, changed)
			}
		}
	}
	second, _ := permitKey(t, "countersign-witness", 2)
	if _, err := client.VerifyPermit(signText(t, n.Text(), signer, second), key, x); err != nil {
		t.Errorf("with a second signature: %v", err)
	}
}

// TestPermitPrograms runs the programs of docs/permits.md on the vectors.
func TestPermitPrograms(t *testing.T) {
	page, err := os.ReadFile("../docs/permits.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(language string) string {
		_, after, _ := strings.Cut(string(page), "```"+language+"\n")
		text, _, found := strings.Cut(after, "```")
		if !found {
			t.Fatalf("docs/permits.md has no %s", language)
		}
		return text
	}
	_, key := permitKey(t, "countersign-service-test", 1)
	dir := t.TempDir()
	var files []string
	var want strings.Builder
	for i, v := range makePermits(t) {
		if v.Result == "differs" || v.Key != key { // one execution and one key for all notes of a run
			continue
		}
		file := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(file, []byte(v.Note), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		want.WriteString(map[bool]string{true: "good\n", false: "bad\n"}[v.Result == "good"])
	}
	good := []string{"claim: wallet-7", "address: TMerchantsCustomer", "chainName: TRON", "symbol: USDT", "amount: 25000.50", "duplicate: false"}
	other := append([]string{"address: TEvil"}, good...)
	for language, program := range map[string][]string{"python": {"/usr/bin/python3", "permit.py"}, "java": {"java", "Permit.java"}} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(program[0]); err != nil {
				if os.Getenv("CI") != "" {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			if language == "python" && exec.Command(program[0], "-c", "import cryptography").Run() != nil && os.Getenv("CI") == "" {
				t.Skip("python3-cryptography is not installed")
			}
			path := filepath.Join(dir, program[1])
			if err := os.WriteFile(path, []byte(block(language)), 0o600); err != nil {
				t.Fatal(err)
			}
			run := func(files, lines []string) string {
				c := exec.Command(program[0], append([]string{path, key, strings.Join(files, ",")}, lines...)...)
				c.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
				out, err := c.CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				return string(out)
			}
			if got := run(files, good); got != want.String() {
				t.Errorf("it says\n%s, want\n%s", got, want.String())
			}
			if got := run(files[:1], other); got != "bad\n" {
				t.Errorf("another address: %s", got)
			}
		})
	}
}
