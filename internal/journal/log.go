package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
)

// signEvery is how often a log that has grown is signed, by one of its nodes.
const signEvery = time.Minute

// Config is what Open needs.
type Config struct {
	DB  *db.DB           // of an end whose Keep is Keep. Required
	End string           // begins the log's name: "service" or "merchant". Required
	Now func() time.Time // of checkpoints. Required
	Log *slog.Logger     // Required
	// KeyStore makes and has the private part of the log's key, if it has Ed25519. Nil: the
	// database has it.
	KeyStore *envelope.KeyStore
	// Witnesses cosign every head: of each its URL, a space and its verifier key. Nil: nobody does.
	Witnesses []string
}

// Log is the audit log of an end.
type Log struct {
	tree  // read by connections of its own
	c     Config
	lists *db.DB // c.DB with connections of its own for reads
	key   key

	witnesses []*witness
	opened    time.Time

	mu   sync.Mutex
	seen db.Head
}

// Open gives the log. The first start makes its key; if KeyStore is away then, the error wraps
// envelope.ErrKeyStore.
func Open(ctx context.Context, c Config) (*Log, error) {
	if c.DB == nil || c.End == "" || c.Now == nil || c.Log == nil {
		return nil, errors.New("journal: Config is not complete")
	}
	k, err := openKey(ctx, c.DB, c.End, c.KeyStore)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	witnesses, err := newWitnesses(c.Witnesses)
	if err != nil {
		return nil, err
	}
	l := &Log{c: c, lists: c.DB.Apart(), key: k, witnesses: witnesses, opened: c.Now()}
	l.tree = tree{l.lists, k.verifier}
	return l, nil
}

// Seen gives the newest signed head that this process knows.
func (l *Log) Seen() db.Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// Expect says that the log had a signed head. Nothing is signed that does not continue it.
func (l *Log) Expect(h db.Head) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.Size > l.seen.Size {
		l.seen = h
	}
}

// Key is the public part of the key that signs checkpoints.
func (l *Log) Key() string { return l.key.verifier }

// CanSign fails, with envelope.ErrKeyStore, if the key of the log is in a key store that is away.
func (l *Log) CanSign() error {
	if s, ok := l.key.signer.(storedSigner); ok {
		return s.canSign(l.c.KeyStore)
	}
	return nil
}

// InKeyStore reports whether the key of the log is in the key store.
func (l *Log) InKeyStore() bool {
	_, ok := l.key.signer.(storedSigner)
	return ok
}

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

// Run signs the log every minute until ctx ends, and reads a part of it again. It closes the
// log of a year that has ended, and removes what was dropped.
func (l *Log) Run(ctx context.Context) error {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { l.removeDropped(ctx) })
	tick := time.NewTicker(l.c.DB.Every(signEvery))
	defer tick.Stop()
	again := walker{l: l}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		_, err := again.step(ctx, walkStep)
		if err != nil {
			again.e = edge{}
			l.failed(ctx, err)
		}
		if err := l.CloseYear(ctx); err != nil {
			l.failed(ctx, err)
		}
		signed, err := l.last(ctx)
		if err == nil && signed.At.Time().Add(signEvery/2).After(l.c.Now()) {
			continue // another node was first
		}
		l.Sign(ctx)
	}
}

// Sign signs the log as it is now, if it has grown since it was signed last, has it
// cosigned, and keeps the checkpoint. A failure is logged. A log that was changed is not signed and
// raises AlarmBroken.
func (l *Log) Sign(ctx context.Context) {
	c, signed, err := l.sign(ctx)
	if err != nil {
		l.failed(ctx, err)
		return
	}
	l.cosign(ctx, c, signed, true)
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

	keepCheckpointSQL = `INSERT INTO audit_checkpoints (size, at, note) VALUES ($1, $2, $3) ON CONFLICT (size) DO NOTHING`

	checkpointSQL = `SELECT note FROM audit_checkpoints WHERE size = $1`
)

// last gives the last checkpoint that was kept. Its Size is -1 if there is none.
func (l *Log) last(ctx context.Context) (Checkpoint, error) {
	c, _, err := l.kept(ctx, lastCheckpointSQL)
	return c, err
}

func (t tree) kept(ctx context.Context, text string, args ...any) (Checkpoint, string, error) {
	var signed string
	found, err := db.One(ctx, t.q, text, args, &signed)
	if err != nil || !found {
		return Checkpoint{Size: -1}, "", err
	}
	c, err := openCheckpoint(signed, t.key)
	return c, signed, err
}

// sign gives the checkpoint of the present head. Before it signs, it checks that the
// log of the last checkpoint is the head's beginning, and hashes all records since
// then again. So a head is signed only over records that are as they were added, and
// two nodes never sign two logs.
//
// What the database holds is not enough for that: the log must also continue the newest
// head that this process knows, whose checkpoint somebody may have dropped.
func (l *Log) sign(ctx context.Context) (c Checkpoint, signed string, err error) {
	seen := l.Seen()
	defer func() {
		if err == nil {
			l.Expect(db.Head{Size: c.Size, Root: c.Root[:]})
		}
	}()
	head, err := readHead(ctx, l.lists, readSizeSQL)
	if err != nil {
		return Checkpoint{}, "", err
	}
	last, signed, err := l.kept(ctx, lastCheckpointSQL)
	switch {
	case err != nil:
		return Checkpoint{}, "", err
	case last.Size > head.size:
		// Another node signed after the head was read, or the head was set back.
		if head, err = readHead(ctx, l.lists, readSizeSQL); err != nil {
			return Checkpoint{}, "", err
		}
		if last.Size > head.size {
			return Checkpoint{}, "", fmt.Errorf("%w: it had %d records when it was signed and has %d", ErrBroken, last.Size, head.size)
		}
	}
	text, err := l.signable(ctx, l.tree, seen, last, head)
	if err != nil || text == "" {
		return last, signed, err
	}
	err = l.c.DB.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		c, signed, err = l.keepCheckpoint(ctx, t, head, text)
		return err
	})
	return c, signed, err
}

