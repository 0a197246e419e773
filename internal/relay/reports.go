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
	// requests is how many of these requests are under way at once, and callers how many about single rows.
	requests, callers = 4, 16
)

// sendByKey sends rows of the kinds that are not sent by sendMany: the first of each withdrawal or of a merchant's
// addresses, then the second, and so on, so that their order is kept. Releases and outcomes go many in one request, the
// others one by one.
func (t *turn) sendByKey(ctx context.Context, list []Row) {
	for len(list) > 0 && !t.over(ctx) {
		first, seen := map[string][]Row{}, map[string]bool{} // by kind, and by key
		var later []Row
		for _, row := range list {
			switch key := row.key(); {
			case t.isHeld(row): // what is left goes with another turn
			case seen[key]:
				later = append(later, row)
			default:
				seen[key], first[row.Kind] = true, append(first[row.Kind], row)
			}
		}
		list = later
		t.sendFirst(ctx, first)
	}
}

// sendFirst sends rows of which no two have the same key.
func (t *turn) sendFirst(ctx context.Context, byKind map[string][]Row) {
	var several [][]Row
	for _, kind := range []string{kindRelease, kindOutcome} {
		for list := byKind[kind]; len(list) > 0; {
			n := together(list, reportsTogether)
			several, list = append(several, list[:n]), list[n:]
		}
	}
	atOnce(requests, several, func(part []Row) {
		if !t.over(ctx) {
			t.sendTogether(ctx, part)
		}
	})
	atOnce(callers, slices.Concat(byKind[kindAddress], byKind[kindWaiting], byKind[kindCancel]), func(row Row) {
		if !t.over(ctx) {
			t.sendOne(ctx, row)
		}
	})
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
		var v verdict
		_ = t.call(ctx, func(ctx context.Context) error {
			v = t.judgeReport(ctx, row, why[row.ID])
			return nil
		})
		t.note([]Row{row}, v, why[row.ID])
	})
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
