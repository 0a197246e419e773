package conformance

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
)

// httpCases are about the transport around the sealed body.
func httpCases() []Case {
	var keys = []way{withKey("none", func(string) string { return "" }),
		withKey("another", func(k string) string { return strings.Repeat("x", len(k)) }),
		withKey("a longer one", func(k string) string { return k + "x" }),
		withKey("the beginning of the right one", func(k string) string { return k[:len(k)-1] }),
		withKey("the right one in another case", otherCase)}
	return []Case{
		{601, Should, ours, "http/other-method", "HTTP, H2", "A method other than POST is answered with status 405.", nil,
			posts(1, status(http.StatusMethodNotAllowed), method(http.MethodGet, countersign.LaneNotify),
				method(http.MethodGet, countersign.LaneWithdraw), method(http.MethodPut, countersign.LaneNotify),
				method(http.MethodDelete, countersign.LaneWithdraw))},
		{602, Must, money, "http/api-key", "HTTP, H2",
			"A request without X-API-KEY, or with one that differs in any way, is answered with status 401.",
			[]*Need{NeedCallbackKey}, inTurn(posts(1, status(http.StatusUnauthorized), keys...),
				posts(2, status(http.StatusUnauthorized), keys...))},
		{607, Should, ours, "http/any-content-type", "Body forms, F1", "The Content-Type has no effect on a bare body.",
			nil, posts(1, (*session).taken, contentType("-"), contentType("text/plain"), contentType("application/json"),
				contentType("application/octet-stream"), contentType("application/x-www-form-urlencoded; charset=UTF-8"),
				contentType("multipart/form-data; boundary=x"))},
		{608, Should, ours, "http/chunked", "HTTP, H2", "A body without a Content-Length is read.", nil,
			posts(1, (*session).taken, way{"in a chunked body",
				func(_ *session, q *request) { q.stream = bytes.NewReader(q.Sealed) }})},
		{609, Should, ours, "http/largest", "HTTP, H2",
			"A body of exactly 65,536 bytes is read, and a message that fills one is accepted.", nil,
			posts(1, (*session).taken, padded(envelope.MaxBody), way{"as long as the largest body carries",
				func(s *session, q *request) {
					room := s.cfg.Key.MaxPlaintext(s.cfg.Padding) - len(q.m.add("memo", `""`).bytes())
					*q = s.attempt(q.what, q.m.add("memo", text(strings.Repeat("m", room))))
				}})},
		{611, Should, ours, "http/too-large", "HTTP, H2",
			"A body of 65,537 bytes is answered with status 413, whatever is in it.", nil,
			posts(1, status(http.StatusRequestEntityTooLarge), padded(envelope.MaxBody+1))},
		{612, Must, ours, "http/endless", "HTTP, H2", "A body without end is cut off.", nil, posts(1, cutOff,
			way{"in a body without end", func(s *session, q *request) {
				padded(4<<20).make(s, q) // it has an end: the case must not flood a network
				q.stream = bytes.NewReader(q.Sealed)
			}})},
		{613, Should, ours, "http/slow-body", "HTTP, H2",
			"A body that stops half-way is given up, and delays no other request.", nil, slowBody},
		{615, Must, ours, "http/wrong-url", "Error codes, 1004",
			"Types 1 and 3 at the withdraw URL and type 2 at the notify URL get errCode 1004 and have no effect.", nil,
			inTurn(refuses(1, countersigntest.FaultWrongURL), refuses(3, countersigntest.FaultWrongURL),
				refuses(2, countersigntest.FaultWrongURL))},
		{619, Must, ours, "http/public-part-alone", "Keys, K8",
			"With a pair that the merchant made, a request without X-API-KEY is answered with status 401.",
			[]*Need{NeedOwnPair}, refuses(1, countersigntest.FaultNoAPIKey)},
	}
}

var empty = way{"in an empty body", func(_ *session, q *request) { q.Plaintext, q.Sealed = nil, nil }}

func method(name string, to countersign.Lane) way {
	return way{"by " + name + " to the " + to.String() + " URL", func(s *session, q *request) {
		if name != http.MethodPut {
			empty.make(s, q)
		}
		q.method, q.to = name, to
	}}
}

func withKey(name string, change func(right string) string) way {
	return way{"whose X-API-KEY is " + name, func(s *session, q *request) {
		key := countersign.APIKey(change(s.cfg.CallbackAPIKey.Reveal()))
		if key == s.cfg.CallbackAPIKey {
			skip("the callback API key has no letters")
		}
		q.APIKey = key
	}}
}

