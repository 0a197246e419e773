package dispatch

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// attempt is one attempt under way. Its steps are load, seal, post and judge; each of the first two may end it.
type attempt struct {
	ended  // what comes of it
	d      *Dispatcher
	lane   countersign.Lane
	start  time.Time
	record outbox.Attempt
	m      *merchant // nil until it is loaded
	q      Question
	asked  *keySet     // the keys of the request
	body   []byte      // the request on the wire
	header http.Header // Content-Type and signature of a request that is signed; else nil
	posted bool
}

// attempt makes one attempt of c. When stop ends, no new exchange begins; when work ends, running exchanges end.
func (d *Dispatcher) attempt(stop, work context.Context, c outbox.Claimed) ended {
	start := d.cfg.Now()
	a := &attempt{d: d, ended: ended{claimed: c}, lane: c.Type.Lane(), start: start,
		record: outbox.Attempt{Attempt: client.Attempt{Number: c.Attempt, Started: db.MillisOf(start), Node: d.cfg.Node}}}
	defer func() {
		if !a.posted {
			d.lanes[a.lane].sent() // it will not be
		}
	}()
	a.run(stop, work)
	return a.ended
}

func (a *attempt) run(stop, work context.Context) {
	// A panic in one exchange must not stop the others.
	defer func() {
		if p := recover(); p != nil {
			// The value of a panic is not logged: it may hold what a merchant sent.
			a.d.cfg.Log.LogAttrs(work, slog.LevelError, "panic in an exchange", slog.String("callback", a.claimed.ID),
				slog.String("value", fmt.Sprintf("%T", p)), slog.String("stack", string(debug.Stack())))
			a.giveBack = false
			a.finish(Verdict{Result: client.AttemptRetry, Reason: client.ReasonInternal, Reached: true})
		}
	}()
	if stop.Err() != nil { // claimed while the node was stopping
		a.giveBack = true
		return
	}
	if what, err := a.load(work); errors.Is(err, errPaused) {
		a.giveBack = true
		return
	} else if err != nil {
		a.failed(work, what, err)
		return
	}
	err := a.seal(stop)
	if stop.Err() != nil { // stopping: no new exchange begins
		a.giveBack = true
		return
	}
	if err != nil {
		a.failed(work, "sealing failed", err)
		return
	}
	if timeout := a.timeLeft(); timeout > 0 {
		a.judge(a.post(work, timeout))
	}
}

// finish makes the settlement of a verdict.
func (a *attempt) finish(v Verdict) {
	now := a.d.cfg.Now()
	a.took = now.Sub(a.start)
	a.record.DurationMs = a.took.Milliseconds()
	a.verdict = v
	a.settlement = settlement(a.claimed, a.m, v, a.record, db.MillisOf(now), a.d.cfg.Random())
}

// failed ends an attempt that this node could not make.
func (a *attempt) failed(ctx context.Context, what string, err error) {
	a.d.cfg.Log.LogAttrs(ctx, slog.LevelError, what, slog.String("callback", a.claimed.ID),
		slog.String("error", err.Error()))
	a.finish(Verdict{Result: client.AttemptRetry, Reason: client.ReasonInternal, Reached: true})
}

// load sets the attempt's merchant and question. With an error it returns what cannot be done.
func (a *attempt) load(ctx context.Context) (what string, err error) {
	c := a.claimed
	if a.m, err = a.d.merchants.get(ctx, c.Merchant, c.MerchantVersion); err != nil {
		return "the merchant cannot be loaded", err
	}
	if a.q, a.plain, a.record.RequestUUID, err = question(c, a.m); err != nil {
		return "the callback cannot be sent", err
	}
	return "", nil
}

// seal makes the body of the request and signs it.
func (a *attempt) seal(stop context.Context) error {
	a.asked = a.m.forRequest(a.claimed.LastReason, db.MillisOf(a.start))
	sealed, err := a.d.rsa(stop, a.lane, "seal").Seal(a.asked.sealKey, a.asked.sealPad, a.plain)
	if err != nil {
		return err
	}
	if a.body, err = wireBody(a.m.Body, sealed); err != nil {
		return err
	}
	return a.sign()
}

