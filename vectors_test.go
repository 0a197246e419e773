package countersign_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign"
	"countersign/envelope"
)

var updateVectors = flag.Bool("update-vectors", false, "write testdata/vectors anew, keys included where they are missing")

const vectorDir = "testdata/vectors"

// vector is one line of testdata/vectors/vectors.jsonl. PROTOCOL.md, section
// Vectors, describes its members.
type vector struct {
	Name      string `json:"name"`
	Key       string `json:"key"`                 // file in keys/, without .pem
	Part      string `json:"part"`                // which part opens: public or private
	Padding   string `json:"padding"`             // pkcs1 or oaep
	Body      string `json:"body"`                // as it is on the wire
	Result    string `json:"result"`              // opens, form, base64, length or block
	Plaintext string `json:"plaintext,omitempty"` // Base64, where it opens
	Message   string `json:"message,omitempty"`   // ok, malformed or unknown type, where the plaintext is to be parsed as a request
	Binding   string `json:"binding,omitempty"`   // holds, absent or broken
	Details   string `json:"details,omitempty"`   // bound or unbound, where the plaintext is the answer to a withdrawal
}

// TestVectors opens every vector of the file and holds it to its result.
func TestVectors(t *testing.T) {
	keys := vectorKeys(t)
	results, names := map[string]int{}, map[string]bool{}
	for _, v := range readVectors(t, "vectors.jsonl", makeVectors(t, keys)) {
		if names[v.Name] {
			t.Errorf("two vectors are called %q", v.Name)
		}
		names[v.Name] = true
		results[v.Result]++
		t.Run(v.Name, func(t *testing.T) { checkVector(t, keys, v) })
	}
	for _, r := range []string{"opens", "form", "base64", "length", "block"} {
		if results[r] == 0 {
			t.Errorf("no vector has the result %q", r)
		}
	}
}

// readVectors returns the vectors of a file, and holds it to those that were made. On an update it is written first.
func readVectors[V any](t *testing.T, name string, made []V) (list []V) {
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetEscapeHTML(false)
	for _, v := range made {
		ok(t, enc.Encode(v))
	}
	path := filepath.Join(vectorDir, name)
	if *updateVectors {
		ok(t, os.WriteFile(path, want.Bytes(), 0o644))
	}
	file := must(os.ReadFile(path))(t)
	if !bytes.Equal(file, want.Bytes()) {
		t.Errorf("%s is not what this test makes; see -update-vectors", path)
	}
	for line := range bytes.Lines(file) {
		var v V
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, v)
	}
	return list
}

func checkVector(t *testing.T, keys map[string]*rsa.PrivateKey, v vector) {
	key := must(envelope.ParseKey(pemOf(keys[v.Key])))(t)
	if v.Part == "public" {
		key = key.Public()
	}
	padding := envelope.PKCS1v15
	if v.Padding == "oaep" {
		padding = envelope.OAEP
	}
	inner, _, err := envelope.Unwrap([]byte(v.Body))
	var plain []byte
	var blocks []int
	if err == nil {
		plain, blocks, err = envelope.OpenBlocks(key, padding, inner)
	}
	if got := resultOf(err); got != v.Result {
		t.Fatalf("result %s (%v), want %s", got, err, v.Result)
	}
	if err != nil {
		if plain != nil {
			t.Error("plaintext beside an error")
		}
		return
	}
	if got := base64.StdEncoding.EncodeToString(plain); got != v.Plaintext {
		t.Errorf("plaintext %s, want %s", got, v.Plaintext)
	}
	if v.Details != "" {
		got := "unbound"
		if countersign.DetailsBound(plain, blocks) {
			got = "bound"
		}
		if _, err := parseWithdrawalAnswer(plain); err != nil || got != v.Details {
			t.Errorf("details %s (%v), want %s", got, err, v.Details)
		}
	}
	if v.Message == "" {
		return
	}
	_, err = countersign.ParseCallback(plain, countersign.ParseOptions{})
	got := "ok"
	switch {
	case errors.Is(err, countersign.ErrUnknownType):
		got = "unknown type"
	case err != nil:
		got = "malformed"
	}
	if got != v.Message {
		t.Errorf("message %s (%v), want %s", got, err, v.Message)
	}
	if got := countersign.CheckBinding(plain).String(); got != v.Binding {
		t.Errorf("binding %s, want %s", got, v.Binding)
	}
}

