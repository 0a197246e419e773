// Package journal is the append-only log of an end: a Merkle tree with a signed head. A record
// is added in the same transaction as the change it records.
//
// The tree is that of RFC 6962, as in golang.org/x/mod/sumdb/tlog, and a checkpoint is
// a signed note as in golang.org/x/mod/sumdb/note. Whoever holds a checkpoint sees whether the log
// still continues it, and so whether it was set back, cut off or rewritten since.
//
// The files kinds*.go have the kinds and members of the records of both ends.
package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"countersign/client"
	"countersign/internal/db"
)

// signEvery is how often a log that has grown is signed, by one of its nodes.
const signEvery = time.Minute

// sayEvery is how often the newest checkpoint is said in the program's log.
const sayEvery = time.Hour

// Config is what Open needs.
type Config struct {
	DB  *db.DB           // of an end whose Keep is Keep. Required
	End string           // begins the log's name: "service" or "merchant". Required
	Now func() time.Time // of checkpoints. Required
	Log *slog.Logger     // Required
}

// Log is the audit log of an end.
type Log struct {
	c     Config
	lists *db.DB // c.DB with connections of its own for reads
	key   key

	mu     sync.Mutex
	seen   Checkpoint // the newest that this process knows
	signed string     // its note
}

// Open returns the log. The first start makes its key.
func Open(ctx context.Context, c Config) (*Log, error) {
	if c.DB == nil || c.End == "" || c.Now == nil || c.Log == nil {
		return nil, errors.New("journal: Config is not complete")
	}
	k, err := openKey(ctx, c.DB, c.End)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	return &Log{c: c, lists: c.DB.Apart(), key: k}, nil
}

// Newest returns the newest checkpoint that this process knows, a signed note; empty: none yet.
func (l *Log) Newest() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.signed
}

// see remembers a checkpoint. Nothing is signed that does not continue it.
func (l *Log) see(c Checkpoint, signed string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Size > l.seen.Size || l.signed == "" {
		l.seen, l.signed = c, signed
	}
}

func (l *Log) newest() Checkpoint {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// Name is the name of the log. It has random characters, so it is the name of the database as well.
func (l *Log) Name() string { return l.key.signer.Name() }

// Key is the public part of the key that signs checkpoints.
func (l *Log) Key() string { return l.key.verifier }

// SignPermit signs a permit with the key of the log. Its first line tells it from a checkpoint.
func (l *Log) SignPermit(n client.PermitNote) (string, error) {
	signed, err := note.Sign(&note.Note{Text: n.Text()}, l.key.signer)
	return string(signed), err
}

// AboutStarts is the subject of the records of starts.
const AboutStarts = "starts"

// Started adds a record that a process of the end has started, with the settings that
// decide.
func (l *Log) Started(ctx context.Context, settings any) error {
	return l.c.DB.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		return Add(ctx, t, Record{Kind: l.c.End + ".started", At: db.MillisOf(l.c.Now()), About: []string{AboutStarts}, Data: settings})
	})
}

// Run signs the log every minute until ctx ends, and says its checkpoint in the program's log once an hour.
func (l *Log) Run(ctx context.Context) error {
	tick := time.NewTicker(l.c.DB.Every(signEvery))
	defer tick.Stop()
	var said time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		last, signed, err := l.kept(ctx, lastCheckpointSQL)
		if err != nil || last.At.Time().Add(signEvery/2).Before(l.c.Now()) { // else another node was first
			signed = l.Sign(ctx)
		}
		if now := l.c.Now(); signed != "" && now.Sub(said) >= sayEvery {
			l.c.Log.Info("checkpoint of the audit log", "checkpoint", signed)
			said = now
		}
	}
}

// Sign signs the log as it is now, if it has grown since it was signed last, keeps the checkpoint and
// returns it. A failure is logged, and the checkpoint is empty. A log that was changed is not signed and
// raises AlarmAuditBroken.
func (l *Log) Sign(ctx context.Context) string {
	_, signed, err := l.sign(ctx)
	if err != nil {
		l.failed(ctx, err)
		return ""
	}
	return signed
}

// failed reports that the log cannot be signed or read, or was changed.
func (l *Log) failed(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, ErrBroken), errors.Is(err, ErrCheckpoint), errors.Is(err, ErrForeign):
		l.c.Log.Error("alarm", "kind", client.AlarmAuditBroken, "error", err.Error())
		if err := l.c.DB.RaiseAlarm(ctx, db.Alarm{Kind: client.AlarmAuditBroken, At: db.MillisOf(l.c.Now())}); err != nil {
			l.c.Log.Error("the alarm was not kept", "error", err.Error())
		}
	default:
		l.c.Log.Error("the audit log was not read or not signed", "error", err.Error())
	}
}

const (
	readSizeSQL = `SELECT size, edge FROM audit_head WHERE id = 1`

	lastCheckpointSQL = `SELECT note FROM audit_checkpoints ORDER BY size DESC LIMIT 1`

	beforeSQL = `SELECT note FROM audit_checkpoints WHERE at <= $1 ORDER BY size DESC LIMIT 1`

	keepCheckpointSQL = `INSERT INTO audit_checkpoints (size, at, note) VALUES ($1, $2, $3) ON CONFLICT (size) DO NOTHING`
)

