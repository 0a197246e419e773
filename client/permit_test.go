package client_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"countersign"
	"countersign/client"
	"countersign/envelope"
)

var updatePermits = flag.Bool("update-permits", false, "write testdata/vectors/permits.jsonl anew")

// permitVector is one line of testdata/vectors/permits.jsonl (testdata/README.md).
type permitVector struct {
	Name        string `json:"name"`
	Key         string `json:"key"`
	Note        string `json:"note"`
	Merchant    string `json:"merchant"`
	Claim       string `json:"claim"`
	Address     string `json:"address"`
	ChainName   string `json:"chainName"`
	Symbol      string `json:"symbol"`
	Amount      string `json:"amount"`
	Epoch       string `json:"epoch"`
	MerchantKey string `json:"merchantKey"`
	Answer      string `json:"answer"`
	Result      string `json:"result"`
}

// permitResults are the results of vectors, by the error of VerifyPermit.
var permitResults = map[string]error{
	"good": nil, "incomplete": client.ErrExecution, "forged": client.ErrPermitForged, "malformed": client.ErrPermitMalformed, "differs": client.ErrPermitDiffers,
	"epoch": client.ErrPermitEpoch, "duplicate": client.ErrPermitDuplicate,
	"answer missing": client.ErrAnswerMissing, "answer unsigned": client.ErrAnswerUnsigned, "answer key": client.ErrAnswerKey, "answer altered": client.ErrAnswerAltered,
	"answer malformed": client.ErrAnswerMalformed, "answer refusal": client.ErrAnswerRefusal, "answer differs": client.ErrAnswerDiffers,
}

// permitKey makes a pair in the form of package note from a seed.
func permitKey(name string, seed byte) (note.Signer, string) {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	verifier := must(note.NewEd25519VerifierKey(name, private.Public().(ed25519.PublicKey)))
	hash := strings.Split(verifier, "+")[1]
	return must(note.NewSigner("PRIVATE+KEY+" + name + "+" + hash + "+" + base64.StdEncoding.EncodeToString(append([]byte{1}, private.Seed()...)))), verifier
}

func signText(text string, signers ...note.Signer) string {
	return string(must(note.Sign(&note.Note{Text: text}, signers...)))
}

// testKey reads one of the marked keys of the vectors.
func testKey(name string) (key ed25519.PrivateKey, public []byte) {
	block, _ := pem.Decode(must(os.ReadFile("../testdata/vectors/keys/" + name + ".pem")))
	key = must(x509.ParsePKCS8PrivateKey(block.Bytes)).(ed25519.PrivateKey)
	return key, must(x509.MarshalPKIXPublicKey(key.Public()))
}

// signAnswer signs a response by its own few lines, so that the vectors do not depend on the code
// they test.
func signAnswer(key ed25519.PrivateKey, public []byte, body, opened string) client.SignedAnswer {
	digest := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return base64.StdEncoding.EncodeToString(sum[:])
	}
	a := client.SignedAnswer{Body: body, Opened: opened, Status: 200, ContentType: "application/json",
		ContentDigest:    "sha-256=:" + digest(body) + ":;opened=:" + digest(opened) + ":",
		RequestSignature: "countersign=:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 64)) + ":"}
	params := fmt.Sprintf(`("@status" "content-digest" "content-type" "signature";req;key="countersign");created=1795597190;nonce="EBESExQVFhcYGRobHB0eHw==";keyid="%x";alg="ed25519";tag="countersign-response"`,
		sha256.Sum256(public))
	text := "\"@status\": 200\n\"content-digest\": " + a.ContentDigest + "\n\"content-type\": application/json\n\"signature\";req;key=\"countersign\": " +
		strings.TrimPrefix(a.RequestSignature, "countersign=") + "\n\"@signature-params\": " + params
	a.SignatureInput = "countersign=" + params
	a.Signature = "countersign=:" + base64.StdEncoding.EncodeToString(ed25519.Sign(key, []byte(text))) + ":"
	return a
}

// jsonLine returns v as JSON in which nothing is escaped for HTML, and a line end.
func jsonLine(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	ok(e.Encode(v))
	return b.String()
}

