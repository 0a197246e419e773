package gateway

import (
	"context"
	"sync"
	"time"

	"countersign/internal/audit"
	"countersign/internal/book"
	"countersign/internal/control"
	"countersign/internal/db"
	"countersign/merchant"
)

// refusals counts the requests that the public handler refuses and raises alarms
// for those that a person should look at. Observe must not block, so both are
// kept by a later call of keep.
type refusals struct {
	book     *book.Book
	c        *Config
	observer merchant.Observer // may be nil

	mu     sync.Mutex
	counts map[string]int64
	alarms []db.Alarm
	raised map[db.Alarm]db.Millis // when this process last raised each; keys are without At

	// Since the last callback that was not refused: when the first was refused, 0 if
	// none was, and how many were, by reason.
	since   db.Millis
	refused map[merchant.Reason]int
}

const (
	refusalsEvery = time.Second // between two calls of keep
	// maxRefusalAlarms bounds the alarms between two calls of keep.
	maxRefusalAlarms = 100
	// maxRaised bounds refusals.raised. It only spares work, because the database
	// also knows the alarms of the last hour.
	maxRaised  = 10_000
	alarmPause = db.Millis(time.Hour / time.Millisecond)

	// If all callbacks of this time are refused, and at least so many, there is an
	// alarm. One alone may be a stranger's.
	allRefusedTime  = db.Millis(10 * time.Minute / time.Millisecond)
	allRefusedLeast = 2
)

// refusalAlarms are the reasons that raise an alarm. The service repeats what was
// refused, so most others would only repeat the log.
var refusalAlarms = map[merchant.Reason]string{
	merchant.ReasonNotBound:      book.AlarmNotBound,
	merchant.ReasonBindingBroken: book.AlarmBindingBroken,
	merchant.ReasonSpliced:       book.AlarmSpliced,
	merchant.ReasonOtherContent:  book.AlarmOtherContent,
	merchant.ReasonDisproved:     book.AlarmDisproved,
	merchant.ReasonUnverified:    book.AlarmUnverified,
}

// subjectNotBound is the subject of every alarm not_bound. Such a service binds no
// callback, and one alarm for each would hide all others.
const subjectNotBound = "--binding"

// advice says what to do about an alarm; empty if its kind says it.
func advice(kind string) string {
	switch kind {
	case book.AlarmNotBound:
		return "if this service never binds its requests, start the gateway with --provider other or --binding seen and compare each deposit with the chain " +
			"before you credit it; otherwise ask the service why this request was not bound"
	case book.AlarmAllRefused:
		return "all callbacks of ten minutes were refused, mostly for the reason that is the subject: the log names the setting that would change it, " +
			"/v1/stats counts all reasons, and gateway --learn says what this provider does"
	case book.AlarmRestored:
		return "what came after the backup is not known here and may have been booked: deposits are held, and orders are not cancelled, until " +
			"countersign reconcile --gateway --settle was told what was booked"
	case control.AlarmTokenChanged:
		return "a token that decides on changes and orders was made or revoked: if nobody meant it, revoke it"
	case book.AlarmBindingBroken:
		return "it was refused; somebody who can read requests joined blocks of several, or the service is at fault: ask it what it sent"
	case book.AlarmSpliced:
		return "it was refused, or is held if it is a deposit that the feed calls suspect; somebody who can read requests joined blocks of several, " +
			"or the service is at fault: ask it what it sent"
	case audit.AlarmBroken:
		return "rows of the audit log are not as they were added, so it is not signed any more: the gateway's log says which record; somebody changed the database " +
			"past the gateway, or it was damaged or set back"
	case book.AlarmOtherContent:
		return "it was refused, and the content that was taken first stands: ask the service which of the two is right"
	case book.AlarmPossibleDuplicate:
		return "the deposit may have been told before under another trackingId and is held: compare both with the chain, then credit or reject it"
	case book.AlarmOrderUnknown:
		return "the service asked about a withdrawal, or executed one, that was never ordered: ask it who started this; your own systems must order at the gateway first"
	case book.AlarmUserDiffers:
		return "the callback names another user than its order, and confirmed nothing: ask the service"
	case book.AlarmExecutedUnconfirmed:
		return "the service executed an order that was not confirmed: look at the chain, and order nothing more until it explains that"
	case book.AlarmExecutedDiffers:
		return "the service executed other details than those that were confirmed: compare with the chain, and order nothing more until it explains that"
	case book.AlarmExecutedTwice:
		return "the service names two transactions for one order: look at both on the chain, and order nothing more until it explains that"
	case book.AlarmExecutedAfterEnd:
		return "the service executed an order after it had ended it, and the funds may have been freed: look at the chain, correct the books, and ask the service"
	case book.AlarmEndedAfterExecution:
		return "the service ended an order after it had executed it: what was booked stands; look at the chain, and ask the service"
	case book.AlarmDisproved:
		return "the deposit was refused, because the check at --verify-url said no: look at the chain; if it is there, mend the check and have the service send it again"
	case book.AlarmUnverified:
		return "the deposit was refused, because the check at --verify-url did not say yes in time: look at the chain and at the check, then have the service send it again"
	}
	return ""
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
	r.counts[string(o.Reason)]++
	r.refusing(o.Reason)
	kind, alarming := refusalAlarms[o.Reason]
	alarming = alarming && r.alarm(kind, o.ID)
	r.mu.Unlock()
	if alarming && o.Reason == merchant.ReasonNotBound {
		r.c.Log.Warn("a request was refused because it is not bound", "alarm", kind, "advice", advice(kind))
	}
}

// alarm notes an alarm, unless it was raised in the last hour. r is locked.
func (r *refusals) alarm(kind, subject string) bool {
	if kind == book.AlarmNotBound {
		subject = subjectNotBound
	}
	key, now := db.Alarm{Kind: kind, Subject: subject}, db.MillisOf(r.c.Now())
	if last, known := r.raised[key]; known && now-last < alarmPause || len(r.alarms) >= maxRefusalAlarms {
		return false
	}
	if len(r.raised) >= maxRaised {
		clear(r.raised)
	}
	r.raised[key] = now
	key.At = now
	r.alarms = append(r.alarms, key)
	return true
}

// refusing notes a refusal for the alarm that all are refused. Wrong paths and
// methods do not count, since scans of strangers have them, nor does what this
// process has no time for. r is locked.
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

// allRefused raises the alarm if all callbacks of allRefusedTime were refused, here
// and, as far as the inbox shows, at the other nodes.
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
	if since == 0 || db.MillisOf(r.c.Now())-since < allRefusedTime {
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
	if n >= allRefusedLeast && taken < since && r.alarm(book.AlarmAllRefused, string(most)) {
		r.c.Log.Error("all callbacks of ten minutes were refused", "alarm", book.AlarmAllRefused, "refused", n, "mostly", string(most),
			"advice", advice(book.AlarmAllRefused))
	}
	return nil
}

// keep records what was counted since the last call. What could not be recorded
// waits for the next one.
func (r *refusals) keep(ctx context.Context) error {
	if err := r.allRefused(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	counts, alarms := r.counts, r.alarms
	r.counts, r.alarms = map[string]int64{}, nil
	r.mu.Unlock()
	if len(counts) == 0 && len(alarms) == 0 {
		return nil
	}
	err := r.book.AddRefusals(ctx, counts, alarms)
	if err != nil {
		r.mu.Lock()
		for reason, n := range counts {
			r.counts[reason] += n
		}
		r.alarms = append(alarms, r.alarms...)
		r.mu.Unlock()
	}
	return err
}