// signable signs head, if the log continues the head seen and the checkpoint last up to there.
// It gives the empty text if last is of head.
func (l *Log) signable(ctx context.Context, of tree, seen db.Head, last Checkpoint, head edge) (string, error) {
	if err := of.continues(ctx, seen, last); err != nil {
		return "", err
	}
	if last.Size == head.size {
		if last.Root != head.root() {
			return "", fmt.Errorf("%w: its %d records have another root than was signed", ErrBroken, head.size)
		}
		return "", nil
	}
	if err := of.checkSince(ctx, last, head); err != nil {
		return "", err
	}
	c := Checkpoint{Log: l.key.signer.Name(), Size: head.size, Root: head.root(), At: client.TimeOf(l.c.Now())}
	text, err := note.Sign(&note.Note{Text: c.text()}, l.key.signer)
	return string(text), err
}

// keepCheckpoint keeps a signed checkpoint of head, and gives the one that is kept: another node
// may have signed this head too.
func (l *Log) keepCheckpoint(ctx context.Context, t *db.Tx, head edge, text string) (c Checkpoint, signed string, err error) {
	if c, err = openCheckpoint(text, l.key.verifier); err == nil {
		_, err = t.Exec(ctx, keepCheckpointSQL, head.size, int64(c.At), text)
	}
	if err != nil {
		return c, "", err
	}
	return tree{t, l.key.verifier}.kept(ctx, checkpointSQL, head.size)
}

// continues fails if the last checkpoint is not of a log that continues the head seen.
func (t tree) continues(ctx context.Context, seen db.Head, last Checkpoint) error {
	if seen.Size == 0 {
		return nil
	}
	if last.Size < seen.Size {
		return fmt.Errorf("%w: the checkpoint of its first %d records was removed", ErrBroken, seen.Size)
	}
	root := last.Root
	if last.Size > seen.Size { // another node signed last
		e, err := t.edgeAt(ctx, seen.Size)
		if errors.Is(err, ErrDropped) {
			return nil // the log was closed behind that head by who has the master key
		}
		if err != nil {
			return err
		}
		root = e.root()
	}
	if !bytes.Equal(root[:], seen.Root) {
		return fmt.Errorf("%w: its first %d records have another root than was signed", ErrBroken, seen.Size)
	}
	return nil
}

// checkSince hashes the records after the checkpoint last again and compares them with
// the head.
func (t tree) checkSince(ctx context.Context, last Checkpoint, head edge) error {
	e := edge{}
	if last.Size > 0 {
		var err error
		if e, err = t.edgeAt(ctx, last.Size); err != nil {
			return err
		}
		if e.root() != last.Root {
			return fmt.Errorf("%w: its first %d records have another root than was signed", ErrBroken, last.Size)
		}
	}
	for e.size < head.size {
		if err := t.rehash(ctx, &e, head.size, io.Discard); err != nil {
			return err
		}
	}
	if e.root() != head.root() {
		return fmt.Errorf("%w: the hashes of its %d records do not give its head", ErrBroken, head.size)
	}
	return nil
}

// rehash appends some of the records after e, up to number until, and adds them to the digest
// of an export.
func (t tree) rehash(ctx context.Context, e *edge, until int64, digest io.Writer) error {
	was := e.size
	rows, err := t.rows(ctx, e.size, until, 1000)
	if err != nil {
		return err
	}
	closed, err := t.closed(ctx)
	for _, r := range rows {
		if err := closed.checkBegun(r.seq, r.body, *e, t.key); err != nil {
			return err
		}
		if err := r.appendTo(e); err != nil {
			return err
		}
		digestRecord(digest, r.body)
	}
	if err == nil && e.size == was {
		err = fmt.Errorf("%w: record %d is missing", ErrBroken, e.size+1)
	}
	return err
}

// row is a record as it is kept.
type row struct {
	seq          int64
	body, hashes []byte
}

// appendTo appends r to a tree and compares what that gives with what is kept.
func (r row) appendTo(e *edge) error {
	if r.seq != e.size+1 {
		return fmt.Errorf("%w: record %d is missing", ErrBroken, e.size+1)
	}
	if string(join(e.append(leafOf(r.body)))) != string(r.hashes) {
		return fmt.Errorf("%w: record %d is not the one that was added", ErrBroken, r.seq)
	}
	return nil
}

const listRecordsSQL = `SELECT seq, body, hashes FROM audit_records WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT CAST($3 AS BIGINT)`

// rows gives records after a number, up to number until. They hold some 4 MB at most,
// unless one alone is larger.
func (t tree) rows(ctx context.Context, after, until int64, limit int) (list []row, err error) {
	const most = 4 << 20
	size := 0
	enough := errors.New("enough")
	err = db.Each(ctx, t.q, listRecordsSQL, []any{after, until, limit}, func(r db.Rows) error {
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
