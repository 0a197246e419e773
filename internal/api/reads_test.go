package api

import (
	"sync"
	"testing"
	"time"
)

// TestReadsAreBounded: one token makes some reads at once and its others wait,
// then get a clear answer; another token reads meanwhile. Calls that change something
// do not wait for reads.
func TestReadsAreBounded(t *testing.T) {
	begun, end := make(chan struct{}, maxTokenReads+1), make(chan struct{})
	e := newEnd(t, Route{Method: "GET", Path: "/list", ID: "list", Roles: Roles{"viewer", "operator"}, Status: 204, Handler: Handle(func(c *Call, _ None, _ None) (None, error) {
		if _, bounded := c.R.Context().Deadline(); !bounded {
			t.Error("a read has no bound in time")
		}
		begun <- struct{}{}
		<-end
		return None{}, nil
	})}, Route{Method: "POST", Path: "/act", ID: "act", Roles: Roles{"viewer", "operator"}, Status: 204, Handler: Handle(func(*Call, None, None) (None, error) { return None{}, nil })})
	e.patience = time.Millisecond
	_, greedy := e.tokens.add("viewer")
	_, modest := e.tokens.add("viewer")
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
	if status := e.call("GET", "/list", greedy); status != 204 {
		t.Errorf("a read afterwards answers %d", status)
	}
}
