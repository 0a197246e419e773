package db

import (
	"context"
	"fmt"
)

// Note is what a person wrote about a thing.
type Note struct {
	Seq      int64 // from 1 among the notes about the thing
	At       Millis
	By, Name string // the token and its name
	Text     string
}

// notesMost is how many notes one thing may have.
const notesMost = 1000

const (
	readNotesSQL = `SELECT seq, at, by_token, by_name, text FROM notes WHERE about = $1 ORDER BY seq`
	lastNoteSQL  = `SELECT COALESCE(MAX(seq), 0) FROM notes WHERE about = $1`
	addNoteSQL   = `INSERT INTO notes (about, seq, at, by_token, by_name, text) VALUES ($1, $2, $3, $4, $5, $6)`
	anyNoteSQL   = `SELECT 1 FROM notes LIMIT 1`
	dropNotesSQL = `DELETE FROM notes WHERE about = $1`
)

// AddNote adds a note about a thing whose row t has locked, and returns it with its number. It returns a
// *ConflictError if the thing has 1,000 notes already.
func AddNote(ctx context.Context, t *Tx, about string, n Note) (Note, error) {
	if err := CheckText("text", n.Text); err != nil {
		return n, &ItemError{Member: "text", Err: err}
	}
	if _, err := One(ctx, t, lastNoteSQL, []any{about}, &n.Seq); err != nil {
		return n, err
	}
	if n.Seq++; n.Seq > notesMost {
		return n, &ConflictError{Reason: fmt.Sprintf("there are %d notes about it, and no more are kept", notesMost)}
	}
	_, err := t.Exec(ctx, addNoteSQL, about, n.Seq, int64(n.At), n.By, n.Name, n.Text)
	return n, err
}

// Notes returns the notes about a thing, the oldest first.
func Notes(ctx context.Context, q Querier, about string) ([]Note, error) {
	return List(ctx, q, readNotesSQL, []any{about}, func(r Rows) (n Note, err error) {
		err = r.Scan(&n.Seq, &n.At, &n.By, &n.Name, &n.Text)
		return n, err
	})
}

// DropNotes deletes the notes about purged things.
func DropNotes(ctx context.Context, t *Tx, about []string) error {
	if len(about) == 0 {
		return nil
	}
	var one int64
	if found, err := One(ctx, t, anyNoteSQL, nil, &one); err != nil || !found { // most databases have no notes
		return err
	}
	list := make([]Statement, len(about))
	for i, a := range about {
		list[i] = Statement{SQL: dropNotesSQL, Args: []any{a}}
	}
	return t.Batch(ctx, list)
}
