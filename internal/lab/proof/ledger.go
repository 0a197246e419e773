package proof

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"countersign"
	"countersign/client"
)

// Result is what the ledgers of both sides say in the end.
type Result struct {
	Deposits    int    // that the core committed
	RolledBack  int    // deposits and withdrawals that it took back
	Credited    int    // credits in the merchant's ledger
	Sum         string // of both ledgers
	Withdrawals int    // that the core committed
	Confirmed   int    // by the merchant
	Executed    int
	Refused     int      // by the merchant for good: by the gateway's limits, or at random
	Wrong       []string // each loss, double and difference; empty: there is none
}

// Finish ends the making of new work, waits until all of it has arrived, and compares
// the ledgers.
func (ch *Chain) Finish(ctx context.Context) (r Result, err error) {
	ch.mu.Lock()
	ch.stopped = true
	ch.mu.Unlock()
	for last := ""; ; time.Sleep(100 * time.Millisecond) {
		left, err := ch.left(ctx)
		if err == nil && len(ch.Restores) > 0 {
			err = ch.decideContradiction(ctx)
		}
		if err == nil {
			err = ch.Decide(ctx, true)
		}
		if err == nil && left == "" && last == "" {
			break
		}
		if err != nil {
			left = err.Error()
		}
		last = left
		if ctx.Err() != nil {
			ch.mu.Lock()
			defer ch.mu.Unlock()
			return r, fmt.Errorf("not all arrives: %s; %v", last, ch.failed)
		}
		last = left
	}
	r.RolledBack = ch.RolledBack
	if err := ch.compareDeposits(ctx, &r); err != nil {
		return r, err
	}
	if err := ch.compareTruth(ctx, &r); err != nil {
		return r, err
	}
	if err := ch.compareWithdrawals(ctx, &r); err != nil {
		return r, err
	}
	if len(ch.Restores) > 0 {
		err = ch.compareByCommand(ctx, &r)
	}
	slices.Sort(r.Wrong)
	return r, err
}

// left says what has not arrived yet.
func (ch *Chain) left(ctx context.Context) (string, error) {
	ch.mu.Lock()
	idle := ch.idle
	ch.mu.Unlock()
	if !idle {
		return "the core's last transaction", nil
	}
	var rows, open, decisions int
	if err := ch.core.QueryRowContext(ctx, `SELECT COUNT(*) FROM countersign_outbox`).Scan(&rows); err != nil || rows > 0 {
		return fmt.Sprint(rows, " rows of the core"), err
	}
	stats, err := ch.api.Stats(ctx)
	if err != nil {
		return "", err
	}
	for _, l := range stats.Lanes {
		if l.State == client.CallbackPending || l.State == client.CallbackSending {
			open += int(l.Count)
		}
	}
	if open > 0 {
		return fmt.Sprint(open, " callbacks"), nil
	}
	decided := 0
	for state, n := range stats.Withdrawals {
		if state != client.WithdrawalAwaiting {
			decided += int(n)
		}
	}
	if err := ch.core.QueryRowContext(ctx, `SELECT COUNT(*) FROM countersign_decisions`).Scan(&decisions); err != nil || decisions < decided {
		return fmt.Sprint(decided-decisions, " decisions"), err
	}
	if n := stats.Withdrawals[client.WithdrawalConfirmed] + stats.Withdrawals[client.WithdrawalReleased] + stats.Withdrawals[client.WithdrawalAwaiting]; n > 0 {
		return fmt.Sprint(n, " withdrawals"), nil
	}
	if what, err := ch.held(ctx); what != "" || err != nil || ch.gateway == nil {
		return what, err
	}
	if ch.c.Forward {
		if f, err := ch.gateway.Forwarding(ctx); err != nil || f.Waiting == 0 {
			return "", err
		}
		_, err := ch.gateway.RetryForwards(ctx)
		return "messages to the application", err
	}
	var after, event int64
	if err := ch.store.QueryRowContext(ctx, `SELECT after_seq, after_event FROM feed`).Scan(&after, &event); err != nil {
		return "", err
	}
	page, err := ch.gateway.Deposits(ctx, client.FeedOptions{After: after, Limit: 1})
	if err != nil || len(page.Deposits) > 0 {
		return "entries of the feed", err
	}
	events, err := ch.gateway.Events(ctx, client.FeedOptions{After: event, Limit: 1})
	if err != nil || len(events.Events) > 0 {
		return "entries of the feed of events", err
	}
	return "", nil
}

// column reads rows of texts.
func column(ctx context.Context, db *sql.DB, query string) (list [][2]string, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		var v [2]string
		if err := rows.Scan(&v[0], &v[1]); err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, errors.Join(rows.Err(), rows.Close())
}

func sumOf(list [][2]string) string {
	sum := new(big.Rat)
	for _, v := range list {
		a, ok := new(big.Rat).SetString(v[1])
		if !ok {
			return "not a number: " + v[1]
		}
		sum.Add(sum, a)
	}
	return sum.FloatString(18)
}