// makePermits makes the vectors.
func makePermits() (list []permitVector) {
	signer, key := permitKey("countersign-service-test", 1)
	other, otherKey := permitKey("countersign-service-other", 2)
	imitator, _ := permitKey("countersign-service-test", 3)
	n := client.PermitNote{Merchant: "shop", CallBackID: "order-1", Withdrawal: "shop.01ARZ3NDEKTSV4RRFFQ69G5FAV", Claim: "wallet-7", Time: 1_795_597_200_000,
		Details: client.Details{Address: "TMerchantsCustomer", ChainName: "TRON", Symbol: "USDT", Amount: amount("25000.50")}}
	text := n.Text()
	good := permitVector{Key: key, Note: signText(text, signer), Merchant: "shop", Claim: n.Claim, Address: n.Details.Address, ChainName: "TRON", Symbol: "USDT", Amount: "25000.50",
		Epoch: "0", Result: "good"}
	add := func(name string, change func(*permitVector)) {
		v := good
		v.Name = name
		change(&v)
		list = append(list, v)
	}
	says := func(name, result, text string) {
		add(name, func(v *permitVector) { v.Note, v.Result = signText(text, signer), result })
	}
	replace := func(name, result, from, to string) { says(name, result, strings.Replace(text, from, to, 1)) }
	add("good", func(*permitVector) {})
	add("another spelling of the amount", func(v *permitVector) { v.Amount = "25000.500" })
	add("an empty line behind it", func(v *permitVector) { v.Note += "\n" })
	add("its last line end is missing", func(v *permitVector) { v.Note = strings.TrimSuffix(v.Note, "\n") })
	add("line ends of Windows", func(v *permitVector) { v.Note = strings.ReplaceAll(v.Note, "\n", "\r\n") })
	add("no symbol is expected", func(v *permitVector) { v.Symbol, v.Result = "", "incomplete" })
	add("no chain is expected", func(v *permitVector) { v.ChainName, v.Result = "", "incomplete" })
	add("no claim is expected", func(v *permitVector) { v.Claim, v.Result = "", "incomplete" })
	add("no address is expected", func(v *permitVector) { v.Address, v.Result = "", "incomplete" })
	add("another claim", func(v *permitVector) { v.Claim, v.Result = "wallet-8", "differs" })
	add("another merchant", func(v *permitVector) { v.Merchant, v.Result = "kiosk", "differs" })
	add("another address", func(v *permitVector) { v.Address, v.Result = "TEvil", "differs" })
	add("another amount", func(v *permitVector) { v.Amount, v.Result = "25000.51", "differs" })
	add("another chain", func(v *permitVector) { v.ChainName, v.Result = "ETH", "differs" })
	add("another coin", func(v *permitVector) { v.Symbol, v.Result = "USDC", "differs" })
	add("of an epoch that has ended", func(v *permitVector) { v.Epoch, v.Result = "1", "epoch" })
	replace("of a later epoch", "good", "epoch: 0", "epoch: 1")
	replace("given before", "duplicate", "duplicate: false", "duplicate: true")
	add("another key", func(v *permitVector) { v.Key, v.Result = otherKey, "forged" })
	add("signed by another", func(v *permitVector) { v.Note, v.Result = signText(text, other), "forged" })
	add("signed by another of the same name", func(v *permitVector) { v.Note, v.Result = signText(text, imitator), "forged" })
	add("signed by another too", func(v *permitVector) { v.Note, v.Result = signText(text, signer, other), "malformed" })
	add("its signature twice", func(v *permitVector) {
		v.Note, v.Result = v.Note+v.Note[strings.LastIndex(v.Note, "\n\n")+2:], "malformed"
	})
	add("changed after it was signed", func(v *permitVector) {
		v.Note, v.Address, v.Result = strings.Replace(v.Note, "TMerchantsCustomer", "TEvil", 1), "TEvil", "forged"
	})
	add("no signature", func(v *permitVector) { v.Note, v.Result = text, "forged" })
	add("empty", func(v *permitVector) { v.Note, v.Result = "", "forged" })
	says("a checkpoint of the log", "malformed", "countersign-service-test\n7\n"+base64.StdEncoding.EncodeToString(make([]byte, 32))+"\n")
	replace("another version", "malformed", "permit/1", "permit/2")
	replace("a line is missing", "malformed", "symbol: USDT\n", "")
	replace("a line twice", "malformed", "symbol: USDT\n", "symbol: USDT\nsymbol: USDT\n")
	named := n
	named.CallBackID = "a\nclaim: wallet-7%"
	says("a line end and a percent sign in a member", "good", named.Text())

	// With the merchant's key the answer counts.
	merchantKey, public := testKey("ed25519-merchant")
	stranger, strangerPublic := testKey("ed25519-service")
	const body = `{"apiKey":"api-key-of-shop","data":"c2VhbGVk","errCode":0,"message":""}`
	const refusal = `{"apiKey":"api-key-of-shop","data":"c2VhbGVk","errCode":2004,"message":"refused by a person"}`
	const opened = `{"type":2,"tenantUserId":"65515","callBackId":"order-1","address":"TMerchantsCustomer","chainName":"TRON","symbol":"USDT","amount":"25000.5","requestUUID":"0190a6d0-7c1e-8f00-8000-000000000000"}`
	signed := func(body, opened string) client.SignedAnswer { return signAnswer(merchantKey, public, body, opened) }
	answer := func(name, result string, a client.SignedAnswer) {
		add(name, func(v *permitVector) {
			v.MerchantKey, v.Answer, v.Result = base64.StdEncoding.EncodeToString(public), strings.TrimSpace(jsonLine(a)), result
		})
	}
	altered := func(name, result string, change func(*client.SignedAnswer)) {
		a := signed(body, opened)
		change(&a)
		answer(name, result, a)
	}
	instead := func(name, result, from, to string) {
		answer(name, result, signed(body, strings.Replace(opened, from, to, 1)))
	}
	altered("answer: as it should be", "good", func(*client.SignedAnswer) {})
	instead("answer: the amount is a number", "good", `"25000.5"`, `25000.50`)
	add("answer: not looked at without the merchant's key", func(v *permitVector) { v.Answer = "{}" })
	add("answer: missing", func(v *permitVector) {
		v.MerchantKey, v.Result = base64.StdEncoding.EncodeToString(public), "answer missing"
	})
	add("answer: the merchant whose key is given is not named", func(v *permitVector) {
		v.MerchantKey, v.Answer, v.Merchant, v.Result = base64.StdEncoding.EncodeToString(public), strings.TrimSpace(jsonLine(signed(body, opened))), "", "incomplete"
	})
	altered("answer: unsigned", "answer unsigned", func(a *client.SignedAnswer) { a.Signature, a.SignatureInput = "", "" })
	answer("answer: signed by another merchant", "answer key", signAnswer(stranger, strangerPublic, body, opened))
	answer("answer: signed by another under the merchant's name", "answer altered", signAnswer(stranger, public, body, opened))
	altered("answer: the plaintext was altered", "answer altered", func(a *client.SignedAnswer) { a.Opened = strings.Replace(a.Opened, "25000.5", "25000.50", 1) })
	altered("answer: the body was altered", "answer altered", func(a *client.SignedAnswer) { a.Body += " " })
	altered("answer: of another request", "answer altered", func(a *client.SignedAnswer) { a.RequestSignature = a.Signature })
	altered("answer: another status", "answer altered", func(a *client.SignedAnswer) { a.Status = 201 })
	a := signed(refusal, opened)
	altered("answer: a refusal with the body of a confirmation", "answer altered", func(c *client.SignedAnswer) { *c = a; c.Body = body })
	answer("answer: a refusal that repeats the details", "answer refusal", a)
	answer("answer: a body that is no response", "answer malformed", signed("[]", opened))
	answer("answer: a member twice", "answer malformed", signed(body, strings.Replace(opened, `"amount"`, `"amount":"25000.5","amount"`, 1)))
	instead("answer: of another type", "answer malformed", `"type":2`, `"type":3`)
	instead("answer: another withdrawal", "answer differs", "order-1", "order-2")
	instead("answer: another amount", "answer differs", "25000.5", "25000.6")
	instead("answer: another address", "answer differs", "TMerchantsCustomer", "TEvil")
	instead("answer: another chain", "answer differs", "TRON", "ETH")
	instead("answer: another coin", "answer differs", "USDT", "USDC")
	add("answer: given before", func(v *permitVector) {
		v.Note = signText(strings.Replace(text, "duplicate: false", "duplicate: true", 1), signer)
		v.MerchantKey, v.Answer, v.Result = base64.StdEncoding.EncodeToString(public), strings.TrimSpace(jsonLine(signed(body, opened))), "duplicate"
	})
	return list
}

