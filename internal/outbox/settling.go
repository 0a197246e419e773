package outbox

import (
	"fmt"
	"strconv"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// settling is one settlement being applied.
type settling struct {
	Settlement
	out      *Settled
	id       string // the part after the merchant
	state    client.CallbackState
	found    int64 // 1: the callback was still sending this attempt
	deadline db.Millis

	fresh    bool // the attempt was not recorded before: raise its alarms
	decided  countersign.Decision
	awaiting int64         // 1: the withdrawal was awaiting
	stopped  client.Reason // why the answer cannot decide; empty if it can
	within   db.Millis     // how long it can be released after its confirmation
	signs    bool          // the merchant has an answerKey
	now      db.Millis
}

func newSettling(n Settlement, out *Settled, now db.Millis) (*settling, error) {
	merchant, id, err := splitID(n.CallbackID)
	if err != nil || merchant != n.Merchant {
		return nil, fmt.Errorf("settlement is %w: %q is not a callback of merchant %q", db.ErrInvalid, n.CallbackID,
			n.Merchant)
	}
	switch n.State {
	case client.CallbackPending, client.CallbackAccepted, client.CallbackRefused, client.CallbackExhausted:
	default:
		return nil, fmt.Errorf("settlement is %w: state %q", db.ErrInvalid, n.State)
	}
	switch {
	case n.Decision == countersign.DecisionNone:
	case n.State == client.CallbackPending || n.Decision == countersign.DecisionCancelled:
		return nil, fmt.Errorf("settlement is %w: decision %q with state %q", db.ErrInvalid, n.Decision, n.State)
	case n.Decision == countersign.DecisionConfirmed && n.Details.Validate() != nil:
		return nil, fmt.Errorf("settlement is %w: confirmed without valid details", db.ErrInvalid)
	}
	n.Attempt.Repeated = n.Repeated
	return &settling{Settlement: n, out: out, id: id, state: n.State, now: now}, nil
}

// isAnswer reports whether the settlement rests on an answer of the merchant.
func (b *settling) isAnswer() bool {
	return b.Decision != countersign.DecisionNone || b.state == client.CallbackAccepted || b.state == client.CallbackRefused
}

// alarm returns b's alarm, about the callback with the reason of the attempt. For a deposit that was refused for good
// it is about the merchant's code, so that one alarm stands for all callbacks with that code.
func (b *settling) alarm() client.Alarm {
	a := client.Alarm{Merchant: b.Merchant, Kind: b.Alarm, Subject: b.CallbackID + " " + string(b.Attempt.Reason),
		First: b.now}
	if b.Alarm == client.AlarmDepositRefused {
		a.Examples = []string{b.CallbackID}
		if code := b.Attempt.ErrCode; code != nil {
			a.Subject = "errCode " + strconv.FormatInt(*code, 10)
		}
	}
	if facts := b.Attempt.Facts; facts != nil && facts.Text() != "" { // so that the reader knows what is wrong
		a.Examples = append(a.Examples, facts.Text())
	}
	return a
}

// askAgain makes b the settlement of an answer that decides nothing. It drops b's alarm, which may name a decision;
// the answer that decides will raise its own.
func (b *settling) askAgain() {
	b.Decision, b.decided, b.Alarm = countersign.DecisionNone, countersign.DecisionNone, ""
	b.state, b.Due, b.Counts, b.Held = client.CallbackPending, b.now, false, false
	if b.stopped == client.ReasonRestored {
		b.Due += restoredPause
	}
	b.Attempt.Result, b.Attempt.Reason, b.Attempt.Facts = client.AttemptRetry, b.stopped, nil
	b.out.Stopped = b.stopped
}

// restoredPause is how many milliseconds pass before a question is asked again while nobody has said what became of
// its withdrawal before a restore.
const restoredPause db.Millis = 10_000
