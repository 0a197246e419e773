package outbox

import (
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// A permit is given on evidence. Whoever can write the database can make any row of a
// withdrawal say that it is confirmed, or that no permit was given. So three things carry a MAC
// under a key derived from the master key: what was ordered (orderRows), the answer that
// confirmed it (confirmedRows), and the permit (givenRows). Rows of an earlier time have their
// MAC too: against those each process remembers the permits that were given (givenPermits).
var (
	orderRows = db.Guarded{Name: "withdrawals", Columns: `merchant, id, call_back_id, tenant_user_id, tracking_id, business, deadline, created,
	ordered_address, ordered_chain, ordered_symbol, ordered_amount, epoch`}

	confirmedRows = db.Guarded{Name: "evidence", Columns: `merchant, id, epoch, confirmed`}
	givenRows     = db.Guarded{Name: "evidence", Columns: `merchant, id, given`}
)

// Evidence is why a withdrawal is confirmed: what was ordered, what the merchant's answer said,
// and that answer. It is kept with a MAC from the decision on.
type Evidence struct {
	Merchant string `json:"-"`
	ID       string `json:"-"` // of the withdrawal, without the merchant

	CallBackID   string          `json:"callBackId"`
	TenantUserID string          `json:"tenantUserId"`
	TrackingID   string          `json:"trackingId"`
	Business     int64           `json:"business,omitempty"`
	Ordered      *client.Details `json:"ordered,omitempty"` // nil: the service was told nothing
	Deadline     db.Millis       `json:"deadline"`

	Details   client.Details `json:"details"` // that were confirmed
	Decided   db.Millis      `json:"decided"`
	ReleaseBy db.Millis      `json:"releaseBy"`
	Attempt   int            `json:"attempt"`
	Answer    *KeptAnswer    `json:"answer,omitempty"` // nil: none was kept
}

// KeptAnswer is the exchange that confirmed a withdrawal, as far as judging it again needs it.
type KeptAnswer struct {
	Version     int64          `json:"version"`           // of the merchant
	ResponseKey string         `json:"responseKey"`       // fingerprint of the key that opened the answer
	Collect     client.Collect `json:"collect,omitempty"` // what the answer had to show
	Request     string         `json:"request"`           // what was sealed in the request
	Data        string         `json:"data"`              // the sealed answer
	Opened      string         `json:"opened"`            // what it opened to
	Blocks      []int          `json:"blocks"`            // how many bytes of it each block held
	Done        db.Millis      `json:"done"`              // when it had come whole
	Link        *Link          `json:"link,omitempty"`    // the signatures; absent: none was demanded
	Signer      string         `json:"signer,omitempty"`  // public part of the merchant's key that signed the answer
}

// given is the permit that was given for a withdrawal.
type given struct {
	CallBackID string         `json:"callBackId"`
	Epoch      int64          `json:"epoch"`
	Claim      string         `json:"claim"`
	Origin     string         `json:"origin,omitempty"` // absent: it was given before a restore, and its claim was not repeated yet
	Permit     string         `json:"permit"`
	At         db.Millis      `json:"at"`
	Until      db.Millis      `json:"until"` // no other answer can confirm a release after this time
	Details    client.Details `json:"details"`
}

// maxReleaseWithin is the longest releaseWithin of a merchant.
const maxReleaseWithin db.Millis = 8760 * 3_600_000

// order is what orderRows cover.
type order struct {
	merchant, id, callBackID, tenantUserID, trackingID string
	business, deadline, created                        int64
	ordered                                            [4]string
	epoch                                              int64
	mac                                                []byte
}

const orderColumns = `w.merchant, w.id, w.call_back_id, w.tenant_user_id, w.tracking_id, w.business, w.deadline, w.created,
	w.ordered_address, w.ordered_chain, w.ordered_symbol, w.ordered_amount, w.epoch, w.mac`

func (r *order) dest() []any {
	return []any{&r.merchant, &r.id, &r.callBackID, &r.tenantUserID, &r.trackingID, &r.business, &r.deadline, &r.created,
		&r.ordered[0], &r.ordered[1], &r.ordered[2], &r.ordered[3], &r.epoch, &r.mac}
}

// sum gives the MAC that r should have.
func (r *order) sum(q db.Querier) []byte {
	return orderRows.MAC(q, r.merchant, r.id, r.callBackID, r.tenantUserID, r.trackingID, r.business, r.deadline, r.created,
		r.ordered[0], r.ordered[1], r.ordered[2], r.ordered[3], r.epoch)
}

func (r *order) genuine(q db.Querier) bool { return hmac.Equal(r.mac, r.sum(q)) }

// keptEvidence is a row of evidence.
type keptEvidence struct {
	found     bool
	epoch     int64
	confirmed string
	evidence  *Evidence // nil: there is none, or it is not genuine
	text      string    // of given
	given     *given    // nil: no permit was given, or what says so is not genuine
}

const readEvidenceSQL = `SELECT epoch, confirmed, confirmed_mac, given, given_mac FROM evidence WHERE merchant = $1 AND id = $2`

// read is the statement that reads k.
func (k *keptEvidence) read(q db.Querier, merchant, id string) db.Statement {
	return db.Statement{SQL: readEvidenceSQL, Args: []any{merchant, id}, Row: func(r db.Rows) error {
		var confirmedMAC, givenMAC []byte
		k.found = true
		if err := r.Scan(&k.epoch, &k.confirmed, &confirmedMAC, &k.text, &givenMAC); err != nil {
			return err
		}
		if k.confirmed != "" && hmac.Equal(confirmedMAC, confirmedRows.MAC(q, merchant, id, k.epoch, k.confirmed)) {
			k.evidence = &Evidence{Merchant: merchant, ID: id}
			if err := json.Unmarshal([]byte(k.confirmed), k.evidence); err != nil {
				return err
			}
		}
		if k.text != "" && hmac.Equal(givenMAC, givenRows.MAC(q, merchant, id, k.text)) {
			k.given = &given{}
			return json.Unmarshal([]byte(k.text), k.given)
		}
		return nil
	}}
}

const (
	keepEvidenceSQL = `INSERT INTO evidence (merchant, id, epoch, confirmed, confirmed_mac) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (merchant, id) DO NOTHING`

	renewEvidenceSQL = `UPDATE evidence SET epoch = $3, confirmed_mac = $4 WHERE merchant = $1 AND id = $2`

	keepGivenSQL = `
INSERT INTO evidence (merchant, id, epoch, confirmed, given, given_at, given_mac) VALUES ($1, $2, $3, '', $4, $5, $6)
ON CONFLICT (merchant, id) DO UPDATE SET given = $4, given_at = $5, given_mac = $6`

	dropEvidenceSQL = `DELETE FROM evidence WHERE merchant = $1 AND id = $2 AND given = ''`

	// purgeEvidenceSQL leaves what says that a permit was given: the same holder may ask again.
	purgeEvidenceSQL = `UPDATE evidence SET confirmed = '', confirmed_mac = NULL WHERE merchant = $1 AND id = $2`
)

var insertEvidence = db.NewInsert(keepEvidenceSQL, 50, 5)

// keepGiven is the statement that keeps g.
func keepGiven(q db.Querier, merchant, id string, g given) (db.Statement, error) {
	text, err := json.Marshal(g)
	return db.Statement{SQL: keepGivenSQL, Args: []any{merchant, id, g.Epoch, string(text), int64(g.At), givenRows.MAC(q, merchant, id, string(text))}}, err
}

// proved reports whether b, which confirmed its withdrawal, did so on what this service had
// ordered, in this epoch and in time.
func (b *settling) proved(q db.Querier, epoch int64) bool {
	return b.order.genuine(q) && b.order.epoch == epoch && int64(b.now) < b.order.deadline
}

// evidence is the row that b keeps, as the arguments of keepEvidenceSQL.
func (b *settling) evidence(q db.Querier, to []any) ([]any, error) {
	ordered, err := readDetails(b.order.ordered)
	if err != nil {
		return nil, err
	}
	e := Evidence{CallBackID: b.order.callBackID, TenantUserID: b.order.tenantUserID, TrackingID: b.order.trackingID, Business: b.order.business,
		Deadline: db.Millis(b.order.deadline), Details: detailsOf(b.Details), Decided: b.now, ReleaseBy: b.now + b.within, Attempt: b.Attempt.Number}
	if ordered != nil {
		d := detailsOf(*ordered)
		e.Ordered = &d
	}
	if x := b.Exchange; x != nil {
		e.Answer = &KeptAnswer{Version: x.Version, ResponseKey: x.ResponseKey, Collect: x.Collect, Request: x.RequestOpened, Data: x.Data, Opened: x.ResponseOpened, Blocks: x.Blocks, Done: x.Done,
			Link: x.Link, Signer: x.Signer}
	}
	text, err := json.Marshal(e)
	return append(to, b.Merchant, b.id, b.order.epoch, string(text), confirmedRows.MAC(q, b.Merchant, b.id, b.order.epoch, string(text))), err
}

func detailsOf(d countersign.Details) client.Details {
	return client.Details{Address: d.Address, ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount}
}

// settleEvidence keeps the evidence of what the batch confirmed. Where the order is not what the
// service was asked for none is kept, so no permit is given, and the alarm says so at once.
func (o *Outbox) settleEvidence(ctx context.Context, t *db.Tx, batch []*settling, epoch int64, feed *feedEntries) error {
	var args []any
	for _, b := range batch {
		if b.awaiting != 1 || b.decided != countersign.DecisionConfirmed {
			continue
		}
		if !b.proved(t, epoch) {
			feed.alarm(b.Merchant, client.AlarmEvidenceDiffers, b.CallbackID, b.now)
			continue
		}
		var err error
		if args, err = b.evidence(t, args); err != nil {
			return err
		}
	}
	return t.Batch(ctx, insertEvidence.Statements(args, nil))
}

// JudgeFunc judges the kept answer of e again and gives what it confirms. An error means that it
// confirms nothing, or that it cannot be judged now (ErrNotJudged).
type JudgeFunc func(ctx context.Context, e *Evidence) (countersign.Details, error)

// ErrNotJudged means that an answer that is kept could not be judged, which says nothing of it.
var ErrNotJudged = errors.New("the kept answer cannot be judged now")

// JudgeWith sets what judges kept answers, before Release is called. Without it no permit is
// given for an answer that was kept.
func (o *Outbox) JudgeWith(f JudgeFunc) { o.judge = f }

// judged is a judgement of a kept answer.
type judged struct {
	confirmed string // what was judged
	details   countersign.Details
	err       error
}

const (
	// judgesAtOnce is how many kept answers of one call are judged at once. What judges them
	// bounds how many processors they take.
	judgesAtOnce = 8
	// judgeFor bounds how long one call judges, well below what its caller waits. What is not
	// judged until then is ErrNotJudged, and the others get their permits. Otherwise many answers
	// that take long would end each call before it gave one.
	judgeFor = 10 * time.Second
)

// judgeAgain judges the kept answers of withdrawals that have no permit yet. Where there is none,
// or it needs no judging, answer stays nil.
func (o *Outbox) judgeAgain(ctx context.Context, batch []*releasing) error {
	kept, reads := make([]keptEvidence, len(batch)), make([]db.Statement, len(batch))
	for i, r := range batch {
		reads[i] = kept[i].read(o.DB, r.merchant, r.rest)
	}
	if err := o.Batch(ctx, reads); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, judgeFor)
	defer cancel()
	var work sync.WaitGroup
	defer work.Wait()
	places := make(chan struct{}, judgesAtOnce)
	for i, r := range batch {
		k := &kept[i]
		if k.evidence == nil || k.text != "" || k.evidence.Answer == nil {
			continue
		}
		r.answer = &judged{confirmed: k.confirmed, err: ErrNotJudged}
		if o.judge == nil {
			continue
		}
		places <- struct{}{}
		work.Go(func() {
			defer func() { <-places }()
			r.answer.details, r.answer.err = o.judge(ctx, k.evidence)
		})
	}
	return nil
}

