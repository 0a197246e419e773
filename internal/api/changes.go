package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// ApplyChange applies a change as part of t. content is what was proposed. It returns ErrStale if the thing to change
// was changed since the proposal.
type ApplyChange func(ctx context.Context, t *db.Tx, c *Change, content []byte, now db.Millis) error

// ErrStale means that the thing to change was changed after the proposal.
var ErrStale error = staleError("it was changed after this was proposed; propose it again")

// staleError is the reason why nobody can apply a change any more. Every staleError matches ErrStale.
type staleError string

func (e staleError) Error() string { return string(e) }

func (e staleError) Is(target error) bool { return target == ErrStale }

// MaxApprovals is the most persons who can be required to approve a thing.
const MaxApprovals = 10

// ChangesConfig configures NewChanges.
type ChangesConfig struct {
	// DB is the end's database. Required.
	DB *db.DB
	// Approvals is how many persons must approve a change. Each needs a token of another origin than the proposer and
	// the other approvers. 0: one. At most MaxApprovals.
	Approvals int
	// OIDC is the identity provider that people sign in with. Zero: people use tokens.
	OIDC OIDCConfig
	// Roles are the roles that tokens of this end can have. Bound says whether tokens can be bound to merchants. Both
	// are needed with OIDC.
	Roles []client.Role
	Bound bool
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
	// Log gets the errors of Run. Nil: discards.
	Log *slog.Logger
}

// Changes stores, decides and applies the changes of one end. Make it with NewChanges.
type Changes struct {
	c      ChangesConfig
	tokens *Tokens
	kinds  map[ChangeKind]ApplyChange

	// Version reads the present version of a merchant. It lets a stale change of a merchant be shown as stale before
	// anybody approves it. An end without merchants needs none.
	Version func(ctx context.Context, q db.Querier, merchant string) (int64, error)
	// Tasks are the tasks of the end besides changes. Set them before Run and before the API serves.
	Tasks Tasks
}

