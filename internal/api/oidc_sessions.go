package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

const (
	// A session asks the provider again once its last answer is older than askAfter. A call fails if that answer is
	// older than goodFor.
	askAfter db.Millis = 5 * 60_000
	goodFor  db.Millis = 15 * 60_000
	// askTurn is how long one node asks for a session while others wait. askPause is how long no node asks again
	// after the provider was unavailable.
	askTurn  db.Millis = 30_000
	askPause db.Millis = 5_000
)

// providerSession is a row of the table of sessions: a person who signed in with the provider. The refresh token is
// in the database and not in the browser, because most providers return a new one each time and accept each only
// once, whichever node uses it.
type providerSession struct {
	ID               string // hash of its secret
	Token            string // the id of the person's row of tokens
	Ends, Asked      db.Millis
	SignedIn         db.Millis // when the person signed in at the provider; 0: it did not say
	refresh, dataKey []byte    // sealed
}

func sessionPlace(id string) db.Record { return db.Record{Table: "sessions", Row: id} }

var refreshPurpose = []string{"refresh"}

const (
	addSessionSQL = `INSERT INTO sessions (id, token, ends, asked, signed_in, refresh, data_key) VALUES ($1, $2, $3, $4, $5, $6, $7)`

	readSessionSQL = `SELECT id, token, ends, asked, signed_in, refresh, data_key FROM sessions WHERE id = $1`

	renewSessionSQL = `UPDATE sessions SET asked = $2, refresh = $3, data_key = $4, claimed = $5 WHERE id = $1`

	// Only one node asks the provider about a session at a time, because the provider accepts a refresh token only
	// once.
	claimSessionSQL = `UPDATE sessions SET claimed = $2 WHERE id = $1 AND asked = $3 AND claimed <= $4`

	endSessionSQL = `DELETE FROM sessions WHERE id = $1`

	endSessionsSQL = `DELETE FROM sessions WHERE token = $1`

	oldSessionsSQL = `DELETE FROM sessions WHERE ends <= $1`
)

// The kinds of records about people who sign in with the provider.
const (
	recordPersonSignedIn  = "person.signedin"
	recordPersonChanged   = "person.changed"
	recordPersonSignedOut = "person.signedout"
	recordPersonEnded     = "person.ended"
)

// personRecord is the data of a record about a person.
type personRecord struct {
	Subject   string      `json:"subject"`
	Issuer    string      `json:"issuer"`
	Name      string      `json:"name"`
	Role      client.Role `json:"role,omitempty"`
	Merchants []string    `json:"merchants,omitempty"`
	Group     string      `json:"group,omitempty"` // the group that gave the role
	Why       string      `json:"why,omitempty"`   // why a session ended
}

func recordPerson(ctx context.Context, t *db.Tx, kind string, of Token, group, why string, now db.Millis) error {
	issuer, _, _ := strings.Cut(of.Subject, " ")
	return journal.Add(ctx, t, journal.Record{Kind: kind, At: now, About: []string{of.ID},
		Data: personRecord{of.shownSubject(), issuer, of.Name, of.Role, of.BoundTo(), db.Clean(group), why}})
}

const providerPurpose = "person"

func sessionID(random string) string {
	sum := sha256.Sum256([]byte(random))
	return hex.EncodeToString(sum[:])
}

// sessionOf returns the id of the session with this secret. A secret that is not ours fails to open, so guesses do
// not reach the database.
func (k *Tokens) sessionOf(secret string) (id string, err error) {
	var random string
	err = k.open(providerPurpose, strings.TrimPrefix(secret, providerPrefix), &random)
	return sessionID(random), err
}

// startSession stores the provider's answer and a new session, and returns the session's secret.
func (k *Tokens) startSession(ctx context.Context, c *Call, a answered) (out client.SignedIn, err error) {
	random := RandomText(32)
	s := providerSession{ID: sessionID(random), Ends: c.Now + signInLife, Asked: c.Now, SignedIn: a.signedIn}
	k.sealRefresh(&s, a.refresh)
	err = k.d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		of, err := savePerson(ctx, t, a.person, true, c.Now)
		if err != nil {
			return err
		}
		c.Token = of
		ctx = journal.By(ctx, c.actor())
		if _, err := t.Exec(ctx, oldSessionsSQL, int64(c.Now)); err != nil {
			return err
		}
		if _, err := t.Exec(ctx, addSessionSQL, s.ID, of.ID, int64(s.Ends), int64(s.Asked), int64(s.SignedIn), s.refresh,
			s.dataKey); err != nil {
			return err
		}
		return recordPerson(ctx, t, recordPersonSignedIn, of, a.person.Group, "", c.Now)
	})
	if err != nil {
		return out, err
	}
	secret, err := k.seal(providerPurpose, random)
	return client.SignedIn{Secret: client.Secret(providerPrefix + secret), Expires: TimeOf(s.Ends)}, err
}

