package book

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/merchant"
)

// The limits of all stored refused callbacks together. Beyond them, callbacks that somebody has decided on are
// deleted first. Next are those that did not open, and among these the newest of the most frequent reason. So many
// callbacks of one reason do not replace those of another, and a forger's do not replace earlier ones. Deposits that
// await the merchant's check do not count, because each has an entry in the inbox.
const (
	MaxRefusedRows  = 1000
	MaxRefusedBytes = 16 << 20
)

// Refused is a refused callback, with what the API does not show of it.
type Refused struct {
	client.RefusedCallback        // only Book.Refused sets Body
	Content                []byte // what identifies it; needed only to store it
	CallBackID             string // may be empty; needed only to store it
	Signed                 bool   // the service's signature was required and valid; set with Body
}

var sealedRefused = db.SealedTable{Name: "refused", Key: "seq", DataKey: "data_key"}

// A body is sealed for one of two purposes, so that somebody who can write to the database cannot turn an unsigned
// body into a signed one.
const (
	refusedPurpose       = "body"
	refusedSignedPurpose = "signed body"
)

func placeRefused(digest string) db.Record { return db.Record{Table: sealedRefused.Name, Row: digest} }

const (
	// The first body stays, because somebody who reads requests could send another body with the same content.
	keepRefusedSQL = `
INSERT INTO refused (digest, opened, type, id, call_back_id, reason, facts, setting, code, message, first, last, number, state, due, size, data_key, body)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11, 1, 'open', $12, $13, $14, $15)
ON CONFLICT (digest) DO UPDATE SET last = excluded.last, number = refused.number + 1, facts = excluded.facts, setting = excluded.setting`

	// The index refused_room covers these two.
	roomRefusedSQL = `SELECT COUNT(*), COALESCE(SUM(size), 0) FROM refused WHERE due = 0`

	boundRefusedSQL = `
DELETE FROM refused WHERE seq IN (SELECT seq FROM (
	SELECT seq, ROW_NUMBER() OVER w AS n, SUM(size) OVER w AS total FROM (
		SELECT seq, size, opened, CASE WHEN state = 'open' THEN 0 ELSE 1 END AS decided,
			ROW_NUMBER() OVER (PARTITION BY reason, opened, state = 'open' ORDER BY seq) AS place FROM refused WHERE due = 0) AS r
	WINDOW w AS (ORDER BY decided, opened DESC, place, seq)) AS ranked WHERE n > $1 OR total > $2)`

	dueRefusedSQL = `SELECT seq, first, due FROM refused WHERE due > 0 AND due <= $1 AND state = 'open' ORDER BY due LIMIT $2`

	askRefusedSQL = `UPDATE refused SET due = $3 WHERE seq = $1 AND due = $2 AND state = 'open'`

	endHeldSQL = `UPDATE refused SET due = 0, reason = $2, code = $3, message = $4 WHERE seq = $1 AND due > 0 AND state = 'open'`

	refusedColumns = `seq, opened, type, id, reason, facts, setting, code, message, first, last, number, state, decided, decided_by, note, due, size,
	COALESCE((SELECT i.seq FROM inbox i WHERE i.id = refused.id AND i.type = refused.type AND i.call_back_id = refused.call_back_id AND i.settled = 1), 0)`

	readRefusedSQL = `SELECT ` + refusedColumns + ` FROM refused WHERE seq = $1`

	refusedBodySQL = `SELECT digest, data_key, body FROM refused WHERE seq = $1`

	decideRefusedSQL = `UPDATE refused SET state = $2, due = 0, decided = $3, decided_by = $4, note = $5 WHERE seq = $1 AND state <> 'taken' AND state <> $2`
)

// Digest returns a digest that identifies r. All attempts of one callback that are refused for one reason have the
// same digest. The same callback with and without a signature has two, because only the signed one can be retried
// where signatures are required.
func (r *Refused) Digest() string {
	label := string(r.Reason) + "\x00"
	if r.Signed {
		label += "signed\x00"
	}
	sum := sha256.Sum256(append([]byte(label), r.Content...))
	return hex.EncodeToString(sum[:])
}

