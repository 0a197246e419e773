package gateway

import (
	"errors"
	"maps"
	"slices"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/merchant"
)

// retryFor is how long one call goes on to begin retries: each may ask the check at --verify-url.
const retryFor = 5 * time.Second

func (a *server) creditDeposits(c *api.Call, _ api.None, in client.DecideDeposits) (client.Decided, error) {
	return a.decideDeposits(c, in, book.DepositCredited)
}

func (a *server) rejectDeposits(c *api.Call, _ api.None, in client.DecideDeposits) (client.Decided, error) {
	return a.decideDeposits(c, in, book.DepositRejected)
}

func (a *server) decideDeposits(c *api.Call, in client.DecideDeposits, to book.DepositState) (client.Decided, error) {
	if to == book.DepositCredited && !in.DryRun { // as api.Fresh asks of one
		if err := c.CheckFresh(); err != nil {
			return client.Decided{}, err
		}
	}
	switch {
	case in.Filter == (client.DepositSearch{}):
		return client.Decided{}, errAll
	case in.Filter.State != "" && in.Filter.State != client.DepositHeld:
		return client.Decided{}, api.Invalid(api.At("body.filter.state", "is not held: only held deposits are decided on"))
	}
	b := a.book
	if in.DryRun {
		b = a.lists
	}
	done, err := b.DecideHeld(c.R.Context(), keptSearch(in.Filter), to, c.Token.ID, in.Reason, in.UpTo, in.DryRun, c.Now)
	if err != nil && done.Count > 0 {
		a.c.Log.Warn("deciding on deposits that match broke off", "decided", done.Count, "state", string(to), "error", err)
	}
	return client.Decided{Count: done.Count, LeftOut: done.LeftOut, UpTo: done.Last, More: done.More, DryRun: in.DryRun}, err
}

// errAll is the fault of a selection that has no member.
var errAll = api.Invalid(api.At("body.filter", "is empty; give at least one member"))

// openRefused gives the refused callbacks that f selects and nobody has decided on, the first
// first, without their bodies. There are a thousand at most.
func (a *server) openRefused(c *api.Call, f client.RefusedFilter, after, upTo int64) (list []book.Refused, err error) {
	switch {
	case f == (client.RefusedFilter{}):
		return nil, errAll
	case f.State != "" && f.State != client.RefusedOpen:
		return nil, api.Invalid(api.At("body.filter.state", "is not open: only those are decided on together"))
	}
	f.State = client.RefusedOpen
	for before := int64(0); ; {
		page, next, err := a.lists.RefusedList(c.R.Context(), keptRefused(f), db.PageRows, before)
		for _, r := range page {
			if r.Seq > after && (upTo == 0 || r.Seq <= upTo) {
				list = append(list, r)
			}
		}
		if err != nil || next == 0 {
			slices.Reverse(list)
			return list, err
		}
		before = next
	}
}

func lastSeq(list []book.Refused) int64 {
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1].Seq
}

func (a *server) dismissAllRefused(c *api.Call, _ api.None, in client.DismissRefused) (client.Decided, error) {
	list, err := a.openRefused(c, in.Filter, 0, in.UpTo)
	out := client.Decided{UpTo: lastSeq(list), DryRun: in.DryRun}
	if in.DryRun {
		out.Count = int64(len(list))
		return out, err
	}
	for _, r := range list {
		if err != nil {
			break
		}
		var now book.Refused
		now, err = a.book.DecideRefused(c.R.Context(), r.Seq, client.RefusedDismissed, c.Token.ID, in.Reason, c.Now)
		switch {
		case errors.Is(err, db.ErrNotFound): // others took its place
			err = nil
		case err == nil && now.State == client.RefusedDismissed:
			out.Count++
		}
	}
	return out, err
}

func (a *server) retryAllRefused(c *api.Call, _ api.None, in client.RetryRefused) (client.RetriedRefused, error) {
	if !in.DryRun { // as api.Fresh asks of one
		if err := c.CheckFresh(); err != nil {
			return client.RetriedRefused{}, err
		}
	}
	list, err := a.openRefused(c, in.Filter, in.After, in.UpTo)
	out := client.RetriedRefused{UpTo: lastSeq(list), Again: []client.RefusedReason{}, DryRun: in.DryRun}
	again := map[client.RefusalReason]int64{}
	began := time.Now()
	for _, r := range list {
		switch {
		case err != nil:
			return out, err
		case r.Type == countersign.TypeRequestWithdraw:
			continue
		case in.DryRun:
			out.Count++
			continue
		case out.Count > 0 && time.Since(began) > retryFor:
			return reasons(out, again), nil
		}
		out.Next = r.Seq
		switch r, err = a.lists.Refused(c.R.Context(), r.Seq, true); {
		case errors.Is(err, db.ErrNotFound): // others took its place
			err = nil
		case err == nil && r.State == client.RefusedOpen:
			var tried merchant.Retried
			r, tried, err = a.tryAgain(c, r, in.Reason)
			out.Count++
			if r.State == client.RefusedTaken {
				out.Taken++
			} else if err == nil {
				again[client.RefusalReason(tried.Reason)]++
			}
		}
	}
	out.Next = 0
	return reasons(out, again), err
}

// reasons adds why callbacks were not taken.
func reasons(out client.RetriedRefused, again map[client.RefusalReason]int64) client.RetriedRefused {
	for _, reason := range slices.Sorted(maps.Keys(again)) {
		out.Again = append(out.Again, client.RefusedReason{Reason: reason, Count: again[reason]})
	}
	return out
}
