package outbox

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"countersign"
	"countersign/internal/db"
)

// A callback without a row in outbox is accepted; its accepted attempt is the proof.
// States are literals in the texts, because partial indexes need that.
const (
	callbackColumns = `c.merchant, c.id, c.type, c.event_id, c.tracking_id, c.tx_id, c.call_back_id, c.payload, c.created,
	COALESCE(o.deadline, c.deadline), COALESCE(o.state, 'accepted'), COALESCE(o.attempts, a.number, 0),
	COALESCE(o.failed, a.failed, 0), COALESCE(o.due, 0), COALESCE(o.lease_until, 0),
	COALESCE(o.last_reason, a.reason, ''), COALESCE(o.settled, a.settled, 0)`

	joinOutbox   = ` LEFT JOIN outbox o ON o.merchant = c.merchant AND o.id = c.id`
	joinAttempts = ` LEFT JOIN attempts a ON a.merchant = c.merchant AND a.callback = c.id AND a.accepted = 1 AND o.id IS NULL`

	readCallbackSQL = `SELECT ` + callbackColumns + ` FROM callbacks c` + joinOutbox + joinAttempts + `
WHERE c.merchant = $1 AND c.id = $2`
)

func (c *Callback) scan(r db.Rows) error {
	var id string
	err := r.Scan(&c.Merchant, &id, &c.Type, &c.EventID, &c.TrackingID, &c.TxID, &c.CallBackID, &c.Payload, &c.Created,
		&c.Deadline, &c.State, &c.Attempts, &c.Failed, &c.Due, &c.LeaseUntil, &c.LastReason, &c.Settled)
	c.ID = joinID(c.Merchant, id)
	return err
}

// Callback gives one callback.
func (o *Outbox) Callback(ctx context.Context, id string) (Callback, error) {
	merchant, rest, err := splitID(id)
	if err != nil {
		return Callback{}, err
	}
	return findCallback(ctx, o, merchant, rest)
}

func findCallback(ctx context.Context, q db.Querier, merchant, id string) (c Callback, err error) {
	found := false
	err = db.Each(ctx, q, readCallbackSQL, []any{merchant, id}, func(r db.Rows) error {
		found = true
		return c.scan(r)
	})
	if err == nil && !found {
		err = db.ErrNotFound
	}
	return c, err
}

const listAttemptsSQL = `
SELECT number, request_uuid, started, duration, http_status, err_code, outcome, reason, node, request_hash, response_hash, late
FROM attempts WHERE merchant = $1 AND callback = $2 ORDER BY number`

// Attempts gives the attempts of a callback in order of their number.
func (o *Outbox) Attempts(ctx context.Context, id string) ([]Attempt, error) {
	merchant, rest, err := splitID(id)
	if err != nil {
		return nil, err
	}
	var list []Attempt
	err = db.Each(ctx, o, listAttemptsSQL, []any{merchant, rest}, func(r db.Rows) error {
		var a Attempt
		var micros, late int64
		var request, response []byte
		err := r.Scan(&a.Number, &a.RequestUUID, &a.Started, &micros, &a.HTTPStatus, &a.ErrCode, &a.Result, &a.Reason, &a.Node,
			&request, &response, &late)
		a.Duration = time.Duration(micros) * time.Microsecond
		a.RequestHash, a.ResponseHash, a.Late = hex.EncodeToString(request), hex.EncodeToString(response), late == 1
		list = append(list, a)
		return err
	})
	if err == nil && len(list) == 0 {
		_, err = o.Callback(ctx, id) // ErrNotFound
	}
	return list, err
}

