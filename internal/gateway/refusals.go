package gateway

import (
	"context"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/merchant"
)

// refusals raises alarms for the refused requests that a person should look at, and bounds how many are kept. Observe
// must not block, so it only notes the alarms and raise raises them later.
type refusals struct {
	book     *book.Book
	c        *Config
	observer merchant.Observer // may be nil

	mu     sync.Mutex
	alarms []client.Alarm // not raised yet, one for each row
	warned db.Millis      // when the log last said that all are refused

	// Since the last callback that was not refused: when the first was refused (0: none), and how many were, by reason.
	since   db.Millis
	refused map[merchant.Reason]int

	rooms  map[client.RefusalReason]*rate.Limiter // in bytes
	unkept int64                                  // not kept or counted, since the last line about it
	said   db.Millis                              // when that line was logged
}

const (
	raiseEvery = time.Second // between two calls of raise
	warnEvery  = db.Millis(time.Hour / time.Millisecond)

	// There is an alarm if so many callbacks are refused and none is taken: at once for three, after this time for two.
	// A single one may be a stranger's.
	allRefusedAtOnce = 3
	allRefusedTime   = db.Millis(10 * time.Minute / time.Millisecond)
	allRefusedLeast  = 2

	// The bounds on keeping refusals of one reason: what the table has room for at once, and then so many a second. A
	// small one counts as leastKept bytes. Whoever can have requests refused, such as by joining blocks that he read,
	// must neither fill the disk nor delay the deposits that share the database's one writer.
	keepRows  = 20
	leastKept = book.MaxRefusedBytes / book.MaxRefusedRows
	sayEvery  = db.Millis(time.Minute / time.Millisecond)
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
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case o.Reason.Refusal():
		r.refusing(o.Reason)
		if suspect(o.Reason) {
			r.alarm(client.AlarmRequestSuspect, strings.TrimSpace(o.ID+" ("+string(o.Reason)+")"))
		}
	case o.Reason.Answered():
		r.since, r.refused = 0, nil
	}
}

// alarm notes an alarm. r must be locked.
func (r *refusals) alarm(kind client.AlarmKind, subject string) {
	a := client.Alarm{Kind: kind, Subject: subject, First: db.MillisOf(r.c.Now())}
	r.alarms = db.Together(append(r.alarms, a))
}

// takes reports whether there is room for x. If there is none, it only notes the alarm. A deposit that the check holds
// has an entry in the inbox, so nobody can make many of one.
func (r *refusals) takes(x book.Refused, kind client.AlarmKind) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rooms[x.Reason] == nil {
		r.rooms[x.Reason] = rate.NewLimiter(keepRows*leastKept, book.MaxRefusedBytes)
	}
	if x.Due > 0 || r.rooms[x.Reason].AllowN(r.c.Now(), max(len(x.Body), leastKept)) {
		return true
	}
	if kind != "" {
		r.alarm(kind, string(x.Reason))
	}
	r.unkept++
	if now := db.MillisOf(r.c.Now()); now-r.said >= sayEvery {
		r.c.Log.Warn("refused callbacks were not kept: too many came at once for the same reason", "number", r.unkept)
		r.unkept, r.said = 0, now
	}
	return false
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
	now := db.MillisOf(r.c.Now())
	if since == 0 || n < allRefusedAtOnce && now-since < allRefusedTime {
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
	if n < allRefusedLeast || taken >= since {
		return nil
	}
	r.alarm(client.AlarmAllRefused, string(most))
	if now-r.warned >= warnEvery {
		r.warned = now
		r.c.Log.Error("all callbacks are refused", "alarm", string(client.AlarmAllRefused), "refused", n, "mostly",
			string(most), "advice", client.AlarmAllRefused.Do())
	}
	return nil
}

// raise raises the alarms since the last call. Those that fail wait for the next one.
func (r *refusals) raise(ctx context.Context) error {
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
		defer r.mu.Unlock()
		r.alarms = db.Together(append(alarms, r.alarms...))
	}
	return err
}
