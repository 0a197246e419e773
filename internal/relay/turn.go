package relay

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"countersign/client"
)

// callers is how many merchants' withdrawals are sent at once. The API takes them one by
// one.
const callers = 8

// maxRequest is the most bytes of bodies in one request of deposits, well below what the
// API takes.
const maxRequest = 3 << 20

// manyFailed is how many merchants fail, before any row was taken, until the service itself
// is what fails.
const manyFailed = 10

// turn is the rows of one turn while they are sent.
type turn struct {
	r       *Relay
	began   time.Time
	waiting map[string][]Row // by merchant, in the order of ids; a merchant that failed is removed

	mu      sync.Mutex
	taken   []Row
	refused []refusal
	failed  map[string]error // by merchant
	down    *downError       // nil: the service can be used
}

// refusal is a row that the service will never take as it is.
type refusal struct {
	row     Row
	problem *client.Problem
}

// downError: the service takes nothing now.
type downError struct {
	err  error
	wait time.Duration // at least
}

func (e *downError) Error() string { return e.err.Error() }
func (e *downError) Unwrap() error { return e.err }

func newTurn(r *Relay, rows []Row) *turn {
	t := &turn{r: r, began: time.Now(), waiting: map[string][]Row{}, failed: map[string]error{}}
	for _, row := range rows {
		if p := unfit(row); p != nil {
			t.refused = append(t.refused, refusal{row, p})
			continue
		}
		t.waiting[row.Merchant] = append(t.waiting[row.Merchant], row)
	}
	return t
}

// unfit says what is wrong with a row that cannot be sent at all; nil: nothing.
func unfit(row Row) *client.Problem {
	problem := func(location, message string) *client.Problem {
		return &client.Problem{Title: http.StatusText(http.StatusUnprocessableEntity), Status: http.StatusUnprocessableEntity,
			Detail: "the relay did not send it", Faults: []client.Fault{{Location: location, Message: message}}}
	}
	switch {
	case row.Kind != kindDeposit && row.Kind != kindWithdrawal:
		return problem("kind", "is not "+kindDeposit+" or "+kindWithdrawal)
	case row.Body == nil:
		return problem("body", fmt.Sprintf("has %d bytes; at most %d are sent", row.Length, maxBody))
	case !json.Valid(row.Body) || !bytes.HasPrefix(bytes.TrimLeft(row.Body, " \t\r\n"), []byte("{")):
		return problem("body", "is not a JSON object")
	}
	return nil
}

// send sends rows in turns of both kinds until none is left that may be sent, until the
// service takes nothing, or until end or the end of ctx.
func (t *turn) send(ctx context.Context, end time.Time) error {
	for len(t.waiting) > 0 && t.down == nil && ctx.Err() == nil && time.Now().Before(end) {
		t.sendDeposits(ctx, t.leading(kindDeposit))
		t.sendWithdrawals(ctx, end, t.leading(kindWithdrawal))
	}
	if t.down != nil {
		return t.down
	}
	return nil
}

