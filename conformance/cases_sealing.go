package conformance

import (
	"bytes"
	"net/url"
	"slices"
	"strings"

	"countersign"
	"countersign/countersigntest"
)

// sealingCases are bodies with a wrong key or a fault in the sealing. None may be
// accepted.
func sealingCases() []Case {
	pkcs1 := []*Need{NeedPKCS1}
	return []Case{
		{701, Must, "sealing/other-key", "Sealing, S5", "A body sealed with another key is refused.", nil, refuses(countersign.TypeDeposited, countersigntest.FaultOtherKey)},
		{702, Must, "sealing/other-block-type", "Sealing, S5", "A block of the other type is refused.", pkcs1,
			mispadded("in blocks of the other type", 0, func(b []byte, _ int) { b[1] = 3 - b[1] })},
		{703, Must, "sealing/first-byte", "Sealing, S5", "A block whose first byte is not 00 is refused.", pkcs1, mispadded("whose blocks begin with 01", 0, func(b []byte, _ int) { b[0] = 1 })},
		{704, Must, "sealing/padding-bytes", "Sealing, S5", "A byte other than FF in the padding of type 1 is refused.", pkcs1,
			mispadded("with FE in the padding", 0, func(b []byte, _ int) {
				if b[1] != 1 {
					skip("the padding of block type 2 may have any bytes")
				}
				b[6] = 0xfe
			})},
		{705, Must, "sealing/short-padding", "Sealing, S5", "Seven bytes of padding are refused.", pkcs1, mispadded("with seven bytes of padding", 1, func([]byte, int) {})},
		{706, Must, "sealing/no-separator", "Sealing, S5", "A block without the 00 after its padding is refused.", pkcs1,
			mispadded("whose data follows the padding without 00", 0, func(b []byte, data int) { b[data-1] = 0xff })},
		{707, Must, "sealing/empty-block", "Sealing, S5", "A body with a block without data is refused.", pkcs1, emptyBlock},
		{708, Must, "sealing/beyond-modulus", "Sealing, S5", "A block that is not below the modulus is refused.", nil, beyondModulus},
		{709, Must, "sealing/cut-block", "Sealing, S5", "A body without its last block is refused.", nil,
			shuffled(func(b [][]byte) [][]byte { return b[:len(b)-1] })},
		{710, Must, "sealing/cut-inside-block", "Sealing, S5", "A body cut inside a block is refused.", nil,
			shuffled(func(b [][]byte) [][]byte {
				last := b[len(b)-1]
				return append(b[:len(b)-1:len(b)-1], last[:len(last)-1])
			})},
		{711, Must, "sealing/repeated-block", "Sealing, S5", "A body with a block twice is refused.", nil,
			shuffled(func(b [][]byte) [][]byte { return append(b[:2:2], b[1:]...) })},
		{712, Must, "sealing/swapped-blocks", "Sealing, S5", "A body with two blocks swapped is refused.", nil,
			shuffled(func(b [][]byte) [][]byte { b[0], b[1] = b[1], b[0]; return b })},
		{713, Must, "sealing/extra-bytes", "Sealing, S5", "Bytes behind the last block are refused.", nil,
			shuffled(func(b [][]byte) [][]byte { return append(b, []byte{0}) })},
		{714, Must, "sealing/zero-block", "Sealing, S5", "A block of zeros behind the others is refused.", nil,
			shuffled(func(b [][]byte) [][]byte { return append(b, make([]byte, len(b[0]))) })},
		{715, Must, "sealing/plain-json", "Body forms, F2", "A message that is not sealed is refused.", nil, refuses(countersign.TypeDeposited, countersigntest.FaultPlain)},
	}
}

// mispadded is a case in which a deposit with a filler, so that at least one block is full, comes in blocks that hold so
// many bytes of data more than is allowed, and are damaged before they are raised: data is where their data begins.
func mispadded(what string, more int, damage func(b []byte, data int)) func(*session) {
	return func(s *session) {
		s.advice = "Check the padding of every block byte by byte: 00, the type, at least eight FF, 00, data."
		q := s.attempt("a deposit "+what, s.deposit().add("memo", text(randomHex(s.raw.size/2))))
		var blocks [][]byte
		for data := range slices.Chunk(q.plaintext, s.cfg.Key.MaxChunk(s.cfg.Padding)+more) {
			b := s.raw.pad(data)
			damage(b, len(b)-len(data))
			blocks = append(blocks, s.raw.block(b))
		}
		q.body = join(blocks)
		s.notOpened(s.send(q))
	}
}

func emptyBlock(s *session) {
	s.advice = "Refuse a block without data."
	q := s.attempt("a deposit with an empty block in the middle", s.deposit())
	empty := s.raw.block(s.raw.pad(nil))
	q.body = join(slices.Insert(s.sealChunks(q.plaintext), 1, empty))
	s.notOpened(s.send(q))
}

// beyondModulus needs a block that still has k bytes after the modulus is added
// to it. With most keys a few attempts find one.
func beyondModulus(s *session) {
	s.advice = "Compare every block with the modulus before the exponentiation."
	for range 400 {
		q := s.attempt("a deposit, the modulus added to one block", s.deposit())
		blocks := s.sealChunks(q.plaintext)
		for i := range blocks {
			if b, ok := s.raw.beyond(blocks[i]); ok {
				blocks[i] = b
				q.body = join(blocks)
				s.notOpened(s.send(q))
				return
			}
		}
	}
	skip("no such block was found: the modulus of this key is too close to a power of 2")
}