// supports reports whether the evidence has all that the row of a confirmed withdrawal says, so
// that a permit may be given in this epoch. judged is the judgement of its answer.
func (k *keptEvidence) supports(w *Withdrawal, epoch int64, j *judged) bool {
	e := k.evidence
	switch {
	case e == nil || k.text != "" || k.epoch != epoch:
		return false
	case e.CallBackID != w.CallBackID || e.TenantUserID != w.TenantUserID || e.TrackingID != w.TrackingID || e.Business != w.Business,
		e.Deadline != w.Deadline || e.ReleaseBy != w.ReleaseBy,
		(e.Ordered == nil) != (w.Ordered == nil), e.Ordered != nil && !sameDetails(e.Ordered, *w.Ordered),
		w.Details == nil || !sameDetails(&e.Details, *w.Details):
		return false
	case e.Answer == nil:
		return true
	}
	return j != nil && j.confirmed == k.confirmed && j.err == nil && sameDetails(&e.Details, j.details)
}

// gave reports whether what was given is what the row of the withdrawal says.
func (k *keptEvidence) gave(w *Withdrawal, permit string) bool {
	g := k.given
	return g != nil && g.Permit == permit && g.Claim == w.Claim && g.Origin == w.Origin && g.CallBackID == w.CallBackID &&
		w.Details != nil && sameDetails(&g.Details, *w.Details)
}