func contentType(t string) way {
	return way{"with the Content-Type " + t, func(_ *session, q *request) { q.ContentType = t }}
}

// padded adds line ends to the body, up to n bytes.
func padded(n int) way {
	return way{"in a body that is filled up to " + strconv.Itoa(n) + " bytes with line ends",
		func(_ *session, q *request) {
			q.Sealed = append(slices.Clip(q.Sealed), bytes.Repeat([]byte("\n"), n-len(q.Sealed))...)
		}}
}

// cutOff accepts a closed connection, too: the response of an endpoint that stops reading may not arrive.
func cutOff(s *session, r *reply) {
	s.expectNothing(r.request)
	if r.err == nil || errors.Is(r.err, context.DeadlineExceeded) {
		status(http.StatusRequestEntityTooLarge)(s, r)
	}
}

// slowBody sends half of the announced bytes and then nothing. The half holds the whole deposit, which shows
// whether the endpoint ignores the length. It must serve others meanwhile, and end the exchange itself.
func slowBody(s *session) {
	q := s.attempt("half of a body", s.deposit())
	padded(envelope.MaxBody).make(s, &q)
	s.expect(q, 0)
	never, end := io.Pipe()
	defer end.Close()
	q.stream, q.length = io.MultiReader(bytes.NewReader(q.Sealed[:len(q.Sealed)/2]), never), len(q.Sealed)
	r := &reply{request: q}
	req, err := s.newRequest(s.ctx, r)
	if err != nil {
		skip("the request cannot be made: %v", err)
	}
	// No http.Client sees that a connection ended while it waits for the rest of a body.
	conn, err := s.dial(s.ctx, req.URL)
	r.err = err
	arrived(r)
	if req.URL.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: req.URL.Hostname()})
	}
	_ = conn.SetDeadline(time.Now().Add(s.cfg.SlowBody))
	defer context.AfterFunc(s.ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	go func() { _ = req.Write(conn) }() // a connection that the endpoint closed ends the reading too
	ended := make(chan struct{})        // by the endpoint
	go func() {
		defer close(ended)
		resp, err := http.ReadResponse(bufio.NewReader(conn), req)
		if r.err = err; err == nil {
			s.receive(r, resp)
		}
	}()
	v := catch(func() { s.takes("a deposit while another request hangs", s.deposit()) })
	if v == nil {
		<-ended
	}
	_ = conn.Close()
	<-ended
	s.record(r)
	switch {
	case v != nil:
		panic(v)
	case errors.Is(r.err, os.ErrDeadlineExceeded):
		fail("Bound the time in which a body must arrive, for example to 10 s, then close the connection.",
			"after %v the endpoint still waits for the rest of %s", s.cfg.SlowBody, r.what)
	case r.code() == countersign.CodeAccepted:
		fail("", "%s: it was accepted, with errCode 0", r.what)
	}
}

