package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/passkey"
)

// storedPasskey is a row of the table of passkeys.
type storedPasskey struct {
	passkey.Key
	Token, Name   string
	Created, Used db.Millis

	forged bool // it signs nothing; its token still needs a passkey
	gone   bool // its row was removed: it is known by the row of its token alone, and is forged
}

var passkeyRows = db.Guarded{Name: "passkeys", Key: "id", Columns: `id, token, name, public, origin, created, counter, signed_in`, Beside: `used`}

func (p *storedPasskey) scan(rows db.RowReader, r db.Rows) error {
	var counter, signedIn int64
	genuine, err := rows.Scan(r, &p.ID, &p.Token, &p.Name, &p.Public, &p.Origin, &p.Created, &counter, &signedIn, &p.Used)
	p.forged = !genuine
	return err
}

var (
	passkeysOfSQL = passkeyRows.Select() + `WHERE token = $1 ORDER BY created, id`

	passkeyByIDSQL = passkeyRows.Select() + `WHERE id = $1`
)

const (
	addPasskeySQL = `
INSERT INTO passkeys (id, token, name, public, origin, counter, created, mac) VALUES ($1, $2, $3, $4, $5, 0, $6, $7) ON CONFLICT DO NOTHING`

	removePasskeySQL = `DELETE FROM passkeys WHERE id = $1 AND token = $2`

	// A counter that does not grow is of a copy of the key. Keys without one say 0.
	usePasskeySQL = `UPDATE passkeys SET used = $2, counter = $3 WHERE id = $1 AND (counter < $3 OR counter = 0)`

	// A challenge signs in once: the next must have been made later.
	signInPasskeySQL = `UPDATE passkeys SET used = $2, counter = $3, signed_in = $4 WHERE id = $1 AND (counter < $3 OR counter = 0) AND signed_in < $4`

	lockTokenSQL = `SELECT id FROM tokens WHERE id = $1{lock}`

	namePasskeysSQL = `UPDATE tokens SET revision = revision + 1, passkeys = $2 WHERE id = $1`
)

// has reports whether the row of the token names this passkey. One that it does not name was
// removed, and somebody has put its row back.
func (t *Token) has(passkey string) bool {
	return slices.Contains(strings.Fields(t.passkeys), journal.Fingerprint(passkey))
}

// passkeysOf gives the passkeys that the row of a token names. One of them whose row is missing
// is forged: without it the token would do without a passkey.
func passkeysOf(ctx context.Context, q db.Querier, token string) (list []storedPasskey, err error) {
	var t, again Token
	for t, err = FindToken(ctx, q, token); err == nil; t = again {
		if list, err = passkeys(ctx, q, passkeysOfSQL, token); err != nil {
			break
		}
		if again, err = FindToken(ctx, q, token); again.revision == t.revision { // else they may be of another moment
			break
		}
	}
	if errors.Is(err, db.ErrNotFound) {
		err = errTokenEnded
	}
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, f := range strings.Fields(t.passkeys) {
		named[f] = true
	}
	kept := list[:0]
	for _, p := range list {
		f := journal.Fingerprint(p.ID)
		if !named[f] && !p.forged {
			passkeyRows.Doubt(q, p.ID)
			continue
		}
		delete(named, f)
		kept = append(kept, p)
	}
	for f := range named {
		passkeyRows.Doubt(q, "of "+token)
		kept = append(kept, storedPasskey{Token: token, Name: f, forged: true, gone: true})
	}
	return kept, nil
}

// name has the row of a token name its passkeys: more, without but.
func name(ctx context.Context, t *db.Tx, token, more, but string) error {
	of, err := FindToken(ctx, t, token)
	if err != nil {
		return err
	}
	names := slices.DeleteFunc(strings.Fields(of.passkeys), func(f string) bool { return but != "" && f == journal.Fingerprint(but) })
	if more != "" {
		names = append(names, journal.Fingerprint(more))
	}
	return tokenRows.Change(ctx, t, token, func() error {
		_, err := t.Exec(ctx, namePasskeysSQL, token, strings.Join(names, " "))
		return err
	})
}

func passkeys(ctx context.Context, q db.Querier, text, key string) (list []storedPasskey, err error) {
	if db.CheckText("", key) != nil {
		return nil, nil
	}
	rows := passkeyRows.Reader(q)
	err = db.Each(ctx, q, text, []any{key}, func(r db.Rows) error {
		var p storedPasskey
		err := p.scan(rows, r)
		list = append(list, p)
		return err
	})
	return list, err
}

// The kinds of records about passkeys. A statement says them too.
const (
	recordPasskeyAdded   = "passkey.added"
	recordPasskeyRemoved = "passkey.removed"
	recordSignedIn       = "passkey.signedin" // nobody signs this one: it says who signed in
)