// sameDetails compares what is written, not values.
func sameDetails(d *client.Details, e countersign.Details) bool {
	return d.Address == e.Address && d.ChainName == e.ChainName && d.Symbol == e.Symbol && d.Amount.String() == e.Amount.String()
}

// differText tells callers why no permit is given.
const differText = "what the database says of this withdrawal goes beyond the answer that is kept of it (alarm " + string(client.AlarmEvidenceDiffers) + "): no permit is given until a person has decided; block the withdrawal, and have a new one ordered if it is still wanted"

// differs reports whether the rows of a withdrawal say more than the evidence.
func (o *Outbox) differs(p *Permit, k *keptEvidence, epoch int64, j *judged, stop client.Reason, now db.Millis) bool {
	w := &p.Withdrawal
	switch {
	case p.Permit != "" || k.text != "" || w.Released != 0:
		return !k.gave(w, p.Permit)
	case w.State != WithdrawalConfirmed || stop != "" || w.ReleaseBy <= now:
		return false // nothing is given
	}
	return !k.supports(w, epoch, j) || o.given.has(permitKey(w.Merchant, w.CallBackID, epoch))
}

// givenTo is the permit for h.
func (k *keptEvidence) givenTo(h Holder, permit string, now db.Millis) given {
	e := k.evidence
	return given{CallBackID: e.CallBackID, Epoch: k.epoch, Claim: h.Claim, Origin: h.Origin, Permit: permit, At: now,
		Until: e.Deadline + e.ReleaseBy - e.Decided, Details: e.Details}
}