func resultOf(err error) string {
	switch {
	case err == nil:
		return "opens"
	case errors.Is(err, envelope.ErrBodyForm):
		return "form"
	case errors.Is(err, envelope.ErrBase64):
		return "base64"
	case errors.Is(err, envelope.ErrLength), errors.Is(err, envelope.ErrEmpty):
		return "length"
	case errors.Is(err, envelope.ErrBlock), errors.Is(err, envelope.ErrOpen):
		return "block"
	}
	return err.Error()
}

func vectorKeys(t *testing.T) map[string]*rsa.PrivateKey {
	keys := map[string]*rsa.PrivateKey{}
	for _, bits := range []int{1024, 2048, 3072} {
		name := fmt.Sprintf("rsa%d", bits)
		keys[name] = vectorKey(t, name, func() any { return must(rsa.GenerateKey(rand.Reader, bits))(t) }).(*rsa.PrivateKey)
	}
	return keys
}

// vectorKey reads a test key. On an update it is made where it is missing.
func vectorKey(t *testing.T, name string, generate func() any) any {
	path := filepath.Join(vectorDir, "keys", name+".pem")
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && *updateVectors {
		data = pemOf(generate())
		ok(t, os.MkdirAll(filepath.Dir(path), 0o755))
		err = os.WriteFile(path, data, 0o644)
	}
	ok(t, err)
	block, _ := pem.Decode(data)
	return must(x509.ParsePKCS8PrivateKey(block.Bytes))(t)
}

func pemOf(key any) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// vectorMaker seals by its own few lines over math/big, so that the vectors do
// not depend on the code they test.
type vectorMaker struct {
	name string
	key  *rsa.PrivateKey
	out  *[]vector
}

// block pads one chunk: block type 1 with FF, type 2 with bytes from 1 to 255.
func (m vectorMaker) block(typ byte, chunk []byte) []byte {
	k := m.key.Size()
	b := make([]byte, k)
	b[1] = typ
	for i := 2; i < k-len(chunk)-1; i++ {
		b[i] = 0xff
		if typ == 2 {
			b[i] = byte(1 + (i*37+len(chunk)*11)%255)
		}
	}
	copy(b[k-len(chunk):], chunk)
	return b
}

// raise applies the private exponent to a block for part public, the public
// exponent for part private: whichever part opens, the other one seals.
func (m vectorMaker) raise(part string, block []byte) []byte {
	e := m.key.D
	if part == "private" {
		e = big.NewInt(int64(m.key.E))
	}
	x := new(big.Int).SetBytes(block)
	return x.Exp(x, e, m.key.N).FillBytes(make([]byte, m.key.Size()))
}

func (m vectorMaker) seal(part string, plain []byte, size int) []byte {
	typ := byte(1)
	if part == "private" {
		typ = 2
	}
	var sealed []byte
	for _, c := range chunks(plain, size) {
		sealed = append(sealed, m.raise(part, m.block(typ, c))...)
	}
	return sealed
}

func (m vectorMaker) add(name, part, body, result string, plain []byte) *vector {
	v := vector{Name: m.name + " " + name, Key: m.name, Part: part, Padding: "pkcs1", Body: body, Result: result}
	if plain != nil {
		v.Plaintext = base64.StdEncoding.EncodeToString(plain)
	}
	*m.out = append(*m.out, v)
	return &(*m.out)[len(*m.out)-1]
}

func makeVectors(t *testing.T, keys map[string]*rsa.PrivateKey) []vector {
	var out []vector
	for _, name := range []string{"rsa1024", "rsa2048", "rsa3072"} {
		m := vectorMaker{name, keys[name], &out}
		for _, part := range []string{"public", "private"} {
			addLengths(m, part)
			addBadBlocks(m, part)
		}
		addOAEP(m)
	}
	m := vectorMaker{"rsa1024", keys["rsa1024"], &out}
	addBodies(m)
	addMessages(t, m)
	for _, name := range []string{"rsa1024", "rsa2048"} {
		addAnswers(vectorMaker{name, keys[name], &out})
	}
	return out
}