// NewChanges returns the Changes of an end. It returns an error if c is wrong, and starts nothing.
func NewChanges(c ChangesConfig) (*Changes, error) {
	if c.DB == nil || c.Approvals < 0 || c.Approvals > MaxApprovals {
		return nil, fmt.Errorf("control: Config.DB is missing, or Config.Approvals is not from 0 to %d", MaxApprovals)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	k := &Changes{c: c, tokens: NewTokens(c.DB), kinds: map[ChangeKind]ApplyChange{}}
	var err error
	if k.tokens.people, err = newIdentities(c.OIDC, c.Roles, c.Bound, c.Now, c.Log); err != nil {
		return nil, err
	}
	k.kinds[ChangeToken], k.kinds[ChangeRevoke] = k.applyToken, k.applyRevoke
	return k, nil
}

// Tokens returns the tokens of the end, with the sessions of people who signed in. A nil k has none and returns nil:
// a table of routes that is only read has no Changes.
func (k *Changes) Tokens() *Tokens {
	if k == nil {
		return nil
	}
	return k.tokens
}

// tasks returns all tasks of the end. Those of a nil k can be read, as Tokens can.
func (k *Changes) tasks() Tasks {
	if k == nil {
		return Tasks{}
	}
	all := k.Tasks
	all.Kinds = append(slices.Clip(all.Kinds), k.kind())
	return all
}

// TellOfWaiting raises and ends approval_waits for what waits for persons.
func (k *Changes) TellOfWaiting(ctx context.Context, now db.Millis) error {
	return k.tasks().tellOfWaiting(ctx, k.c.DB, now)
}

// Handle sets the function that applies changes of a kind. Call it for all kinds before Run and before the API
// serves.
func (k *Changes) Handle(kind ChangeKind, apply ApplyChange) {
	if k.kinds == nil {
		k.kinds = map[ChangeKind]ApplyChange{}
	}
	k.kinds[kind] = apply
}

// changePurpose is the purpose under which the content of a change is sealed.
var changePurpose = []string{"content"}

func changePlace(id string) db.Record { return db.Record{Table: "changes", Row: id, Version: 1} }

// Propose applies a change as part of t, or stores it if changes wait for an approver. content is what the kind's
// function needs to apply it. The caller sets the members of c up to Proposed, except ID.
func (k *Changes) Propose(ctx context.Context, t *db.Tx, c *Change, content []byte) error {
	c.ID = fmt.Sprintf("chg_%011x%s", int64(c.Proposed), RandomText(6))
	waits, err := changesWait(ctx, t)
	if err != nil {
		return err
	}
	if !waits {
		c.State, c.dataKey, c.sealed = client.TaskDone, []byte{}, []byte{}
		if err := k.kinds[c.Kind](ctx, t, c, content, c.Proposed); err != nil {
			return err
		}
		if err := c.insert(ctx, t); err != nil {
			return err
		}
		return k.announce(ctx, t, c, c.Proposed)
	}
	dataKey, sealed := k.c.DB.Seal(changePlace(c.ID), changePurpose, [][]byte{content})
	c.State, c.dataKey, c.sealed = client.TaskOpen, dataKey, sealed[0]
	if err := c.insert(ctx, t); err != nil {
		return err
	}
	return recordChange(ctx, t, recordProposed, c, c.Proposed)
}

const (
	errEnded = staleError("the token that proposed it was revoked or has expired; propose it again")
	errOld   = staleError("it was proposed more than 14 days ago; propose it again")
)

// changeLife is how long a change may wait. Nobody should approve a proposal that was forgotten.
const changeLife db.Millis = 14 * 24 * 3_600_000

// proposerOf returns the token that proposed a change. It returns ErrStale if that token has ended or the change has
// waited too long.
func proposerOf(ctx context.Context, q db.Querier, c *Change, now db.Millis) (Token, error) {
	if cmp.Or(c.Decided, now)-c.Proposed >= changeLife {
		return Token{}, errOld
	}
	proposer, err := FindToken(ctx, q, c.ProposedBy)
	if err == nil && !proposer.Valid(now) {
		err = errEnded
	}
	return proposer, err
}

// stale returns ErrStale if nobody can apply c any more.
func (k *Changes) stale(ctx context.Context, q db.Querier, c *Change, now db.Millis) error {
	if _, err := proposerOf(ctx, q, c, now); err != nil || c.Merchant == "" {
		return err
	}
	version, err := k.Version(ctx, q, c.Merchant)
	if err != nil || version == c.Version {
		return err
	}
	by, err := readChanges(ctx, q, whereApplied, c.Merchant, c.Version)
	if err != nil || len(by) == 0 { // not every new version of a merchant comes from a Change
		return cmp.Or(err, ErrStale)
	}
	return staleError("change " + by[0].ID + " was applied after this was proposed; propose it again")
}

const lockChangeSQL = `SELECT id FROM changes WHERE id = $1{lock}`

// approve stores the approval of a token, with a reason. The last approval that is needed applies the change. It
// returns a *client.Problem with status 403 if the approval would not count, and a *db.ConflictError if the change is
// decided or stale.
func (k *Changes) approve(ctx context.Context, id string, by Token, reason string, now db.Millis) (Change, error) {
	c, err := k.find(ctx, id, by)
	if err != nil {
		return c, err
	}
	v := db.Vote{Token: by.ID, Name: by.Name, At: now, Text: reason}
	err = k.c.DB.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if _, err := t.Exec(ctx, lockChangeSQL, id); err != nil { // approvals of a change run one after another
			return err
		}
		if c, err = findChange(ctx, t, id); err != nil {
			return err
		}
		if c.State != client.TaskOpen {
			return errMoved
		}
		if err := k.stale(ctx, t, &c, now); err != nil {
			return err
		}
		added, agreed, err := k.vote(ctx, t, &c, v)
		switch {
		case err != nil:
			return err
		case agreed.Enough():
			return k.apply(ctx, t, &c, v)
		case !added: // the token has approved it before
			return nil
		}
		return recordChange(ctx, t, recordApproved, &c, now)
	})
	return k.settled(ctx, c, err, now)
}

// vote judges the approval v together with those that c has, and stores it.
func (k *Changes) vote(ctx context.Context, t *db.Tx, c *Change, v db.Vote) (added bool, agreed Agreed, err error) {
	people, err := ReadPeople(ctx, t)
	if err != nil {
		return false, agreed, err
	}
	votes, err := k.kept(ctx, t, c)
	if err != nil {
		return false, agreed, err
	}
	if added, agreed, err = people.Vote(k.asked(c, v.At), votes, v); err == nil && added {
		_, err = db.AddVote(ctx, t, aboutChange(c.ID), c.digest(), v)
	}
	return added, agreed, err
}