// timeLeft returns how long the exchange may take. It returns 0 if it has ended the attempt, because the wait for a
// core took too long.
func (a *attempt) timeLeft() time.Duration {
	now := a.d.cfg.Now()
	timeout := a.d.cfg.ExchangeTimeout
	if a.claimed.LeaseUntil.Time().Sub(now) < timeout+LeaseMargin/2 {
		a.giveBack = true // a new claim starts again
		return 0
	}
	if a.claimed.Type != countersign.TypeRequestWithdraw {
		return timeout
	}
	left := a.q.Deadline.Time().Sub(now)
	if left <= 0 {
		a.finish(Verdict{Result: client.AttemptRetry, Reason: client.ReasonLate,
			Facts:    client.Fact{Cause: "the deadline came before the question could be sent"},
			Decision: countersign.DecisionExpired, Reached: true})
		return 0
	}
	return min(timeout, left)
}

// post sends the request and returns the response, or why there is none.
func (a *attempt) post(work context.Context, timeout time.Duration) (r Response) {
	d, m := a.d, a.m
	if m.urls[a.lane] == nil {
		r.Failure, r.Cause = client.ReasonBlockedAddress, "the URL is not one that the service may call"
	} else {
		a.record.RequestHash = digest(a.body)
		until := d.cfg.Now().Add(timeout)
		ctx, cancel := context.WithTimeout(work, timeout)
		a.posted = true
		d.lanes[a.lane].sent()
		r = d.post(ctx, request{
			url: m.urls[a.lane], private: m.private, contentType: m.ContentType, apiKey: a.asked.callbackKey,
			signature: a.header, body: a.body,
			tooLate: func() bool { return !d.cfg.Now().Before(until) },
		})
		cancel()
	}
	r.Done = db.MillisOf(d.cfg.Now())
	a.record.HTTPStatus = r.Status
	if r.Body != nil {
		a.record.ResponseHash = digest(r.Body)
	}
	return r
}

// judge makes the verdict about a response and its settlement.
func (a *attempt) judge(r Response) {
	m, sets := a.m, a.m.forAnswer(a.asked, r.Done)
	a.q.AnswerKeys, a.q.Asked = m.answerKeys, a.header
	for _, set := range sets {
		a.q.APIKeys = append(a.q.APIKeys, set.apiKey)
	}
	under := sets[0]
	var answer []byte
	v := Judge(a.q, r, func(data string) (plaintext []byte, blocks []int, err error) {
		if !m.openings.enter(a.lane, a.claimed.LeaseUntil.Time().Sub(a.d.cfg.Now())-LeaseMargin/2) {
			return nil, nil, errNotOpened
		}
		a.opening = m.openings
		// No context ends this wait: the response is complete, and a core becomes free within milliseconds.
		w := a.d.rsa(context.Background(), a.lane, "open")
		w.Most = countersign.MaxAnswer(len(a.plain))
		under, plaintext, blocks, err = openAnswer(sets, w, a.claimed.Type, data)
		answer = plaintext
		return plaintext, blocks, err
	})
	switch {
	case a.opening == nil:
	case v.OpenFailure:
		a.opening.fail()
	default:
		a.opening.leave(a.lane)
		a.opening = nil
	}
	a.record.ErrCode = v.ErrCode
	if v.Facts != (client.Fact{}) {
		v.Facts = m.shown(v.Facts)
	}
	if m.keyRefused(a.asked, v, r.Status, r.Done) {
		v.Reason, v.Alarm, v.Reached = client.ReasonKeyRefused, "", true
	}
	a.finish(v)
	if a.claimed.Type == countersign.TypeRequestWithdraw && a.posted &&
		(v.Decision != countersign.DecisionNone || v.ErrCode != nil && *v.ErrCode == 0) {
		a.settlement.Exchange = a.exchange(under, r, answer, v)
	}
}

// exchange returns what the audit log keeps of the exchange about a withdrawal. It keeps the response in parts, because
// the merchant's API key in it is a secret. Plaintext that is no answer is not kept (PROTOCOL.md, Sealing, S7).
func (a *attempt) exchange(under *keySet, r Response, answer []byte, v Verdict) *outbox.Exchange {
	c, m, e := a.claimed, a.m, &outbox.Exchange{}
	e.Type, e.EventID, e.AddedBy, e.Payload = int(c.Type), c.EventID, c.AddedBy, digest(c.Payload)
	e.Version, e.URL, e.Request, e.RequestOpened = m.version, m.urls[countersign.LaneWithdraw].Redacted(), string(a.body),
		string(a.plain)
	e.RequestKey, e.ResponseKey = a.asked.sealKey.Fingerprint(), under.openKey.Fingerprint()
	a.link(e, r, v, answer)
	if v.ErrCode == nil {
		return e
	}
	if resp, err := countersign.ParseResponse(r.Body); err == nil {
		e.Response, e.Message = resp.Data, m.shown(client.Fact{Message: resp.Message}).Message
	}
	if !v.OpenFailure {
		e.ResponseOpened = string(answer)
	}
	return e
}