// sealingCases are bodies with a wrong key or a fault in the sealing, and forms that a body may and may not have.
func sealingCases() []Case {
	return []Case{
		{701, Must, ours, "sealing/other-seal", "Sealing, S5",
			"A body sealed with another key and a message that is not sealed are refused.", nil,
			refuses(1, countersigntest.FaultOtherKey, countersigntest.FaultPlain)},
		{702, Must, money, "sealing/padding", "Sealing, S5",
			"Blocks of the other type, not below the modulus, with a wrong or too short padding and without data are refused.",
			[]*Need{NeedPKCS1}, posts(1, (*session).notOpened,
				raw("in blocks of the other type", func(b []byte, _ int) { b[1] = 3 - b[1] }),
				raw("whose blocks begin with 01", func(b []byte, _ int) { b[0] = 1 }),
				raw("with FE in the padding", func(b []byte, _ int) {
					if b[1] != 1 {
						skip("the padding of block type 2 may have any bytes")
					}
					b[6] = 0xfe
				}),
				raw("with seven bytes of padding", func([]byte, int) {}),
				raw("whose data follows the padding without 00", func(b []byte, start int) { b[start-1] = 0xff }),
				raw("with an empty block in the middle of others", func([]byte, int) {}),
				way{"of which one block has the modulus added", beyondModulus})},
		{709, Must, ours, "sealing/blocks", "Sealing, S5",
			"A body with blocks that are cut off, repeated, swapped or added is refused.", nil, posts(1, (*session).notOpened,
				shuffled("without the last", func(b [][]byte) [][]byte { return b[:len(b)-1] }),
				shuffled("cut inside a block", func(b [][]byte) [][]byte { return append(b[:len(b)-1], b[len(b)-1][1:]) }),
				shuffled("one of them twice", func(b [][]byte) [][]byte { return slices.Insert(b, 1, b[1]) }),
				shuffled("two of them swapped", func(b [][]byte) [][]byte { b[0], b[1] = b[1], b[0]; return b }),
				shuffled("a byte behind them", func(b [][]byte) [][]byte { return append(b, []byte{0}) }),
				shuffled("a block of zeros behind them", func(b [][]byte) [][]byte { return append(b, make([]byte, len(b[0]))) }))},
		{731, Should, ours, "form/other-forms", "Body forms, F2",
			"A form field, a JSON string and a JSON object are read; line ends are ignored.", nil,
			posts(1, (*session).taken, form("data=%s"), form("v=1&data=%s&x="), form(`"%s"`), form(`{"data":"%s"}`),
				form("\r\n %s \r\n"))},
		{736, Must, ours, "form/damaged", "Body forms, F2, F3",
			"A body with no Base64 in it, with damaged Base64, or with data twice is refused, not mended.", nil,
			posts(1, (*session).notOpened, empty, form("hello, merchant!"), form("data=%s&data=%s"),
				form(`{"data":"%s","data":"%s"}`), way{"with a * in its Base64", func(_ *session, q *request) {
					q.Sealed = slices.Insert(q.Sealed, 40, '*')
				}}, way{"whose + became spaces, as form parsers do", func(s *session, q *request) {
					for !bytes.Contains(q.Sealed, []byte("+")) {
						*q = s.attempt(q.what, q.m)
					}
					q.Sealed = bytes.ReplaceAll(q.Sealed, []byte("+"), []byte(" "))
				}})},
	}
}

// raw seals a deposit, with a filler so that at least one block is full, and damages each block before it is raised to
// the exponent. Its data begin at start.
func raw(name string, damage func(b []byte, start int)) way {
	return way{name, func(s *session, q *request) {
		*q = s.attempt(q.what, q.m.add("memo", text(randomHex(s.raw.size/2))))
		size := s.cfg.Key.MaxChunk(s.cfg.Padding)
		if strings.Contains(name, "seven") {
			size++
		}
		chunks := slices.Collect(slices.Chunk(q.Plaintext, size))
		if strings.Contains(name, "empty") {
			chunks = slices.Insert(chunks, 1, nil)
		}
		var blocks [][]byte
		for _, chunk := range chunks {
			blocks = append(blocks, s.raw.block(chunk, damage))
		}
		q.Sealed = join(blocks)
	}}
}

// beyondModulus needs a block that has no more bytes after the modulus is added to it. With most keys a few attempts
// find one.
func beyondModulus(s *session, q *request) {
	for range 400 {
		*q = s.attempt(q.what, q.m)
		blocks := s.blocks(q.Plaintext)
		for i := range blocks {
			if b, ok := s.raw.beyond(blocks[i]); ok {
				blocks[i] = b
				q.Sealed = join(blocks)
				return
			}
		}
	}
	skip("no such block was found: the modulus of this key is too close to a power of 2")
}

// shuffled puts the blocks of a correct body together wrongly.
func shuffled(name string, shuffle func([][]byte) [][]byte) way {
	return way{"in blocks, " + name, func(s *session, q *request) {
		half := len(q.Plaintext) / 2
		q.Sealed = join(shuffle(s.blocks(q.Plaintext[:half], q.Plaintext[half:])))
	}}
}

// form is a body in which %s is the Base64 of the blocks, in a field percent-encoded.
func form(form string) way {
	return way{"in the form " + strconv.Quote(form), func(_ *session, q *request) {
		b64 := string(q.Sealed)
		switch {
		case strings.Contains(form, "data="):
			b64 = url.QueryEscape(b64)
		case strings.HasPrefix(form, "\r\n"):
			b64 = b64[:76] + "\r\n" + b64[76:152] + "\r\n" + b64[152:]
		default:
			q.ContentType = "application/json"
		}
		q.Sealed = []byte(strings.ReplaceAll(form, "%s", b64))
	}}
}
