package api

import (
	"context"
	"errors"
	"net"

	"countersign/client"
	"countersign/internal/journal"
)

// auditFeed selects a part of the log.
type auditFeed struct {
	After int64 `query:"after" minimum:"0" default:"0" doc:"seq of the last record that the reader has; 0: none"`
	Limit int   `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"most records to answer, 1 to 1,000; also no more than some 4 MB of them"`
}

// auditFrom names an earlier checkpoint.
type auditFrom struct {
	From int64 `query:"from" minimum:"0" default:"0" doc:"number of records of an earlier checkpoint, to prove that its log is the beginning of this one; 0: none"`
}

// auditID names what records are about.
type auditID struct {
	ID     string `query:"id" required:"true" minLength:"1" maxLength:"2048" doc:"id of a withdrawal, a callback, a merchant, a token; of the gateway, the callBackId of an order or deposit: and its number; 1 to 2,048 characters"`
	Before int64  `query:"before" minimum:"0" default:"0" doc:"records before this number; 0: the newest"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"most records to answer, 1 to 1,000"`
}

// auditPage returns a part of the log.
func (o Common) auditPage(c *Call, q auditFeed, _ None) (client.AuditPage, error) {
	return o.Audit.Page(c.R.Context(), q.After, q.Limit)
}

// auditAbout returns the newest records about an id.
func (o Common) auditAbout(c *Call, q auditID, _ None) (client.List[client.AuditEntry], error) {
	return o.Audit.About(c.R.Context(), q.ID, q.Before, q.Limit)
}

// auditCheckpoint signs the log in its present state.
func (o Common) auditCheckpoint(c *Call, q auditFrom, _ None) (client.AuditProof, error) {
	p, err := o.Audit.Checkpoint(c.R.Context(), q.From)
	if errors.Is(err, journal.ErrFrom) {
		err = Invalid(At("query.from", "is above the number of records in the log: the checkpoint is of another log, or this one was set back"))
	}
	return p, err
}

// acting returns the context of a call whose token is known. With it the audit log names who acted.
func (c *Call) acting() context.Context { return journal.By(c.R.Context(), c.actor()) }

// actor returns the holder of the call's token, with the caller's address.
func (c *Call) actor() journal.Actor {
	address, _, err := net.SplitHostPort(c.R.RemoteAddr)
	if err != nil {
		address = c.R.RemoteAddr
	}
	a := actorOf(c.Token)
	a.Address = address
	return a
}

// actorOf returns the holder of a token.
func actorOf(t Token) journal.Actor {
	return journal.Actor{Token: t.ID, Subject: t.shownSubject(), Name: t.Name, Role: string(t.Role)}
}

// The kinds of records about tokens.
const (
	recordTokenCreated = "token.created"
	recordTokenRevoked = "token.revoked"
)

// tokenRecord is the data of a record about a token.
type tokenRecord struct {
	Name      string      `json:"name,omitempty"`
	Role      client.Role `json:"role,omitempty"`
	Merchants []string    `json:"merchants,omitempty"`
	Maker     string      `json:"maker,omitempty"`
	Expires   int64       `json:"expires,omitempty"`
	Hourly    int64       `json:"depositsPerHour,omitempty"`
}
