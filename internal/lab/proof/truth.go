package proof

import (
	"context"
	"database/sql"
	"fmt"
	"math/big"
	"path/filepath"
	"slices"
	"strings"

	"countersign"
	"countersign/client"
)

// truth is what became of orders and withdrawals, also of what a restore lost. Beside what
// the chain did itself it is read from each database before that is replaced: the books of
// the application and of the core are taken to be complete.
type truth struct {
	asked    int               // the next order of the application
	ordered  map[string]bool   // by the application
	approved map[string]bool   // by a person
	ended    map[string]string // what End and Decide ended: where
	orders   map[string]became // at the gateway
	over     map[string]string // what had ended at the service without a permit: its state
	wrong    []string          // what was decided against it
	byLimit  map[string]bool   // what the policy refused
}

// became is what became of an order.
type became struct {
	state     client.OrderState
	confirmed int64 // when it was first confirmed, milliseconds
}

func newTruth() truth {
	return truth{asked: 1, ordered: map[string]bool{}, approved: map[string]bool{}, ended: map[string]string{}, orders: map[string]became{},
		over: map[string]string{}, byLimit: map[string]bool{}}
}

// final reports whether an order in this state has ended without being executed.
func final(s client.OrderState) bool {
	return s != "" && !s.Undecided() && s != client.OrderConfirmed && s != client.OrderExecuted
}

// open opens the database of an end.
func (ch *Chain) open(end string) (*sql.DB, error) {
	if url := ch.database(end); url != "" {
		return sql.Open("pgx", url)
	}
	return sql.Open("sqlite", "file:"+filepath.Join(ch.dir, end, "countersign.db")+"?_pragma=busy_timeout(10000)")
}

// note reads what became of orders or withdrawals from an end's database, and compares it
// with what was known.
func (ch *Chain) note(ctx context.Context, end string) error {
	db, err := ch.open(end)
	if err != nil {
		return err
	}
	defer db.Close()
	if end == "service" {
		return ch.noteService(ctx, db)
	}
	list, err := column(ctx, db, `SELECT call_back_id, state || ' ' || CAST(confirmed AS VARCHAR(20)) || ' ' || decided_by FROM orders`)
	if err != nil {
		return err
	}
	for _, row := range list {
		id, was := row[0], ch.truth.orders[row[0]]
		var now became
		word, rest, _ := strings.Cut(row[1], " ")
		now.state = client.OrderState(word)
		_, _ = fmt.Sscan(rest, &now.confirmed)
		if strings.HasSuffix(rest, " policy") && now.state == client.OrderDeclined {
			ch.truth.byLimit[id] = true
		}
		if final(was.state) && !final(now.state) && (now.confirmed != 0 || now.state == client.OrderExecuted) {
			ch.truth.wrong = append(ch.truth.wrong, fmt.Sprintf("%s was %s at the gateway, and is %s", id, was.state, now.state))
		}
		if was.confirmed != 0 && (now.confirmed == 0 || now.confirmed > was.confirmed) {
			now.confirmed = was.confirmed
		}
		if final(was.state) || was.state == client.OrderExecuted || was.state == client.OrderConfirmed && now.state.Undecided() {
			now.state = was.state
		}
		ch.truth.orders[id] = now
	}
	return nil
}

func (ch *Chain) noteService(ctx context.Context, db *sql.DB) error {
	list, err := column(ctx, db, `SELECT call_back_id, state || CASE WHEN released > 0 THEN ' released' ELSE '' END FROM withdrawals`)
	if err != nil {
		return err
	}
	for _, w := range list {
		state, released, _ := strings.Cut(w[1], " ")
		over := released == "" && state != string(client.WithdrawalAwaiting) && state != string(client.WithdrawalConfirmed)
		if was := ch.truth.over[w[0]]; was != "" && !over && state != string(client.WithdrawalAwaiting) {
			ch.truth.wrong = append(ch.truth.wrong, fmt.Sprintf("%s was %s at the service, and is %s", w[0], was, w[1]))
		} else if over && was == "" {
			ch.truth.over[w[0]] = state
		}
	}
	return nil
}

// stateOf is what the application says of one of its orders, or one that was unknown.
func (ch *Chain) stateOf(id string) client.OrderState {
	b := ch.truth.orders[id]
	if where := ch.truth.ended[id]; where != "" && where != "core" && where != "blocked" && !final(b.state) {
		return client.OrderState(where)
	}
	if b.state == client.OrderExecuted { // the core says so
		return client.OrderConfirmed
	}
	if b.state == "" {
		return client.OrderOpen
	}
	return b.state
}

// states are those of what a database has, by kind and identifier.
type states map[string]string

