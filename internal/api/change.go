package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"countersign/client"
	"countersign/internal/db"
)

// ChangeKind says what a change changes.
type ChangeKind string

// The kinds of changes.
const (
	ChangeMerchant ChangeKind = "merchant" // settings
	ChangeRotation ChangeKind = "rotation" // a step in replacing a merchant's keys
	ChangeToken    ChangeKind = "token"    // a new token
	ChangeRevoke   ChangeKind = "revoke"   // the revocation of an approver's token
)

// Change is a row of the table of changes. A change could move money, or affects who decides about money. If there is
// an approver's token, the change waits for an approver other than its proposer. Otherwise it is done at once. Its
// state is that of its task: open, then done, declined or stale.
type Change struct {
	ID            string // ids sort by time
	Kind          ChangeKind
	Merchant      string // the merchant to change; empty: none
	Version       int64  // the merchant's version when the change was proposed
	Token         string // the token to make or revoke; empty: none
	Bound         string // the merchants of that token, in the form of api.Token.Merchants
	State         client.TaskState
	Before, After map[string]string // what changes, as shown to people; secrets and keys by their fingerprints
	ProposedBy    string            // a token
	Proposed      db.Millis
	DecidedBy     string // the token that approved or declined it; empty: nobody has, or had to
	Decided       db.Millis
	Reason        string // why it was declined or is stale

	dataKey, sealed []byte // the sealed content, needed to apply it; empty once decided
}

const readChangesSQL = `
SELECT id, kind, merchant, version, token, bound, state, was, becomes, proposed_by, proposed, decided_by, decided, reason, content, data_key FROM changes`

// readChanges returns the changes that the condition where selects.
func readChanges(ctx context.Context, q db.Querier, where string, args ...any) ([]Change, error) {
	return db.List(ctx, q, readChangesSQL+where, args, func(r db.Rows) (c Change, err error) {
		var before, after string
		err = r.Scan(&c.ID, &c.Kind, &c.Merchant, &c.Version, &c.Token, &c.Bound, &c.State, &before, &after, &c.ProposedBy,
			&c.Proposed, &c.DecidedBy, &c.Decided, &c.Reason, &c.sealed, &c.dataKey)
		if err != nil {
			return c, err
		}
		if err = errors.Join(json.Unmarshal([]byte(before), &c.Before), json.Unmarshal([]byte(after), &c.After)); err != nil {
			err = fmt.Errorf("change %s: %w", c.ID, err)
		}
		return c, err
	})
}

// TaskID returns the id of the task about c.
func (c *Change) TaskID() string { return client.TaskID(client.TaskChange, c.ID) }

// TaskOf returns the id of the task about a change that waits, and answers with status 202. It returns "" for a change
// that is done.
func (c *Call) TaskOf(change *Change) string {
	if change.State != client.TaskOpen {
		return ""
	}
	c.Status = http.StatusAccepted
	return change.TaskID()
}

// visible reports whether t may see the change. A bound token sees only changes of its own merchants.
func (c *Change) visible(t Token) bool {
	if c.Token != "" {
		return t.Merchants == "" || Token{Merchants: c.Bound}.Within(t)
	}
	return t.Sees(c.Merchant)
}

const insertChangeSQL = `
INSERT INTO changes (id, kind, merchant, version, token, bound, state, was, becomes, proposed_by, proposed, decided_by, decided, reason, content, data_key)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`

func (c *Change) insert(ctx context.Context, t *db.Tx) error {
	before, err := json.Marshal(c.Before)
	if err != nil {
		return err
	}
	after, err := json.Marshal(c.After)
	if err != nil {
		return err
	}
	_, err = t.Exec(ctx, insertChangeSQL, c.ID, string(c.Kind), c.Merchant, c.Version, c.Token, c.Bound, string(c.State),
		string(before), string(after), c.ProposedBy, int64(c.Proposed), c.DecidedBy, int64(c.Decided), c.Reason,
		c.sealed, c.dataKey)
	return err
}

const (
	// decideChangeSQL ends a change that waits, and erases its sealed content.
	decideChangeSQL = `
UPDATE changes SET state = $2, decided_by = $3, decided = $4, reason = $5, data_key = $6, content = $6 WHERE id = $1 AND state = 'open'`

	// whereApplied finds the change that was applied to version $2 of a merchant.
	whereApplied = ` WHERE merchant = $1 AND version = $2 AND state = 'done' LIMIT 1`

	whereOld = ` WHERE state = 'open' AND proposed <= $1 ORDER BY id LIMIT 100`
)

// errMoved means that the change is no longer open: somebody decided it meanwhile.
var errMoved = errors.New("the change was decided meanwhile")

// decide stores the decision on c. It returns errMoved if c is no longer open.
func (c *Change) decide(ctx context.Context, t *db.Tx) error {
	n, err := t.Exec(ctx, decideChangeSQL, c.ID, string(c.State), c.DecidedBy, int64(c.Decided),
		db.Clean(c.Reason), []byte{})
	if err == nil && n == 0 {
		err = errMoved
	}
	return err
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

const changesWaitSQL = `SELECT 1 FROM tokens WHERE approver = 1 LIMIT 1`

// changesWait reports whether changes wait for an approver. They do once a token or a person had the role approver.
// They still wait after that token expires or is revoked, since one person could otherwise decide alone. Only
// EndApprovers ends the waiting.
func changesWait(ctx context.Context, q db.Querier) (bool, error) {
	return db.One(ctx, q, changesWaitSQL, nil)
}
