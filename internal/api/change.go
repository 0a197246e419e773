package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"countersign/client"
	"countersign/internal/db"
)

// Change is a row of the table of changes.
type Change struct {
	client.ChangeEntry
	Version int64  // of the merchant when it was proposed
	Bound   string // the merchants of the token that is made or revoked, as api.Token has them

	dataKey, sealed []byte // what is needed to apply it; empty once it is final
}

const readChangesSQL = `
SELECT id, kind, merchant, version, token, bound, state, was, becomes, proposed_by, proposed, decided_by, decided, reason, due, content, data_key FROM changes`

// readChanges returns the changes whose rows a query selects.
func readChanges(ctx context.Context, q db.Querier, where string, args ...any) ([]Change, error) {
	return db.List(ctx, q, readChangesSQL+where, args, func(r db.Rows) (c Change, err error) {
		var before, after string
		err = r.Scan(&c.ID, &c.Kind, &c.Merchant, &c.Version, &c.Token, &c.Bound, &c.State, &before, &after, &c.ProposedBy, &c.Proposed,
			&c.DecidedBy, &c.Decided, &c.Reason, &c.TakesEffect, &c.sealed, &c.dataKey)
		if err != nil {
			return c, err
		}
		if err = errors.Join(json.Unmarshal([]byte(before), &c.Before), json.Unmarshal([]byte(after), &c.After)); err != nil {
			err = fmt.Errorf("change %s: %w", c.ID, err)
		}
		return c, err
	})
}

// open reports whether the change can still be applied.
func (c *Change) open() bool {
	return c.State == client.ChangeWaiting || c.State == client.ChangeApproved
}

// visible reports whether t may see the change: a bound token sees changes of its own
// merchants only.
func (c *Change) visible(t Token) bool {
	if c.Token != "" {
		return t.Merchants == "" || Token{Merchants: c.Bound}.Within(t)
	}
	return t.Sees(c.Merchant)
}

const insertChangeSQL = `
INSERT INTO changes (id, kind, merchant, version, token, bound, state, was, becomes, proposed_by, proposed, decided_by, decided, reason, due, content, data_key)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`

func (c *Change) insert(ctx context.Context, t *db.Tx) error {
	before, err := json.Marshal(c.Before)
	if err != nil {
		return err
	}
	after, err := json.Marshal(c.After)
	if err != nil {
		return err
	}
	_, err = t.Exec(ctx, insertChangeSQL, c.ID, string(c.Kind), c.Merchant, c.Version, c.Token, c.Bound, string(c.State), string(before), string(after),
		c.ProposedBy, int64(c.Proposed), c.DecidedBy, int64(c.Decided), c.Reason, int64(c.TakesEffect), c.sealed, c.dataKey)
	return err
}

const (
	// decideChangeSQL moves a change on from one state. What is sealed stays for as long
	// as it is needed.
	decideChangeSQL = `
UPDATE changes SET state = $3, decided_by = $4, decided = $5, reason = $6, due = $7,
	data_key = CASE WHEN state = 'waiting' AND $3 = 'approved' THEN data_key ELSE $8 END,
	content = CASE WHEN state = 'waiting' AND $3 = 'approved' THEN content ELSE $8 END
WHERE id = $1 AND state = $2`

	// whereApplied finds the change that made the next version of a merchant.
	whereApplied = ` WHERE merchant = $1 AND version = $2 AND state = 'applied' LIMIT 1`

	whereOld = ` WHERE state = 'waiting' AND proposed <= $1 ORDER BY id LIMIT 100`

	dueChangesSQL = `SELECT id FROM changes WHERE state = 'approved' AND due <= $1 ORDER BY id LIMIT 100`
)

// move stores what c was changed to, if it is still in state from. It reports whether
// it was.
func (c *Change) move(ctx context.Context, t *db.Tx, from client.ChangeState) (bool, error) {
	n, err := t.Exec(ctx, decideChangeSQL, c.ID, string(from), string(c.State), c.DecidedBy, int64(c.Decided), db.Clean(c.Reason), int64(c.TakesEffect), []byte{})
	return n == 1, err
}

func findChange(ctx context.Context, q db.Querier, id string) (c Change, err error) {
	if db.CheckText("", id) != nil {
		return c, db.ErrNotFound
	}
	list, err := readChanges(ctx, q, ` WHERE id = $1`, id)
	if err != nil || len(list) == 0 {
		return c, cmp.Or(err, db.ErrNotFound)
	}
	return list[0], nil
}
