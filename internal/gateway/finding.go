package gateway

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/web"
	"countersign/merchant"
)

// CallbackReader reads a provider's callbacks.
type CallbackReader struct {
	Key     *envelope.Key // opens requests
	Padding envelope.Padding
	Field   string // see merchant.Profile.BodyField
}

// reader returns a reader of the provider's callbacks with the settings that the gateway was started with.
func (c *Config) reader() CallbackReader {
	return CallbackReader{Key: c.Callbacks.Key, Padding: c.Callbacks.Padding, Field: c.Callbacks.Profile.BodyField}
}

// Finding is what one callback shows: its body, in the form, the padding and the field in which it opens, if any, and
// what requestFacts kept of the request.
type Finding struct {
	envelope.Explanation
	Padding envelope.Padding

	Type    countersign.Type
	ID      string // trackingId or callBackId, for attempts of one callback
	Binding countersign.Binding
	Differs []error // why the strict rules do not take it
	Refused []error // why the lenient rules do not take it either

	Path   string
	APIKey string // header that carried one of the API keys; empty: none did
}

// Read returns what body shows.
func (r CallbackReader) Read(body []byte) Finding {
	field, found := cmp.Or(r.Field, merchant.DefaultBodyField), body
	inner, form, err := envelope.UnwrapField(body, field)
	if other := otherField(body); err != nil && other != "" {
		field = other
		inner, form, err = envelope.UnwrapField(body, field)
	}
	if err == nil {
		found = inner
	}
	f := Finding{Explanation: *envelope.Explain(r.Key, r.Padding, found), Padding: r.Padding}
	if f.Err != nil && r.Key.HasPrivate() { // the public part opens one padding only
		for _, padding := range []envelope.Padding{envelope.PKCS1v15, envelope.OAEP} {
			if again := envelope.Explain(r.Key, padding, found); again.Err == nil {
				f.Explanation, f.Padding = *again, padding
			}
		}
	}
	f.BodyBytes, f.Form, f.Err = len(body), form, cmp.Or(err, f.Err)
	if form == envelope.FormField || form == envelope.FormObject {
		f.Field = field
	}
	if f.Err != nil {
		return f
	}
	id := countersign.Identify(f.Plaintext)
	f.Type, f.ID, f.Binding = id.Type, id.EventID(), countersign.CheckBinding(f.Plaintext)
	f.Differs = countersign.Faults(f.Plaintext, countersign.ParseOptions{})
	f.Refused = countersign.Faults(f.Plaintext, countersign.ParseOptions{Lenient: true})
	return f
}

// fieldName matches what may be the name of a form field or JSON member that a setting takes.
var fieldName = regexp.MustCompile(`([A-Za-z0-9_-]+)"?\s*[=:]`)

// otherField returns the only form field or JSON member, of the first 50, that can be a sealed body.
func otherField(body []byte) (found string) {
	for _, m := range fieldName.FindAllSubmatch(body, 50) {
		name := string(m[1])
		inner, form, err := envelope.UnwrapField(body, name)
		switch {
		case err != nil || form == envelope.FormBare || len(inner) < envelope.MinBits/8 || name == found:
		case found != "":
			return ""
		default:
			found = name
		}
	}
	return found
}

// String returns, for a terminal, the contents of the body block by block, and what the message is as a request. It
// contains the plaintext.
func (f Finding) String() string {
	if f.Err != nil {
		return f.Explanation.String()
	}
	s := f.Explanation.String() +
		fmt.Sprintf("message    callback type %d, %v\nbinding    %v\n", int(f.Type), f.Type, f.Binding)
	for _, fault := range f.Differs {
		s += fmt.Sprintf("differs    %v\n", fault)
	}
	for _, fault := range f.Refused {
		s += fmt.Sprintf("refused    %v; no setting changes that, the provider must\n", fault)
	}
	return s
}

// The facts that are kept of a request.
const factPath, factHeader = "path", "header"

// requestFacts returns what is kept of a request besides its body: its path, and the name of the header that carries one
// of keys. known reports whether there is one.
func requestFacts(r *http.Request, keys []countersign.APIKey) (facts []client.Fact, known bool) {
	facts = []client.Fact{{Member: factPath, Came: web.Printable(r.URL.Path)}}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		values := r.Header[name]
		carried := func(k countersign.APIKey) bool { return k.Equal(countersign.APIKey(values[0])) }
		if !known && len(values) == 1 && slices.ContainsFunc(keys, carried) {
			facts, known = append(facts, client.Fact{Member: factHeader, Came: web.Printable(name),
				Cause: "carries the API key"}), true
		}
	}
	return facts, known
}

// Seen reads one callback, of which facts were kept.
func (r CallbackReader) Seen(body []byte, facts []client.Fact) Finding {
	f := r.Read(body)
	for _, fact := range facts {
		if fact.Member == factPath {
			f.Path = fact.Came
		} else {
			f.APIKey = fact.Came
		}
	}
	return f
}

// Shower shows each callback as it comes, and lets Next answer it.
type Shower struct {
	CallbackReader
	Next http.Handler
	Out  io.Writer // gets the plaintexts, but no API key. One goroutine at a time writes to it

	mu sync.Mutex // held while a text is written, so that texts do not mix
	n  int
}

// ServeHTTP implements http.Handler.
func (s *Shower) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(merchant.DefaultBodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, envelope.MaxBody))
	says := s.Read(body).String()
	if err != nil {
		says = fmt.Sprintf("refused    its body did not arrive: %v\n", err)
	}
	s.mu.Lock()
	s.n++
	fmt.Fprintf(s.Out, "\ncallback %d: %s %s from %s\n%s", s.n, r.Method, strconv.QuoteToGraphic(r.URL.Path),
		r.RemoteAddr, says)
	s.mu.Unlock()
	if err != nil {
		http.Error(w, "the body did not arrive", http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.Next.ServeHTTP(w, r)
}
