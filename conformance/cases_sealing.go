package conformance

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"countersign"
	"countersign/countersigntest"
)

// sealingCases are bodies with a wrong key or a fault in the sealing, and forms that a body may and may not have.
func sealingCases() []Case {
	return []Case{
		{701, Must, ours, "sealing/other-seal", "Sealing, S5",
			"A body sealed with another key and a message that is not sealed are refused.", nil,
			refuses(countersign.TypeDeposited, countersigntest.FaultOtherKey, countersigntest.FaultPlain)},
		{702, Must, money, "sealing/padding", "Sealing, S5",
			"Blocks of the other type, with a wrong byte in the padding or too little of it, and without data are refused.",
			[]*Need{NeedPKCS1}, mispadded},
		{708, Must, ours, "sealing/beyond-modulus", "Sealing, S5", "A block that is not below the modulus is refused.", nil,
			beyondModulus},
		{709, Must, ours, "sealing/blocks", "Sealing, S5",
			"A body with blocks that are cut off, repeated, swapped or added is refused.", nil, shuffled},
		{731, Should, ours, "form/other-forms", "Body forms, F2",
			"A form field, a JSON string and a JSON object are read; line ends are ignored.", nil, bodyForms},
		{736, Should, ours, "form/damaged", "Body forms, F2, F3",
			"Base64 that is damaged, in another alphabet or there twice is refused, not mended.", nil, damaged("mended",
				"not encoded", "two fields", "URL alphabet", "no padding", "more padding", "unused bits", "stray")},
		{739, Must, ours, "form/no-base64", "Body forms, F2",
			"Text that is not Base64 and a JSON object with the member data twice are refused.", nil, damaged("text",
				"two members")},
	}
}

// paddings are faults of a block before it is raised to the exponent, whose data begin at start.
var paddings = map[string]func(b []byte, start int){
	"in blocks of the other type": func(b []byte, _ int) { b[1] = 3 - b[1] },
	"whose blocks begin with 01":  func(b []byte, _ int) { b[0] = 1 },
	"with FE in the padding": func(b []byte, _ int) {
		if b[1] != 1 {
			skip("the padding of block type 2 may have any bytes")
		}
		b[6] = 0xfe
	},
	"with seven bytes of padding":                 func([]byte, int) {}, // by the longer chunks
	"whose data follows the padding without 00":   func(b []byte, start int) { b[start-1] = 0xff },
	"with an empty block in the middle of others": func([]byte, int) {},
}

// mispadded posts deposits with a filler, so that at least one block is full.
func mispadded(s *session) {
	s.each(slices.Sorted(maps.Keys(paddings)), func(way string) {
		q := s.attempt("a deposit "+way, s.deposit().add("memo", text(randomHex(s.raw.size/2))))
		size := s.cfg.Key.MaxChunk(s.cfg.Padding)
		if strings.Contains(way, "seven") {
			size++
		}
		chunks := slices.Collect(slices.Chunk(q.plaintext, size))
		if strings.Contains(way, "empty") {
			chunks = slices.Insert(chunks, 1, nil)
		}
		var blocks [][]byte
		for _, chunk := range chunks {
			blocks = append(blocks, s.raw.block(chunk, paddings[way]))
		}
		q.body = join(blocks)
		s.notOpened(s.send(q))
	})
}

