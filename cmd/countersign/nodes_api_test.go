//go:build unix

package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"countersign/internal/lab/dbtest"
)

// either is what the two nodes of a test are asked.
type either struct {
	*cluster
	t *testing.T
}

// do makes a call at one node, which must answer it.
func (e either) do(node int, method, path string, in, out any) {
	e.t.Helper()
	if err := e.call(e.t.Context(), e.nodes[node], method, path, in, out); err != nil {
		e.t.Fatalf("node %s: %s %s: %v", e.nodes[node].name, method, path, err)
	}
}

// refused makes a call that must be refused with a status.
func (e either) refused(node int, method, path string, in any, status int) {
	e.t.Helper()
	err := e.call(e.t.Context(), e.nodes[node], method, path, in, nil)
	var refused *apiError
	if !errors.As(err, &refused) || refused.status != status {
		e.t.Errorf("node %s: %s %s: %v, want status %d", e.nodes[node].name, method, path, err, status)
	}
}

// aThing is what a test reads of a merchant, a callback or a withdrawal.
type aThing struct {
	ID, State, Decision, Callback, Permit, PublicKey, Name string
	Attempts                                               []clusterAttempt
}

// becomes waits until a node shows a thing in a state.
func (e either) becomes(node int, path, state string) (thing aThing) {
	e.t.Helper()
	e.until(path+" is "+state, func() bool {
		thing = aThing{}
		e.do(node, "GET", path, nil, &thing)
		return thing.State == state
	})
	return thing
}

func (e either) deposit(node int, merchant string) (path string) {
	e.t.Helper()
	var out struct{ Callbacks []aThing }
	d := aDeposit(e.n.Add(1))
	d["merchant"] = merchant
	e.do(node, "POST", "/v1/deposits", d, &out)
	return "/v1/callbacks/" + out.Callbacks[0].ID
}

func (e either) withdrawal(node int) (path string) {
	e.t.Helper()
	var out struct{ Withdrawals []aThing }
	e.do(node, "POST", "/v1/withdrawals", map[string]any{"merchant": "m", "callBackId": fmt.Sprint("W", e.n.Add(1)), "tenantUserId": "7"}, &out)
	return "/v1/withdrawals/" + out.Withdrawals[0].ID
}