// question puts a new requestUUID into the callback (PROTOCOL.md, B1). It returns the Question for its response, and
// the bytes to seal.
func question(c outbox.Claimed, m *merchant) (q Question, plain []byte, uuid string, err error) {
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	plain, uuid, err = countersign.Bind(c.Payload, random)
	if err != nil {
		return q, nil, "", err
	}
	// Parse the bytes that will be sent, so that question and plaintext agree. Lenient, because a notice of types 3 and
	// 4 may lack members that the service does not know.
	sent, err := countersign.ParseCallback(plain, countersign.ParseOptions{Lenient: true})
	if err != nil {
		return q, nil, "", err
	}
	if sent.CallbackType() != c.Type {
		return q, nil, "", fmt.Errorf("the payload is of another type than the callback")
	}
	q = Question{Sent: sent, Deadline: c.Deadline, FinalCodes: m.FinalCodes, Collect: m.Collect}
	if c.Type == countersign.TypeRequestWithdraw {
		if c.Withdrawal == nil {
			return q, nil, "", fmt.Errorf("the question has no withdrawal")
		}
		q.Ordered = c.Withdrawal.Ordered
		q.Deadline = min(c.Deadline, c.Withdrawal.Deadline)
	}
	return q, plain, uuid, nil
}

// rsa returns a worker that runs the RSA of one message when its lane has a place on the cores.
func (d *Dispatcher) rsa(ctx context.Context, lane countersign.Lane, operation string) envelope.Worker {
	return envelope.Worker{Each: func(n int, f func(int)) error {
		took, err := d.cores.each(ctx, lane, n, f)
		if err == nil {
			d.cfg.Observer.RSA(operation, took)
		}
		return err
	}}
}

// settlement turns a verdict into a Settlement. It is pure.
func settlement(c outbox.Claimed, m *merchant, v Verdict, record outbox.Attempt, now db.Millis,
	jitter float64) outbox.Settlement {
	record.Result, record.Reason = v.Result, v.Reason
	if v.Facts != (client.Fact{}) {
		record.Facts = &v.Facts
	}
	s := outbox.Settlement{
		Merchant: c.Merchant, CallbackID: c.ID, Type: c.Type, Failed: c.Failed, Attempt: record, Repeated: c.Repeated,
		Reached: v.Reached, Decision: v.Decision, Details: v.Details, Alarm: v.Alarm, OpenFailure: v.OpenFailure,
	}
	lane := c.Type.Lane()
	schedule := ScheduleFor(lane, nil)
	if m != nil {
		schedule, s.MerchantVersion = m.schedules[lane], m.version
	}
	again := func(delay time.Duration, more bool) {
		if more {
			s.State = client.CallbackPending
			// A question stays until the sweep expires its withdrawal.
			if s.Due, more = dueAfter(now, delay, jitter, c.Deadline); more || lane == countersign.LaneWithdraw {
				return
			}
		}
		s.State, s.Due, s.Alarm = client.CallbackExhausted, 0, client.AlarmExhausted // earlier attempts raised the verdict's
	}
	switch {
	case v.Result == client.AttemptAccepted:
		s.State = client.CallbackAccepted
	case v.Result == client.AttemptRefused:
		s.State = client.CallbackRefused
		if lane == countersign.LaneNotify { // a question that is refused is declined
			s.Alarm = client.AlarmDepositRefused
		}
	case v.Decision == countersign.DecisionExpired:
		s.State = client.CallbackExhausted
	case v.Reason == client.ReasonStopped, v.Reason == client.ReasonKeyRefused:
		again(0, true)
	case v.Reason == client.ReasonOpenFiles:
		again(filesDue, true) // at once, it would only fail again
	case v.Result == client.AttemptHold:
		s.Held = true
		again(schedule.holdDelay(lane, c.Held))
	default:
		s.Counts = true
		again(schedule.Delay(c.Failed + 1))
	}
	return s
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