func (k *Tokens) sealRefresh(s *providerSession, refresh string) {
	key, sealed := k.d.Seal(sessionPlace(s.ID), refreshPurpose, [][]byte{[]byte(refresh)})
	s.dataKey, s.refresh = key, sealed[0]
}

// session returns a session. It returns db.ErrNotFound if there is none.
func (k *Tokens) session(ctx context.Context, id string) (providerSession, error) {
	return db.Find(ctx, k.d, readSessionSQL, []any{id}, func(r db.Rows) (s providerSession, err error) {
		err = r.Scan(&s.ID, &s.Token, &s.Ends, &s.Asked, &s.SignedIn, &s.refresh, &s.dataKey)
		return s, err
	})
}

// errAsking means that another call or node is asking the provider about this session.
var errAsking = busy("the identity provider is being asked about this session; repeat the request")

// BySession returns the token of a person's session. It asks the provider first if the last answer is too old. It
// returns db.ErrNotFound if the session has ended.
func (k *Tokens) BySession(ctx context.Context, secret string) (Token, error) {
	id, err := k.sessionOf(secret)
	if k.people == nil || err != nil {
		return Token{}, db.ErrNotFound
	}
	var s providerSession
	for wait := 0; ; wait++ {
		if s, err = k.session(ctx, id); err != nil {
			return Token{}, err
		}
		now := db.MillisOf(k.people.now())
		age := now - s.Asked
		if now >= s.Ends {
			return Token{}, db.ErrNotFound
		}
		if age >= 0 && age < askAfter {
			break
		}
		asked, err := k.ask(ctx, s, now)
		if err != nil {
			return Token{}, err
		}
		if asked || age >= 0 && age < goodFor {
			break
		}
		if wait == 100 {
			return Token{}, errAsking
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return Token{}, ctx.Err()
		}
	}
	t, err := FindToken(ctx, k.d, s.Token)
	issuer, _, _ := strings.Cut(t.Subject, " ")
	if err == nil && (issuer != k.people.c.Issuer || t.Revoked != 0) {
		err = db.ErrNotFound
	}
	t.Expires, t.signedIn = s.Ends, s.SignedIn
	return t, err
}

// ask asks the provider about a session, unless another call does. It reports whether it asked and the session
// continues. If the provider refuses, or its last answer is too old and it cannot be asked, ask ends the session and
// returns db.ErrNotFound.
func (k *Tokens) ask(ctx context.Context, s providerSession, now db.Millis) (asked bool, err error) {
	won := false
	err = k.d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		n, err := t.Exec(ctx, claimSessionSQL, s.ID, int64(now+askTurn), int64(s.Asked), int64(now))
		won = n == 1
		return err
	})
	if err != nil || !won {
		return false, err
	}
	// The answer is stored even if the caller has gone, because the provider may no longer accept the earlier refresh
	// token.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(askTurn)*time.Millisecond)
	defer cancel()
	of, err := FindToken(ctx, k.d, s.Token)
	if err != nil {
		return false, err
	}
	plain, err := k.d.Unseal(sessionPlace(s.ID), refreshPurpose, s.dataKey, [][]byte{s.refresh})
	if err != nil {
		return false, err
	}
	_, sub, _ := strings.Cut(of.Subject, " ")
	old := now-s.Asked >= goodFor || now < s.Asked
	a, refresh := answered{}, string(plain[0])
	if refresh == "" {
		err = errAway // without a refresh token nothing can be asked
	} else {
		a, err = k.people.again(ctx, refresh, sub)
	}
	switch {
	case err == nil:
		s.Asked = now
		k.sealRefresh(&s, a.refresh)
		err = k.renewSession(ctx, s, 0, &a.person, now)
		return err == nil, err
	case errors.Is(err, errNoRole):
		return false, cmp.Or(k.roleless(ctx, a.person, now), db.ErrNotFound)
	case !errors.Is(err, errAway):
		return false, cmp.Or(k.endSession(ctx, of, s.ID, "the identity provider ended it", now), db.ErrNotFound)
	case old:
		return false, cmp.Or(k.endSession(ctx, of, s.ID, "the identity provider could not be asked for 15 minutes", now),
			db.ErrNotFound)
	}
	if a.refresh != "" {
		k.sealRefresh(&s, a.refresh)
	}
	return false, k.renewSession(ctx, s, now+askPause, nil, now)
}

// renewSession stores the provider's answer, and the person if p is set.
func (k *Tokens) renewSession(ctx context.Context, s providerSession, claimed db.Millis, p *person,
	now db.Millis) error {
	return k.d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if p != nil {
			if _, err := savePerson(ctx, t, *p, false, now); err != nil {
				return err
			}
		}
		n, err := t.Exec(ctx, renewSessionSQL, s.ID, int64(s.Asked), s.refresh, s.dataKey, int64(claimed))
		if err == nil && n == 0 { // the session was ended meanwhile
			err = db.ErrNotFound
		}
		return err
	})
}

