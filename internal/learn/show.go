package learn

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"countersign"
	"countersign/envelope"
	"countersign/merchant"
)

// Shower shows each callback as it comes, lets Next answer it, and shows the answer.
type Shower struct {
	Reader
	Next http.Handler
	Out  io.Writer // gets the plaintexts, but no API key. One goroutine at a time writes to it

	mu sync.Mutex // held while a text is written, so that texts do not mix
	n  atomic.Int64
}

func (s *Shower) show(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.Out, format, args...)
}

// ServeHTTP implements http.Handler.
func (s *Shower) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(merchant.DefaultBodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, envelope.MaxBody))
	says := ""
	switch {
	case err != nil:
		says = fmt.Sprintf("refused    its body did not arrive: %v\n", err)
	case len(body) > 0:
		says = s.Read(body).String()
	}
	n := s.n.Add(1)
	s.show("\ncallback %d: %s %s from %s\n%s", n, r.Method, strconv.QuoteToGraphic(r.URL.Path), r.RemoteAddr, says)
	rec := &recorder{ResponseWriter: w, status: http.StatusOK}
	defer func() { s.show("answered   callback %d: %s\n", n, rec) }() // also if Next panics
	if err != nil {
		http.Error(rec, "the body did not arrive", http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.Next.ServeHTTP(rec, r)
}

// recorder keeps the beginning of a response.
type recorder struct {
	http.ResponseWriter
	status int
	body   []byte
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recorder) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	w.body = append(w.body, b[:min(len(b), countersign.MaxMessage-len(w.body))]...)
	return w.ResponseWriter.Write(b)
}

// String returns the answer without its secrets.
func (w *recorder) String() string {
	r, err := countersign.ParseResponse(w.body)
	switch {
	case len(w.body) == 0 && w.status == http.StatusOK:
		return "nothing"
	case err != nil:
		return fmt.Sprintf("status %d, and no response of the protocol (%d bytes)", w.status, len(w.body))
	}
	text := fmt.Sprintf("status %d, errCode %d", w.status, r.ErrCode)
	if r.Message != "" {
		text += ": " + r.Message
	}
	return text + fmt.Sprintf(", data of %d characters", len(r.Data))
}
