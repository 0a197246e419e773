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
	err = ch.compareWithdrawals(ctx, &r)
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
	if ch.gateway == nil {
		return "", nil
	}
	if ch.c.Forward {
		if f, err := ch.gateway.Forwarding(ctx); err != nil || f.Waiting == 0 {
			return "", err
		}
		_, err := ch.gateway.RetryForwards(ctx)
		return "messages to the application", err
	}
	var after int64
	if err := ch.store.QueryRowContext(ctx, `SELECT after_seq FROM feed`).Scan(&after); err != nil {
		return "", err
	}
	page, err := ch.gateway.Deposits(ctx, client.FeedOptions{After: after, Limit: 1})
	if err != nil || len(page.Deposits) > 0 {
		return "entries of the feed", err
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
	r.Deposits, r.Credited, r.Sum = len(booked), len(credits), sumOf(booked)
	amount, times := map[string]string{}, map[string]int{}
	for _, d := range booked {
		amount[d[0]] = d[1]
	}
	for _, c := range credits {
		times[c[0]]++
		switch a := amount[c[0]]; {
		case a == "":
			r.Wrong = append(r.Wrong, c[0]+" was credited, and the core did not commit it")
		case a != c[1]:
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s: %s was credited for %s", c[0], c[1], a))
		case times[c[0]] > 1:
			r.Wrong = append(r.Wrong, c[0]+" was credited again")
		}
	}
	for id := range amount {
		if times[id] == 0 {
			r.Wrong = append(r.Wrong, id+" was committed, and is not credited")
		}
	}
	if s := sumOf(credits); s != r.Sum {
		r.Wrong = append(r.Wrong, fmt.Sprintf("the sums are %s and %s", r.Sum, s))
	}
	for d, err := range ch.api.AllDeposits(ctx, client.DepositFilter{}) {
		if err != nil {
			return err
		}
		if amount[d.TrackingID] == "" {
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
		for o, err := range ch.gateway.AllOrders(ctx, client.OrderFilter{}) {
			if err != nil {
				return err
			}
			if o.Confirmed != 0 {
				confirmed[o.CallBackID]++
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
	refused, err := column(ctx, ch.store, `SELECT call_back_id, '' FROM refused`)
	if err != nil {
		return err
	}
	for _, x := range refused {
		if slices.ContainsFunc(executed, func(e [2]string) bool { return e[0] == x[0] }) {
			r.Wrong = append(r.Wrong, x[0]+" was executed, and the merchant had refused it")
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
		case times[id] == 0:
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
		if w.State != client.WithdrawalExecuted && w.Decision == countersign.DecisionConfirmed {
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