// look reads the states of what an end has.
func (ch *Chain) look(ctx context.Context, end string) (states, error) {
	db, err := ch.open(end)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	queries := []string{`SELECT 'withdrawal ' || call_back_id, state FROM withdrawals`}
	if end == "gateway" {
		queries = []string{`SELECT 'order ' || call_back_id, state FROM orders`, `SELECT 'deposit ' || tracking_id, state FROM deposits`}
	}
	s := states{}
	for _, q := range queries {
		list, err := column(ctx, db, q)
		if err != nil {
			return nil, err
		}
		for _, row := range list {
			s[row[0]] = row[1]
		}
	}
	return s, nil
}

// watch compares what an end has, which was restored and is not reconciled, with what was put
// back: it may have decided nothing. The service may be told of the outcome of a permit that
// it has, and the gateway by the service of what was executed and ended.
func (ch *Chain) watch(ctx context.Context, end string) error {
	now, err := ch.look(ctx, end)
	if err != nil {
		return err
	}
	for id, is := range now {
		was, before := ch.before[end][id]
		kind, _, _ := strings.Cut(id, " ")
		var allowed bool
		switch {
		case before:
			allowed = is == was || kind == "order" && (is == string(client.OrderExecuted) || is == string(client.OrderEnded)) ||
				was == string(client.WithdrawalReleased) && (is == string(client.WithdrawalExecuted) || is == string(client.WithdrawalFailed))
		case kind == "order":
			allowed = client.OrderState(is).Undecided()
		case kind == "deposit":
			allowed = is == string(client.DepositHeld) || is == string(client.DepositRejected)
		default: // asked for the first time
			allowed = is != string(client.WithdrawalReleased) && is != string(client.WithdrawalExecuted)
		}
		if !allowed {
			ch.truth.wrong = append(ch.truth.wrong, fmt.Sprintf("before the %s was reconciled, %s became %s; the backup had %q", end, id, is, was))
		}
	}
	ch.Decided["looked at in an open epoch"] += len(ch.before[end])
	return nil
}

// compareTruth compares what was executed with what had ended, with what a person approved,
// and with the limits.
func (ch *Chain) compareTruth(ctx context.Context, r *Result) error {
	for _, end := range ch.Ends() {
		if err := ch.note(ctx, end); err != nil {
			return err
		}
	}
	r.Wrong = append(r.Wrong, ch.truth.wrong...)
	executed, err := column(ctx, ch.core, `SELECT call_back_id, '' FROM core_executions`)
	if err != nil {
		return err
	}
	var ids []string
	for _, x := range executed {
		ids = append(ids, x[0])
	}
	for _, id := range ids {
		for where, state := range map[string]string{"by " + ch.truth.ended[id]: ch.truth.ended[id], "at the service": ch.truth.over[id]} {
			if state != "" {
				r.Wrong = append(r.Wrong, fmt.Sprintf("%s was executed, and had ended before %s: %s", id, where, state))
			}
		}
	}
	if ch.gateway == nil {
		refused, err := column(ctx, ch.store, `SELECT call_back_id, '' FROM refused`)
		for _, x := range refused {
			r.Refused++
			if slices.Contains(ids, x[0]) {
				r.Wrong = append(r.Wrong, x[0]+" was executed, and the merchant had refused it")
			}
		}
		return err
	}
	r.Refused = len(ch.truth.byLimit)
	for _, id := range ids {
		if asksPerson(id) && !ch.truth.approved[id] {
			r.Wrong = append(r.Wrong, id+" was executed, and no person approved it")
		}
		if s := ch.truth.orders[id].state; final(s) {
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s was executed, and had ended before at the gateway: %s", id, s))
		}
	}
	r.Wrong = append(r.Wrong, ch.exceeded(ids)...)
	return nil
}

// exceeded returns what was executed above a limit, by the times at which it was confirmed.
func (ch *Chain) exceeded(ids []string) (wrong []string) {
	most := func(text string) *big.Rat { r, _ := new(big.Rat).SetString(text); return r }
	amount := func(a countersign.Amount) *big.Rat { return most(a.String()) }
	users := map[string]*big.Rat{}
	type spent struct {
		at     int64
		id     string
		amount *big.Rat
	}
	var list []spent
	for _, id := range ids {
		d := orderOf(id)
		switch d.Symbol {
		case "USDC":
			user := tenantOf(id)
			if users[user] == nil {
				users[user] = new(big.Rat)
			}
			users[user].Add(users[user], amount(d.Amount))
		case "DAI":
			list = append(list, spent{ch.truth.orders[id].confirmed, id, amount(d.Amount)})
		}
	}
	for user, sum := range users {
		if sum.Cmp(most(userMost)) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s was paid %s USDC of %s", user, sum.FloatString(18), userMost))
		}
	}
	for _, last := range list {
		sum := new(big.Rat)
		for _, s := range list {
			if s.at > last.at-minute && s.at <= last.at {
				sum.Add(sum, s.amount)
			}
		}
		if sum.Cmp(most(minuteMost)) > 0 {
			wrong = append(wrong, fmt.Sprintf("in the minute up to %s %s DAI were paid of %s", last.id, sum.FloatString(18), minuteMost))
		}
	}
	return wrong
}
