package envelope

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// TestDiagnose is the symptom table: what a person may hold in hands, and the
// words that must be in the hints of it.
func TestDiagnose(t *testing.T) {
	key, other, big := key1024(t), other1024(t), key2048(t)
	k := key.Size()
	plain := []byte(`{"type":1,"requestUUID":"0b6e3c1e-0000-4000-8000-000000000000","trackingId":"t-1","amount":"2.500000000000","symbol":"USDT","fill":"` + strings.Repeat("x", 300) + `"}`)
	body := mustSeal(t, key, PKCS1v15, plain)
	var plus []byte
	for i := byte('a'); ; i++ {
		if plus = mustSeal(t, key, PKCS1v15, append([]byte{i}, plain...)); bytes.ContainsAny(plus, "+") && bytes.ContainsAny(plus, "/") {
			break
		}
	}
	sealed := unb64(t, body)
	private, _ := key.PrivatePEM()

	var unpadded, type2, nothing []byte
	for rest := plain; len(rest) > 0; rest = rest[min(k-1, len(rest)):] {
		b := make([]byte, k)
		chunk := rest[:min(k-1, len(rest))]
		copy(b[k-len(chunk):], chunk)
		unpadded = append(unpadded, rawPrivate(t, key, b)...)
	}
	for rest := plain; len(rest) > 0; rest = rest[min(k-11, len(rest)):] {
		type2 = append(type2, rawPrivate(t, key, encoded(key, 2, 0x41, -1, rest[:min(k-11, len(rest))]))...)
	}
	nothing = rawPublic(t, key, encoded(key, 2, 0x41, k-3, nil))
	var oneByOne string
	for b := sealed; len(b) > 0; b = b[k:] {
		oneByOne += string(b64(b[:k]))
	}
	mapped, _ := json.Marshal(map[string]string{strings.ReplaceAll(string(plus), "+", " "): ""})
	quoted, _ := json.Marshal(string(plain))

	for _, c := range []struct {
		name string
		key  *Key
		p    Padding
		body []byte
		want string
	}{
		{"opens", key.Public(), PKCS1v15, body, ""},
		{"opens with the private part", key, PKCS1v15, mustSeal(t, key.Public(), PKCS1v15, plain), ""},

		{"empty", key, PKCS1v15, nil, "body is empty"},
		{"too large", key, PKCS1v15, bytes.Repeat([]byte("A"), MaxBody+1), "larger than 65536"},
		{"PEM", key, PKCS1v15, private, "This is PEM"},
		{"HTML", key, PKCS1v15, []byte("<html><body>502</body></html>"), "HTML or XML"},
		{"plain message", key, PKCS1v15, plain, "plain message; the sender left out"},
		{"plain message as a string", key, PKCS1v15, quoted, "plain message in a JSON string"},
		{"plain message in data", key, PKCS1v15, []byte(`{"errCode":0,"data":{"type":1}}`), "member data holds a plain message"},
		{"some JSON", key, PKCS1v15, []byte(`{"status":"ok"}`), "without a member data"},
		{"body as the name of a field", key, PKCS1v15, mapped, "for the name of a field"},
		{"space for plus", key.Public(), PKCS1v15, bytes.ReplaceAll(plus, []byte("+"), []byte(" ")), "where a form parser has replaced a +; read the raw body"},
		{"raw plus in a form", key.Public(), PKCS1v15, append([]byte("data="), plus...), "write + as %2B"},
		{"URL alphabet", key.Public(), PKCS1v15, bytes.NewBufferString(strings.NewReplacer("+", "-", "/", "_").Replace(string(plus))).Bytes(), "use the standard alphabet"},
		{"percent-encoded", key.Public(), PKCS1v15, []byte(url.QueryEscape(string(plus))), "undo the percent-encoding"},
		{"hexadecimal", key.Public(), PKCS1v15, []byte(hex.EncodeToString(sealed)), "looks hexadecimal"},
		{"blocks encoded one by one", key.Public(), PKCS1v15, []byte(oneByOne), "join the raw blocks and encode them once"},
		{"cut within a group", key.Public(), PKCS1v15, body[:len(body)-7], "check for a size limit"},
		{"Base64 of Base64", key.Public(), PKCS1v15, b64(body), "Base64 of Base64"},
		{"Base64 of the message", key.Public(), PKCS1v15, b64(plain), "Base64 of plain text"},
		{"a key in Base64", key.Public(), PKCS1v15, []byte(key.PublicBase64()), "itself a key"},

		{"no key", nil, PKCS1v15, body, "fit keys of 1024, 2048, 4096 bits"},
		{"no key, odd length", nil, PKCS1v15, b64(make([]byte, 130)), "fit no usual key size"},
		{"larger key than sealed", big.Public(), PKCS1v15, b64(sealed[:3*k]), "key has 2048 bits and the 384 sealed bytes fit 1024"},
		{"chunks of 117 where blocks belong", key.Public(), PKCS1v15, b64(sealed[:2*117]), "multiple of 117, the chunk size"},
		{"cut at a group", key.Public(), PKCS1v15, b64(sealed[:200]), "200 bytes are 1 blocks of 128 and 72 more"},

		{"another pair", other.Public(), PKCS1v15, body, "compare fingerprints"},
		{"another pair, private", other, PKCS1v15, body, "No block opens with either part"},
		{"larger key, length fits", big.Public(), PKCS1v15, b64(sealed[:2*k]), "also fits keys of 1024 bits"},
		{"public where private is needed", key.Public(), PKCS1v15, mustSeal(t, key.Public(), PKCS1v15, plain), "only the private part opens it"},
		{"private where public is needed", key, PKCS1v15, body, "open it with the public part"},
		{"OAEP with the public part", key.Public(), OAEP, mustSeal(t, key.Public(), OAEP, plain), "give the file with the private key"},
		{"OAEP opened as PKCS1v15", key, PKCS1v15, mustSeal(t, key.Public(), OAEP, plain), "open with another padding than PKCS1v15"},
		{"PKCS1v15 opened as OAEP", key, OAEP, mustSeal(t, key.Public(), PKCS1v15, plain), "open with another padding than OAEP"},
		{"type 2 by the private part", key.Public(), PKCS1v15, b64(type2), "have the sender use block type 1"},
		{"no padding", key.Public(), PKCS1v15, b64(unpadded), "text without padding"},
		{"seven FF", key.Public(), PKCS1v15, b64(rawPrivate(t, key, encoded(key, 1, 0xFF, -1, sample(k-10)))), "fewer than eight FF"},
		{"one block of another pair", key.Public(), PKCS1v15, b64(sealed[:k], unb64(t, mustSeal(t, other, PKCS1v15, []byte("x")))), "1 of 2 blocks open and block 1 does not"},
		{"one block damaged, private", key, PKCS1v15, b64(unb64(t, mustSeal(t, key.Public(), PKCS1v15, []byte("x"))), make([]byte, k)), "1 of 2 blocks open and block 1 does not"},
		{"above the modulus", key.Public(), PKCS1v15, b64(bytes.Repeat([]byte{0xFF}, 2*k)), "Every block is above the modulus"},
		{"no data, private", key, PKCS1v15, b64(nothing), "holds no data"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := Explain(c.key, c.p, c.body)
			hints, all := e.Hints, strings.Join(e.Hints, "\n")
			if c.want == "" {
				if len(hints) > 0 {
					t.Errorf("a body that opens gives %q", hints)
				}
				return
			}
			if !strings.Contains(all, c.want) {
				t.Errorf("it says %q, without %q", all, c.want)
			}
			for _, h := range hints {
				if !strings.HasSuffix(h, ".") || len(h) > 260 {
					t.Errorf("not a short sentence: %q", h)
				}
			}
			if !strings.Contains(e.String(), c.want) {
				t.Errorf("the explanation does not say so:\n%v", e)
			}
			if e.Plaintext != nil {
				t.Error("there is a plaintext in spite of it")
			}
		})
	}
}