// shuffled is a case in which the blocks of a correct body are put together
// wrongly.
func shuffled(change func([][]byte) [][]byte) func(*session) {
	return func(s *session) {
		s.advice = "Open every block, take whole blocks only, and parse the whole strictly."
		q := s.attempt("a deposit whose blocks were tampered with", s.deposit())
		half := len(q.plaintext) / 2
		q.body = join(change(s.sealChunks(q.plaintext[:half], q.plaintext[half:])))
		s.notOpened(s.send(q))
	}
}

// formCases are the forms that a body may and may not have.
func formCases() []Case {
	return []Case{
		{731, Should, "form/field", "Body forms, F2", "A form whose field data is the percent-encoded Base64 is read.", nil,
			takesForm("application/x-www-form-urlencoded", func(b64 string) string { return "data=" + url.QueryEscape(b64) })},
		{732, Should, "form/field-among-others", "Body forms, F2", "Other fields of the form have no effect.", nil,
			takesForm("application/x-www-form-urlencoded", func(b64 string) string { return "v=1&data=" + url.QueryEscape(b64) + "&x=" })},
		{733, Should, "form/json-string", "Body forms, F2", "A JSON string is read.", nil,
			takesForm("application/json", func(b64 string) string { return text(b64) })},
		{734, Should, "form/json-object", "Body forms, F2", "A JSON object with a member data is read.", nil,
			takesForm("application/json", func(b64 string) string { return `{"data":` + text(b64) + `}` })},
		{735, Should, "form/line-ends", "Sealing, S5", "Line ends in the Base64 and white space around it are ignored.", nil,
			takesForm("", func(b64 string) string { return "\r\n " + wrapped(b64) + " \r\n" })},
		{736, Should, "form/plus-turned-into-space", "Body forms, F3", "A body in which a form parser turned + into a space is refused, not mended.", nil,
			refusesForm("+", func(b64 string) string { return strings.ReplaceAll(b64, "+", " ") })},
		{737, Should, "form/field-not-encoded", "Body forms, F3", "A form field whose + was not encoded is refused.", nil,
			refusesForm("+", func(b64 string) string { return "data=" + b64 })},
		{738, Should, "form/two-fields", "Body forms, F2", "A form with the field data twice is refused.", nil,
			refusesForm("", func(b64 string) string { return "data=" + url.QueryEscape(b64) + "&data=" + url.QueryEscape(b64) })},
		{739, Must, "form/two-members", "Body forms, F2", "A JSON object with the member data twice is refused.", nil,
			refusesForm("", func(b64 string) string { return `{"data":` + text(b64) + `,"data":` + text(b64) + `}` })},
		{740, Should, "form/url-alphabet", "Sealing, S5", "The URL alphabet of Base64 is refused.", nil,
			refusesForm("+/", func(b64 string) string { return strings.NewReplacer("+", "-", "/", "_").Replace(b64) })},
		{741, Should, "form/no-padding", "Sealing, S5", "Base64 without its padding is refused.", nil,
			refusesForm("=", func(b64 string) string { return strings.TrimRight(b64, "=") })},
		{742, Should, "form/more-padding", "Sealing, S5", "Base64 with more after its padding is refused.", nil,
			refusesForm("=", func(b64 string) string { return b64 + "=" })},
		{743, Should, "form/unused-bits", "Sealing, S5", "Base64 whose unused bits are not 0 is refused.", nil, refusesForm("=", unusedBits)},
		{744, Should, "form/stray-character", "Sealing, S5", "A character outside the Base64 alphabet is refused.", nil,
			refusesForm("", func(b64 string) string { return b64[:40] + "*" + b64[40:] })},
		{745, Must, "form/not-base64", "Sealing, S5", "Text that is not Base64 is refused.", nil,
			refusesForm("", func(string) string { return "hello, merchant!" })},
	}
}

func wrapped(b64 string) string {
	var b strings.Builder
	for len(b64) > 76 {
		b.WriteString(b64[:76] + "\r\n")
		b64 = b64[76:]
	}
	return b.String() + b64
}

// unusedBits sets a bit that the padding leaves unused.
func unusedBits(b64 string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	core := strings.TrimRight(b64, "=")
	last := strings.IndexByte(alphabet, core[len(core)-1])
	return core[:len(core)-1] + alphabet[last+1:last+2] + b64[len(core):]
}

func takesForm(contentType string, change func(string) string) func(*session) {
	return func(s *session) {
		s.advice = "See PROTOCOL.md, Body forms: bare Base64, a form field, a JSON string, a JSON object."
		q := s.attempt("a deposit in another body form", s.deposit())
		q.contentType = contentType
		q.body = []byte(change(string(q.body)))
		s.takesBody(q)
	}
}

// refusesForm changes a body that holds every character of needs.
func refusesForm(needs string, change func(string) string) func(*session) {
	return func(s *session) {
		s.advice = "Read the raw body, and decode standard Base64 strictly; mend nothing."
		if needs == "=" && s.cfg.Key.Size()%3 == 0 {
			skip("bodies of this key (%d bits) need no padding in Base64", s.cfg.Key.Bits())
		}
		for range 100 {
			q := s.attempt("a deposit whose Base64 was damaged", s.deposit())
			if needs == "=" && !bytes.Contains(q.body, []byte("=")) {
				// Another number of blocks may need another padding.
				half := len(q.plaintext) / 2
				q = s.inChunks(q, q.plaintext[:1], q.plaintext[1:half], q.plaintext[half:])
			}
			if !strings.ContainsFunc(needs, func(c rune) bool { return !bytes.ContainsRune(q.body, c) }) {
				q.body = []byte(change(string(q.body)))
				s.notOpened(s.send(q))
				return
			}
		}
		skip("no body with the characters %q was found", needs)
	}
}
