package conformance

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"regexp"
	"slices"

	"countersign"
	"countersign/envelope"
)

// member is one member of a message, its value as JSON text. Messages are made
// of text, not of the root package's types, because those types refuse to write
// most of the messages that the cases send.
type member struct{ name, value string }

type message []member

// text is s as a JSON string.
func text(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always marshals
	}
	return string(b)
}

// set returns a copy in which the member called name has that value. A new member
// stands before requestUUID.
func (m message) set(name, value string) message {
	c := slices.Clone(m)
	for i := range c {
		if c[i].name == name {
			c[i].value = value
			return c
		}
	}
	return slices.Insert(c, len(c)-1, member{name, value})
}

// with sets the members of pairs of name and value.
func (m message) with(pairs []string) message {
	for pair := range slices.Chunk(pairs, 2) {
		m = m.set(pair[0], pair[1])
	}
	return m
}

// add puts one more member before requestUUID, even if the name is there already.
func (m message) add(name, value string) message {
	return slices.Insert(slices.Clone(m), len(m)-1, member{name, value})
}

func (m message) drop(name string) message {
	return slices.DeleteFunc(slices.Clone(m), func(e member) bool { return e.name == name })
}

func (m message) reversed() message {
	c := slices.Clone(m)
	slices.Reverse(c)
	return c
}

// get is the value of a member, "" if there is none.
func (m message) get(name string) string {
	for _, e := range m {
		if e.name == name {
			return e.value
		}
	}
	return ""
}

// str is the text of a member that is a string.
func (m message) str(name string) string {
	var s string
	_ = json.Unmarshal([]byte(m.get(name)), &s) // null and absent are ""
	return s
}

func (m message) bytes() []byte {
	b := []byte{'{'}
	for i, e := range m {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, text(e.name)...)
		b = append(b, ':')
		b = append(b, e.value...)
	}
	return append(b, '}')
}

// unbound finds the member requestUUID while it is not bound. The zeros alone would also be found
// in other members: the address that a mint comes from has forty.
var unbound = regexp.MustCompile(`"requestUUID"\s*:\s*"(` + countersign.UnboundUUID + `)"`)

// bind replaces the unbound requestUUID with one that is bound to the
// rest (PROTOCOL.md, Binding) or with a random one of version 4. It also works
// on bytes that are not JSON: a case about duplicate members proves nothing if
// the endpoint refuses the message for its binding.
func bind(plain []byte, bound bool) ([]byte, string) {
	all := unbound.FindAllSubmatchIndex(plain, -1)
	if len(all) == 0 {
		return plain, ""
	}
	i := all[len(all)-1][2] // a message ends with it; one before is inside another member
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	version := byte(0x40)
	if bound {
		version = 0x80
		h := sha256.New()
		h.Write([]byte("countersign request binding 1\n"))
		h.Write(id[:6])
		h.Write(plain)
		copy(id[6:], h.Sum(nil))
	}
	id[6] = version | id[6]&0x0f
	id[8] = 0x80 | id[8]&0x3f
	x := hex.EncodeToString(id[:])
	uuid := x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:]
	out := bytes.Clone(plain)
	copy(out[i:], uuid)
	return out, uuid
}

// rawKey is the service's part of a key as numbers, for blocks that package
// envelope refuses to make. Its operations need not take constant time: the key
// belongs to the person who runs the cases.
type rawKey struct {
	n, exp *big.Int
	size   int
	kind   byte // of its blocks: 1 where the private part seals, 2 where the public part does
}

func newRawKey(key *envelope.Key) (rawKey, error) {
	armoured, parse := key.PublicPEM(), x509.ParsePKIXPublicKey
	if key.HasPrivate() {
		var err error
		if armoured, err = key.PrivatePEM(); err != nil {
			return rawKey{}, err
		}
		parse = x509.ParsePKCS8PrivateKey
	}
	block, _ := pem.Decode(armoured)
	parsed, err := parse(block.Bytes)
	if err != nil {
		return rawKey{}, err
	}
	if p, private := parsed.(*rsa.PrivateKey); private {
		return rawKey{p.N, p.D, key.Size(), 1}, nil
	}
	p := parsed.(*rsa.PublicKey)
	return rawKey{p.N, big.NewInt(int64(p.E)), key.Size(), 2}, nil
}

// block raises padded, k bytes below the modulus, to the exponent.
func (r rawKey) block(padded []byte) []byte {
	v := new(big.Int).SetBytes(padded)
	return v.Exp(v, r.exp, r.n).FillBytes(make([]byte, r.size))
}

// pad makes a block of k bytes: 00, the type, FF repeated, 00, data.
func (r rawKey) pad(data []byte) []byte {
	b := bytes.Repeat([]byte{0xff}, r.size)
	b[0], b[1] = 0, r.kind
	b[r.size-len(data)-1] = 0
	copy(b[r.size-len(data):], data)
	return b
}

// beyond returns block plus the modulus, if the sum has k bytes. An opener that
// does not check the range opens it like block.
func (r rawKey) beyond(block []byte) ([]byte, bool) {
	v := new(big.Int).Add(new(big.Int).SetBytes(block), r.n)
	if v.BitLen() > 8*r.size {
		return nil, false
	}
	return v.FillBytes(make([]byte, r.size)), true
}

// sealWith seals plain in full chunks. It skips the case if the key cannot carry the
// message.
func sealWith(key *envelope.Key, p envelope.Padding, plain []byte) []byte {
	body, err := envelope.Seal(key, p, plain)
	if err != nil {
		skip("the key cannot carry this message: %v", err)
	}
	return body
}

// sealChunks returns the blocks of the chunks, each chunk in blocks of its own.
func (s *session) sealChunks(chunks ...[]byte) [][]byte {
	var blocks [][]byte
	for _, c := range chunks {
		sealed := sealWith(s.cfg.Key, s.cfg.Padding, c)
		raw, err := base64.StdEncoding.AppendDecode(nil, sealed)
		if err != nil {
			panic(err) // Seal writes standard Base64
		}
		blocks = slices.AppendSeq(blocks, slices.Chunk(raw, s.cfg.Key.Size()))
	}
	return blocks
}

// join is the body of blocks.
func join(groups ...[][]byte) []byte {
	return base64.StdEncoding.AppendEncode(nil, bytes.Join(slices.Concat(groups...), nil))
}

// cutAt cuts plain before each of the marks, which stand in it in that order.
func cutAt(plain []byte, marks ...string) [][]byte {
	var chunks [][]byte
	for _, mark := range marks {
		i := bytes.Index(plain, []byte(mark))
		chunks = append(chunks, plain[:i])
		plain = plain[i:]
	}
	return append(chunks, plain)
}
