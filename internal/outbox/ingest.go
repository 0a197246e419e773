package outbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// Ingest stores callbacks, all or none, and returns after a durable commit. For a known (merchant, type, event) with
// the same payload it returns the known row as a Duplicate. With another payload it returns a *ConflictError that
// names the item. For an unknown merchant it returns an *ItemError that wraps ErrNotFound. Type 2 is ErrInvalid: see
// CreateWithdrawals. Repeating a call returns duplicates, except that an event without an id is a new one each time.
func (o *Outbox) Ingest(ctx context.Context, items []NewCallback, now db.Millis) ([]client.Accepted, error) {
	return o.IngestWithin(ctx, items, Quota{}, now)
}

// IngestWithin is Ingest for a token with a limit. It returns a *QuotaError and stores nothing if the batch exceeds
// the limit. Repetitions do not count.
func (o *Outbox) IngestWithin(ctx context.Context, items []NewCallback, quota Quota,
	now db.Millis) ([]client.Accepted, error) {
	if len(items) == 0 {
		return nil, nil
	}
	batch, err := o.newRows(ctx, items, now)
	if err != nil {
		return nil, err
	}
	o.sortRows(batch)
	done := make([]client.Accepted, len(items))
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if err := o.insert(ctx, t, batch, done, now); err != nil {
			return err
		}
		var alarms []client.Alarm
		for _, n := range batch {
			if n.Type == countersign.TypeAddress && !done[n.item].Duplicate {
				alarms = append(alarms, client.Alarm{Merchant: n.Merchant, Kind: client.AlarmAddressChanged,
					Subject: joinID(n.Merchant, n.id), First: now})
			}
		}
		if err := db.RaiseAlarms(ctx, t, alarms); err != nil {
			return err
		}
		return quota.spend(ctx, t, done, now)
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// newRow is a callback to be inserted.
type newRow struct {
	NewCallback
	item int    // its index in the request
	id   string // the part after the merchant
}

// sortRows sorts a batch if the database has concurrent writers. Two batches with the same events then lock them in
// the same order.
func (o *Outbox) sortRows(batch []newRow) {
	if o.Dialect().ConcurrentWriters {
		slices.SortStableFunc(batch, func(a, b newRow) int {
			return cmp.Or(cmp.Compare(a.Merchant, b.Merchant), cmp.Compare(a.EventID, b.EventID), cmp.Compare(a.Type, b.Type))
		})
	}
}

// newRows checks callbacks of any type but 2 and returns their rows.
func (o *Outbox) newRows(ctx context.Context, items []NewCallback, now db.Millis) ([]newRow, error) {
	batch := make([]newRow, len(items))
	for i, item := range items {
		row, err := o.newRow(i, item, now)
		if err == nil && item.Type == countersign.TypeRequestWithdraw {
			err = &db.ItemError{Item: i, Member: "type", Err: fmt.Errorf("type 2 is %w: it needs a withdrawal", db.ErrInvalid)}
		}
		if err == nil {
			err = o.knownMerchant(ctx, i, item.Merchant)
		}
		if err != nil {
			return nil, err
		}
		batch[i] = row
	}
	return batch, nil
}

func (o *Outbox) newRow(item int, n NewCallback, now db.Millis) (newRow, error) {
	row := newRow{NewCallback: n, item: item, id: o.ids.Next(now)}
	if row.EventID == "" {
		row.EventID = row.id
	}
	if row.Deadline == 0 {
		row.Deadline = db.Never
	}
	for _, text := range []struct{ member, text string }{
		{"eventId", n.EventID}, {"trackingId", n.TrackingID}, {"txId", n.TxID}, {"callBackId", n.CallBackID},
	} {
		if err := db.CheckIdentifier(text.member, text.text); err != nil {
			return row, &db.ItemError{Item: item, Member: text.member, Err: err}
		}
	}
	if !n.Type.Known() {
		return row, &db.ItemError{Item: item, Member: "type", Err: fmt.Errorf("type %d is %w", n.Type, db.ErrInvalid)}
	}
	if len(n.Payload) == 0 {
		return row, &db.ItemError{Item: item, Err: fmt.Errorf("callback is %w: it has no payload", db.ErrInvalid)}
	}
	return row, nil
}

// knownMerchant returns an error if the merchant does not exist. It asks the database only once for each merchant,
// because rows of merchants are never deleted.
func (o *Outbox) knownMerchant(ctx context.Context, item int, id string) error {
	if _, ok := o.known.Load(id); ok {
		return nil
	}
	found := false
	if ValidMerchantID(id) {
		var err error
		if found, err = db.One(ctx, o, `SELECT 1 FROM merchants WHERE id = $1`, []any{id}); err != nil {
			return err
		}
	}
	if !found {
		return &db.ItemError{Item: item, Member: "merchant", Err: fmt.Errorf("merchant %w", db.ErrNotFound)}
	}
	o.known.Store(id, true)
	return nil
}

const (
	insertCallbackSQL = `
INSERT INTO callbacks (merchant, id, type, event_id, tracking_id, tx_id, call_back_id, payload, deadline, created, added_by,
	tenant_user_id, address)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
ON CONFLICT (merchant, event_id, type) DO NOTHING RETURNING id`

	insertOutboxSQL = `
INSERT INTO outbox (merchant, id, lane, state, due, deadline) VALUES ($1, $2, $3, 'pending', $4, $5)`

	dropCallbackSQL = `DELETE FROM callbacks WHERE merchant = $1 AND id = $2`

	// A duplicate is acknowledged like a new row, so its row is locked: PostgreSQL then makes the commit wait for the
	// standby. Otherwise, after a restart, a row that the standby lacks could be acknowledged and then lost by a
	// failover.
	sameEventSQL = `
SELECT c.id, c.payload,
	COALESCE((SELECT o.state FROM outbox o WHERE o.merchant = c.merchant AND o.id = c.id), 'accepted')
FROM callbacks c WHERE c.merchant = $1 AND c.event_id = $2 AND c.type = $3{lock c}`
)

var (
	insertCallbacks = db.NewInsert(insertCallbackSQL, 100, 10)
	insertOutbox    = db.NewInsert(insertOutboxSQL, 100, 10)
)

// insert stores the rows of batch and writes the result of each to done.
func (o *Outbox) insert(ctx context.Context, t *db.Tx, batch []newRow, done []client.Accepted, now db.Millis) error {
	inserted, known, err := o.insertCallbacks(ctx, t, batch, now)
	if err != nil {
		return err
	}
	var drops []db.Statement
	args := make([]any, 0, 5*len(batch))
	for i := range batch {
		n, lane := &batch[i], batch[i].Type.Lane()
		switch {
		case !inserted[i]:
		case known[i] != nil: // it was purged, so it is not new
			inserted[i] = false
			drops = append(drops, db.Statement{SQL: dropCallbackSQL, Args: []any{n.Merchant, n.id}})
		default:
			t.Count(countOfLane(lane), 1)
			args = append(args, n.Merchant, n.id, int64(lane), int64(n.Due), int64(n.Deadline))
		}
	}
	statements := append(insertOutbox.Statements(args, nil), drops...)
	kept := make([][]byte, len(batch)) // payloads of known rows
	for i := range batch {
		n, d := &batch[i], &done[batch[i].item]
		*d = client.Accepted{ID: joinID(n.Merchant, n.id), TrackingID: n.TrackingID, State: client.CallbackPending}
		if inserted[i] {
			continue
		}
		d.Duplicate = true
		if known[i] != nil {
			continue
		}
		d.ID = ""
		statements = append(statements, db.Statement{SQL: sameEventSQL, Args: []any{n.Merchant, n.EventID, int64(n.Type)},
			Row: func(r db.Rows) error {
				var id string
				err := r.Scan(&id, &kept[i], &d.State)
				d.ID = joinID(n.Merchant, id)
				return err
			}})
	}
	if err := t.Batch(ctx, statements); err != nil {
		return err
	}
	// Some may have been purged between the two batches.
	gone := eventsOf(batch)
	for i := range batch {
		if done[batch[i].item].ID != "" {
			gone[i].ID = ""
		}
	}
	if err := t.Batch(ctx, lookPurged(o.Dialect(), gone, known)); err != nil {
		return err
	}
	var conflict *db.ConflictError
	for i := range batch {
		n := &batch[i]
		same := inserted[i] || bytes.Equal(kept[i], n.Payload) || bytes.Equal(plainest(kept[i]), plainest(n.Payload))
		if p := known[i]; p != nil {
			d := &done[n.item]
			same, d.ID, d.State = p.Same(n.Payload), joinID(n.Merchant, p.ID), client.CallbackAccepted
		}
		if !same && (conflict == nil || n.item < conflict.Item) {
			conflict = &db.ConflictError{Item: n.item, Member: eventMember(n.Type), Reason: "is in use by a callback with " +
				difference(plainest(kept[i]), plainest(n.Payload))}
		}
	}
	if conflict != nil {
		return conflict
	}
	return o.addWorks(ctx, t, batch, inserted, now)
}

// difference returns the first member in which two payloads differ, with both values. If the known payload was
// purged, it says only that the content differs.
func difference(known, came []byte) string {
	var a, b map[string]json.RawMessage
	if json.Unmarshal(known, &a) == nil && json.Unmarshal(came, &b) == nil {
		all := maps.Clone(a)
		maps.Copy(all, b)
		for _, member := range slices.Sorted(maps.Keys(all)) {
			if !bytes.Equal(a[member], b[member]) {
				return fmt.Sprintf("another %s: %.100s is known, and %.100s came", member, cmp.Or(string(a[member]), "none"),
					cmp.Or(string(b[member]), "none"))
			}
		}
	}
	return "other content"
}

// insertCallbacks inserts the rows of batch. For each row it returns whether it was inserted, and what is left of it
// if it was purged before.
func (o *Outbox) insertCallbacks(ctx context.Context, t *db.Tx, batch []newRow,
	now db.Millis) (inserted []bool, known []*purgedRow, err error) {
	inserted, known = make([]bool, len(batch)), make([]*purgedRow, len(batch))
	places := make(map[string]int, len(batch))
	args := make([]any, 0, 13*len(batch))
	by := journal.Caller(ctx)
	for i := range batch {
		n := &batch[i]
		places[n.id] = i
		args = append(args, n.Merchant, n.id, int64(n.Type), n.EventID, n.TrackingID, n.TxID, n.CallBackID, n.Payload,
			int64(n.Deadline), int64(now), by, db.Clean(n.TenantUserID), db.Clean(n.Address))
	}
	statements := insertCallbacks.Statements(args, func(r db.Rows) error {
		var id string
		err := r.Scan(&id)
		inserted[places[id]] = true
		return err
	})
	return inserted, known, t.Batch(ctx, append(statements, lookPurged(o.Dialect(), eventsOf(batch), known)...))
}

// eventsOf returns the events of the callbacks. A callback without an event id of its own is never a repetition and
// has an empty key.
func eventsOf(batch []newRow) []purgedKey {
	list := make([]purgedKey, len(batch))
	for i, n := range batch {
		if n.EventID != n.id {
			list[i] = purgedKey{Merchant: n.Merchant, Type: n.Type, ID: n.EventID}
		}
	}
	return list
}

// addWorks records new pending callbacks in their lanes. With concurrent writers it does so after the commit. Inside
// the transaction, each ingest would keep the rows of its lanes locked until its commit, and claims, which skip
// locked rows, would find nothing. The order also closes a race. A claim that looked for rows before the ingest's
// commit either commits before its lane is woken, or looks again after its own commit (recheck). After a crash in
// between, Sweep finds the work.
func (o *Outbox) addWorks(ctx context.Context, t *db.Tx, batch []newRow, inserted []bool, now db.Millis) error {
	works := laneChanges{}
	for i := range batch {
		if n := &batch[i]; inserted[i] {
			works.back(n.Merchant, n.Type.Lane(), n.Due)
		}
	}
	for n, merchants := range works.byLane() {
		if len(merchants) == 0 {
			continue
		}
		lane, first := countersign.Lane(n), db.Never
		t.Wake(TopicOf(lane))
		for _, m := range merchants {
			due := works.of(m, lane).Due
			if first = min(first, due); o.Dialect().ConcurrentWriters {
				continue
			}
			if _, err := t.Exec(ctx, touchSQL, m, n, int64(due)); err != nil {
				return err
			}
		}
		if o.Dialect().ConcurrentWriters {
			t.Later(func(ctx context.Context) {
				if _, err := o.wakeLanes(ctx, lane, merchants, first, now); err != nil && !errors.Is(err, db.ErrClosed) {
					o.Log().Warn("lanes with new callbacks could not be woken", "error", err)
				}
			})
		}
	}
	return nil
}

// eventMember returns the member of the request that holds the event's id.
func eventMember(t countersign.Type) string {
	switch t {
	case countersign.TypeRequestWithdraw:
		return "callBackId"
	case countersign.TypeAddress:
		return "changeId"
	}
	return "trackingId"
}
