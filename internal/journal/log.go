// Package journal is the append-only log of an end: a Merkle tree with a signed head. A record is added in the same
// transaction as the change it records.
//
// The tree is that of RFC 6962, as in golang.org/x/mod/sumdb/tlog, and a checkpoint is a signed note as in
// golang.org/x/mod/sumdb/note. Whoever holds a checkpoint can see whether the log still continues it, and so whether it
// was set back, cut off or rewritten since.
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

	"countersign/client"
	"countersign/internal/db"
)

// sayEvery is how often the newest checkpoint is written to the program's log.
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
	lists *db.DB // c.DB with separate connections for reads
	key   key

	mu     sync.Mutex
	seen   Checkpoint // the newest that this process has signed
	signed string     // its note
	said   time.Time  // when a checkpoint was last written to the program's log
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
	return &Log{c: c, lists: c.DB.ForLists(), key: k}, nil
}

// Name returns the name of the log. It has random characters, so it names the database as well.
func (l *Log) Name() string { return l.key.signer.Name() }

// Key returns the public part of the key that signs checkpoints.
func (l *Log) Key() string { return l.key.verifier }

// End returns Config.End, but the merchant's end calls itself the gateway.
func (l *Log) End() string {
	if l.c.End == "merchant" {
		return "gateway"
	}
	return l.c.End
}

// SignPermit signs a permit with the key of the log. Its first line distinguishes it from a checkpoint.
func (l *Log) SignPermit(n client.PermitNote) (string, error) {
	signed, err := note.Sign(&note.Note{Text: n.Text()}, l.key.signer)
	return string(signed), err
}

// AboutStarts is the subject of the records of starts.
const AboutStarts = "starts"

// Started adds a record that a process of the end has started, with the settings that decide.
func (l *Log) Started(ctx context.Context, settings any) error {
	return l.c.DB.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		return Add(ctx, t, Record{Kind: l.c.End + ".started", At: db.MillisOf(l.c.Now()), About: []string{AboutStarts},
			Data: settings})
	})
}

// Newest returns a signed note with a checkpoint of now or, if the log cannot be read or was changed, the last one that
// this process has signed. It is empty if there is none.
func (l *Log) Newest(ctx context.Context) string {
	_, _, _ = l.sign(ctx)
	_, signed := l.last()
	return signed
}

func (l *Log) last() (Checkpoint, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen, l.signed
}

// sign returns the checkpoint of the present head. It fails with ErrBroken if the log does not continue the newest
// checkpoint that this process has signed.
func (l *Log) sign(ctx context.Context) (c Checkpoint, signed string, err error) {
	c, signed = l.last() // before the head, which then is not smaller
	head, err := readHead(ctx, l.lists, readHeadSQL)
	if err == nil {
		err = l.continues(ctx, c, head)
	}
	if err != nil || signed != "" && c.Size == head.size {
		return c, signed, err
	}
	c = Checkpoint{Log: l.Name(), Size: head.size, Root: head.root(), At: client.TimeOf(l.c.Now())}
	text, err := note.Sign(&note.Note{Text: c.text()}, l.key.signer)
	if err != nil {
		return c, "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Size > l.seen.Size || l.signed == "" {
		l.seen, l.signed = c, string(text)
	}
	return c, string(text), nil
}

// continues fails with ErrBroken if the log with this head does not begin with the records of c.
func (l *Log) continues(ctx context.Context, c Checkpoint, head edge) error {
	switch {
	case c.Size == 0:
		return nil
	case head.size < c.Size:
		return fmt.Errorf("%w: it had %d records and has %d", ErrBroken, c.Size, head.size)
	case head.size == c.Size && head.root() == c.Root:
		return nil
	}
	e, err := l.edgeAt(ctx, c.Size)
	if err == nil && e.root() != c.Root {
		err = fmt.Errorf("%w: its first %d records have another root than was signed", ErrBroken, c.Size)
	}
	return err
}

// Held is what a data directory keeps of a log, outside the database: the newest checkpoint. A database whose log does
// not continue it was set back to an earlier state.
type Held struct {
	Epoch      int64  `json:"epoch"`      // of the database; a later one was begun by a restore
	Checkpoint string `json:"checkpoint"` // a signed note; empty: nothing is held
}

// Continues fails with db.ErrAnother if h is of another log than d's, and with db.ErrOlder if the log does not begin
// with the records of h, unless a restore has begun an epoch since.
func Continues(ctx context.Context, d *db.DB, h Held) error {
	if h.Checkpoint == "" {
		return nil
	}
	k, err := readKey(ctx, d)
	if err != nil {
		return err
	}
	c, err := openCheckpoint(h.Checkpoint, k.verifier)
	if k.signer == nil || errors.Is(err, ErrForeign) {
		return db.ErrAnother
	}
	if err != nil {
		return err
	}
	e, err := db.LastEpoch(ctx, d)
	switch {
	case err != nil, e.Number > h.Epoch:
		return err
	case e.Number < h.Epoch:
		return fmt.Errorf("%w: it was in epoch %d here, and is in epoch %d", db.ErrOlder, h.Epoch, e.Number)
	}
	head, err := readHead(ctx, d, readHeadSQL)
	if err == nil {
		err = (&Log{lists: d}).continues(ctx, c, head)
	}
	return older(err)
}

// older turns the error of a log that was set back into that of a database that was set back.
func older(err error) error {
	if errors.Is(err, ErrBroken) {
		err = fmt.Errorf("%w: %w", db.ErrOlder, err)
	}
	return err
}

// Hold returns what the data directory is to keep now, and writes the checkpoint to the program's log once an hour. If
// the log does not continue what this process has signed, it raises AlarmAuditBroken and fails with db.ErrOlder. Other
// errors mean that the database cannot be read.
func (l *Log) Hold(ctx context.Context) (Held, error) {
	_, signed, err := l.sign(ctx)
	if errors.Is(err, ErrBroken) {
		l.c.Log.Error("alarm", "kind", client.AlarmAuditBroken, "error", err.Error())
		if err := l.c.DB.RaiseAlarm(ctx, client.Alarm{Kind: client.AlarmAuditBroken,
			First: db.MillisOf(l.c.Now())}); err != nil {
			l.c.Log.Error("the alarm audit_broken was not kept", "error", err.Error())
		}
	}
	if err != nil {
		return Held{}, older(err)
	}
	e, err := db.LastEpoch(ctx, l.lists)
	if err != nil {
		return Held{}, err
	}
	if now := l.c.Now(); now.Sub(l.said) >= sayEvery {
		l.c.Log.Info("checkpoint of the audit log", "checkpoint", signed)
		l.said = now
	}
	return Held{e.Number, signed}, nil
}
