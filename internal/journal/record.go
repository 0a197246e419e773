package journal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/passkey"
)

// Record is something that happened. Secrets have no place in it: their fingerprints
// do.
type Record struct {
	// Kind is a fixed word, such as "withdrawal.released". Required.
	Kind string
	// At is the time of what happened. Required.
	At db.Millis
	// About are the ids by which the record is found.
	About []string
	// Data is written as JSON. Nil: nothing more is to be said.
	Data any
}

// Actor is who made a call of the API.
type Actor struct {
	Token   string `json:"token"`             // id
	Subject string `json:"subject,omitempty"` // of a person whom the identity provider knows: oidc: and its id there
	Name    string `json:"name,omitempty"`    // of the token's owner
	Role    string `json:"role,omitempty"`
	Address string `json:"address,omitempty"` // of the caller's end of the connection
}

type (
	actorKey struct{}
	signKey  struct{}
	nodeKey  struct{}
)

// By gives the context of a call of the API by a. Records that are added under it say
// so.
func By(ctx context.Context, a Actor) context.Context { return context.WithValue(ctx, actorKey{}, a) }

type signed struct {
	act string
	passkey.Evidence
}

// Signed gives the context of an act that a person has signed with a passkey. The record
// of the act that is added under it has the evidence.
func Signed(ctx context.Context, act string, e passkey.Evidence) context.Context {
	return context.WithValue(ctx, signKey{}, signed{act, e})
}

// At gives a context whose records name the process: node.
func At(ctx context.Context, node string) context.Context {
	return context.WithValue(ctx, nodeKey{}, node)
}

// Caller is the id of the token that made the call under way; empty: none did.
func Caller(ctx context.Context) string {
	a, _ := ctx.Value(actorKey{}).(Actor)
	return a.Token
}

// Add adds r to the log, with the actor and the node of ctx. It is kept in the
// transaction t, or not at all.
func Add(ctx context.Context, t *db.Tx, r Record) error { return add(ctx, t, r, newSalt(), nil) }

// items is what a record says of items that it tells of as one.
type items struct {
	Items int       `json:"items"`
	Root  tlog.Hash `json:"root"` // of the tree whose leaves are the items
}

// Shown makes items provable to outsiders.
func (i items) Shown(bool) (public, private any) { return i, nil }

// Item is one of those that a record tells of as one.
type Item struct {
	At   db.Millis // by which its record is found: one of few times in a record
	Item any       // written as JSON
}

// AddItems adds one record for many items, in order. The record has the root of a tree
// of them, so that each can be proved. Nothing is added for no items.
func AddItems(ctx context.Context, t *db.Tx, r Record, list []Item) error {
	if len(list) == 0 {
		return nil
	}
	var e edge
	leaves, salt := make([]byte, 0, len(list)*tlog.HashSize), newSalt()
	for _, v := range list {
		b, err := closeItem(v.Item, salt)
		if err != nil {
			return err
		}
		if at := itemsAt(v.At); !slices.Contains(r.About, at) {
			r.About = append(r.About, at)
		}
		h := leafOf(b)
		leaves = append(leaves, h[:]...)
		e.append(h)
	}
	r.Data = items{len(list), e.root()}
	return add(ctx, t, r, salt, leaves)
}

// itemsAt is the subject of the records that tell of items at a time.
func itemsAt(at db.Millis) string { return "items:" + strconv.FormatInt(int64(at), 10) }

func add(ctx context.Context, t *db.Tx, r Record, salt, leaves []byte) error {
	kept, err := written(ctx, r, salt, leaves)
	if err == nil {
		t.Record(kept)
	}
	return err
}

// written gives r as it is kept, with the actor and the node of ctx.
func written(ctx context.Context, r Record, salt, leaves []byte) (kept db.LogRecord, err error) {
	b, h := body{At: client.Time(r.At), Kind: r.Kind, About: r.About}, hidden{Salt: salt}
	if len(r.About) > 1 {
		b.About, h.About = nil, r.About
	}
	if a, ok := ctx.Value(actorKey{}).(Actor); ok {
		h.By = &a
	}
	if s, ok := ctx.Value(signKey{}).(signed); ok && shows(s.act, r.Kind) {
		h.Passkey = &s.Evidence
	}
	h.Node, _ = ctx.Value(nodeKey{}).(string)
	if b.Data, h.Data, err = apart(r.Data, h.By != nil); err != nil {
		return kept, err
	}
	if b.Private, err = Marshal(h); err != nil {
		return kept, err
	}
	if kept.Body, err = Marshal(b); err != nil {
		return kept, err
	}
	kept.Leaves = leaves
	for _, id := range r.About {
		kept.Subjects = append(kept.Subjects, subjectOf(id))
	}
	return kept, nil
}

// Marshal writes v as records and items are written: JSON without spaces, with <, > and
// & as they are.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// longestSubject is how long an id may be to be kept as it is, in bytes.
const longestSubject = 200

// subjectOf is the form in which an id is looked up: an id that others chose may be
// too long for an index, or not storable.
func subjectOf(id string) string {
	if len(id) <= longestSubject && db.CheckText("", id) == nil {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Fingerprint tells two secrets apart without showing either.
func Fingerprint(secret string) string {
	if secret == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:8])
}

// recordAcked is the kind of records of acknowledged alarms.
const recordAcked = "alarm.acknowledged"

type ackedRecord struct {
	Seq     int64  `json:"seq"`
	Alarm   string `json:"alarm"`
	Subject string `json:"subject"`
	Name    string `json:"name,omitempty"`
	Note    string `json:"note,omitempty"`
}

// Acked adds a record about an alarm that was acknowledged. It is db.End.Acked of both
// ends.
func Acked(ctx context.Context, t *db.Tx, a db.Alarm) error {
	r := Record{Kind: recordAcked, At: a.Acked, Data: ackedRecord{a.Seq, string(a.Kind), a.Subject, a.AckedName, a.AckedNote}}
	for _, id := range []string{a.Of, a.Subject} {
		if id != "" {
			r.About = append(r.About, id)
		}
	}
	return Add(ctx, t, r)
}

// Details are details as records have them.
type Details struct {
	Address   string `json:"address"`
	ChainName string `json:"chainName"`
	Symbol    string `json:"symbol"`
	Amount    string `json:"amount"`
}

// DetailsOf gives nil if there are none.
func DetailsOf(d *countersign.Details) *Details {
	if d == nil || *d == (countersign.Details{}) {
		return nil
	}
	return &Details{d.Address, d.ChainName, d.Symbol, d.Amount.String()}
}
