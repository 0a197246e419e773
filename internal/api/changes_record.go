package api

import (
	"context"
	"maps"
	"slices"
	"strings"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

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
	about := []string{c.ID}
	for _, id := range []string{c.Merchant, c.Token} {
		if id != "" {
			about = append(about, id)
		}
	}
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
	a := client.Alarm{Merchant: c.Merchant, Kind: client.AlarmControlChanged, Subject: c.ID + " " + c.summary(), First: now}
	if c.Token != "" {
		role := client.Role(c.After["role"] + c.Before["role"])
		if role != client.RoleApprover && role != client.RoleAdmin {
			return nil
		}
	}
	return db.RaiseAlarms(ctx, t, []client.Alarm{a})
}

// summary names what changed. The values are in the record.
func (c *Change) summary() string {
	if c.Token != "" {
		return c.Token + " " + string(c.Kind)
	}
	return strings.Join(slices.Sorted(maps.Keys(c.After)), ",")
}