// inUse is the time until which a permit given for w is remembered, where no answer is known.
func inUse(w *Withdrawal, now db.Millis) db.Millis { return max(w.Deadline, now) + maxReleaseWithin }

// renewProof makes the evidence of a withdrawal count in the present epoch, after somebody has
// said that nothing became of it before. What is not genuine stays so.
func renewProof(ctx context.Context, t *db.Tx, merchant, id string) error {
	e, err := db.LastEpoch(ctx, t)
	if err != nil {
		return err
	}
	var r order
	if _, err := db.One(ctx, t, readOrderSQL, []any{merchant, id}, r.dest()...); err != nil {
		return err
	}
	var list []db.Statement
	if r.genuine(t) {
		r.epoch = e.Number
		list = append(list, db.Statement{SQL: renewOrderSQL, Args: []any{merchant, id, r.epoch, r.sum(t)}})
	}
	var k keptEvidence
	s := k.read(t, merchant, id)
	if err := db.Each(ctx, t, s.SQL, s.Args, s.Row); err != nil {
		return err
	}
	if k.evidence != nil {
		list = append(list, db.Statement{SQL: renewEvidenceSQL, Args: []any{merchant, id, e.Number, confirmedRows.MAC(t, merchant, id, e.Number, k.confirmed)}})
	}
	return t.Batch(ctx, list)
}

const (
	readOrderSQL  = `SELECT ` + orderColumns + ` FROM withdrawals w WHERE w.merchant = $1 AND w.id = $2`
	renewOrderSQL = `UPDATE withdrawals SET epoch = $3, mac = $4 WHERE merchant = $1 AND id = $2`
)

// adoptGiven is the statement that keeps a permit that was given before a restore.
func adoptGiven(ctx context.Context, t *db.Tx, w *Withdrawal, id, claim, permit string, d *countersign.Details, now db.Millis) error {
	e, err := db.LastEpoch(ctx, t)
	if err != nil {
		return err
	}
	s, err := keepGiven(t, w.Merchant, id, given{CallBackID: w.CallBackID, Epoch: e.Number, Claim: claim, Permit: permit, At: now, Until: inUse(w, now), Details: detailsOf(*d)})
	if err == nil {
		err = t.Batch(ctx, []db.Statement{s})
	}
	return err
}
