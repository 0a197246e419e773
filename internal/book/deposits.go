package book

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// taken returns the entry of a deposit that the service sent.
func taken(c *countersign.Deposit, at db.Millis) client.DepositEntry {
	d := client.DepositEntry{TrackingID: c.TrackingID, TenantUserID: c.TenantUserID, TxID: c.TxID, ChainName: c.ChainName,
		Symbol: c.Symbol, Amount: c.Amount, FromAddress: c.FromAddress, ToAddress: c.ToAddress,
		RiskLevelFrom: knownRisk(c.RiskLevelFrom),
		RiskLevelTo:   knownRisk(c.RiskLevelTo), TxIndex: c.TxIndex, Business: c.Business,
		State: client.DepositTaken, Taken: at}
	for _, m := range slices.Concat(c.AsSent, c.Extra) {
		if d.AsSent == nil {
			d.AsSent = map[string]json.RawMessage{}
		}
		d.AsSent[m.Name] = json.RawMessage(m.Value)
	}
	return d
}

// knownRisk returns the level of a risk. It returns nil if the service did not send it.
func knownRisk(level int64) *int64 {
	if level == countersign.RiskUnknown {
		return nil
	}
	return &level
}

// storedAsSent returns the members of d.AsSent as a JSON object. It returns "" if there are none.
func storedAsSent(d *client.DepositEntry) (string, error) {
	if len(d.AsSent) == 0 {
		return "", nil
	}
	b, err := journal.Marshal(d.AsSent)
	return string(b), err
}

const depositColumns = `seq, tracking_id, tenant_user_id, tx_id, chain_name, symbol, amount, from_address, to_address,
	risk_from, risk_to, tx_index, business, state, suspect, taken, decided, decided_by, reason, as_sent`

func scanDeposit(r db.Rows) (d client.DepositEntry, err error) {
	err = r.Scan(&d.Seq, &d.TrackingID, &d.TenantUserID, &d.TxID, &d.ChainName, &d.Symbol,
		db.Parsed(&d.Amount, countersign.ParseAmount), &d.FromAddress, &d.ToAddress, &d.RiskLevelFrom, &d.RiskLevelTo,
		&d.TxIndex, &d.Business, &d.State, db.Bool(&d.Suspect), &d.Taken, &d.Decided, &d.DecidedBy, &d.Reason, db.JSON(&d.AsSent))
	d.PossibleDuplicate = d.State != client.DepositTaken && !d.Suspect
	if err != nil {
		return d, fmt.Errorf("deposit %d: %w", d.Seq, err)
	}
	return d, nil
}

const (
	listDepositsSQL = `SELECT ` + depositColumns + ` FROM deposits WHERE seq > $1 ORDER BY seq LIMIT $2`

	readDepositSQL = `SELECT ` + depositColumns + ` FROM deposits WHERE seq = $1`

	lockDepositSQL = readDepositSQL + `{lock}`
)

// Deposits returns the deposits after number after, in order and in their present state. Only purged deposits are
// missing; see CheckKept.
func (b *Book) Deposits(ctx context.Context, after int64, limit int) ([]client.DepositEntry, error) {
	return db.List(ctx, b, listDepositsSQL, []any{after, limit}, scanDeposit)
}

// Deposit returns one deposit. It returns db.ErrPurged if the deposit was purged.
func (b *Book) Deposit(ctx context.Context, seq int64) (client.DepositEntry, error) {
	return findDeposit(ctx, b, readDepositSQL, seq)
}

func findDeposit(ctx context.Context, q db.Querier, text string, seq int64) (client.DepositEntry, error) {
	d, err := db.Find(ctx, q, text, []any{seq}, scanDeposit)
	if err == db.ErrNotFound {
		err = notKept(ctx, q, seq)
	}
	return d, err
}

const decideDepositSQL = `
UPDATE deposits SET state = $2, decided = $3, decided_by = $4, reason = $5 WHERE seq = $1 AND state = 'held'`

