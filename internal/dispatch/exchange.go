package dispatch

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"countersign"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// ended is a claimed callback after its attempt, or one without an attempt to give
// back.
type ended struct {
	claimed    outbox.Claimed
	giveBack   bool
	settlement outbox.Settlement
	verdict    Verdict
	plain      []byte // the plaintext that was sent, for the next attempt
	sealed     []byte
	opening    *openings // to be told that the attempt, whose answer did not open, is settled
	steps      *Steps    // nil without a Tracer
}

// attempt makes one attempt of c. When stop ends, no new exchange begins; when work
// ends, running exchanges end.
func (d *Dispatcher) attempt(stop, work context.Context, c outbox.Claimed) (e ended) {
	e.claimed = c
	lane := c.Type.Lane()
	sent := false
	defer func() {
		if !sent {
			d.lanes[lane].sent() // it will not be
		}
	}()
	start := d.cfg.Now()
	if d.cfg.Tracer != nil {
		e.steps = &Steps{Began: time.Now()}
	}
	record := outbox.Attempt{Number: c.Attempts, Started: db.MillisOf(start), Node: d.cfg.Node}
	var m *merchant
	finish := func(v Verdict) {
		now := d.cfg.Now()
		record.Duration = now.Sub(start)
		e.verdict = v
		e.settlement = settlement(c, m, v, record, db.MillisOf(now), jitter())
	}
	// A panic in one exchange must not stop the others.
	defer func() {
		if p := recover(); p != nil {
			// The value of a panic is not logged: it may hold what a merchant sent.
			d.cfg.Log.LogAttrs(work, slog.LevelError, "panic in an exchange", slog.String("callback", c.ID),
				slog.String("value", fmt.Sprintf("%T", p)), slog.String("stack", string(debug.Stack())))
			e.giveBack = false
			finish(Verdict{Result: Retry, Reason: ReasonInternal, Reached: true})
		}
	}()
	internal := func(what string, err error) ended {
		d.cfg.Log.LogAttrs(work, slog.LevelError, what, slog.String("callback", c.ID), slog.String("error", err.Error()))
		finish(Verdict{Result: Retry, Reason: ReasonInternal, Reached: true})
		return e
	}

	if stop.Err() != nil { // claimed while the node was stopping
		e.giveBack = true
		return e
	}
	m, err := d.merchants.get(work, c.Merchant, c.MerchantVersion)
	if err != nil {
		return internal("the merchant cannot be loaded", err)
	}
	q, plain, uuid, err := question(c, m)
	if err != nil {
		return internal("the callback cannot be sent", err)
	}
	record.RequestUUID = uuid

	var body []byte
	prevPlain, prevBody := d.previous.take(c.ID, m.version)
	e.sealed, err = m.seal(d.rsa(stop, m.account, sealTurn(lane), "seal"), plain, prevPlain, prevBody)
	if stop.Err() != nil { // stopping: no new exchange begins
		e.giveBack = true
		return e
	}
	if err == nil {
		e.plain = plain
		body, err = wireBody(m.body, e.sealed)
	}
	if err != nil {
		return internal("sealing failed", err)
	}

	if e.steps != nil {
		e.steps.Sealed = time.Now()
	}
	now := d.cfg.Now()
	if c.LeaseUntil.Time().Sub(now) < d.cfg.ExchangeTimeout+LeaseMargin/2 {
		e.giveBack = true // the wait for a core was too long: a new claim starts again
		return e
	}
	timeout := d.cfg.ExchangeTimeout
	if c.Type == countersign.TypeRequestWithdraw {
		left := q.Deadline.Time().Sub(now)
		if left <= 0 {
			finish(Verdict{Result: Retry, Reason: ReasonLate, Decision: countersign.DecisionExpired, Reached: true})
			return e
		}
		timeout = min(timeout, left)
	}

	var r Response
	if m.urls[lane] == nil {
		r.Failure = ReasonBlockedAddress
	} else {
		record.RequestHash = digest(body)
		until := now.Add(timeout)
		ctx, cancel := context.WithTimeout(work, timeout)
		sent = true
		r = d.lanes[lane].post(ctx, request{
			url: m.urls[lane], private: m.private, contentType: m.contentType, apiKey: m.callbackKey, body: body,
			tooLate: func() bool { return !d.cfg.Now().Before(until) },
		})
		cancel()
		if r.Failure == ReasonOpenFiles {
			d.files.short()
		}
	}
	if e.steps != nil {
		e.steps.Posted = time.Now()
	}
	r.Done = db.MillisOf(d.cfg.Now())
	record.HTTPStatus = r.Status
	if r.Body != nil {
		record.ResponseHash = digest(r.Body)
	}
	opened := false
	var answer []byte
	v := Judge(q, r, func(data string) ([]byte, []int, error) {
		if !m.openings.enter(lane, c.LeaseUntil.Time().Sub(d.cfg.Now())-LeaseMargin/2) {
			return nil, nil, errNotOpened
		}
		e.opening = m.openings
		// No context ends this wait: the response is complete, and a core becomes
		// free within milliseconds.
		w := d.rsa(context.Background(), m.account, openTurn(lane), "open")
		w.Most = countersign.MaxAnswer(len(plain))
		plaintext, blocks, err := m.open(w, data)
		opened, answer = err == nil, plaintext
		return plaintext, blocks, err
	})
	switch {
	case e.opening == nil:
	case v.OpenFailure:
		e.opening.fail()
	default:
		e.opening.leave(lane, opened)
		e.opening = nil
	}
	if e.steps != nil {
		e.steps.Judged = time.Now()
	}
	record.ErrCode = v.ErrCode
	finish(v)
	e.settlement.Unread = m.unread(v.Reason, r, d.cfg.Now())
	if c.Type == countersign.TypeRequestWithdraw && sent && (v.Decision != countersign.DecisionNone || v.ErrCode != nil && *v.ErrCode == 0) {
		e.settlement.Exchange = m.exchange(body, plain, r, answer, v)
	}
	return e
}