// KeepRefused stores a refused callback, or counts its repetition, and raises alarms, in one transaction.
func (b *Book) KeepRefused(ctx context.Context, r Refused, alarms []client.Alarm, now db.Millis) error {
	facts, err := json.Marshal(r.Facts)
	if err != nil {
		return err
	}
	digest, purpose := r.Digest(), refusedPurpose
	if r.Signed {
		purpose = refusedSignedPurpose
	}
	key, sealed := b.Seal(placeRefused(digest), []string{purpose}, [][]byte{[]byte(r.Body)})
	return b.writeFeeds(ctx, func(ctx context.Context, t *db.Tx) error {
		_, err := t.Exec(ctx, keepRefusedSQL, digest, bit(r.Opened), int64(r.Type), db.Clean(r.CallbackID),
			db.Clean(r.CallBackID), string(r.Reason), db.Clean(string(facts)), r.Setting, r.ErrCode, db.Clean(r.Message),
			int64(now), int64(r.Due), len(r.Body), key, sealed[0])
		if err != nil {
			return err
		}
		var rows, bytes int64
		if _, err := db.One(ctx, t, roomRefusedSQL, nil, &rows, &bytes); err != nil {
			return err
		}
		if rows > MaxRefusedRows || bytes > MaxRefusedBytes {
			if _, err := t.Exec(ctx, boundRefusedSQL, MaxRefusedRows, MaxRefusedBytes); err != nil {
				return err
			}
		}
		return db.RaiseAlarms(ctx, t, alarms)
	})
}

// AskAgain returns the deposits about which to ask the merchant's check now, and schedules the next question. It is a
// minute after the last one, then two, four and so on up to an hour (PROTOCOL.md, E4). No other node gets the same
// deposits.
func (b *Book) AskAgain(ctx context.Context, now db.Millis, most int) (seqs []int64, err error) {
	type due struct{ seq, first, at int64 }
	list, err := db.List(ctx, b, dueRefusedSQL, []any{int64(now), most}, func(r db.Rows) (d due, err error) {
		err = r.Scan(&d.seq, &d.first, &d.at)
		return d, err
	})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	err = b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		seqs = nil
		for _, d := range list {
			next := int64(now) + min(max(int64(now)-d.first, AskFirst), askMost)
			n, err := t.Exec(ctx, askRefusedSQL, d.seq, d.at, next)
			if err != nil {
				return err
			}
			if n > 0 {
				seqs = append(seqs, d.seq)
			}
		}
		return nil
	})
	return seqs, err
}

// AskFirst is the time from a deposit to the second question to the merchant's check, in milliseconds.
const (
	AskFirst = 60_000
	askMost  = 3_600_000
)

// EndHeld turns a deposit that the check held into a refused one, and raises alarms.
func (b *Book) EndHeld(ctx context.Context, seq int64, reason client.RefusalReason, code int64, message string,
	alarms []client.Alarm) error {
	return b.writeFeeds(ctx, func(ctx context.Context, t *db.Tx) error {
		n, err := t.Exec(ctx, endHeldSQL, seq, string(reason), code, db.Clean(message))
		if err != nil || n == 0 {
			return err
		}
		return db.RaiseAlarms(ctx, t, alarms)
	})
}

// RefusedList returns a page of refused callbacks without their bodies; see list. Their number is bounded.
func (b *Book) RefusedList(ctx context.Context, f client.RefusedFilter, limit int,
	before int64) ([]client.RefusedCallback, int64, error) {
	members := []member{{is: f.State != "", filter: "state = ?", value: string(f.State)},
		{is: f.Reason != "", filter: "reason = ?", value: string(f.Reason)},
		{is: f.CallbackID != "", filter: "id = ?", value: f.CallbackID}}
	return list(ctx, b, "refused", refusedColumns, members, limit, before,
		func(r client.RefusedCallback) int64 { return r.ID }, scanRefused)
}

func scanRefused(rows db.Rows) (r client.RefusedCallback, err error) {
	err = rows.Scan(&r.ID, db.Bool(&r.Opened), &r.Type, &r.CallbackID, &r.Reason, db.JSON(&r.Facts), &r.Setting,
		&r.ErrCode, &r.Message, &r.First, &r.Last, &r.Number, &r.State, &r.Decided, &r.DecidedBy, &r.Note, &r.Due, &r.Bytes,
		&r.Inbox)
	r.Means = client.Means(r.Reason)
	return r, err
}

// RefusedRow returns a refused callback without its body.
func (b *Book) RefusedRow(ctx context.Context, seq int64) (client.RefusedCallback, error) {
	return db.Find(ctx, b, readRefusedSQL, []any{seq}, scanRefused)
}

