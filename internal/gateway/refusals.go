package gateway

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/merchant"
)

// refusals raises alarms for the refused requests that a person should look at. Observe must not block, so it only
// notes them and keep raises them later.
type refusals struct {
	book     *book.Book
	c        *Config
	observer merchant.Observer // may be nil

	mu     sync.Mutex
	alarms []client.Alarm // one of each row
	warned db.Millis      // when the log last said that all are refused

	// Since the last callback that was not refused: when the first was refused (0: none), and how many were, by reason.
	since   db.Millis
	refused map[merchant.Reason]int
}

const (
	refusalsEvery = time.Second // between two calls of keep
	maxExamples   = 5           // of an alarm between two calls of keep
	warnEvery     = db.Millis(time.Hour / time.Millisecond)

	// There is an alarm if so many callbacks are refused and none is taken: at once for three, after this time for two.
	// A single one may be a stranger's.
	allRefusedAtOnce = 3
	allRefusedTime   = db.Millis(10 * time.Minute / time.Millisecond)
	allRefusedLeast  = 2
)

// suspect reports whether a refusal for this reason raises AlarmRequestSuspect. The service repeats refused callbacks,
// so for most reasons an alarm would only repeat the log. One row counts them all.
func suspect(reason merchant.Reason) bool {
	switch reason {
	case merchant.ReasonNotBound, merchant.ReasonBindingBroken, merchant.ReasonSpliced, merchant.ReasonOtherContent,
		merchant.ReasonUnsigned, merchant.ReasonSignatureInvalid, merchant.ReasonSignatureOld:
		return true
	}
	return false
}

// Observe implements merchant.Observer.
func (r *refusals) Observe(o merchant.Observation) {
	if r.observer != nil {
		r.observer.Observe(o)
	}
	if !o.Reason.Refusal() {
		if o.Reason.Answered() {
			r.mu.Lock()
			r.since, r.refused = 0, nil
			r.mu.Unlock()
		}
		return
	}
	r.mu.Lock()
	r.refusing(o.Reason)
	if suspect(o.Reason) {
		r.alarm(client.AlarmRequestSuspect, strings.TrimSpace(o.ID+" ("+string(o.Reason)+")"))
	}
	r.mu.Unlock()
}

// alarm notes an alarm. r must be locked.
func (r *refusals) alarm(kind client.AlarmKind, subject string) {
	r.add(client.Alarm{Kind: kind, Subject: subject, Examples: []string{subject}, First: db.MillisOf(r.c.Now()), Number: 1})
}

// repeated counts the alarm of a callback that was refused again.
func (r *refusals) repeated(kind client.AlarmKind, subject string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(client.Alarm{Kind: kind, Subject: subject, First: db.MillisOf(r.c.Now()), Number: 1})
}

// add notes the alarms of a, joined with those of its row that wait. r must be locked.
func (r *refusals) add(a client.Alarm) {
	i := slices.IndexFunc(r.alarms, func(b client.Alarm) bool { return b.Kind == a.Kind && (b.Subject == a.Subject || a.Examples != nil) })
	if i < 0 {
		r.alarms = append(r.alarms, a)
		return
	}
	b := &r.alarms[i]
	b.Number += a.Number
	if a.First >= b.First {
		b.First, b.Subject = a.First, a.Subject
	}
	b.Examples = append(a.Examples, b.Examples...)
	b.Examples = b.Examples[:min(len(b.Examples), maxExamples)]
}

// refusing counts a refusal for the alarm that all are refused. It leaves out wrong paths and methods, which scans by
// strangers cause, and refusals for lack of time. r must be locked.
func (r *refusals) refusing(reason merchant.Reason) {
	switch reason {
	case merchant.ReasonPath, merchant.ReasonMethod, merchant.ReasonOverload:
		return
	}
	if r.since == 0 {
		r.since, r.refused = db.MillisOf(r.c.Now()), map[merchant.Reason]int{}
	}
	r.refused[reason]++
}

// allRefused raises the alarm if allRefusedAtOnce callbacks, or all within allRefusedTime, were refused here and the
// inbox shows that no other node took one.
func (r *refusals) allRefused(ctx context.Context) error {
	r.mu.Lock()
	since, n, most := r.since, 0, merchant.Reason("")
	for _, reason := range merchant.Reasons {
		n += r.refused[reason]
		if r.refused[reason] > r.refused[most] {
			most = reason
		}
	}
	r.mu.Unlock()
	if since == 0 || n < allRefusedAtOnce && db.MillisOf(r.c.Now())-since < allRefusedTime {
		return nil
	}
	taken, err := r.book.LastTaken(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since != since { // one was answered meanwhile
		return nil
	}
	r.since, r.refused = 0, nil
	if n >= allRefusedLeast && taken < since {
		r.alarm(client.AlarmAllRefused, string(most))
		now := db.MillisOf(r.c.Now())
		if now-r.warned < warnEvery {
			return nil
		}
		r.warned = now
		r.c.Log.Error("all callbacks are refused", "alarm", string(client.AlarmAllRefused), "refused", n, "mostly", string(most),
			"advice", client.AlarmAllRefused.Do())
	}
	return nil
}

// keep raises the alarms since the last call. Those that fail wait for the next one.
func (r *refusals) keep(ctx context.Context) error {
	if err := r.allRefused(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	alarms := r.alarms
	r.alarms = nil
	r.mu.Unlock()
	if len(alarms) == 0 {
		return nil
	}
	err := r.book.RaiseAlarms(ctx, alarms)
	if err != nil {
		r.mu.Lock()
		for _, a := range alarms {
			r.add(a)
		}
		r.mu.Unlock()
	}
	return err
}