// exchange is what the audit log keeps of the exchange about a withdrawal. Of the
// response it keeps the parts: the merchant's API key, which it also holds, is a secret.
// Plaintext that is no answer is not kept (PROTOCOL.md, Sealing, S7).
func (m *merchant) exchange(body, plain []byte, r Response, answer []byte, v Verdict) *outbox.Exchange {
	e := &outbox.Exchange{Version: m.version, URL: m.urls[countersign.LaneWithdraw].Redacted(), RequestKey: m.sealKey.Fingerprint(),
		ResponseKey: m.openKey.Fingerprint(), Request: string(body), RequestOpened: string(plain)}
	if v.ErrCode == nil {
		return e
	}
	if resp, err := countersign.ParseResponse(r.Body); err == nil {
		e.Data, e.Message = resp.Data, strings.ReplaceAll(resp.Message, m.apiKey.Reveal(), "[apiKey]")
	}
	if !v.OpenFailure {
		e.ResponseOpened = string(answer)
	}
	return e
}

// question gives the callback a new requestUUID (PROTOCOL.md, B1). It gives the
// Question for its response, and the bytes to seal.
func question(c outbox.Claimed, m *merchant) (q Question, plain []byte, uuid string, err error) {
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	plain, uuid, err = countersign.Bind(c.Payload, random)
	if err != nil {
		return q, nil, "", err
	}
	// Parse the bytes that will be sent, so that question and plaintext agree.
	// Lenient, because a notice of types 3 and 4 may lack members that the service
	// was not told.
	sent, err := countersign.ParseCallback(plain, countersign.ParseOptions{Lenient: true})
	if err != nil {
		return q, nil, "", err
	}
	if sent.CallbackType() != c.Type {
		return q, nil, "", fmt.Errorf("the payload is of another type than the callback")
	}
	q = Question{APIKey: m.apiKey, Sent: sent, Deadline: c.Deadline, FinalCodes: m.finalCodes, Collect: m.collect}
	if c.Type == countersign.TypeRequestWithdraw {
		if c.Withdrawal == nil {
			return q, nil, "", fmt.Errorf("the question has no withdrawal")
		}
		q.Ordered = c.Withdrawal.Ordered
		q.Deadline = min(c.Deadline, c.Withdrawal.Deadline)
	}
	return q, plain, uuid, nil
}

// rsa runs the RSA of one message of a when it gets a core.
func (d *Dispatcher) rsa(ctx context.Context, a *account, t turn, operation string) envelope.Worker {
	return envelope.Worker{Each: func(n int, f func(int)) error {
		took, err := d.cores.each(ctx, a, t, n, f)
		if err == nil {
			d.cfg.Observer.RSA(operation, took)
		}
		return err
	}}
}

// settlement turns a verdict into a Settlement. It is pure.
func settlement(c outbox.Claimed, m *merchant, v Verdict, record outbox.Attempt, now db.Millis, jitter float64) outbox.Settlement {
	record.Result, record.Reason = string(v.Result), v.Reason.String()
	s := outbox.Settlement{
		Merchant: c.Merchant, CallbackID: c.ID, Attempt: record, Type: c.Type, EventID: c.EventID, AddedBy: c.AddedBy, Payload: c.Payload, Told: c.Told,
		Reached: v.Reached, Decision: v.Decision, Details: v.Details, Alarm: v.Alarm, OpenFailure: v.OpenFailure,
	}
	lane := c.Type.Lane()
	schedule := ScheduleFor(lane, nil)
	if m != nil {
		schedule, s.MerchantVersion = m.schedules[lane], m.version
	}
	again := func(delay time.Duration) {
		var more bool
		s.State = outbox.CallbackPending
		if s.Due, more = dueAfter(now, delay, jitter, c.Deadline); !more && lane != countersign.LaneWithdraw {
			s.State, s.Due = outbox.CallbackExhausted, 0
		} // otherwise a question stays until the sweep expires its withdrawal
	}
	switch {
	case v.Result == Accepted:
		s.State = outbox.CallbackAccepted
	case v.Result == Refused:
		s.State = outbox.CallbackRefused
	case v.Decision == countersign.DecisionExpired:
		s.State = outbox.CallbackExhausted
	case v.Reason == ReasonStopped:
		again(0)
	case v.Reason == ReasonOpenFiles:
		again(filesDue)
	case v.Result == Hold:
		s.Held = true
		delay, more := schedule.holdDelay(lane, c.Held)
		if more {
			again(delay)
		} else {
			s.State = outbox.CallbackExhausted
		}
		if s.State == outbox.CallbackExhausted {
			s.Alarm = AlarmHeldTooLong
		}
	default:
		s.Counts = true
		delay, more := schedule.Delay(c.Failed + 1)
		if more {
			again(delay)
		} else {
			s.State = outbox.CallbackExhausted
		}
		if s.State == outbox.CallbackExhausted {
			s.Alarm = AlarmExhausted // earlier attempts raised the verdict's
		}
	}
	return s
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
