package relay

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"
)

// maxRequest is the most bytes of bodies in one request, well below the API's limit.
const maxRequest = 3 << 20

// send sends the rows of each group in turn until no row may be sent, the service takes nothing, or end or the end of
// ctx has come.
func (t *turn) send(ctx context.Context, end time.Time) error {
	t.end = end
	for len(t.waiting) > 0 && !t.over(ctx) {
		t.sendMany(ctx, t.leading(kindDeposit))
		t.sendMany(ctx, t.leading(kindWithdrawal))
		t.sendMany(ctx, t.leading(kindAddress))
		t.sendByKey(ctx, t.leading(kindOther))
	}
	return t.down
}

// leading takes the first rows of each merchant, up to one of another group, and returns them in the order of their
// ids.
func (t *turn) leading(group string) []Row {
	var list []Row
	for m, rows := range t.waiting {
		n := slices.IndexFunc(rows, func(row Row) bool { return groupOf(row.Kind) != group })
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

// sendMany sends deposits, withdrawals or addresses in as few requests as possible. If a row of a request is refused, nothing of
// the request was taken. Its halves are then sent in separate requests, in their order.
func (t *turn) sendMany(ctx context.Context, list []Row) {
	for len(list) > 0 && !t.over(ctx) {
		n := together(list, maxBatch)
		t.sendTogether(ctx, list[:n])
		list = list[n:]
	}
}

// sendByKey sends rows of the kinds that are not sent by sendMany: the first of each withdrawal, then the second, and
// so on, so that their order is kept. Releases and outcomes go many in one request, the others one by one.
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
	atOnce(callers, slices.Concat(byKind[kindWaiting], byKind[kindCancel]), func(row Row) {
		if !t.over(ctx) {
			t.sendOne(ctx, row)
		}
	})
}

func (t *turn) sendOne(ctx context.Context, row Row) {
	ctx, cancel := callTime(ctx)
	defer cancel()
	err := t.report(ctx, row)
	v := verdict{result: taken}
	if err != nil {
		v = t.judgeReport(ctx, row, err)
	}
	t.note([]Row{row}, v, err)
}

// together returns how many of the first rows of list, at most most, go in one request.
func together(list []Row, most int) (n int) {
	for size := 0; n < len(list) && n < most; n++ {
		if size += len(list[n].Body); size > maxRequest {
			break
		}
	}
	return n
}

// sendTogether sends rows of one kind in one request. Each release and outcome has its own result.
func (t *turn) sendTogether(ctx context.Context, list []Row) {
	list = slices.DeleteFunc(slices.Clone(list), t.isHeld)
	if len(list) == 0 || t.isDown() || ctx.Err() != nil {
		return
	}
	kind := list[0].Kind
	if kind == kindRelease && !t.r.c.Decisions {
		t.note(list, verdict{result: hold}, errNoPermits)
		return
	}
	bodies := make([][]byte, len(list))
	for i, row := range list {
		bodies[i] = row.Body
	}
	var results []outcomeOfRow
	call, cancel := callTime(ctx)
	out, err := t.r.post(call, paths[kind], slices.Concat([]byte("["), bytes.Join(bodies, []byte(",")), []byte("]")))
	cancel()
	if err == nil {
		results, err = readResults(kind, list, out)
	}
	v := judge(err)
	switch {
	case results != nil:
		t.reported(ctx, list, results)
	case len(list) == 1 || !v.split:
		t.note(list, v, err)
	default: // in halves, down to the row at fault
		half := len(list) / 2
		t.sendTogether(ctx, list[:half])
		t.sendTogether(ctx, list[half:])
	}
}
