package api

import (
	"context"
	"errors"

	"countersign/client"
	"countersign/internal/db"
)

// formerApprover is the Token.Over of a person who was an approver and now has another role. Changes still wait.
const formerApprover = 2

// makesWait reports whether this token makes changes wait for an approver.
func (t Token) makesWait() bool {
	return t.Over == formerApprover || t.Role == client.RoleApprover && t.Over == 0
}

const (
	savePersonSQL = `UPDATE tokens SET name = $2, role = $3, merchants = $4, expires = 0, revoked = $5, over = $6, voided = $7 WHERE id = $1`

	endPersonSQL = `UPDATE tokens SET expires = $2 WHERE id = $1 AND (expires = 0 OR expires > $2)`
)

// savePerson writes a person into the row of tokens that stands for them. A person always has the same row, so two
// sessions are one origin. begins says that the person signs in now. Only a sign-in lifts a revocation: earlier
// sessions stay ended, and what the person did before stays void.
func savePerson(ctx context.Context, t *db.Tx, p person, begins bool, now db.Millis) (Token, error) {
	was, err := FindToken(ctx, t, p.id())
	if errors.Is(err, db.ErrNotFound) && begins {
		is := Token{ID: p.id(), Name: p.Name, Role: p.Role, Merchants: p.Merchants, Root: p.id(), Created: now, Subject: p.Subject}
		_, nobody := MintToken() // nobody knows a secret with this hash
		if err := createToken(ctx, t, is, nobody); err != nil {
			return is, err
		}
		return is, tellOfPerson(ctx, t, is, now)
	}
	if err != nil {
		return was, err
	}
	is := was
	is.Name, is.Role, is.Merchants, is.Expires = p.Name, p.Role, p.Merchants, 0
	switch {
	case is.Role == client.RoleApprover:
		if begins || was.Role != client.RoleApprover { // a session that continues does not undo EndApprovers
			is.Over = 0
		}
	case was.makesWait():
		is.Over = formerApprover
	}
	if begins && was.Revoked != 0 {
		is.Revoked, is.Voided = 0, max(was.Voided, was.Revoked)
		if _, err := t.Exec(ctx, endSessionsSQL, was.ID); err != nil {
			return was, err
		}
	}
	if is == was {
		return is, nil
	}
	_, err = t.Exec(ctx, savePersonSQL, is.ID, is.Name, string(is.Role), is.Merchants, int64(is.Revoked), is.Over, int64(is.Voided))
	if err == nil {
		err = recordPerson(ctx, t, recordPersonChanged, is, p.Group, "", now)
	}
	if err == nil && (is.Role != was.Role || !was.Valid(now)) {
		err = tellOfPerson(ctx, t, is, now)
	}
	return is, err
}

// tellOfPerson raises the alarm that a new token of this role would raise.
func tellOfPerson(ctx context.Context, t *db.Tx, is Token, now db.Millis) error {
	if is.Role != client.RoleApprover && is.Role != client.RoleAdmin {
		return nil
	}
	return db.RaiseAlarms(ctx, t, []client.Alarm{{Kind: client.AlarmControlChanged, Subject: is.ID + " person " + string(is.Role), First: now}})
}