// everySession stands for all sessions of a person who has no role any more, by the provider's groups. What the
// person proposed is then stale on every node.
const everySession = ""

// endSession ends one session of a person, or with everySession all.
func (k *Tokens) endSession(ctx context.Context, of Token, id, why string, now db.Millis) error {
	return k.d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		ends := []db.Statement{{SQL: endSessionSQL, Args: []any{id}}}
		if id == everySession {
			ends = []db.Statement{{SQL: endSessionsSQL, Args: []any{of.ID}}, {SQL: revokeTokenSQL, Args: []any{of.ID, int64(now)}}}
		}
		if err := t.Batch(ctx, ends); err != nil {
			return err
		}
		return recordPerson(ctx, t, recordPersonEnded, of, "", why, now)
	})
}

// signOut ends the session that makes the call. It refuses a token, which has no session.
func (k *Tokens) signOut(c *Call, _ None, _ None) (None, error) {
	_, secret, _ := strings.Cut(c.R.Header.Get("Authorization"), " ")
	if !strings.HasPrefix(secret, providerPrefix) {
		return None{}, NewProblem(http.StatusConflict,
			"the caller has no session of the identity provider: a token is ended by revoking it")
	}
	id, err := k.sessionOf(secret)
	if err != nil {
		return None{}, err
	}
	defer c.ForgetTokens()
	return None{}, k.d.Write(c.R.Context(), func(ctx context.Context, t *db.Tx) error {
		if _, err := t.Exec(ctx, endSessionSQL, id); err != nil {
			return err
		}
		return recordPerson(ctx, t, recordPersonSignedOut, c.Token, "", "", c.Now)
	})
}

// personRow returns the row of tokens that stands for a person now, and how many rows they have had. A row that was
// revoked never stands for the person again, so what was done with it stays void. It returns db.ErrNotFound, besides
// the number, if there is no row that is not revoked.
func personRow(ctx context.Context, q db.Querier, p person) (Token, int, error) {
	rows, err := readTokens(ctx, q, ` WHERE subject = $1`, p.Subject)
	if err != nil {
		return Token{}, 0, err
	}
	if i := slices.IndexFunc(rows, func(t Token) bool { return t.Revoked == 0 }); i >= 0 {
		return rows[i], len(rows), nil
	}
	return Token{}, len(rows), db.ErrNotFound
}

const savePersonSQL = `
UPDATE tokens SET name = $2, role = $3, merchants = $4, approver = CASE WHEN $3 = 'approver' THEN 1 ELSE approver END
WHERE id = $1`

// savePerson writes a person into the row of tokens that stands for them. begins says that the person signs in now,
// and so gets a new row if there is none. All rows of a person have one Root, so two sessions are one origin.
func savePerson(ctx context.Context, t *db.Tx, p person, begins bool, now db.Millis) (Token, error) {
	was, had, err := personRow(ctx, t, p)
	if errors.Is(err, db.ErrNotFound) && begins {
		is := Token{ID: p.root(), Name: p.Name, Role: p.Role, Merchants: p.Merchants, Root: p.root(), Created: now,
			Subject: p.Subject}
		if had > 0 {
			is.ID += "." + strconv.Itoa(had)
		}
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
	is.Name, is.Role, is.Merchants = p.Name, p.Role, p.Merchants
	if is == was {
		return is, nil
	}
	_, err = t.Exec(ctx, savePersonSQL, is.ID, is.Name, string(is.Role), is.Merchants)
	if err == nil {
		err = recordPerson(ctx, t, recordPersonChanged, is, p.Group, "", now)
	}
	if err == nil && is.Role != was.Role {
		err = tellOfPerson(ctx, t, is, now)
	}
	return is, err
}

// tellOfPerson raises the alarm that a new token of this role would raise.
func tellOfPerson(ctx context.Context, t *db.Tx, is Token, now db.Millis) error {
	if is.Role != client.RoleApprover && is.Role != client.RoleAdmin {
		return nil
	}
	return db.RaiseAlarms(ctx, t, []client.Alarm{{Kind: client.AlarmControlChanged, Subject: is.ID + " person " +
		string(is.Role), First: now}})
}

// signInLife is the longest life of a session.
const signInLife db.Millis = 12 * 3600_000

// seal returns v as a text for somebody who must return it unchanged and cannot read it. open reads it.
func (k *Tokens) seal(purpose string, v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(k.d.SealText(purpose, text)), nil
}

func (k *Tokens) open(purpose, sealed string, v any) error {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return err
	}
	text, err := k.d.OpenText(purpose, raw)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// roleless ends the sessions and the rights of a person who has no role any more, by the provider's groups.
func (k *Tokens) roleless(ctx context.Context, who person, now db.Millis) error {
	of, _, err := personRow(ctx, k.d, who)
	if errors.Is(err, db.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return k.endSession(ctx, of, everySession, errNoRole.Error(), now)
}