// apply applies c, for which v was the last approval that was missing.
func (k *Changes) apply(ctx context.Context, t *db.Tx, c *Change, v db.Vote) error {
	plain, err := k.c.DB.Unseal(changePlace(c.ID), changePurpose, c.dataKey, [][]byte{c.sealed})
	if err != nil {
		return err
	}
	apply := k.kinds[c.Kind]
	if apply == nil {
		return fmt.Errorf("change %s is of the kind %s, which this end does not have", c.ID, c.Kind)
	}
	c.State, c.DecidedBy, c.Decided = client.TaskDone, v.Token, v.At
	if err := apply(ctx, t, c, plain[0], v.At); err != nil {
		return err
	}
	if err := c.decide(ctx, t); err != nil {
		return err
	}
	return k.announce(ctx, t, c, v.At)
}

func aboutChange(id string) string { return "change/" + id }

// digest returns a digest of everything in c that people are shown and that never changes.
func (c *Change) digest() string {
	return db.Digest(c.ID, c.Kind, c.Merchant, c.Version, c.Token, c.Before, c.After, c.ProposedBy, c.Proposed)
}

// asked returns whose approval c needs. Made is set, because one admin's token makes everybody's tokens before there
// is an approver. The tokens it made may therefore approve what it proposes.
func (k *Changes) asked(c *Change, at db.Millis) Asked {
	return Asked{Needed: k.c.Approvals, By: []string{c.ProposedBy}, Made: true, Sees: c.visible, At: at,
		Otherwise: "; where that waits for the same persons, end the rule at the machine (countersign no-approvers)"}
}

// kept returns the stored approvals of c.
func (k *Changes) kept(ctx context.Context, q db.Querier, c *Change) ([]db.Vote, error) {
	return db.Votes(ctx, q, aboutChange(c.ID), c.digest())
}

// agreed returns who agrees to a change: as of now if it is open, otherwise as of its decision.
func (k *Changes) agreed(ctx context.Context, c *Change, people *People, now db.Millis) (Agreed, error) {
	if c.State != client.TaskOpen {
		now = c.Decided
	}
	votes, err := k.kept(ctx, k.c.DB, c)
	return people.Agree(k.asked(c, now), votes), err
}

// settled returns the change after a decision that ended with err. If err is ErrStale, it stores the change as stale.
func (k *Changes) settled(ctx context.Context, c Change, err error, now db.Millis) (Change, error) {
	if errors.Is(err, ErrStale) {
		c.State, c.DecidedBy, c.Reason, c.Decided = client.TaskStale, "", err.Error(), now
		err = k.c.DB.Write(ctx, func(ctx context.Context, t *db.Tx) error {
			if err := c.decide(ctx, t); err != nil {
				return err
			}
			return recordChange(ctx, t, recordStale, &c, now)
		})
		if err == nil {
			err = &db.ConflictError{Reason: "the change is stale: " + c.Reason}
		}
	}
	if !errors.Is(err, errMoved) {
		return c, err
	}
	is, err := findChange(ctx, k.c.DB, c.ID)
	if err != nil {
		return c, err
	}
	return is, &db.ConflictError{Reason: "the change is " + string(is.State)}
}

// decline declines an open change. A token that is no approver's or admin's can decline only what it proposed itself.
func (k *Changes) decline(ctx context.Context, id string, by Token, reason string, now db.Millis) (Change, error) {
	c, err := k.find(ctx, id, by)
	switch {
	case err != nil:
		return c, err
	case c.State == client.TaskOpen && c.ProposedBy != by.ID && !slices.Contains(Approvers, by.Role):
		return c, NewProblem(http.StatusForbidden,
			fmt.Sprintf("a token of role %s declines only what it proposed itself", by.Role))
	}
	c.State, c.DecidedBy, c.Decided, c.Reason = client.TaskDeclined, by.ID, now, reason
	err = k.c.DB.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if err := c.decide(ctx, t); err != nil {
			return err
		}
		return recordChange(ctx, t, recordDeclined, &c, now)
	})
	return k.settled(ctx, c, err, now)
}

// lookEvery is the interval of Run's checks.
const lookEvery = time.Minute

// Run ends changes that have waited too long and announces those that wait, until ctx ends.
func (k *Changes) Run(ctx context.Context) error {
	return Regularly(ctx, k.c.DB.Every(lookEvery), k.c.Now, func(ctx context.Context, now db.Millis) error {
		return errors.Join(k.EndOld(ctx, now), k.TellOfWaiting(ctx, now))
	}, func(err error) { k.c.Log.Error("looking for changes that wait failed", "error", err.Error()) })
}

