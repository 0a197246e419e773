package db

import (
	"context"
	"errors"
	"fmt"
)

const (
	replaceKeySQL = `UPDATE meta SET value = $1 WHERE name = 'master_key' AND value = $2`

	// stopNodesSQL makes nodes that start wait for the end of the transaction.
	stopNodesSQL = `LOCK TABLE nodes IN SHARE MODE`

	// rekeyRows is how many rows of a table Rekey reads at a time.
	rekeyRows = 200
)

// ErrRunning means that a node uses the database.
var ErrRunning = errors.New("the database is in use by a daemon")

// Rekey seals every data key of the database under fresh, in one transaction; also runs at the end of it. Afterwards
// only fresh opens the database, and d can only be closed. It returns the number of data keys. It returns ErrRunning
// if a node is listed that is not silent.
func (d *DB) Rekey(ctx context.Context, fresh *MasterKey,
	also func(context.Context, *Tx) error) (values int64, err error) {
	now, err := d.serverNow(ctx)
	if err != nil {
		return 0, err
	}
	err = d.Write(ctx, func(ctx context.Context, t *Tx) error {
		values = 0
		if d.dialect.Shared {
			if _, err := t.Exec(ctx, stopNodesSQL); err != nil {
				return err
			}
			nodes, err := readNodes(ctx, t)
			if err != nil {
				return err
			}
			for _, n := range nodes {
				if !n.Silent(now) {
					return fmt.Errorf("%w: the node %s wrote its row %d s ago; stop every daemon of this database. One that was killed counts for %v",
						ErrRunning, n.Name, (now-n.Seen)/1000, NodeSilent)
				}
			}
		}
		n, err := t.Exec(ctx, replaceKeySQL, []byte(fresh.Fingerprint()), []byte(d.key.Fingerprint()))
		if err == nil && n != 1 {
			err = d.key.Opens(ctx, t) // another run was first
		}
		if err != nil {
			return err
		}
		for _, table := range d.end.Sealed {
			n, err := d.rekeyTable(ctx, t, table, fresh)
			if err != nil {
				return err
			}
			values += n
		}
		return also(ctx, t)
	})
	return values, err
}

// rekeyTable seals the data keys of one table under fresh and returns how many there are.
func (d *DB) rekeyTable(ctx context.Context, t *Tx, table SealedTable, fresh *MasterKey) (values int64, err error) {
	head := "SELECT " + table.Key + ", " + table.DataKey + " FROM " + table.Name
	tail := fmt.Sprintf(" ORDER BY %s LIMIT %d", table.Key, rekeyRows)
	change := "UPDATE " + table.Name + " SET " + table.DataKey + " = $1 WHERE " + table.Key + " = $2 AND " +
		table.DataKey + " = $3"
	text, args := head+tail, []any(nil)
	for {
		var list []Statement
		var last any
		rows := 0
		err := Each(ctx, t, text, args, func(r Rows) error {
			var sealed []byte
			if err := r.Scan(&last, &sealed); err != nil {
				return err
			}
			rows++
			if len(sealed) == 0 {
				return nil
			}
			key, err := d.key.Unwrap(sealed)
			if err != nil {
				return fmt.Errorf("the data key of %s %v: %w", table.Name, last, err)
			}
			list = append(list, Statement{SQL: change, Args: []any{fresh.Wrap(key), last, sealed}, N: new(int64)})
			return nil
		})
		if err == nil {
			err = t.Batch(ctx, list)
		}
		if err != nil {
			return values, err
		}
		for _, s := range list {
			if *s.N != 1 {
				return values, fmt.Errorf("the data key of %s %v was changed by somebody else: stop it, and run rekey again",
					table.Name, s.Args[1])
			}
			values++
		}
		if rows < rekeyRows {
			return values, nil
		}
		text, args = head+" WHERE "+table.Key+" > $1"+tail, []any{last}
	}
}