// DecideDeposit moves a held deposit to DepositCredited or DepositRejected and appends the event. Repeating the
// decision changes nothing. It returns a *ConflictError if another decision was made.
func (b *Book) DecideDeposit(ctx context.Context, seq int64, to client.DepositState, by, reason string,
	now db.Millis) (d client.DepositEntry, err error) {
	if to != client.DepositCredited && to != client.DepositRejected {
		return client.DepositEntry{}, fmt.Errorf("state is %w: %q", db.ErrInvalid, to)
	}
	if err := db.CheckTexts("reason", reason, "by", by); err != nil {
		return client.DepositEntry{}, err
	}
	err = b.writeFeeds(ctx, func(ctx context.Context, t *db.Tx) error {
		if err := checkReconciled(ctx, t); err != nil {
			return err
		}
		if d, err = findDeposit(ctx, t, lockDepositSQL, seq); err != nil || d.State == to {
			return err
		}
		switch d.State {
		case client.DepositHeld:
		case client.DepositTaken:
			return &db.ConflictError{Reason: "the deposit is not held: it counts already"}
		default:
			return &db.ConflictError{Reason: "the deposit is " + string(d.State)}
		}
		d.State, d.Decided, d.DecidedBy, d.Reason = to, now, by, reason
		l := ledger{}
		if err := l.decide(ctx, t, []client.DepositEntry{d}); err != nil {
			return err
		}
		return l.write(ctx, t)
	})
	return d, err
}

// decide stores decisions on deposits that were held and are locked.
func (l *ledger) decide(ctx context.Context, t *db.Tx, list []client.DepositEntry) error {
	statements := make([]db.Statement, len(list))
	changed := make([]int64, len(list))
	for i, d := range list {
		statements[i] = db.Statement{SQL: decideDepositSQL, Args: []any{d.Seq, string(d.State), int64(d.Decided), d.DecidedBy,
			d.Reason}, N: &changed[i]}
		l.event(decidedEvent(d.Seq, d))
	}
	if err := t.Batch(ctx, statements); err != nil {
		return err
	}
	if i := slices.IndexFunc(changed, func(n int64) bool { return n != 1 }); i >= 0 {
		return fmt.Errorf("deciding deposit %d: %d rows", list[i].Seq, changed[i])
	}
	return nil
}

// decidedEvent returns the event of the decision on d.
func decidedEvent(seq int64, d client.DepositEntry) client.EventEntry {
	return client.EventEntry{Kind: client.EventKind("deposit." + d.State), At: d.Decided, Deposit: seq,
		TenantUserID: d.TenantUserID, State: string(d.State), Address: d.ToAddress, ChainName: d.ChainName, Symbol: d.Symbol,
		Amount: d.Amount, TxID: d.TxID, Reason: d.Reason, DecidedBy: d.DecidedBy}
}

// AsTaken returns d as it was when it was taken, for the feed and the forwarded message. A decision is an event of
// its own. If it were here too, the application would credit the deposit twice.
func AsTaken(d client.DepositEntry) client.DepositEntry {
	if d.State != client.DepositTaken {
		d.State = client.DepositHeld
	}
	d.Decided, d.DecidedBy, d.Reason = 0, "", ""
	return d
}

// decideBatch is how many deposits one transaction decides. It keeps the waits of other transactions short.
const decideBatch = 100

const doubtedSQL = `SELECT 1 FROM inbox WHERE type = 1 AND id = $1 AND duplicate <> 0`

// Doubted reports whether a deposit may be the same transfer as another deposit, or as one that was booked before a
// restore. Do not credit such a deposit together with all other held ones: every copy would be credited.
func (b *Book) Doubted(ctx context.Context, trackingID string) (bool, error) {
	return db.One(ctx, b, doubtedSQL, []any{trackingID})
}

