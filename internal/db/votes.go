package db

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Vote is what one token said about a thing: an approval with its reason, or a note.
type Vote struct {
	Token, Name string // the token, and its name at that time
	At          Millis
	Text        string // of an approval the reason, which may be empty
}

// notesMost is how many notes one thing may have.
const notesMost = 1000

const (
	// An approval counts for its subject as it was then: shown is a digest of what was approved. A note has none.
	readVotesSQL = `SELECT token, name, at, text FROM votes WHERE about = $1 AND shown = $2 ORDER BY seq`
	lastVoteSQL  = `SELECT COALESCE(MAX(seq), 0) FROM votes WHERE about = $1`
	addVoteSQL   = `INSERT INTO votes (about, seq, token, name, at, shown, text) VALUES ($1, $2, $3, $4, $5, $6, $7)`
	anyVoteSQL   = `SELECT 1 FROM votes LIMIT 1`
	dropVotesSQL = `DELETE FROM votes WHERE about = $1`

	dropApprovalsSQL = dropVotesSQL + ` AND shown <> ''`

	// A token's approval replaces its earlier one, which is void or of a subject that has changed since.
	replaceVoteSQL = dropApprovalsSQL + ` AND token = $2`
)

// Digest returns the digest of what is approved. JSON must be able to write the values.
func Digest(of ...any) string {
	b, err := json.Marshal(of)
	if err != nil {
		panic(fmt.Sprintf("what is approved has no JSON: %v", err))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Votes returns the approvals of a subject in the state that shown identifies, a Digest, or with an empty shown the
// notes about it, the oldest first. An approval of another state, such as from before a restore, does not count.
func Votes(ctx context.Context, q Querier, about, shown string) ([]Vote, error) {
	return List(ctx, q, readVotesSQL, []any{about, shown}, func(r Rows) (v Vote, err error) {
		err = r.Scan(&v.Token, &v.Name, &v.At, &v.Text)
		return v, err
	})
}

// AddVote stores an approval of a subject in the state shown, or with an empty shown a note, and returns its number
// among the votes about it. t has locked the subject's row. AddVote returns a *ConflictError for a note after 1,000.
func AddVote(ctx context.Context, t *Tx, about, shown string, v Vote) (seq int64, err error) {
	if err := CheckTexts("text", v.Text, "token", v.Token, "name", v.Name); err != nil {
		return 0, err
	}
	if shown != "" {
		if _, err := t.Exec(ctx, replaceVoteSQL, about, v.Token); err != nil {
			return 0, err
		}
	}
	if _, err := One(ctx, t, lastVoteSQL, []any{about}, &seq); err != nil {
		return 0, err
	}
	if seq++; shown == "" && seq > notesMost {
		return 0, &ConflictError{Reason: fmt.Sprintf("there are %d notes about it, and no more are kept", notesMost)}
	}
	_, err = t.Exec(ctx, addVoteSQL, about, seq, v.Token, v.Name, int64(v.At), shown, v.Text)
	return seq, err
}

// DropApprovals returns the statement that deletes the approvals of a subject and keeps the notes about it. The log
// still names who approved.
func DropApprovals(about string) Statement {
	return Statement{SQL: dropApprovalsSQL, Args: []any{about}}
}

// DropVotes deletes the votes about purged subjects.
func DropVotes(ctx context.Context, t *Tx, about []string) error {
	if found, err := One(ctx, t, anyVoteSQL, nil); err != nil || !found { // most databases have none
		return err
	}
	list := make([]Statement, len(about))
	for i, a := range about {
		list[i] = Statement{SQL: dropVotesSQL, Args: []any{a}}
	}
	return t.Batch(ctx, list)
}
