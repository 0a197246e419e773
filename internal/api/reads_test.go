package api

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/lab/dbtest"
)

// TestReadsAreBounded: one token makes half of the reads at most and the others wait,
// then get a clear answer; another token reads meanwhile. Calls that change something
// do not wait for reads.
func TestReadsAreBounded(t *testing.T) {
	begun, end := make(chan struct{}, maxReads), make(chan struct{})
	e := newEnd(t, Route{Method: "GET", Path: "/list", ID: "list", Roles: Roles{"viewer", "operator"}, Status: 204, Handler: Handle(func(c *Call, _ None, _ None) (None, error) {
		if _, bounded := c.R.Context().Deadline(); !bounded {
			t.Error("a read has no bound in time")
		}
		begun <- struct{}{}
		<-end
		return None{}, nil
	})}, Route{Method: "POST", Path: "/act", ID: "act", Roles: Roles{"viewer", "operator"}, Status: 204, Handler: Handle(func(*Call, None, None) (None, error) { return None{}, nil })})
	e.reads.patience = time.Millisecond
	_, greedy := e.tokens.add("viewer")
	_, modest := e.tokens.add("viewer")
	e.ask(greedy) // the fake store is not made for several callers: both tokens are cached now
	e.ask(modest)
	var reads sync.WaitGroup
	read := func(secret string) {
		reads.Go(func() {
			if status := e.call("GET", "/list", secret); status != 204 {
				t.Errorf("a read answers %d", status)
			}
		})
		<-begun
	}
	for range maxTokenReads {
		read(greedy)
	}
	if status := e.call("GET", "/list", greedy); status != 503 {
		t.Errorf("one read more of the token answers %d, want 503", status)
	}
	read(modest)
	if status := e.call("POST", "/act", greedy); status != 204 {
		t.Errorf("a call that changes something answers %d", status)
	}
	close(end)
	reads.Wait()
	if n := len(e.API.reads.all); n != 0 {
		t.Errorf("%d reads are made", n)
	}
}

// TestReadsQueue: those who wait are bounded in number too, and a caller that leaves
// leaves nothing behind.
func TestReadsQueue(t *testing.T) {
	e := newEnd(t)
	r, of := newReads(), e.API.boundsOf("a")
	r.patience = time.Hour
	gone, leave := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range maxTokenReads {
		_, _ = r.enter(t.Context(), of)
	}
	for range maxQueued - maxTokenReads {
		waiting.Go(func() {
			dbtest.Fails(r.enter(gone, of))(t, context.Canceled, "")
		})
	}
	for len(of.queued) < maxQueued {
		time.Sleep(time.Millisecond)
	}
	_, err := r.enter(t.Context(), of)
	var p *client.Problem
	if !errors.As(err, &p) || p.Status != 503 || p.RetryAfter == 0 {
		t.Errorf("%v, want a 503 that says when to come again", err)
	}
	leave()
	waiting.Wait()
	if len(of.queued) != maxTokenReads || len(of.reads) != maxTokenReads || len(r.all) != maxTokenReads {
		t.Errorf("%d wait or read, %d read, %d of all", len(of.queued), len(of.reads), len(r.all))
	}
}
