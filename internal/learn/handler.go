package learn

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"countersign"
	"countersign/envelope"
	"countersign/internal/bodies"
	"countersign/merchant"
)

// Handler answers every POST with errCode 5000, so that the provider sends it again
// later, and says what it shows. One without the API key, where one is given, gets 401 and teaches nothing. Nothing is booked. Its fields are required unless
// they say otherwise.
type Handler struct {
	Reader Reader
	APIKey countersign.APIKey // of the responses; may be empty
	Out    io.Writer          // gets what each callback shows
	// Remember gets the blocks of what opened: nobody shall join them when the settings are
	// right (PROTOCOL.md, B7). Nil: nobody remembers.
	Remember func(context.Context, *merchant.Blocks) error

	mu       sync.Mutex // held for a whole callback: opening costs, and the texts must not mix
	provider Provider
}

// bodyTimeout bounds the time to read a body.
const bodyTimeout = 5 * time.Second

// message is what the provider is told.
const message = "learning: nothing was booked; send it again later"

// ServeHTTP takes callbacks at any path.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(io.LimitReader(r.Body, envelope.MaxBody+1))
	h.mu.Lock()
	defer h.mu.Unlock()
	where := fmt.Sprintf("%s %s from %s", r.Method, printable(r.URL.Path), r.RemoteAddr)
	switch {
	case r.Method != http.MethodPost:
		fmt.Fprintf(h.Out, "\n%s\nrefused    only POST is a callback\n", where)
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "only POST", http.StatusMethodNotAllowed)
		return
	case err != nil:
		fmt.Fprintf(h.Out, "\n%s\nrefused    its body did not arrive: %v\n", where, err)
		http.Error(w, "no body", http.StatusBadRequest)
		return
	}
	own, carrier := h.Reader.headers(r.Header)
	if len(h.Reader.APIKeys) > 0 && carrier == "" { // anybody may have sent it
		var s lines
		fmt.Fprintf(&s, "\n%s\nrefused    none of its headers carries the callback API key\n", where)
		s.list("headers", own)
		fmt.Fprint(h.Out, s.String())
		http.Error(w, "the callback API key is missing", http.StatusUnauthorized)
		return
	}
	f := h.learn(r, where, body, own, carrier)
	if blocks := h.Reader.blocks(f, body); blocks != nil && h.Remember != nil {
		if err := h.Remember(r.Context(), blocks); err != nil {
			fmt.Fprintf(h.Out, "\nits blocks were not remembered: %v\n", err)
			http.Error(w, "not remembered", http.StatusServiceUnavailable)
			return
		}
	}
	response, err := countersign.Response{APIKey: h.APIKey, ErrCode: countersign.CodeInternal, Message: message}.Marshal()
	if err != nil {
		http.Error(w, "no response", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(response)
}

// learn says what the callback shows, and what fits all that came so far.
func (h *Handler) learn(r *http.Request, where string, body []byte, own []string, carrier string) Finding {
	f := h.Reader.Read(body)
	if how := bodies.Encoding(r.Header); how != "" {
		f = compressed(how)
	}
	before, since := h.provider.Add(f, r.URL.Path, carrier, time.Now())
	if len(h.Reader.APIKeys) == 0 {
		h.provider.leaveUnchecked(own)
	}
	var s lines
	fmt.Fprintf(&s, "\ncallback %d: %s\n", h.provider.Calls, where)
	all, refused, _ := h.provider.verdict()
	s.add("so far", "%d of %d would be refused", refused, all)
	s.list("headers", own)
	switch {
	case carrier != "":
		s.add("API key", "in the header %s", printable(carrier))
	case len(own) > 0:
		s.add("API key", "if one of these headers carries it, give it with --callback-api-key to learn which")
	}
	s.WriteString(f.String())
	if before > 0 {
		s.add("again", "attempt %d, %v after the one before", before+1, since.Round(time.Second))
	}
	if h.provider.Opened > 0 {
		s.add("fits", "%s", Flags(h.provider.Settings()))
	}
	fmt.Fprint(h.Out, s.String())
	return f
}

// blocks gives the blocks of a body with the finding f; nil if it did not open, or is bound.
func (r Reader) blocks(f Finding, body []byte) *merchant.Blocks {
	if !f.Opened {
		return nil
	}
	padding := r.Padding
	if f.OAEP {
		padding = envelope.OAEP
	}
	return merchant.ReadBlocks(r.Key, padding, cmp.Or(f.Field, r.Field), body)
}

// Learned is what all callbacks showed together.
type Learned struct {
	Opened  int    // requests that opened
	Summary string // how many callbacks would be refused, and why
	File    string // of settings
	Note    string // to the provider; empty: nothing is to be said
}

// Learned gives what came so far. own are the settings that the gateway was started with;
// note is said beside them in the file, if it is not empty.
func (h *Handler) Learned(own []Setting, note string) Learned {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, p := time.Now(), &h.provider
	return Learned{Opened: p.Opened, Summary: p.Summary(), File: p.file(own, note, now), Note: p.Note(now)}
}
