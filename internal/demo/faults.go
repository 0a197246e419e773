package demo

import (
	"bytes"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// faults is a proxy before the merchant that misbehaves until a time. It drops requests before or after they are
// handled, delays them, fails them, and answers with the response to another request.
type faults struct {
	next  http.Handler
	until time.Time

	mu   sync.Mutex
	past []byte // a response of another request
}

func (f *faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if time.Now().After(f.until) {
		f.next.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	handle := func() *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		again := r.Clone(r.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		f.next.ServeHTTP(rec, again)
		return rec
	}
	switch rand.IntN(6) {
	case 0: // not done
		panic(http.ErrAbortHandler)
	case 1: // done, but the response is lost
		handle()
		panic(http.ErrAbortHandler)
	case 2: // done twice
		handle()
	case 3:
		http.Error(w, "out of order", http.StatusServiceUnavailable)
		return
	case 4:
		time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond)
	case 5: // another request's response
		f.mu.Lock()
		past := f.past
		f.mu.Unlock()
		if past != nil {
			handle()
			_, _ = w.Write(past)
			return
		}
	}
	rec := handle()
	f.mu.Lock()
	f.past = rec.Body.Bytes()
	f.mu.Unlock()
	passOn(w, rec)
}

// passOn sends a recorded response.
func passOn(w http.ResponseWriter, rec *httptest.ResponseRecorder) {
	maps.Copy(w.Header(), rec.Header())
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}