// verify returns the result of a vector.
func (v *permitVector) verify() string {
	x := client.Execution{Merchant: v.Merchant, Claim: v.Claim, Epoch: must(strconv.ParseInt(v.Epoch, 10, 64)), MerchantKeys: must(envelope.ParseSigningKeys(v.MerchantKey)),
		Details: client.Details{Address: v.Address, ChainName: v.ChainName, Symbol: v.Symbol, Amount: amount(v.Amount)}}
	if v.Answer != "" {
		x.Answer = &client.SignedAnswer{}
		ok(json.Unmarshal([]byte(v.Answer), x.Answer))
	}
	_, err := client.VerifyPermit(v.Note, v.Key, x)
	for result, is := range permitResults {
		if is == nil && err == nil || is != nil && errors.Is(err, is) {
			return result
		}
	}
	return err.Error()
}

func TestPermitVectors(t *testing.T) {
	const path = "../testdata/vectors/permits.jsonl"
	list, want := makePermits(), ""
	for _, v := range list {
		want += jsonLine(v)
	}
	if *updatePermits {
		ok(os.WriteFile(path, []byte(want), 0o644))
	}
	if file, err := os.ReadFile(path); err != nil || string(file) != want {
		t.Errorf("%s is not what this test makes (%v); see -update-permits", path, err)
	}
	for _, v := range list {
		if got := v.verify(); got != v.Result {
			t.Errorf("%s: %s, want %s", v.Name, got, v.Result)
		}
	}
}