// Regularly calls do with the present time, at intervals of every. It returns nil when ctx ends. failed gets the
// errors of do, except that the database is unavailable, which others report.
func Regularly(ctx context.Context, every time.Duration, now func() time.Time,
	do func(context.Context, db.Millis) error, failed func(error)) error {
	look := time.NewTicker(every)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		if err := do(ctx, db.MillisOf(now())); err != nil && ctx.Err() == nil && !errors.Is(err, db.ErrUnavailable) {
			failed(err)
		}
	}
}

// EndOld ends the changes that have waited too long.
func (k *Changes) EndOld(ctx context.Context, now db.Millis) error {
	old, err := readChanges(ctx, k.c.DB, whereOld, int64(now-changeLife))
	errs := []error{err}
	for _, c := range old {
		if _, err := k.settled(ctx, c, errOld, now); !errors.Is(err, db.ErrConflict) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// The kinds of records about changes. The effect of an applied change has a record of its own, about the merchant or
// the token.
const (
	recordProposed = "change.proposed"
	recordApproved = "change.approved"
	recordDeclined = "change.declined"
	recordStale    = "change.stale"
	recordDone     = "change.done"
)

// changeRecord is the data of a record about a change.
type changeRecord struct {
	Kind       ChangeKind        `json:"kind"`
	Merchant   string            `json:"merchant,omitempty"`
	Token      string            `json:"token,omitempty"`
	Before     map[string]string `json:"before,omitempty"`
	After      map[string]string `json:"after,omitempty"`
	ProposedBy string            `json:"proposedBy"`
	Reason     string            `json:"reason,omitempty"`
}

func recordChange(ctx context.Context, t *db.Tx, kind string, c *Change, now db.Millis) error {
	about := slices.DeleteFunc([]string{c.ID, c.Merchant, c.Token}, func(id string) bool { return id == "" })
	return journal.Add(ctx, t, journal.Record{Kind: kind, At: now, About: about, Data: changeRecord{
		c.Kind, c.Merchant, c.Token, c.Before, c.After, c.ProposedBy, c.Reason}})
}

// announce adds the record of an applied change and raises the alarm. Every applied change calls it, in its
// transaction. A change of a token raises the alarm only if its role decides on changes.
func (k *Changes) announce(ctx context.Context, t *db.Tx, c *Change, now db.Millis) error {
	if c.DecidedBy != "" { // if nobody had to decide, the record of the effect names the token
		if err := recordChange(ctx, t, recordDone, c, now); err != nil {
			return err
		}
	}
	what := strings.Join(slices.Sorted(maps.Keys(c.After)), ",") // the values are in the record
	if c.Token != "" {
		if !slices.Contains(Approvers, client.Role(c.After["role"]+c.Before["role"])) {
			return nil
		}
		what = c.Token + " " + string(c.Kind)
	}
	return db.RaiseAlarms(ctx, t, []client.Alarm{{Merchant: c.Merchant, Kind: client.AlarmControlChanged,
		Subject: c.ID + " " + what, First: now}})
}

// find returns a change. It returns db.ErrNotFound if there is none that the token by may see.
func (k *Changes) find(ctx context.Context, id string, by Token) (Change, error) {
	c, err := findChange(ctx, k.c.DB, id)
	if err == nil && !c.visible(by) {
		return Change{}, db.ErrNotFound
	}
	return c, err
}

// list returns changes in the given state that the token by may see, the newest first and only those before cursor.
// An empty merchant means all merchants.
func (k *Changes) list(ctx context.Context, state client.TaskState, merchant string, by Token, cursor string,
	limit int) ([]Change, error) {
	var where db.Conditions
	where.Add("state = ?", string(state))
	if of := by.BoundTo(); of != nil {
		where.Add("merchant {in}?{end}", k.c.DB.Dialect().List(of))
	}
	if merchant != "" {
		where.Add("merchant = ?", merchant)
	}
	if cursor != "" {
		where.Add("id < ?", cursor)
	}
	order := ` ORDER BY id DESC LIMIT CAST(` + where.Arg(limit) + ` AS BIGINT)`
	return readChanges(ctx, k.c.DB, where.Where()+order, where.Args...)
}
