package dispatch

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"countersign/internal/store"
)

// A node that stands still between sealing and posting, and goes on when the
// callback may be another node's, sends nothing: the first attempt reaches nobody
// and costs nothing, the second is made in time.
func TestNothingIsSentTooLate(t *testing.T) {
	m := newTestMerchant(testPair())
	var whole atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		whole.Add(1)
		r.Body = io.NopCloser(bytes.NewReader(body))
		m.ServeHTTP(w, r)
	}))
	defer s.Close()
	var slept atomic.Int64
	c := Config{Outbox: newFakeOutbox(t, testStoreMerchant("m1", testPair(), s.URL)), Node: "node-1", AllowHTTP: true, AllowPrivate: true,
		Now: func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }}
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	post, tries := d.post, 0
	d.post = func(ctx context.Context, q request) Response {
		if tries++; tries == 1 {
			slept.Add(int64(d.cfg.ExchangeTimeout)) // no timer has noticed
		}
		return post(ctx, q)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	r := &httpRig{fakeOutbox: c.Outbox.(*fakeOutbox)}
	id := r.addDeposit("m1", 1)
	first := r.firstAttempt(t, id)
	for range 6000 {
		if r.callback(id).State == store.CallbackAccepted {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if first.Reason != string(ReasonStopped) || first.HTTPStatus != 0 {
		t.Errorf("first attempt: %+v", first)
	}
	if c := r.callback(id); c.State != store.CallbackAccepted || c.Failed != 0 || c.Attempts != 2 {
		t.Errorf("%+v", c)
	}
	if whole.Load() != 1 {
		t.Errorf("the merchant read %d whole requests, want 1", whole.Load())
	}
}

// The fence holds however the transport reads the body.
func TestFencedBody(t *testing.T) {
	late := false
	q := request{body: []byte("sealed"), tooLate: func() bool { return late }}
	if b, err := io.ReadAll(q.reader()); err != nil || string(b) != "sealed" {
		t.Errorf("%q, %v", b, err)
	}
	late = true
	if b, err := io.ReadAll(q.reader()); err != errTooLate || len(b) > 0 {
		t.Errorf("%q, %v", b, err)
	}
	if n, err := io.Copy(io.Discard, q.reader()); err != errTooLate || n > 0 {
		t.Errorf("%d bytes, %v", n, err)
	}
}
