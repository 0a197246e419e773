package envelope

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Explanation is what Explain found out about a body. It is for the person who holds the key. Never
// send it to a peer: it shows what ErrOpen hides.
type Explanation struct {
	Form        BodyForm           // the form that the Base64 came in
	Field       string             // the field or member that carried it; "" for data, or none
	BodyBytes   int                // of the body
	SealedBytes int                // the decoded Base64; 0 if it cannot be decoded
	Key         string             // Key.String; "" without a key
	Direction   string             // what opening with this key does; "" without a key
	BlockBytes  int                // Key.Size; 0 without a key
	Blocks      []BlockExplanation // one for each whole block; none without a key
	Plaintext   []byte             // nil unless the whole body opens
	Err         error              // why the body does not open; nil if it opens or there was no key
	Hints       []string           // short sentences: why the body does not open and what to try, the likeliest cause first
}

// BlockExplanation is one block of an Explanation.
type BlockExplanation struct {
	Index        int    // from 0
	Offset       int    // of its first byte in the sealed bytes
	InRange      bool   // its value is below the modulus
	Type         int    // 1 or 2 of PKCS#1 v1.5; 0 for OAEP; -1 for none of them
	OtherPart    bool   // it opens with the part that does not open this direction
	Lead         string // the first four bytes in hexadecimal, where the public part opened it
	PaddingBytes int    // FF or random bytes; 0 if unknown, and with OAEP
	DataBytes    int    // plaintext in it; 0 if it does not open
	Problem      string // "" if the block is sound
}

// reasonUnpadded is the reason for blocks made by raw RSA. Only an explanation has it.
const reasonUnpadded = "it holds text without any padding"

// Explain describes as much of body as can be read: its form, its blocks and the plaintext. If key is nil, it explains
// only what needs no key. It never fails. The explanation holds the plaintext, but of the key only what Key.String
// returns.
func Explain(key *Key, p Padding, body []byte) *Explanation {
	e := &Explanation{BodyBytes: len(body)}
	inner, form, err := Unwrap(body)
	e.Form = form
	if key.ready() {
		e.Key, e.BlockBytes, e.Direction = key.String(), key.Size(), direction(key, p)
	}
	if e.Hints = diagnoseText(body, inner, err); err != nil {
		e.Err = err
		return e
	}
	sealed, err := decodeBody(inner)
	if err != nil {
		if e.Err = err; e.Hints == nil {
			e.Hints = []string{hintFor(err)}
		}
		return e
	}
	e.SealedBytes = len(sealed)
	if key.ready() {
		e.Blocks = explainBlocks(key, p, sealed)
		if e.Plaintext, e.Err = Open(key, p, inner); e.Err == nil {
			e.Hints = nil
			return e
		}
	}
	if e.Hints == nil {
		e.Hints = e.diagnoseSealed(key, p, sealed)
	}
	return e
}

func direction(key *Key, p Padding) string {
	switch {
	case p == OAEP && key.HasPrivate():
		return "the private part opens OAEP blocks"
	case p == OAEP:
		return "the public part seals OAEP blocks and opens none"
	case key.HasPrivate():
		return "the private part opens blocks of type 2"
	default:
		return "the public part opens blocks of type 1"
	}
}