type passkeyRecord struct {
	Token  string `json:"token"`
	Key    string `json:"key"`
	Name   string `json:"name"`
	Origin string `json:"origin"`
	Public string `json:"public"`

	Challenge string `json:"challenge,omitempty"` // of its registration, which is signed with an earlier one
}

// signedInRecord says with which passkey somebody signed in.
type signedInRecord struct {
	Name   string `json:"name"`
	Origin string `json:"origin"`
}

func recordPasskey(ctx context.Context, t *db.Tx, kind string, p storedPasskey, challenge string, now db.Millis) error {
	return journal.Add(ctx, t, journal.Record{Kind: kind, At: now, About: []string{p.ID, p.Token},
		Data: passkeyRecord{p.Token, p.ID, p.Name, p.Origin, passkey.Encode(p.Public), challenge}})
}

// addPasskey keeps p. first: the token must have none yet, since nobody has signed.
func (k *Tokens) addPasskey(ctx context.Context, p storedPasskey, challenge string, first bool) error {
	return k.d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		others, err := lockPasskeys(ctx, t, p.Token)
		switch {
		case err != nil:
			return err
		case first && len(others) > 0:
			return errUnsigned
		case len(others) >= mostPasskeys:
			return &db.ConflictError{Reason: fmt.Sprintf("the token has %d passkeys, and that is the most", mostPasskeys)}
		}
		n, err := t.Exec(ctx, addPasskeySQL, p.ID, p.Token, p.Name, p.Public, p.Origin, int64(p.Created), []byte{})
		if err == nil && n == 0 {
			err = &db.ConflictError{Reason: "this passkey is registered already"}
		}
		if err == nil {
			err = passkeyRows.Renew(ctx, t, p.ID)
		}
		if err == nil {
			err = name(ctx, t, p.Token, p.ID, "")
		}
		if err != nil {
			return err
		}
		if err := db.RaiseAlarms(ctx, t, []db.Alarm{{Kind: client.AlarmTokenChanged, Subject: p.Token + " passkey " + p.ID, At: p.Created}}); err != nil {
			return err
		}
		return recordPasskey(ctx, t, recordPasskeyAdded, p, challenge, p.Created)
	})
}

// mostPasskeys is how many passkeys a token may have.
const mostPasskeys = 20

// lockPasskeys makes changes of a token's passkeys wait for each other.
func lockPasskeys(ctx context.Context, t *db.Tx, token string) ([]storedPasskey, error) {
	var id string
	if _, err := db.One(ctx, t, lockTokenSQL, []any{token}, &id); err != nil {
		return nil, err
	}
	return passkeysOf(ctx, t, token)
}

func (k *Tokens) removePasskey(ctx context.Context, of Token, id string, now db.Millis) error {
	return k.d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		list, err := lockPasskeys(ctx, t, of.ID)
		if err != nil {
			return err
		}
		for _, p := range list {
			if p.ID != id || p.gone {
				continue
			}
			if len(list) == 1 && (of.Role == client.RoleAdmin || k.mustSign(of)) {
				return &db.ConflictError{Reason: "this is the last passkey of " + article(of.Role) + "; register another first, or revoke the token"}
			}
			if _, err := t.Exec(ctx, removePasskeySQL, id, of.ID); err != nil {
				return err
			}
			if err := name(ctx, t, of.ID, "", id); err != nil {
				return err
			}
			return recordPasskey(ctx, t, recordPasskeyRemoved, p, "", now)
		}
		return db.ErrNotFound
	})
}

func article(r client.Role) string { return "an " + string(r) } // of admin and approver

// usePasskey notes that a key has signed. It fails if its counter says that it is a copy.
func (k *Tokens) usePasskey(ctx context.Context, id string, counter uint32, now db.Millis) error {
	return k.d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		return use(ctx, t, usePasskeySQL, id, int64(now), int64(counter))
	})
}

// signInPasskey notes that a key has signed in, with a challenge of made. It fails like
// usePasskey, and if a challenge of this moment or a later one has signed in before.
func (k *Tokens) signInPasskey(ctx context.Context, p storedPasskey, counter uint32, now, made db.Millis) error {
	return k.d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if err := use(ctx, t, signInPasskeySQL, p.ID, int64(now), int64(counter), int64(made)); err != nil {
			return err
		}
		return journal.Add(ctx, t, journal.Record{Kind: recordSignedIn, At: now, About: []string{p.ID, p.Token}, Data: signedInRecord{p.Name, p.Origin}})
	})
}

// use changes the row of a passkey that is genuine by text.
func use(ctx context.Context, t *db.Tx, text, id string, args ...any) error {
	return passkeyRows.Change(ctx, t, id, func() error {
		n, err := t.Exec(ctx, text, append([]any{id}, args...)...)
		if err == nil && n == 0 {
			err = passkey.ErrAssertion
		}
		return err
	})
}
