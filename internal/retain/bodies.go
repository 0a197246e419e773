package retain

import (
	"context"
	"fmt"
	"strings"
	"time"

	"countersign/client"
	"countersign/internal/audit"
	"countersign/internal/db"
	"countersign/internal/evidence"
)

// ServiceBodies purges bodies of records of a service's audit log that are older than
// Config.Keep. Their hashes stay for ever, so that all that was signed and proved holds. Only
// records about callbacks and withdrawals go: what tokens, persons and starts did stays, because
// it says why the present is as it is. Records about a withdrawal go that long after its end.
func ServiceBodies(c Config) (*Purger, error) {
	return newPurger(c, &bodies{keep: c.Keep, kinds: evidence.ServiceSettles, open: openWithdrawal, schema: serviceSchema})
}

// GatewayBodies is ServiceBodies of a gateway: records about orders, events and callbacks
// go. Those about an order go that long after its end, those about a deposit that
// is held when a person has decided on it.
func GatewayBodies(c Config) (*Purger, error) {
	return newPurger(c, &bodies{keep: c.Keep, kinds: evidence.GatewaySettles, open: openOrder, held: heldSQL, schema: gatewaySchema})
}

// The schemas whose programs know records without bodies.
const (
	serviceSchema = 24
	gatewaySchema = 24
)

// bodiesPause is how long after a walk the next one begins: each walk that purges adds two records.
const bodiesPause = time.Hour

// bodies is the audit log of an end.
type bodies struct {
	keep   time.Duration
	kinds  []string // of records that may go
	open   func(id string, cutoff db.Millis) (db.Statement, bool)
	held   string // the times of callbacks that must stay; empty: none
	schema int

	times map[db.Millis]bool // of held, in this walk; nil: not read yet
}

func (*bodies) kind() string { return evidence.BodiesPurged }

func (*bodies) idle() time.Duration { return bodiesPause }

func (*bodies) stateSQL() string {
	return `SELECT next, before, '', '', seq, upto, done, walked, purged FROM audit_retention WHERE one = 1`
}

const moveBodiesSQL = `UPDATE audit_retention SET next = $1, before = $2, seq = $3, upto = $4, done = $5, walked = $6, purged = $7 WHERE one = 1`

func (*bodies) move(s state) db.Statement {
	return db.Statement{SQL: moveBodiesSQL, Args: []any{int64(s.next), int64(s.before), s.place.seq, s.upto, s.done, s.walked, s.purged}}
}

const (
	// olderNodeSQL finds a node of an earlier release, which takes a record without a
	// body for one that was changed.
	olderNodeSQL = `SELECT name, version FROM nodes WHERE bodiless = 0 AND seen >= $1 LIMIT 1`

	openRecordsSQL = `SELECT seq FROM audit_open WHERE seq > $1 ORDER BY seq LIMIT CAST($2 AS BIGINT)`

	openWithdrawalSQL = `
SELECT 1 FROM withdrawals WHERE merchant = $1 AND id = $2 AND (state IN ('awaiting', 'confirmed', 'released') OR decided >= $3 OR ended >= $3)`

	openOrderSQL = `
SELECT 1 FROM orders WHERE call_back_id = $1 AND (state IN ('open', 'held', 'approved', 'confirmed') OR updated >= $2)`

	// heldSQL gives the times of the callbacks about transactions of which a deposit is
	// held.
	heldSQL = `
SELECT DISTINCT i.created FROM deposits h
	JOIN deposits d ON substr(d.tx_id, 1, 64) = substr(h.tx_id, 1, 64)
	JOIN inbox i ON i.id = d.tracking_id AND i.type = 1
WHERE h.state = 'held'`
)

// openWithdrawal asks whether the withdrawal or callback with an id needs its records.
func openWithdrawal(id string, cutoff db.Millis) (db.Statement, bool) {
	merchant, rest, ok := strings.Cut(id, ".")
	return db.Statement{SQL: openWithdrawalSQL, Args: []any{merchant, rest, int64(cutoff)}}, ok
}

func openOrder(id string, cutoff db.Millis) (db.Statement, bool) {
	return db.Statement{SQL: openOrderSQL, Args: []any{id, int64(cutoff)}}, db.CheckText("", id) == nil // else none has it
}

// find looks at records that were passed in earlier walks, then at later ones.
func (e *bodies) find(ctx context.Context, q db.Querier, s state, cutoff db.Millis, most int) (b batch, err error) {
	b.place, b.upto, b.first, b.before = s.place, s.upto, s.walked == 0, cutoff
	if s.place.seq == 0 {
		if b.held, err = e.olderNode(ctx, q, cutoff); err != nil || b.held != "" {
			b.ended = true
			return b, err
		}
		if b.upto, err = audit.SignedBefore(ctx, q, cutoff); err != nil {
			return b, err
		}
		last, err := audit.ExportedUpTo(ctx, q)
		if err != nil {
			return b, err
		}
		if last > 0 && last < b.upto {
			b.held, b.upto = fmt.Sprintf("exports of the audit log were acknowledged up to record %d and no further", last), last
		}
	}
	if s.place.seq == 0 || e.times == nil {
		if err := e.readHeld(ctx, q); err != nil {
			return b, err
		}
	}
	list, err := e.candidates(ctx, q, s, b.upto, most)
	if err != nil {
		return b, err
	}
	may, err := e.may(ctx, q, list, cutoff)
	for i, w := range list {
		b.place.seq = w.Seq
		switch {
		case may[i]:
			b.rows = append(b.rows, row{seq: w.Seq, record: w})
		case w.Seq > s.done && evidence.Settles(e.kinds, w.Told.Kind):
			b.open = append(b.open, w.Seq)
		}
	}
	b.ended = len(list) < most
	b.note = len(b.open) > 0 || b.place.seq > s.done
	return b, err
}

