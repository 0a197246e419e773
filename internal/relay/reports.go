package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"countersign/client"
)

const (
	// reportsTogether is how many releases or outcomes go in one request. The service opens an answer for each release
	// before it commits them all; other requests use its database meanwhile.
	reportsTogether = 200
	// requests is how many of these requests are under way at once.
	requests = 4
)

// sendReports sends rows about withdrawals: the first of each withdrawal, then the second, and so on, so that each
// withdrawal's order is kept. Releases and outcomes go many in one request, the others one by one.
func (t *turn) sendReports(ctx context.Context, list []Row) {
	byKey, order := groupByKey(list)
	for len(order) > 0 && !t.over(ctx) {
		first := map[string][]Row{} // by kind
		var more []string
		for _, key := range order {
			row := byKey[key][0]
			if t.isHeld(row) {
				continue // what is left goes with another turn
			}
			first[row.Kind] = append(first[row.Kind], row)
			if byKey[key] = byKey[key][1:]; len(byKey[key]) > 0 {
				more = append(more, key)
			}
		}
		order = more
		t.sendFirst(ctx, first)
	}
}

// sendFirst sends rows of which no two are about the same withdrawal.
func (t *turn) sendFirst(ctx context.Context, byKind map[string][]Row) {
	var sent sync.WaitGroup
	defer sent.Wait()
	places := make(chan struct{}, requests)
	for _, kind := range []string{kindRelease, kindOutcome} {
		for list := byKind[kind]; len(list) > 0; {
			n := together(list, reportsTogether)
			part := list[:n]
			list = list[n:]
			places <- struct{}{}
			if t.over(ctx) {
				return
			}
			sent.Go(func() {
				defer func() { <-places }()
				t.sendTogether(ctx, part)
			})
		}
	}
	t.sendSingly(ctx, slices.Concat(byKind[kindWaiting], byKind[kindCancel]))
}

// reported notes the result of each row of a request. It looks into refused ones one by one.
func (t *turn) reported(ctx context.Context, list []Row, results []outcomeOfRow) {
	var took []Row
	var permits []permit
	var looks sync.WaitGroup
	places := make(chan struct{}, callers/requests)
	for i, r := range results {
		row := list[i]
		if r.problem == nil {
			took = append(took, row)
			if r.permit != nil {
				permits = append(permits, *r.permit)
			}
			continue
		}
		err := error(itemProblem(r.problem, i))
		if r.problem.Status == http.StatusNotFound {
			err = missing
		}
		places <- struct{}{}
		looks.Go(func() {
			defer func() { <-places }()
			var v verdict
			_ = t.call(ctx, func(ctx context.Context) error {
				v = t.judgeReport(ctx, row, err)
				return nil
			})
			t.note([]Row{row}, v, err)
		})
	}
	looks.Wait()
	t.mu.Lock()
	t.permits = append(t.permits, permits...) // written at the end of the turn
	t.mu.Unlock()
	t.note(took, verdict{result: taken}, nil)
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
	if len(answer.Items) == len(list) && (kind == kindDeposit || kind == kindWithdrawal) {
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

// itemProblem returns the problem of the i-th item as if the request had this item alone.
func itemProblem(p *client.Problem, i int) *client.Problem {
	q := *p
	q.Faults = slices.Clone(p.Faults)
	for n, f := range q.Faults {
		q.Faults[n].Location = strings.Replace(f.Location, fmt.Sprintf("body[%d]", i), "body", 1)
	}
	return &q
}
