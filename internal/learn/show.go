package learn

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"countersign"
	"countersign/envelope"
	"countersign/merchant"
)

// Shower shows each callback as it comes, lets Next answer it, and shows that too.
type Shower struct {
	Reader
	Next http.Handler
	Out  io.Writer // gets the plaintexts, but no API key. One goroutine at a time writes to it

	mu sync.Mutex // held while a text is written, so that texts do not mix
	n  int
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
	s.mu.Lock()
	s.n++
	n := s.n
	path := strconv.QuoteToGraphic(r.URL.Path)
	fmt.Fprintf(s.Out, "\ncallback %d: %s %s from %s\n%s", n, r.Method, path, r.RemoteAddr, says)
	s.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	rec := &recorder{ResponseWriter: w}
	defer func() { // also where Next breaks off
		s.mu.Lock()
		defer s.mu.Unlock()
		fmt.Fprintf(s.Out, "answered   callback %d: %s\n", n, rec)
	}()
	if err != nil {
		http.Error(rec, "the body did not arrive", http.StatusBadRequest)
		return
	}
	s.Next.ServeHTTP(rec, r)
}

// recorder remembers the beginning of a response.
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
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.body = append(w.body, b[:min(len(b), countersign.MaxMessage-len(w.body))]...)
	return w.ResponseWriter.Write(b)
}

// String returns what was answered, without its secrets.
func (w *recorder) String() string {
	r, err := countersign.ParseResponse(w.body)
	switch {
	case w.status == 0:
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