func explainBlocks(key *Key, p Padding, sealed []byte) []BlockExplanation {
	op := newPublicOperation(key.p())
	var blocks []BlockExplanation
	for start := 0; start+key.p().size <= len(sealed); start += key.p().size {
		b := BlockExplanation{Index: len(blocks), Offset: start, Type: -1}
		block := sealed[start : start+key.p().size]
		if b.InRange = op.inRange(block); !b.InRange {
			b.Problem = reasonRange
		} else if key.HasPrivate() {
			explainPrivate(&b, op, key, p, block)
		} else {
			explainPublic(&b, op.raise(block), p)
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// explainPublic fills in what an encoded block shows.
func explainPublic(b *BlockExplanation, encoded []byte, p Padding) {
	b.Lead = fmt.Sprintf("% x", encoded[:4])
	data, reason := type1Data(encoded)
	b.DataBytes = len(data)
	switch {
	case encoded[0] == 0 && encoded[1] == 1:
		b.Type = 1
		b.PaddingBytes = len(encoded[2:]) - len(bytes.TrimLeft(encoded[2:], "\xff"))
	case encoded[0] == 0 && encoded[1] == 2:
		// One block in 65,536 of another pair begins like this too, so only
		// valid padding counts.
		if end := bytes.IndexByte(encoded[2:], 0); end >= 8 {
			b.Type, b.PaddingBytes = 2, end
			reason = "it is of block type 2, where the public part opens type 1"
		}
	case isUnpadded(encoded):
		reason = reasonUnpadded
	}
	b.Problem = reason
	if p == OAEP {
		b.Problem = "the public part opens no OAEP"
	}
}

// explainPrivate tries to open the block as the private part should, then in
// other ways.
func explainPrivate(b *BlockExplanation, op *publicOperation, key *Key, p Padding, block []byte) {
	if data, err := key.p().openPrivate(p, block); err == nil {
		b.setOpened(p, key, data)
		if len(data) == 0 {
			b.Problem = reasonNoData
		}
		return
	}
	other := OAEP
	if p == OAEP {
		other = PKCS1v15
	}
	if data, err := key.p().openPrivate(other, block); err == nil && len(data) > 0 {
		b.setOpened(other, key, data)
		b.Problem = fmt.Sprintf("it opens with padding %v, not %v", other, p)
		return
	}
	encoded := op.raise(block)
	if data, reason := type1Data(encoded); reason == "" {
		explainPublic(b, encoded, PKCS1v15)
		b.OtherPart = true
		b.DataBytes = len(data)
		b.Problem = "it was sealed with the private part, so the public part opens it"
		return
	}
	b.Problem = "it does not open with either part of this pair, whatever the padding"
}

func (b *BlockExplanation) setOpened(p Padding, key *Key, data []byte) {
	b.DataBytes = len(data)
	b.Type = 0
	if p == PKCS1v15 {
		b.Type, b.PaddingBytes = 2, key.p().size-3-len(data)
	}
}

// isUnpadded reports whether an encoded block is plain text after zeros, as raw
// RSA without padding makes it.
func isUnpadded(encoded []byte) bool {
	text := bytes.TrimLeft(encoded, "\x00")
	return len(text) >= 8 && isText(text)
}

// isText reports whether b could be a piece of JSON: printable UTF-8, with a
// character cut in two at either end allowed.
func isText(b []byte) bool {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		broken := r == utf8.RuneError && n == 1 && i >= utf8.UTFMax && i+utf8.UTFMax <= len(b)
		if broken || r != utf8.RuneError && !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			return false
		}
		i += n
	}
	return true
}

// String renders e in lines for a terminal.
func (e *Explanation) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "body       %d bytes, %v", e.BodyBytes, e.Form)
	if e.Field != "" && e.Field != member {
		fmt.Fprintf(&s, ", in %s", e.Field)
	}
	s.WriteByte('\n')
	if e.SealedBytes > 0 {
		fmt.Fprintf(&s, "sealed     %d bytes", e.SealedBytes)
		if e.BlockBytes > 0 {
			fmt.Fprintf(&s, " = %d × %d", e.SealedBytes/e.BlockBytes, e.BlockBytes)
			if rest := e.SealedBytes % e.BlockBytes; rest > 0 {
				fmt.Fprintf(&s, " + %d", rest)
			}
		}
		s.WriteByte('\n')
	}
	if e.Key != "" {
		fmt.Fprintf(&s, "key        %s\n           %s\n", e.Key, e.Direction)
	}
	for _, b := range e.Blocks {
		fmt.Fprintf(&s, "block %-4d at %-5d %s\n", b.Index, b.Offset, b.describe())
	}
	switch {
	case e.Err != nil:
		fmt.Fprintf(&s, "result     %v\n", e.Err)
	case e.Plaintext != nil:
		fmt.Fprintf(&s, "result     opens, %d bytes\n", len(e.Plaintext))
		if utf8.Valid(e.Plaintext) {
			fmt.Fprintf(&s, "plaintext  %s\n", printable(e.Plaintext))
		} else {
			fmt.Fprintf(&s, "plaintext  not UTF-8: %q\n", e.Plaintext)
		}
	}
	for _, h := range e.Hints {
		fmt.Fprintf(&s, "try        %s\n", h)
	}
	return s.String()
}

func (b BlockExplanation) describe() string {
	var s strings.Builder
	switch b.Type {
	case 0:
		fmt.Fprintf(&s, "OAEP, %d bytes of data", b.DataBytes)
	case 1, 2:
		fmt.Fprintf(&s, "00 %02d, %d padding, 00, %d bytes of data", b.Type, b.PaddingBytes, b.DataBytes)
	default:
		s.WriteString("no block type")
		if b.Lead != "" {
			fmt.Fprintf(&s, ", starts %s", b.Lead)
		}
	}
	if b.Problem != "" {
		fmt.Fprintf(&s, "; %s", b.Problem)
	}
	return s.String()
}

// printable replaces control characters: the text is a peer's and must not
// control the terminal.
func printable(text []byte) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, string(text))
}
