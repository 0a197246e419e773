// Package web has what both ends need of HTTP. It reads bodies: memory grows with the bytes that have come, and the sum
// of all bodies is bounded. It posts messages that are signed as Standard Webhooks 1.0 says.
//
// It has the one reader of JSON under the protocol's messages and under both APIs, which accepts what RFC 8259 allows,
// except what readers disagree on (PROTOCOL.md, M1 and M2), because other software may read the same bytes: no member
// twice in one object, no half of a surrogate pair, no U+0000, no invalid UTF-8, no nesting beyond MaxDepth. What it
// accepts, encoding/json reads with the same values.
package web

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

// DefaultBudget is how many bytes of bodies one end holds at once by default.
const DefaultBudget = 256 << 20

var (
	// ErrTooLong means that a body is longer than its limit.
	ErrTooLong = errors.New("the body is too long")
	// ErrBudget means that too many bytes of bodies are held already.
	ErrBudget = errors.New("too many request bodies are being read")
)

// NotCompressed is the message for a body whose Encoding is not empty.
const NotCompressed = "compressed bodies are not taken"

// Encoding returns the Content-Encoding of a compressed body, made safe to show, or "" if it is not compressed.
func Encoding(h http.Header) string {
	var known []string
	for _, line := range h.Values("Content-Encoding") {
		for name := range strings.SplitSeq(line, ",") {
			switch name = strings.ToLower(strings.TrimSpace(name)); name {
			case "", "identity":
			case "gzip", "x-gzip", "br", "deflate", "zstd", "compress":
				known = append(known, name)
			default:
				known = append(known, "an encoding that is not known")
			}
		}
	}
	return strings.Join(known, " and ")
}

// Budget bounds the bytes of bodies that are held at once. Nil bounds nothing.
type Budget struct {
	most int64
	held *atomic.Int64
}

// NewBudget makes a Budget of that many bytes.
func NewBudget(most int64) *Budget { return &Budget{most, new(atomic.Int64)} }

// reserve is the size of the budget of strangers and of the reserve of urgent calls, in bytes.
const reserve = 1 << 20

// Shares are the budgets of one listener whose callers have tokens.
type Shares struct {
	Callers *Budget
	// Urgent is Callers with a reserve: it has room where Callers has none.
	Urgent *Budget
	// Strangers is for bodies that are read before a token is known. It takes nothing from the others.
	Strangers *Budget
}

// NewShares divides most bytes, or DefaultBudget if most is 0. The reserve and the room of
// strangers, 1 MiB each, come on top.
func NewShares(most int64) *Shares {
	callers := NewBudget(cmp.Or(most, DefaultBudget))
	return &Shares{callers, &Budget{callers.most + reserve, callers.held}, NewBudget(reserve)}
}

// Take holds n bytes more, or reports false if they are too many.
func (b *Budget) Take(n int) bool {
	if b == nil || b.held.Add(int64(n)) <= b.most {
		return true
	}
	b.held.Add(-int64(n))
	return false
}

// Give returns n bytes that Take held.
func (b *Budget) Give(n int) {
	if b != nil {
		b.held.Add(-int64(n))
	}
}

// Held returns how many bytes are held.
func (b *Budget) Held() int64 { return b.held.Load() }

// first is the capacity of a new buffer, which most bodies fit into.
const first = 4 << 10

// Body is a body, or the part of it that came before an error.
type Body struct {
	Bytes  []byte
	budget *Budget
	taken  int
}

// Free returns the body to its budget. Its bytes must not be used afterwards. A body
// that is freed already, and the zero Body, hold nothing.
func (b *Body) Free() {
	b.budget.Give(b.taken)
	b.taken = 0
}

// ReadBody reads r to its end and takes from budget what that needs. announced is the Content-Length, below 0 if it is not
// known. It only limits the buffer's growth, because a peer may announce more than it sends. The error is
// ErrTooLong for more than limit bytes, ErrBudget, or an error of r. The caller frees the body, after an error too.
func ReadBody(r io.Reader, announced int64, limit int, budget *Budget) (Body, error) {
	b := Body{Bytes: make([]byte, 0, 1), budget: budget} // the first byte is not counted: an empty body takes nothing
	most := limit + 1                                    // one byte more shows that a body is too long, and finds the end of one that is not
	if announced >= 0 && announced < int64(limit) {
		most = int(announced) + 1
	}
	for {
		if len(b.Bytes) == cap(b.Bytes) {
			if len(b.Bytes) > limit {
				return b, ErrTooLong
			}
			size := max(first, 2*cap(b.Bytes))
			if size > most && len(b.Bytes) < most {
				size = most
			}
			if !budget.Take(size - b.taken) {
				return b, ErrBudget
			}
			b.taken = size
			b.Bytes = append(make([]byte, 0, size), b.Bytes...)
		}
		n, err := r.Read(b.Bytes[len(b.Bytes):min(cap(b.Bytes), limit+1)])
		b.Bytes = b.Bytes[:len(b.Bytes)+n]
		switch {
		case len(b.Bytes) > limit:
			return b, ErrTooLong
		case err == io.EOF:
			return b, nil
		case err != nil:
			return b, err
		}
	}
}
