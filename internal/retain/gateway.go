package retain

import (
	"context"
	"fmt"

	"countersign/internal/audit"
	"countersign/internal/db"
)

// Gateway purges a gateway's database: deposits that were taken, that every named reader
// has acknowledged and that the application was told of where the gateway forwards. Their
// entries in the inbox stay, so that a repetition is known and answered as before. What
// was held for a person stays, whatever the decision was.
func Gateway(c Config) (*Purger, error) { return newPurger(c, gateway{}) }

type gateway struct{}

func (gateway) kind() string { return audit.DepositsPurged }

func (gateway) moved(s *state, b batch) {
	if n := len(b.rows); n > 0 {
		s.upto = max(s.upto, b.rows[n-1].seq)
	}
}

func (gateway) stateSQL() string {
	return `SELECT next, before, '', '', seq, upto, walked, purged FROM retention WHERE one = 1`
}

const moveGatewaySQL = `UPDATE retention SET next = $1, before = $2, seq = $3, upto = $4, walked = $5, purged = $6 WHERE one = 1`

func (gateway) move(s state) db.Statement {
	return db.Statement{SQL: moveGatewaySQL, Args: []any{int64(s.next), int64(s.before), s.place.seq, s.upto, s.walked, s.purged}}
}

const (
	slowestReaderSQL = `SELECT name, deposits FROM cursors WHERE deposits > 0 ORDER BY deposits, name LIMIT 1`

	forwardedSQL = `SELECT seq FROM forwarding WHERE feed = 0 AND begun > 0`

	lastDepositSQL = `SELECT last_seq FROM feeds WHERE name = 'deposits'`

	findDepositsSQL = `SELECT seq, taken FROM deposits WHERE seq > $1 AND seq <= $2 AND state || '' = 'taken' ORDER BY seq LIMIT CAST($3 AS BIGINT)`
)

// readUpTo gives the last deposit that everybody has read, and who has not read the next.
func readUpTo(ctx context.Context, q db.Querier, forwarded string) (last int64, who string, err error) {
	if _, err := db.One(ctx, q, lastDepositSQL, nil, &last); err != nil {
		return 0, "", err
	}
	var seq int64
	// First, and locked where it matters: --forward-from can put it back.
	switch found, err := db.One(ctx, q, forwarded, nil, &seq); {
	case err != nil:
		return 0, "", err
	case found && seq < last:
		last, who = seq, fmt.Sprintf("the forwarding has come to deposit %d", seq)
	}
	var reader string
	switch found, err := db.One(ctx, q, slowestReaderSQL, nil, &reader, &seq); {
	case err != nil:
		return 0, "", err
	case found && seq < last:
		last, who = seq, fmt.Sprintf("the reader %q has acknowledged deposit %d and no further", reader, seq)
	}
	return last, who, nil
}

func (gateway) find(ctx context.Context, q db.Querier, s state, cutoff db.Millis, most int) (b batch, err error) {
	last, who, err := readUpTo(ctx, q, forwardedSQL)
	if err != nil {
		return b, err
	}
	b.place = s.place
	n, young := 0, false
	err = db.Each(ctx, q, findDepositsSQL, []any{s.place.seq, last, most}, func(r db.Rows) error {
		var v row
		err := r.Scan(&v.seq, &v.last)
		n++
		if young = young || v.last >= cutoff; !young {
			b.rows = append(b.rows, v)
			b.place.seq = v.seq
		}
		return err
	})
	if b.ended = young || n < most; b.ended && !young && who != "" {
		var next row
		old, err := db.One(ctx, q, findDepositsSQL, []any{last, int64(db.Never), 1}, &next.seq, &next.last)
		if err != nil {
			return b, err
		}
		if old && next.last < cutoff {
			b.held = who
		}
	}
	return b, err
}

// purgeDepositsSQL leaves out what the application does not have yet, or a person gave up,
// and what names the same transfer as a deposit that waits for a person.
const purgeDepositSQL = `
DELETE FROM deposits WHERE seq = $1 AND state || '' = 'taken'
	AND NOT EXISTS (SELECT 1 FROM forwards f WHERE f.feed = 0 AND f.seq = deposits.seq)
	AND NOT EXISTS (SELECT 1 FROM deposits h WHERE substr(h.tx_id, 1, 64) = substr(deposits.tx_id, 1, 64) AND h.state || '' = 'held')`

func (gateway) purge(ctx context.Context, t *db.Tx, b batch) (total int64, err error) {
	if len(b.rows) == 0 {
		return 0, nil
	}
	last, _, err := readUpTo(ctx, t, forwardedSQL+"{lock}")
	if err != nil {
		return 0, err
	}
	gone := make([]int64, len(b.rows))
	var list []db.Statement
	for i, r := range b.rows {
		if r.seq <= last {
			list = append(list, db.Statement{SQL: purgeDepositSQL, Args: []any{r.seq}, N: &gone[i]})
		}
	}
	err = t.Batch(ctx, list)
	for _, n := range gone {
		total += n
	}
	return total, err
}