// TestVerifyPermit: what the vectors do not show.
func TestVerifyPermit(t *testing.T) {
	signer, key := permitKey("countersign-service-test", 1)
	n := client.PermitNote{Merchant: "shop", CallBackID: "a %\n\u0085\u2028\u007f b", Withdrawal: "shop.1", Claim: "c", Epoch: 7, Time: 1000, Duplicate: true,
		Details: client.Details{Address: "0xABCDEF0123456789abcdef0123456789ABCDEF01", ChainName: "ETH", Symbol: "ETH", Amount: amount("1.50")}}
	signed := signText(n.Text(), signer)
	merchantKey, public := testKey("ed25519-merchant")
	body := `{"apiKey":"k","data":"c2VhbGVk","errCode":0,"message":""}`
	answer := signAnswer(merchantKey, public, body, `{"type":"2","tenantUserId":"u","callBackId":"a %\n\u0085\u2028\u007f b","address":"`+strings.ToLower(n.Details.Address)+`","chainName":"ETH","symbol":"ETH","amount":"1.5","requestUUID":"r"}`)
	x := client.Execution{Claim: "c", Merchant: "shop", Epoch: 7, Duplicate: true, Details: client.Details{Address: strings.ToLower(n.Details.Address), ChainName: "ETH", Symbol: "ETH", Amount: amount("1.5")},
		MerchantKeys: must(envelope.ParseSigningKeys(base64.StdEncoding.EncodeToString(public))), Answer: &answer}
	got, err := client.VerifyPermit(signed, key+"\n", x)
	if err != nil || got != n {
		t.Errorf("%+v, %v", got, err)
	}
	for name, change := range map[string]func(*client.Execution){
		"another withdrawal": func(x *client.Execution) { x.CallBackID = "other" },
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
}

// TestPermitPrograms runs the programs of docs/provider on the vectors.
func TestPermitPrograms(t *testing.T) {
	vectors, want := must(os.ReadFile("../testdata/vectors/permits.jsonl")), ""
	for line := range strings.Lines(string(vectors)) {
		var v permitVector
		ok(json.Unmarshal([]byte(line), &v))
		want += v.Result + "\n"
	}
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
			c := exec.Command(program[0], filepath.Join("../docs/provider", program[1]))
			c.Env, c.Stdin = append(os.Environ(), "LC_ALL=C.UTF-8"), bytes.NewReader(vectors)
			out, err := c.CombinedOutput()
			if err != nil || string(out) != want {
				t.Errorf("%v, it says\n%s, want\n%s", err, out, want)
			}
		})
	}
}