func TestExplain(t *testing.T) {
	key := key1024(t)
	plain := []byte(strings.Repeat("0123456789", 15))
	body := mustSeal(t, key, PKCS1v15, plain)
	e := Explain(key.Public(), PKCS1v15, append([]byte("data="), url.QueryEscape(string(body))...))
	want := []BlockExplanation{
		{Index: 0, Offset: 0, InRange: true, Type: 1, Lead: "00 01 ff ff", PaddingBytes: 8, DataBytes: 117},
		{Index: 1, Offset: 128, InRange: true, Type: 1, Lead: "00 01 ff ff", PaddingBytes: 92, DataBytes: 33},
	}
	if fmt.Sprint(e.Blocks) != fmt.Sprint(want) {
		t.Errorf("blocks are %+v, want %+v", e.Blocks, want)
	}
	if e.Form != FormField || e.SealedBytes != 256 || e.BlockBytes != 128 || e.Err != nil || !bytes.Equal(e.Plaintext, plain) || e.Hints != nil {
		t.Errorf("it is %+v", e)
	}
	for _, line := range []string{"form field", "256 bytes = 2 × 128", "RSA-1024 public key", "00 01, 8 padding, 00, 117 bytes of data", "opens, 150 bytes", string(plain)} {
		if !strings.Contains(e.String(), line) {
			t.Errorf("%q is not in\n%v", line, e)
		}
	}

	e = Explain(key, PKCS1v15, mustSeal(t, key.Public(), PKCS1v15, plain))
	if len(e.Blocks) != 2 || e.Blocks[1].Type != 2 || e.Blocks[1].PaddingBytes != 92 || e.Blocks[1].DataBytes != 33 || !bytes.Equal(e.Plaintext, plain) {
		t.Errorf("the private part explains %+v", e.Blocks)
	}
	e = Explain(key, OAEP, mustSeal(t, key.Public(), OAEP, plain))
	if len(e.Blocks) != 3 || e.Blocks[2].Type != 0 || e.Blocks[2].DataBytes != 26 || e.Blocks[2].Problem != "" {
		t.Errorf("OAEP is explained as %+v", e.Blocks)
	}

	e = Explain(key.Public(), PKCS1v15, b64(bytes.Repeat([]byte{0xFF}, 200)))
	if len(e.Blocks) != 1 || e.Blocks[0].InRange || e.Blocks[0].Problem != reasonRange || !strings.Contains(e.String(), "200 bytes = 1 × 128 + 72") {
		t.Errorf("a body of one block and a piece is explained as\n%v", e)
	}
	e = Explain(nil, PKCS1v15, body)
	if e.Key != "" || e.Blocks != nil || e.Err != nil || e.SealedBytes != 256 || len(e.Hints) != 1 {
		t.Errorf("without a key: %+v", e)
	}

	// What a peer writes must not drive the terminal.
	e = Explain(key.Public(), PKCS1v15, mustSeal(t, key, PKCS1v15, []byte("a\x1b[31mb\r\u202e")))
	if s := e.String(); strings.ContainsAny(s, "\x1b\r\u202e") {
		t.Errorf("control characters came through: %q", s)
	}
	if s := Explain(key.Public(), PKCS1v15, mustSeal(t, key, PKCS1v15, []byte("\xff\xfe"))).String(); !strings.Contains(s, `not UTF-8: "\xff\xfe"`) {
		t.Errorf("bytes are explained as\n%s", s)
	}
}

// TestExplainKeepsTheKey looks for the numbers of the key in explanations.
func TestExplainKeepsTheKey(t *testing.T) {
	key := key1024(t)
	private, _ := key.PrivatePEM()
	for _, body := range [][]byte{private, []byte(key.PublicBase64()), mustSeal(t, key, PKCS1v15, []byte("x")), mustSeal(t, other1024(t), PKCS1v15, []byte("x"))} {
		for _, k := range []*Key{key, key.Public(), nil} {
			s := Explain(k, PKCS1v15, body).String()
			s += fmt.Sprintf("%+v", Explain(k, PKCS1v15, body))
			for _, line := range append(strings.Fields(string(private))[3:6], key.PublicBase64()[40:80], hex.EncodeToString(key.p().n[20:30])) {
				if strings.Contains(s, line) {
					t.Errorf("%v: the explanation holds a piece of a key", k)
				}
			}
		}
	}
}