var b64 = base64.StdEncoding.EncodeToString

// addLengths: plaintexts around the chunk sizes, and peers that cut shorter.
func addLengths(m vectorMaker, part string) {
	k := m.key.Size()
	text := []byte(strings.Repeat(`{"countersign":"0123456789 éèüß 漢字 0123456789"}`, 40))
	lengths := []int{1, 116, 117, 118, 234, 235}
	for _, n := range []int{k - 12, k - 11, k - 10, 2 * (k - 11), 2*(k-11) + 1, 5 * (k - 11)} {
		if m.name != "rsa1024" || n > 235 {
			lengths = append(lengths, n)
		}
	}
	for _, n := range lengths {
		m.add(fmt.Sprintf("%s opens %d bytes", part, n), part, b64(m.seal(part, text[:n], k-11)), "opens", text[:n])
	}
	straddle := []byte(strings.Repeat("a", k-12) + "漢" + "b")
	m.add(part+" opens a character across two blocks", part, b64(m.seal(part, straddle, k-11)), "opens", straddle)
	m.add(part+" opens chunks of 100 bytes", part, b64(m.seal(part, text[:450], 100)), "opens", text[:450])
	m.add(part+" opens chunks of 1 byte", part, b64(m.seal(part, text[:7], 1)), "opens", text[:7])
}

// addBadBlocks: one wrong block, behind a right one where that is harder.
func addBadBlocks(m vectorMaker, part string) {
	k := m.key.Size()
	good := m.seal(part, []byte("first"), k-11)
	right, wrong := byte(1), byte(2)
	if part == "private" {
		right, wrong = 2, 1
	}
	bad := func(name string, block []byte) {
		m.add(part+" refuses "+name, part, b64(append(bytes.Clone(good), m.raise(part, block)...)), "block", nil)
	}
	bad("the other block type", m.block(wrong, []byte("data")))
	bad("block type 0", m.block(0, []byte("data")))
	first := m.block(right, []byte("data"))
	first[0] = 1
	bad("a first byte that is not 0", first)
	bad("7 bytes of padding", m.block(right, bytes.Repeat([]byte("x"), k-10)))
	bad("a block without data", m.block(right, nil))
	endless := m.block(right, []byte("x"))
	endless[k-2] = 0xff
	bad("padding without end", endless)
	if right == 1 {
		other := m.block(1, []byte("data"))
		other[9] = 0xfe
		bad("another byte than FF in the padding", other)
	}
	exact := bytes.Repeat([]byte("y"), k-11)
	m.add(part+" opens 8 bytes of padding", part, b64(m.raise(part, m.block(right, exact))), "opens", exact)

	n := m.key.N.FillBytes(make([]byte, k))
	m.add(part+" refuses a block equal to the modulus", part, b64(append(bytes.Clone(good), n...)), "block", nil)
	m.add(part+" refuses a block of all FF", part, b64(append(bytes.Clone(good), bytes.Repeat([]byte{0xff}, k)...)), "block", nil)
	above := new(big.Int).Add(m.key.N, new(big.Int).SetBytes(good[:k]))
	if above.BitLen() <= 8*k { // the same block, once more by the modulus
		m.add(part+" refuses a right block plus the modulus", part, b64(above.FillBytes(make([]byte, k))), "block", nil)
	}
	m.add(part+" refuses a block of zeros", part, b64(make([]byte, k)), "block", nil)
	m.add(part+" refuses a trailing byte", part, b64(append(bytes.Clone(good), 0)), "length", nil)
	m.add(part+" refuses half a block", part, b64(good[:k/2]), "length", nil)
	m.add(part+" refuses a cut block", part, b64(append(bytes.Clone(good), good[:k-1]...)), "length", nil)
}