// leading takes, of each merchant, the rows up to the first of another kind, and gives
// them in the order of their ids.
func (t *turn) leading(kind string) []Row {
	var list []Row
	for m, rows := range t.waiting {
		n := slices.IndexFunc(rows, func(row Row) bool { return row.Kind != kind })
		if n < 0 {
			n = len(rows)
		}
		list = append(list, rows[:n]...)
		if t.waiting[m] = rows[n:]; n == len(rows) {
			delete(t.waiting, m)
		}
	}
	slices.SortFunc(list, func(a, b Row) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// sendDeposits sends deposits in as few requests as there can be. Where a row of a request
// is refused, nothing of it was taken: the rows before, the row and the rows behind are
// then sent apart, in this order.
func (t *turn) sendDeposits(ctx context.Context, list []Row) {
	for len(list) > 0 && t.down == nil && ctx.Err() == nil {
		n, size := 0, 0
		for n < len(list) && n < maxBatch && size+len(list[n].Body) <= maxRequest {
			size += len(list[n].Body)
			n++
		}
		t.sendTogether(ctx, list[:n])
		list = list[n:]
	}
}

func (t *turn) sendTogether(ctx context.Context, list []Row) {
	list = slices.DeleteFunc(slices.Clone(list), t.isHeld)
	if len(list) == 0 || t.down != nil || ctx.Err() != nil {
		return
	}
	err := t.call(ctx, func(ctx context.Context) error {
		bodies := make([]json.RawMessage, len(list))
		for i, row := range list {
			bodies[i] = row.Body
		}
		_, err := t.r.c.Service.AddDepositsAsWritten(ctx, bodies...)
		return err
	})
	v := judge(err)
	if len(list) == 1 || !v.apart {
		t.settle(list, v, err)
		return
	}
	if at := faultAt(err, len(list)); at >= 0 {
		t.sendTogether(ctx, list[:at])
		t.sendTogether(ctx, list[at:at+1])
		t.sendTogether(ctx, list[at+1:])
		return
	}
	half := len(list) / 2
	t.sendTogether(ctx, list[:half])
	t.sendTogether(ctx, list[half:])
}

// sendWithdrawals sends withdrawals one by one, those of one merchant in their order and
// those of several merchants at once.
func (t *turn) sendWithdrawals(ctx context.Context, end time.Time, list []Row) {
	byMerchant := map[string][]Row{}
	for _, row := range list {
		byMerchant[row.Merchant] = append(byMerchant[row.Merchant], row)
	}
	var sent sync.WaitGroup
	places := make(chan struct{}, callers)
	for m, rows := range byMerchant {
		places <- struct{}{}
		sent.Go(func() {
			defer func() { <-places }()
			for i, row := range rows {
				if t.isHeld(row) || t.isDown() || ctx.Err() != nil {
					return
				}
				if time.Now().After(end) { // what is left goes with the next turn
					t.mu.Lock()
					t.waiting[m] = append(slices.Clone(rows[i:]), t.waiting[m]...)
					t.mu.Unlock()
					return
				}
				err := t.call(ctx, func(ctx context.Context) error {
					_, err := t.r.c.Service.CreateWithdrawalsAsWritten(ctx, row.Body)
					return err
				})
				t.settle([]Row{row}, judge(err), err)
			}
		})
	}
	sent.Wait()
}

// call makes one call of the service, which the end of ctx does not break off.
func (t *turn) call(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	return do(ctx)
}

func (t *turn) isHeld(row Row) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed[row.Merchant] != nil
}

func (t *turn) isDown() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.down != nil
}

// settle notes what became of rows that were sent together.
func (t *turn) settle(list []Row, v verdict, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch v.result {
	case taken:
		t.taken = append(t.taken, list...)
	case refused:
		for _, row := range list { // of a request of several rows each is sent apart first
			t.refused = append(t.refused, refusal{row, alone(v.problem)})
		}
	case hold:
		for _, row := range list {
			t.failed[row.Merchant] = err
			delete(t.waiting, row.Merchant)
		}
		if len(t.failed) >= manyFailed && len(t.taken) == 0 { // it is not about one merchant
			t.down = &downError{err: err}
		}
	default:
		t.down = &downError{err, v.wait}
	}
	t.r.metrics.called(v)
}

// hold holds the merchants that failed.
func (t *turn) hold() {
	for m, err := range t.failed {
		t.r.held.fail(m, time.Now())
		t.r.c.Log.Warn("the rows of a merchant wait for another try", "merchant", m, "error", err.Error())
	}
}

// report counts and logs what was settled, once it is committed.
func (t *turn) report() {
	for _, row := range t.taken {
		t.r.held.work(row.Merchant)
		t.r.metrics.carried.WithLabelValues(row.Kind).Inc()
		t.r.metrics.lag.Observe((row.Age + time.Since(t.began)).Seconds())
	}
	for _, f := range t.refused {
		t.r.metrics.refusals.WithLabelValues(kindLabel(f.row.Kind)).Inc()
		t.r.c.Log.Warn("refused", "row", f.row.ID, "kind", kindLabel(f.row.Kind), "merchant", f.row.Merchant, "problem", f.problem.Error())
	}
}

// faultAt gives the index of the first item that a problem names; -1: it names none of n.
func faultAt(err error, n int) int {
	p := problemOf(err)
	if p == nil {
		return -1
	}
	first := -1
	for _, f := range p.Faults {
		rest, ok := strings.CutPrefix(f.Location, "body[")
		digits, _, closed := strings.Cut(rest, "]")
		at, err := strconv.Atoi(digits)
		if ok && closed && err == nil && at >= 0 && at < n && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}
