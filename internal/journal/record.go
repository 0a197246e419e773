package journal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// Record is something that happened. It never has secrets, only their fingerprints.
type Record struct {
	// Kind is a fixed word, such as "withdrawal.released". Required.
	Kind string
	// At is when it happened. Required.
	At db.Millis
	// About are the ids by which the record is found.
	About []string
	// Data is written as JSON. Nil: there is nothing more to say.
	Data any
}

// Actor is who made a call of the API.
type Actor struct {
	Token   string `json:"token"`             // id
	Subject string `json:"subject,omitempty"` // of a person whom the identity provider knows: oidc: and its id there
	Name    string `json:"name,omitempty"`    // of the token's owner
	Role    string `json:"role,omitempty"`
	Address string `json:"address,omitempty"` // the caller's address of the connection
}

type (
	actorKey struct{}
	nodeKey  struct{}
)

// By returns the context of a call of the API by a. Records that are added under it name a.
func By(ctx context.Context, a Actor) context.Context { return context.WithValue(ctx, actorKey{}, a) }

// At returns a context whose records name the process node.
func At(ctx context.Context, node string) context.Context {
	return context.WithValue(ctx, nodeKey{}, node)
}

// Caller returns the id of the token that made the call under way, or "" if none did.
func Caller(ctx context.Context) string {
	a, _ := ctx.Value(actorKey{}).(Actor)
	return a.Token
}

// Add adds r to the log, with the actor and the node of ctx. It is kept in the transaction t, or not at all.
func Add(ctx context.Context, t *db.Tx, r Record) error {
	b := Entry{At: client.Time(r.At), Kind: r.Kind, About: r.About}
	if a, ok := ctx.Value(actorKey{}).(Actor); ok {
		b.By = &a
	}
	b.Node, _ = ctx.Value(nodeKey{}).(string)
	var err error
	if r.Data != nil {
		if b.Data, err = Marshal(r.Data); err != nil {
			return err
		}
	}
	var kept db.LogRecord
	if kept.Body, err = Marshal(b); err != nil {
		return err
	}
	for _, id := range r.About {
		kept.Subjects = append(kept.Subjects, subjectOf(id))
	}
	t.Record(kept)
	return nil
}

// Entry is a record as it is written and read.
type Entry struct {
	At    client.Time     `json:"at"`
	Kind  string          `json:"kind"`
	About []string        `json:"about,omitempty"`
	By    *Actor          `json:"by,omitempty"` // absent: the end did it by itself
	Node  string          `json:"node,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"`
}

// Read reads a record.
func Read(record []byte) (e Entry, err error) {
	return e, json.Unmarshal(record, &e)
}

// Marshal writes v as records are written: JSON without spaces, with <, > and & as they are.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// longestSubject is the most bytes of an id that is kept as it is.
const longestSubject = 200

// subjectOf returns the form in which an id is looked up: an id that others chose may be too long for an index, or not
// storable.
func subjectOf(id string) string {
	if len(id) <= longestSubject && db.CheckText("", id) == nil {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Fingerprint returns a text that distinguishes a secret from others without showing it.
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

// Acked adds a record about an alarm that was acknowledged. It is db.End.Acked of both ends.
func Acked(ctx context.Context, t *db.Tx, a client.Alarm) error {
	r := Record{Kind: recordAcked, At: a.Acked, Data: ackedRecord{a.Seq, string(a.Kind), a.Subject, a.AckedName,
		a.AckedNote}}
	for _, id := range []string{a.Merchant, a.Subject} {
		if id != "" {
			r.About = append(r.About, id)
		}
	}
	return Add(ctx, t, r)
}

// DetailsOf returns details as records have them; nil if there are none.
func DetailsOf(d *countersign.Details) *client.Details {
	if d == nil || *d == (countersign.Details{}) {
		return nil
	}
	return d
}