// decideDeposits stores the decisions of list in the order of their numbers. It reads the deposits again and skips
// those that are no longer held.
func decideDeposits(ctx context.Context, t *db.Tx, list []client.DepositEntry) error {
	var held []client.DepositEntry
	var statements []db.Statement
	for _, decision := range list {
		statements = append(statements, db.Statement{SQL: lockDepositSQL, Args: []any{decision.Seq},
			Row: func(r db.Rows) error {
				d, err := scanDeposit(r)
				if err == nil && d.State == client.DepositHeld {
					d.State, d.Decided, d.DecidedBy, d.Reason = decision.State, decision.Decided, decision.DecidedBy, decision.Reason
					held = append(held, d)
				}
				return err
			}})
	}
	if err := t.Batch(ctx, statements); err != nil || len(held) == 0 {
		return err
	}
	l := ledger{}
	if err := l.decide(ctx, t, held); err != nil {
		return err
	}
	return l.write(ctx, t)
}

// SearchDeposits returns a page of deposits in their present state; see list.
func (b *Book) SearchDeposits(ctx context.Context, f client.DepositSearch, limit int,
	before int64) ([]client.DepositEntry, int64, error) {
	number := func(d client.DepositEntry) int64 { return d.Seq }
	return list(ctx, b, "deposits", depositColumns, depositMembers(f), limit, before, number, scanDeposit)
}

func depositMembers(f client.DepositSearch) []member {
	state := text("state", string(f.State)).where("state <> 'taken'")
	if f.State == client.DepositTaken {
		state.walk = ""
	}
	return append([]member{longText("tx_id", f.TxID), longText("tracking_id", f.TrackingID),
		longText("to_address", f.Address), longText("tenant_user_id", f.TenantUserID), state},
		between("taken", f.Since, f.Until)...)
}

const firstOfTransferSQL = `
SELECT id FROM (
	SELECT f.id, f.seq FROM inbox i JOIN inbox f ON f.transfer = i.transfer AND f.seq < i.seq
		AND (f.tx_index < 0 OR i.tx_index < 0 OR f.tx_index = i.tx_index)
	WHERE i.type = 1 AND i.id = $1
	UNION ALL SELECT f.id, f.seq FROM inbox i JOIN inbox f ON f.payment = i.payment AND f.seq < i.seq WHERE i.type = 1 AND i.id = $1
) AS same ORDER BY seq LIMIT 1`

// FirstDeposit returns the first deposit with the transfer of a possible duplicate. It returns ErrNotFound if there
// is none.
func (b *Book) FirstDeposit(ctx context.Context, seq int64) (client.DepositEntry, error) {
	d, err := b.Deposit(ctx, seq)
	if err != nil {
		return client.DepositEntry{}, err
	}
	var id string
	found, err := db.One(ctx, b, firstOfTransferSQL, []any{d.TrackingID}, &id)
	if err == nil && !found {
		err = db.ErrNotFound
	}
	if err != nil {
		return client.DepositEntry{}, err
	}
	list, _, err := b.SearchDeposits(ctx, client.DepositSearch{TrackingID: id}, 1, 0)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("the first deposit of this transfer has the trackingId %q and was %w", id, db.ErrPurged)
	}
	if err != nil {
		return client.DepositEntry{}, err
	}
	return list[0], nil
}

// NoteDeposit adds a note about a deposit, and a record of it to the log. Notes are purged with the deposit.
func (b *Book) NoteDeposit(ctx context.Context, seq int64, n db.Vote) error {
	return b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		d, err := findDeposit(ctx, t, lockDepositSQL, seq) // locked, so that it is not purged meanwhile
		if err != nil {
			return err
		}
		number, err := db.AddVote(ctx, t, aboutDeposit(d.Seq), "", n)
		if err != nil {
			return err
		}
		return journal.Add(ctx, t, journal.Record{Kind: journal.DepositNoted, At: n.At,
			Data: journal.Note{Deposit: d.Seq, Number: number, Text: n.Text}})
	})
}