// TestEveryNode: what was made through one node can be asked, changed and ended
// through another, and the other's sender minds it.
func TestEveryNode(t *testing.T) {
	dbtest.Whole(t, "this test starts several processes")
	t.Parallel()
	dbURL := dbtest.Postgres(t)
	lines, urls := proxied(t, dbURL, 2)
	c := newCluster(t, 16, urls...)
	const a, b = 0, 1
	run := func(name string, f func(e either)) {
		t.Run(name, func(t *testing.T) { f(either{c, t}) })
	}

	run("open routes", func(e either) {
		for node := range e.nodes {
			for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/v1/stats", "/v1/alarms", "/v1/tokens", "/v1/merchants", "/v1/callbacks", "/v1/withdrawals"} {
				e.do(node, "GET", path, nil, nil)
			}
		}
	})
	run("tokens", func(e either) {
		var made struct{ ID, Token string }
		e.do(a, "POST", "/v1/tokens", map[string]any{"name": "x", "role": "viewer"}, &made)
		with := func(node int) error {
			return call(e.t.Context(), "GET", e.nodes[node].daemon().url+"/v1/stats", made.Token, nil, nil)
		}
		if err := errors.Join(with(a), with(b)); err != nil {
			e.t.Error(err)
		}
		e.do(b, "DELETE", "/v1/tokens/"+made.ID, nil, nil)
		// Within the time that a node remembers tokens for.
		e.until("the other node minds the revocation", func() bool { return with(a) != nil && with(b) != nil })
	})
	run("deposits", func(e either) {
		path := e.deposit(a, "m")
		if got := e.becomes(b, path, "accepted"); len(got.Attempts) != 1 {
			e.t.Errorf("%+v, want one attempt", got)
		}
		e.m.change(func() { e.m.refuses = true })
		one, other := e.deposit(a, "m"), e.deposit(a, "m")
		e.becomes(b, one, "refused")
		e.becomes(a, other, "refused")
		e.m.change(func() { e.m.refuses = false })
		e.do(b, "POST", one+"/resend", nil, nil)
		e.becomes(a, one, "accepted")
		e.do(b, "POST", "/v1/callbacks/resend", map[string]any{"filter": map[string]any{"merchant": "m"}}, nil)
		if got := e.becomes(a, other, "accepted"); len(got.Attempts) != 2 {
			e.t.Errorf("%+v, want two attempts", got)
		}
	})
	run("withdrawals", func(e either) {
		for _, outcome := range []map[string]any{{"executed": map[string]any{"txId": "0x1"}}, {"failed": map[string]any{"reason": "no funds"}}} {
			state := "executed"
			if outcome["failed"] != nil {
				state = "failed"
			}
			path := e.withdrawal(a)
			e.becomes(b, path, "confirmed")
			var first, again aThing
			e.do(b, "POST", path+"/release", map[string]any{"claim": "x"}, &first)
			e.do(a, "POST", path+"/release", map[string]any{"claim": "x"}, &again)
			if first.Permit == "" || first.Permit != again.Permit {
				e.t.Error("the nodes gave different permits")
			}
			e.refused(a, "POST", path+"/release", map[string]any{"claim": "y"}, 409)
			outcome["permit"] = first.Permit
			e.do(a, "POST", path+"/outcome", outcome, nil)
			e.do(b, "POST", path+"/outcome", outcome, nil) // the same again
			e.becomes(b, path, state)
			e.refused(b, "POST", path+"/cancel", nil, 409)
		}
	})
	run("pause", func(e either) {
		e.do(a, "POST", "/v1/merchants/m/pause", nil, nil)
		e.becomes(b, "/v1/merchants/m", "paused")
		// The nodes' senders pass over it, while they send to others; a cancelled
		// question is not asked.
		waits, path := e.deposit(b, "m"), e.withdrawal(a)
		e.do(b, "POST", path+"/cancel", nil, nil)
		e.becomes(a, path, "cancelled")
		other := newRecorder(e.t)
		e.register("m2", other)
		e.bySenders("m2", other, "/n")
		if n := len(other.all()); n == 0 {
			e.t.Error("the other merchant got nothing")
		}
		e.becomes(a, waits, "pending")
		e.do(b, "POST", "/v1/merchants/m/resume", nil, nil)
		if got := e.becomes(a, waits, "accepted"); len(got.Attempts) != 1 {
			e.t.Errorf("%+v, want one attempt", got)
		}
	})
	run("settings", func(e either) {
		e.do(b, "PATCH", "/v1/merchants/m", map[string]any{"name": "Other", "notifyUrl": e.m.URL + "/other"}, nil)
		var seen aThing
		e.do(a, "GET", "/v1/merchants/m", nil, &seen)
		if seen.Name != "Other" {
			e.t.Errorf("the other node shows the name %q", seen.Name)
		}
		e.bySenders("m", e.m, "/other")
		var keys aThing
		e.do(a, "POST", "/v1/merchants/m/rotation", map[string]any{"key": map[string]any{"bits": 1024}}, &keys)
		e.do(b, "POST", "/v1/merchants/m/rotation/activate", map[string]any{}, nil)
		e.m.setKey(e.t, keys.PublicKey)
		e.bySenders("m", e.m, "/other")
	})
	run("decisions", func(e either) {
		e.waits("at first")
		lines[b].set(cut)
		lines[b].set(pass)
		e.until("the node is ready again", func() bool { return e.call(e.t.Context(), e.nodes[b], "GET", "/readyz", nil, nil) == nil })
		e.waits("after its line was cut")
		dbtest.Exec(e.t, dbURL, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
		e.waits("after the listening connections were ended")
	})
	c.stop()
}

// bySenders makes deposits until both nodes have sent some, all of which must
// come to a path.
func (e either) bySenders(merchant string, m *recorder, path string) {
	e.t.Helper()
	mark := time.Now()
	senders := map[string]bool{}
	e.until("both nodes send", func() bool {
		var made []string
		for i := range 10 {
			made = append(made, e.deposit(i%2, merchant))
		}
		for _, m := range made {
			got := e.becomes(0, m, "accepted")
			senders[got.Attempts[len(got.Attempts)-1].Node] = true
		}
		return len(senders) == 2
	})
	for _, r := range m.all() {
		if r.began.After(mark) && r.path != path {
			e.t.Errorf("%s came to %s, want %s", r.event, r.path, path)
		}
	}
}

// waits lets a reader at the second node wait for decisions that come about at
// the first, and says how long they took from the merchant's answer: with a
// wake-up between the nodes a few milliseconds, without one the reader's poll.
func (e either) waits(when string) {
	e.t.Helper()
	var took []time.Duration
	for range 5 {
		after := 0
		for {
			page, err := e.decisions(e.t.Context(), e.nodes[1], after, "0s")
			if err != nil {
				e.t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			after += len(page)
		}
		got := make(chan error, 1)
		go func() {
			page, err := e.decisions(e.t.Context(), e.nodes[1], after, "30s")
			if err == nil && len(page) == 0 {
				err = errors.New("no decision within 30 s")
			}
			got <- err
		}()
		time.Sleep(50 * time.Millisecond) // it waits
		path := e.withdrawal(0)
		begun := time.Now()
		if err := <-got; err != nil {
			e.t.Fatal(err)
		}
		took = append(took, time.Since(begun))
		e.becomes(0, path, "confirmed")
	}
	slices.SortFunc(took, cmp.Compare)
	e.t.Logf("%s: from a withdrawal's ingest at one node to its decision at a reader of the other: median %v, most %v",
		when, took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
}
