package book

import (
	"context"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// ledger collects what a transaction appends to the feeds. It writes at the end of the transaction, because the feeds
// are locked from then on.
type ledger struct {
	alarms    []client.Alarm
	deposits  []client.DepositEntry
	events    []client.EventEntry
	sums      map[spentKey]countersign.Sum // by how much each changes
	addresses map[[3]string]bool           // the addresses that deposits went to: user, chain, address
}

func (l *ledger) alarm(kind client.AlarmKind, subject string, at db.Millis) {
	l.alarms = append(l.alarms, client.Alarm{Kind: kind, Subject: subject, First: at})
}

// cause is the reason for an alarm about an order, in words for people.
type cause string

// The causes.
const (
	neverOrdered      cause = "never ordered"
	otherUser         cause = "another tenantUserId"
	notConfirmed      cause = "executed without confirmation"
	otherDetails      cause = "executed with other details"
	secondTransaction cause = "a second transaction"
	executedAfterEnd  cause = "executed after its end"
	endedAfterwards   cause = "ended after its execution"
)

var alarmOfCause = map[cause]client.AlarmKind{
	neverOrdered: client.AlarmOrderUnknown, otherUser: client.AlarmOrderUnknown,
	notConfirmed: client.AlarmExecutedDiffers, otherDetails: client.AlarmExecutedDiffers,
	secondTransaction: client.AlarmExecutedTwice, executedAfterEnd: client.AlarmExecutedTwice,
	endedAfterwards: client.AlarmExecutedTwice,
}

// orderAlarm raises the alarm of a cause, if there is one.
func (l *ledger) orderAlarm(why cause, callBackID string, at db.Millis) {
	if why != "" {
		l.alarm(alarmOfCause[why], callBackID+" ("+string(why)+")", at)
	}
}

func (l *ledger) event(e client.EventEntry) { l.events = append(l.events, e) }

const (
	insertDepositSQL = `
INSERT INTO deposits (seq, tracking_id, tenant_user_id, tx_id, chain_name, symbol, amount, from_address, to_address,
	risk_from, risk_to, tx_index, business, state, suspect, taken, as_sent)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`

	insertEventSQL = `
INSERT INTO events (seq, kind, at, call_back_id, deposit, tenant_user_id, state, address, old_address, chain_name, symbol, amount,
	tx_id, reason, decided_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`
)

// insertSizes are the numbers of rows that one statement inserts. Sharing a statement takes half the time of single
// rows. Two sizes keep the number of prepared statements small.
var insertSizes = []int{32, 8}

var (
	insertDeposits = db.NewInsert(insertDepositSQL, insertSizes...)
	insertEvents   = db.NewInsert(insertEventSQL, insertSizes...)
)

// write appends everything to the feeds, in the order of their names.
func (l *ledger) write(ctx context.Context, t *db.Tx) error {
	if err := l.writeDeposited(ctx, t); err != nil {
		return err
	}
	if err := l.records(ctx, t); err != nil {
		return err
	}
	if err := db.RaiseAlarms(ctx, t, l.alarms); err != nil {
		return err
	}
	var fresh []any
	var decided []db.Statement
	if len(l.deposits) > 0 {
		seq, err := db.LockFeed(ctx, t, feedDeposits)
		if err != nil {
			return err
		}
		for i := range l.deposits {
			seq++
			d := &l.deposits[i]
			state := d.State
			if d.Decided != 0 { // first held, like every deposit that is decided on
				state = client.DepositHeld
				decided = append(decided, db.Statement{SQL: decideDepositSQL, Args: []any{seq, string(d.State), int64(d.Decided),
					d.DecidedBy, d.Reason}})
				l.event(decidedEvent(seq, *d))
			}
			asSent, err := storedAsSent(d)
			if err != nil {
				return err
			}
			fresh = append(fresh, seq, d.TrackingID, d.TenantUserID, d.TxID, d.ChainName, d.Symbol, d.Amount.String(),
				d.FromAddress, d.ToAddress, d.RiskLevelFrom, d.RiskLevelTo, d.TxIndex, d.Business,
				string(state), bit(d.Suspect), int64(d.Taken), asSent)
		}
		if err := t.Batch(ctx, append(append(insertDeposits.Statements(fresh, nil), decided...),
			db.EndFeed(feedDeposits, seq))); err != nil {
			return err
		}
		if err := forwardAfter(ctx, t, forwardDepositsSQL, seq-int64(len(l.deposits))); err != nil {
			return err
		}
		t.Wake(TopicDeposits)
		t.Wake(TopicForwards)
	}
	if len(l.events) > 0 || len(l.sums) > 0 {
		fresh = nil
		seq, err := db.LockFeed(ctx, t, feedEvents)
		if err != nil {
			return err
		}
		if err := l.writeSpent(ctx, t); err != nil {
			return err
		}
		for i := range l.events {
			seq++
			e := &l.events[i]
			fresh = append(fresh, seq, e.Kind, int64(e.At), e.CallBackID, e.Deposit, e.TenantUserID, e.State, e.Address,
				e.OldAddress, e.ChainName, e.Symbol, e.Amount.String(), e.TxID, e.Reason, e.DecidedBy)
		}
		if err := t.Batch(ctx, append(insertEvents.Statements(fresh, nil), db.EndFeed(feedEvents, seq))); err != nil {
			return err
		}
		if err := forwardAfter(ctx, t, forwardEventsSQL, seq-int64(len(l.events))); err != nil {
			return err
		}
		t.Wake(TopicEvents)
		t.Wake(TopicForwards)
	}
	return nil
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// records adds a record for each event.
func (l *ledger) records(ctx context.Context, t *db.Tx) error {
	for _, e := range l.events {
		details := countersign.Details{Address: e.Address, ChainName: e.ChainName, Symbol: e.Symbol, Amount: e.Amount}
		r := journal.Record{Kind: string(e.Kind), At: e.At, Data: journal.Event{CallBackID: e.CallBackID, Deposit: e.Deposit,
			TenantUserID: e.TenantUserID, State: e.State, Details: journal.DetailsOf(&details), OldAddress: e.OldAddress,
			TxID: e.TxID, Reason: e.Reason, DecidedBy: e.DecidedBy}}
		switch {
		case e.CallBackID != "":
			r.About = []string{e.CallBackID}
		case e.Deposit != 0:
			r.About = []string{journal.AboutDeposit(e.Deposit)}
		}
		if err := journal.Add(ctx, t, r); err != nil {
			return err
		}
	}
	return nil
}

// eventOf returns the kind of the event of an order's state.
func eventOf(s client.OrderState) client.EventKind { return client.EventKind("order." + s) }