// Refused returns a refused callback with its body.
func (b *Book) Refused(ctx context.Context, seq int64) (r Refused, err error) {
	if r.RefusedCallback, err = b.RefusedRow(ctx, seq); err != nil {
		return r, err
	}
	var digest string
	var key, sealed []byte
	found, err := db.One(ctx, b, refusedBodySQL, []any{seq}, &digest, &key, &sealed)
	switch {
	case err != nil:
		return r, err
	case !found:
		return r, db.ErrNotFound
	}
	plain, err := b.Unseal(placeRefused(digest), []string{refusedSignedPurpose}, key, [][]byte{sealed})
	if r.Signed = err == nil; !r.Signed {
		plain, err = b.Unseal(placeRefused(digest), []string{refusedPurpose}, key, [][]byte{sealed})
	}
	if err == nil {
		r.Body = string(plain[0])
	}
	return r, err
}

// DecideRefused records what became of a refused callback. A callback that was taken stays taken. Repeating it
// changes nothing.
func (b *Book) DecideRefused(ctx context.Context, seq int64, to client.RefusedState, by, note string,
	now db.Millis) error {
	if err := db.CheckTexts("reason", note); err != nil {
		return err
	}
	return b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		n, err := t.Exec(ctx, decideRefusedSQL, seq, string(to), int64(now), by, note)
		if err != nil {
			return err
		}
		r, err := db.Find(ctx, t, readRefusedSQL, []any{seq}, scanRefused)
		if err != nil || n == 0 {
			return err
		}
		return journal.Add(ctx, t, journal.Record{Kind: journal.RefusedDecided, At: now,
			Data: journal.Refused{ID: strconv.FormatInt(seq, 10), State: string(to), Type: int64(r.Type), About: r.CallbackID,
				Reason: string(r.Reason), Note: note}})
	})
}

const firstEntrySQL = `SELECT tenant_user_id FROM inbox WHERE type = $1 AND id = $2 AND call_back_id = $3`

// Contradicted returns the members in which cb differs from the first taken callback with its type and identifier. It
// compares only the members that the book has.
func (b *Book) Contradicted(ctx context.Context, cb countersign.Callback) (facts []merchant.Fact, err error) {
	compare := func(member, first, now string, same bool) {
		if !same {
			facts = append(facts, merchant.Fact{Member: member, Problem: "differs from what was taken first",
				Expected: first, Got: now})
		}
	}
	var user string
	if _, err := db.One(ctx, b, firstEntrySQL, []any{int64(cb.CallbackType()), cb.EventID(), cb.OrderID()},
		&user); err != nil {
		return nil, err
	}
	compare("tenantUserId", user, cb.User(), user == cb.User())
	var first, now countersign.Deposit // what moved where to
	switch c := cb.(type) {
	case *countersign.Deposit:
		list, _, err := b.SearchDeposits(ctx, client.DepositSearch{TrackingID: c.TrackingID}, 1, 0)
		if err != nil || len(list) == 0 {
			return facts, err
		}
		d := list[0]
		now, first = *c, countersign.Deposit{TxID: d.TxID, ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount,
			ToAddress: d.ToAddress}
	case *countersign.WithdrawalDone:
		o, err := b.Order(ctx, c.CallBackID)
		if isNotFound(err) {
			return facts, nil
		}
		if err != nil {
			return facts, err
		}
		now = countersign.Deposit{TxID: c.TxID, ChainName: c.ChainName, Symbol: c.Symbol, Amount: c.Amount,
			ToAddress: c.ToAddress}
		first = countersign.Deposit{TxID: o.TxID, ChainName: o.ChainName, Symbol: o.Symbol, Amount: o.Amount,
			ToAddress: o.Address}
	default:
		return facts, nil
	}
	compare("txId", first.TxID, now.TxID, first.TxID == now.TxID)
	compare("chainName", first.ChainName, now.ChainName, first.ChainName == now.ChainName)
	compare("symbol", first.Symbol, now.Symbol, first.Symbol == now.Symbol)
	compare("amount", first.Amount.String(), now.Amount.String(), first.Amount.Canonical() == now.Amount.Canonical())
	compare("toAddress", first.ToAddress, now.ToAddress, countersign.SameAddress(first.ToAddress, now.ToAddress))
	return facts, nil
}