// End is Config.End, but the merchant's end calls itself the gateway.
func (l *Log) End() string {
	if l.c.End == "merchant" {
		return "gateway"
	}
	return l.c.End
}

// Before returns the last checkpoint that was kept up to a time, a signed note; empty: there is none.
func (l *Log) Before(ctx context.Context, at db.Millis) (signed string, err error) {
	_, err = db.One(ctx, l.lists, beforeSQL, []any{int64(at)}, &signed)
	return signed, err
}

// kept reads a checkpoint. Its Size is -1 if there is none.
func (l *Log) kept(ctx context.Context, text string, args ...any) (Checkpoint, string, error) {
	var signed string
	found, err := db.One(ctx, l.lists, text, args, &signed)
	if err != nil || !found {
		return Checkpoint{Size: -1}, "", err
	}
	c, err := openCheckpoint(signed, l.key.verifier)
	return c, signed, err
}

// sign returns the checkpoint of the present head. Before it signs, it checks that the log continues
// the newest checkpoint that this process knows and the last one that is kept, and hashes all records
// since that one again: only records that are as they were added are signed.
func (l *Log) sign(ctx context.Context) (c Checkpoint, signed string, err error) {
	seen := l.newest()
	last, signed, err := l.kept(ctx, lastCheckpointSQL)
	if err != nil {
		return c, "", err
	}
	head, err := readHead(ctx, l.lists, readSizeSQL) // after the others, than which it is not smaller
	if err != nil {
		return c, "", err
	}
	for _, before := range []Checkpoint{seen, last} {
		if err := l.continues(ctx, before, head); err != nil {
			return c, "", err
		}
	}
	if last.Size == head.size {
		l.see(last, signed)
		return last, signed, nil
	}
	if err := l.checkSince(ctx, max(last.Size, 0), head); err != nil {
		return c, "", err
	}
	if c, signed, err = l.signHead(head); err != nil {
		return c, "", err
	}
	err = l.c.DB.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		_, err := t.Exec(ctx, keepCheckpointSQL, c.Size, int64(c.At), signed) // another node may have signed this head too
		return err
	})
	if err == nil {
		l.see(c, signed)
	}
	return c, signed, err
}

// signHead signs a head.
func (l *Log) signHead(head edge) (c Checkpoint, signed string, err error) {
	c = Checkpoint{Log: l.Name(), Size: head.size, Root: head.root(), At: client.TimeOf(l.c.Now())}
	text, err := note.Sign(&note.Note{Text: c.text()}, l.key.signer)
	return c, string(text), err
}

// continues fails with ErrBroken if the log with this head does not begin with the records of c.
func (l *Log) continues(ctx context.Context, c Checkpoint, head edge) error {
	switch {
	case c.Size <= 0:
		return nil
	case head.size < c.Size:
		return fmt.Errorf("%w: it had %d records when it was signed and has %d", ErrBroken, c.Size, head.size)
	case head.size == c.Size && head.root() == c.Root:
		return nil
	}
	e, err := l.edgeAt(ctx, c.Size)
	if err == nil && e.root() != c.Root {
		err = fmt.Errorf("%w: its first %d records have another root than was signed", ErrBroken, c.Size)
	}
	return err
}

// checkSince hashes the records after the first size ones again and compares them with the head.
func (l *Log) checkSince(ctx context.Context, size int64, head edge) error {
	e, err := l.edgeAt(ctx, size)
	for err == nil && e.size < head.size {
		var rows []row
		rows, err = l.rows(ctx, e.size, head.size, 1000)
		if err == nil && len(rows) == 0 {
			err = fmt.Errorf("%w: record %d is missing", ErrBroken, e.size+1)
		}
		for _, r := range rows {
			if err = r.appendTo(&e); err != nil {
				break
			}
		}
	}
	if err == nil && e.root() != head.root() {
		err = fmt.Errorf("%w: the hashes of its %d records do not give its head", ErrBroken, head.size)
	}
	return err
}

// row is a record as it is kept.
type row struct {
	seq          int64
	body, hashes []byte
}

func (r row) entry() client.AuditEntry {
	return client.AuditEntry{Seq: r.seq, Hashes: r.hashes, Record: r.body}
}

// appendTo appends r to a tree and compares what that gives with what is kept.
func (r row) appendTo(e *edge) error {
	if r.seq != e.size+1 {
		return fmt.Errorf("%w: record %d is missing", ErrBroken, e.size+1)
	}
	if string(join(e.append(tlog.RecordHash(r.body)))) != string(r.hashes) {
		return fmt.Errorf("%w: record %d is not the one that was added", ErrBroken, r.seq)
	}
	return nil
}

const listRecordsSQL = `SELECT seq, body, hashes FROM audit_records WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT CAST($3 AS BIGINT)`

// rows returns records after a number, up to number until. They hold some 4 MB at most,
// unless one alone is larger.
func (l *Log) rows(ctx context.Context, after, until int64, limit int) (list []row, err error) {
	const most = 4 << 20
	size := 0
	enough := errors.New("enough")
	err = db.Each(ctx, l.lists, listRecordsSQL, []any{after, until, limit}, func(r db.Rows) error {
		var one row
		err := r.Scan(&one.seq, &one.body, &one.hashes)
		if size += len(one.body); err == nil && len(list) > 0 && size > most {
			return enough
		}
		list = append(list, one)
		return err
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return list, err
}
