package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"countersign/client"
)

const (
	// reportsTogether is how many releases or outcomes go in one request. The service opens an answer for each release
	// before it commits them all; other requests use its database meanwhile.
	reportsTogether = 200
	// requests is how many of these requests are under way at once, and callers how many about single rows.
	requests, callers = 4, 16
)

// report sends a row of kind waiting or cancel; releases and outcomes are sent together.
func (t *turn) report(ctx context.Context, row Row) error {
	w, err := t.r.withdrawal(ctx, row)
	if err == nil {
		_, err = t.r.post(ctx, "/v1/withdrawals/"+url.PathEscape(w.ID)+"/"+row.Kind, row.about.rest)
	}
	return err
}

// reported notes the result of each row of a request. It looks into refused ones one by one.
func (t *turn) reported(ctx context.Context, list []Row, results []outcomeOfRow) {
	var took, looks []Row
	why := map[int64]error{} // by the ids of looks
	for i, r := range results {
		switch row := list[i]; {
		case r.problem == nil:
			took = append(took, row)
			if r.permit != nil {
				t.mu.Lock()
				t.permits = append(t.permits, *r.permit) // written at the end of the turn
				t.mu.Unlock()
			}
		case r.problem.Status == http.StatusNotFound:
			looks, why[row.ID] = append(looks, row), missing
		default:
			looks, why[row.ID] = append(looks, row), itemProblem(r.problem, i)
		}
	}
	atOnce(callers/requests, looks, func(row Row) {
		ctx, cancel := callTime(ctx)
		defer cancel()
		t.note([]Row{row}, t.judgeReport(ctx, row, why[row.ID]), why[row.ID])
	})
	t.note(took, verdict{result: taken}, nil)
}

// judgeReport is judge for a row about one withdrawal. It looks into a conflict: some end by themselves or by a person,
// and some come from a node that is behind.
func (t *turn) judgeReport(ctx context.Context, row Row, err error) verdict {
	p := problemOf(err)
	switch {
	case p == missing:
	case p == nil:
		return judge(err)
	case p.Status == http.StatusGone && p.Detail != "":
		return verdict{result: refused, problem: p}
	case p.Status == http.StatusNotFound: // its id was looked up just now
		return verdict{result: hold}
	case p.Status != http.StatusConflict || len(p.Faults) > 0:
		return judge(err)
	}
	w, err := t.r.withdrawal(ctx, row)
	switch {
	case problemOf(err) == missing && p == missing:
		return verdict{result: refused, problem: p}
	case problemOf(err) != missing && judge(err).result == down:
		return judge(err)
	case err != nil || p == missing || w.Restored: // a person must first say what became of a restored one
		return verdict{result: hold}
	}
	switch w.State {
	case client.WithdrawalAwaiting: // not decided, or a node is behind: the core has the decision
		return verdict{result: hold}
	case client.WithdrawalConfirmed, client.WithdrawalReleased:
		// The merchant is paused, the service frozen, a restore not reconciled, or a node behind.
		if row.Kind != kindCancel {
			return verdict{result: hold}
		}
	case client.WithdrawalExecuted, client.WithdrawalFailed:
		if row.Kind == kindWaiting { // it was sent, or is past: a relay that died then has sent the outcome after it
			return verdict{result: taken}
		}
	}
	return verdict{result: refused, problem: p}
}

// withdrawal returns the withdrawal that a row is about, as the service has it now.
func (r *Relay) withdrawal(ctx context.Context, row Row) (client.Withdrawal, error) {
	f := client.WithdrawalFilter{Merchant: row.Merchant, CallBackID: row.about.callBackID}
	return ask(ctx, r, func(ctx context.Context, api *client.Service) (client.Withdrawal, error) {
		page, err := api.Withdrawals(ctx, f, client.PageOptions{Limit: 1})
		switch {
		case err != nil:
			return client.Withdrawal{}, err
		case len(page.Items) == 0:
			return client.Withdrawal{}, missing
		}
		return page.Items[0], nil
	})
}

// outcomeOfRow is the result of one row of several: a problem, or that it was taken.
type outcomeOfRow struct {
	permit  *permit // of a release that was taken
	ended   bool    // an outcome was taken, of this row's withdrawal
	problem *client.Problem
}

// readResults reads the answer to rows of a kind; nil means that all were taken. An answer without exactly one result
// for each row is an error: no row that the service did not name may count as taken.
func readResults(kind string, list []Row, out json.RawMessage) ([]outcomeOfRow, error) {
	var answer client.List[struct {
		Issued *client.Permit             // of a release
		Ended  *client.AcceptedWithdrawal // of an outcome
		Error  *client.Problem
	}]
	if err := json.Unmarshal(out, &answer); err != nil {
		return nil, fmt.Errorf("the answer to rows of kind %s: %w", kind, err)
	}
	if len(answer.Items) == len(list) && groupOf(kind) != kindOther {
		return nil, nil
	}
	var results []outcomeOfRow
	for i, r := range answer.Items {
		one := outcomeOfRow{problem: r.Error}
		if r.Issued != nil && r.Error == nil && i < len(list) {
			p, err := permitOf(list[i], r.Issued)
			if err != nil {
				return nil, err
			}
			one.permit = &p
		}
		one.ended = r.Ended != nil && i < len(list) && list[i].isAbout(r.Ended.Withdrawal)
		results = append(results, one)
	}
	if len(results) != len(list) {
		return nil, fmt.Errorf("the answer to %d rows of kind %s has %d results", len(list), kind, len(results))
	}
	for i, r := range results {
		if r.problem == nil && (kind != kindRelease || r.permit == nil) && (kind != kindOutcome || !r.ended) {
			return nil, fmt.Errorf("the answer to rows of kind %s has no result of %s", kind, list[i].key())
		}
	}
	return results, nil
}

// atOnce does something with each of list, with at most n at once.
func atOnce[T any](n int, list []T, do func(T)) {
	var all sync.WaitGroup
	places := make(chan struct{}, n)
	for _, one := range list {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			do(one)
		})
	}
	all.Wait()
}