// addOAEP: the padding of the second scheme, opened by the private part alone.
func addOAEP(m vectorMaker) {
	k := m.key.Size()
	text := []byte(strings.Repeat("0123456789", 100))
	seal := func(chunk []byte, spoil int) []byte {
		b := oaepBlock(k, chunk)
		b[spoil]++ // 0 is the byte that must be 0, beyond k nothing
		return m.raise("private", b[:k])
	}
	for _, n := range []int{1, k - 67, k - 66} {
		m.add(fmt.Sprintf("private opens %d bytes, OAEP", n), "private", b64(seal(text[:n], k)), "opens", text[:n]).Padding = "oaep"
	}
	two := append(seal(text[:k-66], k), seal(text[k-66:k-60], k)...)
	m.add("private opens two blocks, OAEP", "private", b64(two), "opens", text[:k-60]).Padding = "oaep"
	for _, spoil := range []int{0, 1, 40, k - 1} {
		m.add(fmt.Sprintf("private refuses byte %d changed, OAEP", spoil), "private", b64(seal(text[:9], spoil)), "block", nil).Padding = "oaep"
	}
	m.add("private refuses PKCS#1 v1.5 where OAEP is agreed", "private", b64(m.seal("private", text[:9], k-11)), "block", nil).Padding = "oaep"
}

// oaepBlock pads with SHA-256, an empty label and a fixed seed (RFC 8017,
// section 7.1.1). One byte more than k, for addOAEP to spoil.
func oaepBlock(k int, chunk []byte) []byte {
	em := make([]byte, k+1)
	seed, db := em[1:33], em[33:k]
	for i := range seed {
		seed[i] = byte(i * 7)
	}
	label := sha256.Sum256(nil)
	copy(db, label[:])
	db[len(db)-len(chunk)-1] = 1
	copy(db[len(db)-len(chunk):], chunk)
	mask := func(dst, from []byte) {
		for i := 0; i < len(dst); i += sha256.Size {
			h := sha256.Sum256(append(bytes.Clone(from), 0, 0, 0, byte(i/sha256.Size)))
			for j := i; j < min(i+sha256.Size, len(dst)); j++ {
				dst[j] ^= h[j-i]
			}
		}
	}
	mask(db, seed)
	mask(seed, db)
	return em
}

// addBodies: how the Base64 is written and wrapped.
func addBodies(m vectorMaker) {
	plain := []byte(canonicalDeposit)
	sealed := m.seal("public", plain, 117)
	body := b64(sealed)
	if !strings.Contains(body, "+") || !strings.Contains(body, "/") || !strings.HasSuffix(body, "=") {
		panic("the body shows too little: " + body)
	}
	opens := func(name, body string) { m.add("public opens "+name, "public", body, "opens", plain) }
	refuses := func(name, body, result string) { m.add("public refuses "+name, "public", body, result, nil) }
	var lines []string
	for rest := body; rest != ""; {
		n := min(76, len(rest))
		lines, rest = append(lines, rest[:n]), rest[n:]
	}
	opens("lines of 76 characters, CRLF", strings.Join(lines, "\r\n")+"\r\n")
	opens("lines of 76 characters, LF", strings.Join(lines, "\n"))
	opens("white space around", " \t\r\n"+body+"\n ")
	opens("a form field", "data="+url.QueryEscape(body))
	opens("a JSON string", `"`+body+`"`)
	opens("a JSON string with escaped slashes", `"`+strings.ReplaceAll(body, "/", `\/`)+`"`)
	opens("a JSON object", `{"data":"`+body+`"}`)
	refuses("a space for plus", strings.ReplaceAll(body, "+", " "), "base64")
	refuses("a form field whose plus was not encoded", "data="+body, "base64")
	refuses("the URL alphabet", base64.URLEncoding.EncodeToString(sealed), "base64")
	refuses("Base64 without its padding", strings.TrimRight(body, "="), "base64")
	refuses("Base64 whose last bits are not 0", nonCanonical(body), "base64")
	refuses("a space inside", body[:40]+" "+body[40:], "base64")
	refuses("a tab inside", body[:40]+"\t"+body[40:], "base64")
	refuses("characters behind the padding", body+"AAAA", "base64")
	refuses("a JSON object with data twice", `{"data":"`+body+`","data":"`+body+`"}`, "form")
	refuses("a JSON object with Data", `{"Data":"`+body+`"}`, "form")
	refuses("a JSON array", `["`+body+`"]`, "base64")
	refuses("the plaintext itself", canonicalDeposit, "form")
	refuses("nothing", "", "length")
}