// Callbacks lists callbacks, newest first, beginning at cursor. next is empty at
// the end.
func (o *Outbox) Callbacks(ctx context.Context, f CallbackFilter, limit int, cursor string) (list []Callback, next string, err error) {
	q, from, ordered, err := f.query(cursor)
	if err != nil {
		return nil, "", err
	}
	text := q.with + `SELECT ` + callbackColumns + from + q.Where() + q.newest(ordered, limit)
	err = db.Each(ctx, o, text, q.Args, func(r db.Rows) error {
		var c Callback
		err := c.scan(r)
		list = append(list, c)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	if len(list) > limit {
		list = list[:limit]
		next = makeCursor(list[limit-1].ID)
	}
	return list, next, nil
}

// query gives the conditions of f, the FROM clause, and the table whose ids order the
// list. The member of f that selects the fewest rows chooses the index.
func (f CallbackFilter) query(cursor string) (q conditions, from, ordered string, err error) {
	from, ordered = ` FROM callbacks c`+joinOutbox+joinAttempts, "c"
	switch {
	case f.lookUp(&q):
		from = ` FROM hit CROSS JOIN callbacks c` + joinOutbox + joinAttempts
		q.Add("c.merchant = hit.merchant AND c.id = hit.id")
	case f.State != "" && f.State != CallbackAccepted:
		from, ordered = ` FROM outbox o CROSS JOIN callbacks c`+joinAttempts, "o"
		q.Add("c.merchant = o.merchant AND c.id = o.id")
	}
	rare := f.Type > countersign.TypeDeposited && ordered == "c" && q.with == ""
	switch {
	case f.Merchant == "":
	case rare:
		// An expression, so that no index by merchant is used: the one by type must be.
		q.Add("c.merchant || '' = ?", f.Merchant)
	default:
		q.Add(ordered+".merchant = ?", f.Merchant)
	}
	if f.Type != countersign.TypeUnknown {
		q.Add("c.type = ?", int64(f.Type))
	}
	if rare {
		q.Add("c.type <> 1") // the condition of the index by type
	}
	switch f.State {
	case "":
	case CallbackAccepted:
		q.Add("o.id IS NULL")
	case CallbackPending, CallbackSending, CallbackRefused, CallbackExhausted, CallbackCancelled:
		q.Add("o.state = '" + string(f.State) + "'")
	default:
		return q, "", "", fmt.Errorf("state is %w: %q", db.ErrInvalid, f.State)
	}
	for _, look := range []struct{ column, value string }{
		{"c.tracking_id", f.TrackingID}, {"c.tx_id", f.TxID}, {"c.call_back_id", f.CallBackID}, {"c.merchant", f.Merchant},
	} {
		if err := db.CheckText(look.column, look.value); err != nil {
			return q, "", "", err
		}
		if look.value != "" && look.column != "c.merchant" {
			q.Add(look.column+" = ?", look.value)
		}
	}
	return q, from, ordered, q.before(ordered, cursor)
}

// lookUp begins q with the identifier of f that an index finds, of one merchant or
// of each.
func (f CallbackFilter) lookUp(q *conditions) bool {
	merchant := "merchant IN (SELECT id FROM merchants)"
	if f.Merchant != "" {
		merchant = "merchant = " + q.Arg(f.Merchant)
	}
	value := fmt.Sprintf("$%d", len(q.Args)+1)
	by := func(conditions ...string) {
		parts := make([]string, len(conditions))
		for i, c := range conditions {
			parts[i] = `SELECT merchant, id FROM callbacks WHERE ` + merchant + ` AND ` + c
		}
		q.with = `WITH hit AS MATERIALIZED (` + strings.Join(parts, ` UNION ALL `) + `) `
	}
	switch {
	case f.TxID != "":
		by(`tx_id <> '' AND tx_id = ` + value)
		q.Args = append(q.Args, f.TxID)
	case f.CallBackID != "":
		by(`call_back_id <> '' AND call_back_id = ` + value)
		q.Args = append(q.Args, f.CallBackID)
	case f.TrackingID != "":
		// Of a deposit it is the event's id, which has its own index.
		by(`type = 1 AND event_id = `+value, `type <> 1 AND tracking_id = `+value)
		q.Args = append(q.Args, f.TrackingID)
	default:
		q.Args = nil
		return false
	}
	return true
}