func (ch *Chain) compareDeposits(ctx context.Context, r *Result) error {
	booked, err := column(ctx, ch.core, `SELECT tracking_id, amount FROM core_deposits`)
	if err != nil {
		return err
	}
	credits, err := column(ctx, ch.store, `SELECT tracking_id, amount FROM credits`)
	if err != nil {
		return err
	}
	// Each transfer counts once, under whichever trackingId.
	amount, times := map[int]string{}, map[int][]string{}
	var once [][2]string
	for _, d := range booked {
		t := transferOf(numberOf(d[0]))
		if amount[t] == "" {
			once = append(once, d)
		}
		amount[t] = d[1]
	}
	r.Deposits, r.Credited, r.Sum = len(once), len(credits), sumOf(once)
	told := map[string]bool{}
	for _, d := range booked {
		told[d[0]] = true
	}
	for _, c := range credits {
		t := transferOf(numberOf(c[0]))
		times[t] = append(times[t], c[0])
		switch a := amount[t]; {
		case !told[c[0]]:
			r.Wrong = append(r.Wrong, c[0]+" was credited, and the core did not commit it")
		case a != c[1]:
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s: %s was credited for %s", c[0], c[1], a))
		case len(times[t]) > 1:
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s was credited again: %v", c[0], times[t]))
		}
	}
	for t := range amount {
		if len(times[t]) == 0 {
			r.Wrong = append(r.Wrong, fmt.Sprintf("D%d was committed, and is not credited", t))
		}
	}
	if s := sumOf(credits); s != r.Sum {
		r.Wrong = append(r.Wrong, fmt.Sprintf("the sums are %s and %s", r.Sum, s))
	}
	for d, err := range ch.api.AllDeposits(ctx, client.DepositFilter{}) {
		if err != nil {
			return err
		}
		if !told[d.TrackingID] {
			r.Wrong = append(r.Wrong, d.TrackingID+" was told, and the core did not commit it")
		}
	}
	return nil
}

func (ch *Chain) compareWithdrawals(ctx context.Context, r *Result) error {
	withdrawals, err := column(ctx, ch.core, `SELECT call_back_id, '' FROM core_withdrawals`)
	if err != nil {
		return err
	}
	decisions, err := column(ctx, ch.core, `SELECT call_back_id, decision FROM countersign_decisions`)
	if err != nil {
		return err
	}
	decided := map[string]string{}
	for _, d := range decisions {
		decided[d[0]] = d[1]
	}
	for _, w := range withdrawals {
		if decided[w[0]] == "" {
			r.Wrong = append(r.Wrong, w[0]+" was committed, and has no decision")
		}
		delete(decided, w[0])
	}
	for id := range decided {
		r.Wrong = append(r.Wrong, id+" was asked, and the core did not commit it")
	}
	executed, err := column(ctx, ch.core, `SELECT call_back_id, claim FROM core_executions`)
	if err != nil {
		return err
	}
	confirmed := map[string]int{}
	if ch.gateway != nil {
		for id, o := range ch.truth.orders {
			if o.confirmed != 0 {
				confirmed[id]++
			}
		}
	} else {
		list, err := column(ctx, ch.store, `SELECT call_back_id, '' FROM confirmed`)
		if err != nil {
			return err
		}
		for _, c := range list {
			confirmed[c[0]]++
		}
	}
	r.Withdrawals, r.Confirmed, r.Executed = len(withdrawals), len(confirmed), len(executed)
	times := map[string]int{}
	for _, e := range executed {
		times[e[0]]++
		switch {
		case confirmed[e[0]] == 0:
			r.Wrong = append(r.Wrong, e[0]+" was executed, and the merchant had not confirmed it")
		case times[e[0]] > 1:
			r.Wrong = append(r.Wrong, e[0]+" was executed again, by "+e[1])
		}
	}
	for id, n := range confirmed {
		switch {
		case n > 1:
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s is in the merchant's ledger %d times", id, n))
		case times[id] == 0 && ch.truth.ended[id] == "":
			r.Wrong = append(r.Wrong, id+" was confirmed, and never executed")
		}
	}
	return ch.comparePermits(ctx, r)
}

// comparePermits asks for each permit again: the core must have the only one.
func (ch *Chain) comparePermits(ctx context.Context, r *Result) error {
	list, err := column(ctx, ch.core, `SELECT call_back_id, claim || ' ' || permit FROM core_executions`)
	if err != nil {
		return err
	}
	ids := map[string]string{}
	for w, err := range ch.api.AllWithdrawals(ctx, client.WithdrawalFilter{}) {
		if err != nil {
			return err
		}
		ids[w.CallBackID] = w.ID
		if ch.truth.ended[w.CallBackID] == "" && w.State != client.WithdrawalExecuted && w.Decision == countersign.DecisionConfirmed {
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s is %s at the service", w.CallBackID, w.State))
		}
	}
	for _, x := range list {
		claim, permit, _ := strings.Cut(x[1], " ")
		p, err := ch.api.ReleaseWithdrawal(ctx, ids[x[0]], claim)
		if err != nil || p.Permit.Reveal() != permit {
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s: %s has executed with another permit than the service gives: %v", x[0], claim, err))
		}
	}
	return nil
}