// nonCanonical sets a bit that the padding says does not count.
func nonCanonical(body string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	at := strings.IndexByte(body, '=') - 1
	return body[:at] + string(alphabet[strings.IndexByte(alphabet, body[at])|1]) + body[at+1:]
}

// addMessages: bodies that open, and what the plaintext is worth.
func addMessages(t *testing.T, m vectorMaker) {
	add := func(name, plain, message, binding string) {
		v := m.add("message: "+name, "public", b64(m.seal("public", []byte(plain), 117)), "opens", []byte(plain))
		v.Message, v.Binding = message, binding
	}
	bound := func(plain string, random byte) string {
		return string(bind(t, []byte(plain), [6]byte{random, 1, 2, 3, 4, 5}))
	}
	add("deposit", canonicalDeposit, "ok", "absent")
	add("deposit, bound", bound(canonicalDeposit, 1), "ok", "holds")
	add("deposit, one byte changed after binding", strings.Replace(bound(canonicalDeposit, 1), `"7.4"`, `"7.5"`, 1), "ok", "broken")
	add("deposit with txIndex -1", edit(`"txIndex":5`, `"txIndex":-1`), "ok", "absent")
	add("deposit with txIndex -2", edit(`"txIndex":5`, `"txIndex":-2`), "malformed", "absent")
	add("deposit with trackingId null", edit(`"trackingId":"17173049-0001"`, `"trackingId":null`), "malformed", "absent")
	add("deposit with a member twice", edit(`"business":0`, `"amount":"9","business":0`), "malformed", "absent")
	add("deposit with a case variant", edit(`"business":0`, `"Amount":"9","business":0`), "malformed", "absent")
	add("deposit with an exponent", edit(`"7.4"`, `"74e-1"`), "malformed", "absent")
	add("deposit with a sign", edit(`"7.4"`, `"-7.4"`), "malformed", "absent")
	add("deposit with an amount as number", edit(`"7.4"`, `7.4`), "malformed", "absent")
	add("deposit with trailing zeros", edit(`"7.4"`, `"7.400000000000000000"`), "ok", "absent")
	add("deposit with 79 digits", edit(`"7.4"`, `"`+strings.Repeat("7", 79)+`"`), "malformed", "absent")
	add("deposit with unknown members", edit(`"business":0`, `"memo":{"a":[1,2]},"business":0`), "ok", "absent")
	add("deposit with an unpaired surrogate", edit(`"65515"`, `"\ud800"`), "malformed", "absent")
	add("deposit with more behind it", canonicalDeposit+" {}", "malformed", "absent")
	add("deposit of invalid UTF-8", edit(`"65515"`, "\"\xc3\x28\""), "malformed", "absent")
	for typ := countersign.TypeRequestWithdraw; typ.Known(); typ++ {
		add(fmt.Sprintf("type %d", int(typ)), samples[typ], "ok", "absent")
	}
	add("type 4 with a trackingId", strings.Replace(samples[4], "null", `"T"`, 1), "ok", "absent")
	add("type 2 with trackingId null", strings.Replace(samples[2], `"102003"`, "null", 1), "malformed", "absent")
	add("type 0", strings.Replace(samples[6], `"type":6`, `"type":0`, 1), "unknown type", "absent")
	next := len(countersign.TypeUnknown.Values()) + 1
	add(fmt.Sprintf("type %d", next), strings.Replace(samples[6], `"type":6`, fmt.Sprintf(`"type":%d`, next), 1), "unknown type", "absent")
	add("type as a string", edit(`"type":1`, `"type":"1"`), "malformed", "absent")

	// Spliced pairs: the first block of one callback, the rest of another, in
	// the order of members that most services use.
	one, other := uuidFirst()
	small, large := string(one), string(other)
	add("splice, first of the pair", small, "ok", "absent")
	add("splice, second of the pair", large, "ok", "absent")
	add("splice, first block of the first, rest of the second", small[:117]+large[117:], "ok", "absent")
	smallBound, largeBound := bound(small, 1), bound(large, 2)
	add("bound splice, first of the pair", smallBound, "ok", "holds")
	add("bound splice, second of the pair", largeBound, "ok", "holds")
	add("bound splice, first block of the first, rest of the second", smallBound[:117]+largeBound[117:], "ok", "broken")
	add("bound, last block left out", bound(canonicalDeposit, 3)[:468], "malformed", "absent")
}