// beyondModulus needs a block that has no more bytes after the modulus is added to it. With most keys a few attempts
// find one.
func beyondModulus(s *session) {
	for range 400 {
		q := s.attempt("a deposit, the modulus added to one block", s.deposit())
		blocks := s.blocks(q.plaintext)
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

// shuffles put the blocks of a correct body together wrongly.
var shuffles = map[string]func([][]byte) [][]byte{
	"without the last":   func(b [][]byte) [][]byte { return b[:len(b)-1] },
	"cut inside a block": func(b [][]byte) [][]byte { return append(b[:len(b)-1], b[len(b)-1][1:]) },
	"one of them twice":  func(b [][]byte) [][]byte { return slices.Insert(b, 1, b[1]) },
	"two of them swapped": func(b [][]byte) [][]byte {
		b[0], b[1] = b[1], b[0]
		return b
	},
	"a byte behind them":           func(b [][]byte) [][]byte { return append(b, []byte{0}) },
	"a block of zeros behind them": func(b [][]byte) [][]byte { return append(b, make([]byte, len(b[0]))) },
}

func shuffled(s *session) {
	s.each(slices.Sorted(maps.Keys(shuffles)), func(way string) {
		q := s.attempt("the blocks of a deposit, "+way, s.deposit())
		half := len(q.plaintext) / 2
		q.body = join(shuffles[way](s.blocks(q.plaintext[:half], q.plaintext[half:])))
		s.notOpened(s.send(q))
	})
}

// bodyForms posts a deposit in each form in which %s is the Base64 of its blocks, in a field percent-encoded.
func bodyForms(s *session) {
	s.each([]string{"data=%s", "v=1&data=%s&x=", `"%s"`, `{"data":"%s"}`, "\r\n %s \r\n"}, func(form string) {
		q := s.attempt(fmt.Sprintf("a deposit in the form %q", form), s.deposit())
		b64 := string(q.body)
		switch {
		case strings.Contains(form, "data="):
			b64 = url.QueryEscape(b64)
		case strings.HasPrefix(form, "\r\n"):
			b64 = b64[:76] + "\r\n" + b64[76:152] + "\r\n" + b64[152:]
		default:
			q.contentType = "application/json"
		}
		q.body = []byte(strings.Replace(form, "%s", b64, 1))
		s.takesBody(q)
	})
}

// damages are of the Base64 of a body that has every one of the characters.
var damages = map[string]struct {
	needs  string
	damage func(b64 string) string
}{
	"mended":       {"+", func(b64 string) string { return strings.ReplaceAll(b64, "+", " ") }},
	"not encoded":  {"+", func(b64 string) string { return "data=" + b64 }},
	"two fields":   {"", func(b64 string) string { return strings.Repeat("&data="+url.QueryEscape(b64), 2)[1:] }},
	"URL alphabet": {"+/", func(b64 string) string { return strings.NewReplacer("+", "-", "/", "_").Replace(b64) }},
	"no padding":   {"=", func(b64 string) string { return strings.TrimRight(b64, "=") }},
	"more padding": {"=", func(b64 string) string { return b64 + "=" }},
	"unused bits":  {"=", unusedBits},
	"stray":        {"", func(b64 string) string { return b64[:40] + "*" + b64[40:] }},
	"text":         {"", func(string) string { return "hello, merchant!" }},
	"two members":  {"", func(b64 string) string { return `{"data":"` + b64 + `","data":"` + b64 + `"}` }},
}

// unusedBits sets a bit that the padding leaves unused: the last of those is 0, and the next character is in the
// alphabet.
func unusedBits(b64 string) string {
	b := []byte(b64)
	b[len(strings.TrimRight(b64, "="))-1]++
	return string(b)
}

func damaged(ways ...string) func(*session) {
	return func(s *session) {
		s.each(ways, func(way string) {
			d := damages[way]
			if d.needs == "=" && s.cfg.Key.Size()%3 == 0 {
				skip("bodies of this key (%d bits) need no padding in Base64", s.cfg.Key.Bits())
			}
			for range 100 {
				q := s.attempt("a deposit whose Base64 was damaged: "+way, s.deposit())
				if d.needs == "=" && !bytes.Contains(q.body, []byte("=")) {
					// Another number of blocks may need another padding.
					half := len(q.plaintext) / 2
					q = s.inChunks(q, q.plaintext[:1], q.plaintext[1:half], q.plaintext[half:])
				}
				if !strings.ContainsFunc(d.needs, func(c rune) bool { return !bytes.ContainsRune(q.body, c) }) {
					q.body = []byte(d.damage(string(q.body)))
					s.notOpened(s.send(q))
					return
				}
			}
			skip("no body of this key with the characters %q was found", d.needs)
		})
	}
}

// refuses is a case in which a callback of type t with each of the faults must be refused, as PROTOCOL.md has it.
func refuses(t countersign.Type, faults ...countersigntest.ServiceFault) func(*session) {
	return func(s *session) {
		var names []string
		for _, f := range faults {
			names = append(names, string(f))
		}
		s.each(names, func(name string) {
			f := countersigntest.ServiceFault(name)
			r := s.faulty(t, s.subject(t), f)
			switch refusal := f.Refusal(); refusal {
			case "400":
				s.notOpened(r)
			case "401":
				s.turnedAway(r, http.StatusUnauthorized)
			case "1004":
				s.judged(r, countersign.CodeWrongURL)
			default:
				s.notSigned(r, refusal)
			}
		})
	}
}
