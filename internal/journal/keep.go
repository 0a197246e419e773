package journal

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"countersign/internal/db"
)

// Migrations make the tables of the log.
//
//go:embed migrations
var Migrations embed.FS

// The tables of a journal. Rows of AppendOnly are added and never changed, except that rekey seals the key anew. The
// one row of Head changes. On PostgreSQL the daemon's role has only these rights.
var (
	AppendOnly = []string{"audit_records", "audit_subjects", "audit_key"}
	Head       = "audit_head"
)

// A transaction that adds records takes the head last, right before its commit, and holds it until then: numbers have
// no gaps, and no two nodes append to the same tree.
const (
	readHeadSQL = `SELECT size, edge FROM audit_head WHERE id = 1`

	lockHeadSQL = readHeadSQL + `{lock}`

	moveHeadSQL = `UPDATE audit_head SET size = $1, edge = $2 WHERE id = 1 AND size = $3`

	insertRecordSQL = `INSERT INTO audit_records (seq, body, hashes) VALUES ($1, $2, $3)`

	insertSubjectSQL = `INSERT INTO audit_subjects (subject, seq) VALUES ($1, $2)`
)

var (
	insertRecords  = db.NewInsert(insertRecordSQL, 32, 8)
	insertSubjects = db.NewInsert(insertSubjectSQL, 32, 8)
)

// Keep writes the records of a transaction. It is db.End.Keep of both ends.
func Keep(ctx context.Context, t *db.Tx, list []db.LogRecord) error {
	e, err := readHead(ctx, t, lockHeadSQL)
	if err != nil {
		return err
	}
	was := e.size
	rows := make([]any, 0, 3*len(list))
	var subjects []any
	for _, r := range list {
		hashes := e.append(tlog.RecordHash(r.Body))
		rows = append(rows, e.size, r.Body, join(hashes))
		slices.Sort(r.Subjects)
		for _, s := range slices.Compact(r.Subjects) {
			subjects = append(subjects, s, e.size)
		}
	}
	var moved int64
	statements := append(insertRecords.Statements(rows, nil), insertSubjects.Statements(subjects, nil)...)
	statements = append(statements, db.Statement{SQL: moveHeadSQL, Args: []any{e.size, join(e.hashes), was}, N: &moved})
	if err := t.Batch(ctx, statements); err != nil {
		return err
	}
	if moved != 1 {
		return errors.New("the head of the audit log moved while it was locked")
	}
	return nil
}

// readHead returns the edge of the whole tree.
func readHead(ctx context.Context, q db.Querier, text string) (edge, error) {
	var size int64
	var kept []byte
	found, err := db.One(ctx, q, text, nil, &size, &kept)
	if err != nil {
		return edge{}, err
	}
	e, ok := edgeOf(size, kept)
	if !found || !ok {
		return edge{}, fmt.Errorf("%w: its head is missing or malformed", ErrBroken)
	}
	return e, nil
}

// ErrBroken means that the tables of the log contradict each other or what was signed: somebody changed them.
var ErrBroken = errors.New("the audit log was changed")