// olderNode says which node would not understand what the purge leaves.
func (e *bodies) olderNode(ctx context.Context, q db.Querier, cutoff db.Millis) (held string, err error) {
	var name, version string
	seen := cutoff + db.Millis((e.keep - db.NodeSilent).Milliseconds())
	if found, err := db.One(ctx, q, olderNodeSQL, []any{int64(seen)}, &name, &version); err != nil || !found {
		return "", err
	}
	return fmt.Sprintf("the node %s runs version %s, which does not know records of the audit log without a body", name, version), nil
}

func (e *bodies) readHeld(ctx context.Context, q db.Querier) error {
	times := map[db.Millis]bool{}
	if e.held != "" {
		err := db.Each(ctx, q, e.held, nil, func(r db.Rows) error {
			var at db.Millis
			err := r.Scan(&at)
			times[at] = true
			return err
		})
		if err != nil {
			return err
		}
	}
	e.times = times
	return nil
}

// candidates are the next records in their order, most of them at most.
func (e *bodies) candidates(ctx context.Context, q db.Querier, s state, upto int64, most int) (list []audit.Whole, err error) {
	var again []int64
	err = db.Each(ctx, q, openRecordsSQL, []any{s.place.seq, most}, func(r db.Rows) error {
		var seq int64
		err := r.Scan(&seq)
		again = append(again, seq)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, seq := range again {
		if seq > upto { // the setting became longer
			return list, nil
		}
		one, err := audit.Wholes(ctx, q, seq-1, seq, 1)
		if err != nil {
			return nil, err
		}
		list = append(list, one...)
	}
	if len(again) == most {
		return list, nil
	}
	later, err := audit.Wholes(ctx, q, max(s.place.seq, s.done), upto, most-len(again))
	return append(list, later...), err
}

// may says which records may go.
func (e *bodies) may(ctx context.Context, q db.Querier, list []audit.Whole, cutoff db.Millis) ([]bool, error) {
	may := make([]bool, len(list))
	var looks []db.Statement
	for i, w := range list {
		may[i] = evidence.Settles(e.kinds, w.Told.Kind) && db.MillisOf(w.Told.At.Time()) < cutoff
		if !may[i] {
			continue
		}
		for _, id := range w.Told.About {
			if w.Items {
				at, ok := audit.ItemsAt(id)
				may[i] = may[i] && ok && !e.times[at]
			} else if look, ok := e.open(id, cutoff); ok {
				look.Row = func(db.Rows) error {
					may[i] = false
					return nil
				}
				looks = append(looks, look)
			}
		}
	}
	return may, q.Batch(ctx, looks)
}

const (
	schemaSQL = `SELECT COALESCE(MAX(number), 0) FROM schema_version`

	oldestSQL = `SELECT value FROM meta WHERE name = 'oldest schema'`

	// raiseSQL keeps programs out that do not know records without bodies: they are refused
	// at their start, and stop if they run.
	raiseSQL = `UPDATE meta SET value = $1 WHERE name = 'oldest schema'`

	passSQL = `INSERT INTO audit_open (seq) VALUES ($1) ON CONFLICT (seq) DO NOTHING`

	closeSQL = `DELETE FROM audit_open WHERE seq = $1`
)

var insertOpen = db.NewInsert(passSQL, 32)

func (e *bodies) purge(ctx context.Context, t *db.Tx, b batch) (int64, error) {
	var open []any
	for _, seq := range b.open {
		open = append(open, seq)
	}
	statements := insertOpen.Statements(open, nil)
	list := make([]audit.Whole, len(b.rows))
	for i, r := range b.rows {
		list[i] = r.record
		statements = append(statements, db.Statement{SQL: closeSQL, Args: []any{r.seq}})
	}
	if err := t.Batch(ctx, statements); err != nil || len(list) == 0 {
		return 0, err
	}
	if err := e.refuseOlder(ctx, t); err != nil {
		return 0, err
	}
	if b.first {
		if err := audit.Announce(ctx, t, audit.Purging{Upto: b.upto, Before: int64(b.before), Retain: client.Duration(e.keep)}, b.before+db.Millis(e.keep.Milliseconds())); err != nil {
			return 0, err
		}
	}
	return int64(len(list)), audit.Purge(ctx, t, list)
}

// refuseOlder sees to it that no program works with the database that does not know
// records without bodies. A later migration may have let one in again.
func (e *bodies) refuseOlder(ctx context.Context, t *db.Tx) error {
	var at, of, oldest int
	var text []byte
	if _, err := db.One(ctx, t, schemaSQL, nil, &at); err != nil {
		return err
	}
	if _, err := db.One(ctx, t, oldestSQL, nil, &text); err != nil {
		return err
	}
	if n, _ := fmt.Sscan(string(text), &of, &oldest); n == 2 && of == at && oldest >= e.schema {
		return nil
	}
	_, err := t.Exec(ctx, raiseSQL, []byte(fmt.Sprint(at, e.schema)))
	return err
}

func (*bodies) moved(s *state, b batch) {
	s.upto, s.done = b.upto, max(s.done, b.place.seq)
}