// addAnswers: answers to withdrawals whose details are bound by their blocks, or
// not (PROTOCOL.md, Decision, D7). Every one of them opens and parses.
func addAnswers(m vectorMaker) {
	const uuid, earlier = "47b8d46c-12c9-8d64-98a0-ad1fbb6d0c29", "0b7a1d15-3c46-8f0f-8f5e-6a0f1f4a2b11"
	const address, thief = "0x7054b0f980a7eb5b3a6b3446f3c947d80162775c", "0x7e1ef7e1ef7e1ef7e1ef7e1ef7e1ef7e1ef7e1e0"
	chunk := m.key.Size() - 11
	answer := func(callBackID, to, id string) string {
		return fmt.Sprintf(`{"type":2,"tenantUserId":"65515","callBackId":%q,"address":%q,"chainName":"ETH","symbol":"USDT","amount":"120.5","requestUUID":%q}`,
			callBackID, to, id)
	}
	add := func(name, details string, chunks ...string) {
		var sealed []byte
		for _, c := range chunks {
			sealed = append(sealed, m.seal("private", []byte(c), chunk)...)
		}
		m.add("answer: "+name, "private", b64(sealed), "opens", []byte(strings.Join(chunks, ""))).Details = details
	}
	asked := answer("order-12", address, uuid)
	if m.name == "rsa2048" {
		add("in one block", "bound", asked)
	} else {
		add("canonical, cut inside a detail", "unbound", asked)
		detailsFirst := func(callBackID, to, id string) string {
			return fmt.Sprintf(`{"address":%q,"chainName":"ETH","symbol":"USDT","amount":"120.5","type":2,"tenantUserId":"65515","callBackId":%q,"requestUUID":%q}`,
				to, callBackID, id)
		}
		add("spliced, first block of the answer to another order", "unbound", detailsFirst("order-34", thief, earlier)[:chunk], detailsFirst("order-12", address, uuid)[chunk:])
	}
	first, second := fmt.Sprintf(`{"callBackId":"order-12","address":%q,`, address), fmt.Sprintf(`"chainName":"ETH","symbol":"USDT","amount":"120.5","requestUUID":%q`, uuid)
	room := strings.Repeat(" ", chunk-len(first))
	rest := `,"type":2,"tenantUserId":"65515"}`
	add("in two groups", "bound", first+room+second+rest)
	add("in two groups, short chunks", "bound", first, second, rest)
	add("in two groups, the second cut before its end", "unbound", first, second[:len(second)-1], second[len(second)-1:]+rest)
	add("a detail in two blocks, both with an identifier", "unbound", first[:60], first[60:]+second+rest)
	add("a detail in a block of its own", "unbound", fmt.Sprintf(`{"callBackId":"order-12","address":%q`, address), `,"chainName":"ETH"`, second[len(`"chainName":"ETH"`):]+rest)
	add("callBackId inside an object does not bind", "unbound", fmt.Sprintf(`{"memo":{"callBackId":"order-12"},"address":%q,`, address),
		second+rest[:len(rest)-1]+`,"callBackId":"order-12"}`)
	add("an identifier with escapes and white space", "bound", fmt.Sprintf("{ \"call\\u0042ackId\" : \"order\\u002d12\" ,\"address\":%q,", address), second+rest)
}
