package daemon

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"countersign/internal/db"
	"countersign/internal/outbox"
)

// LastPermitsFile is the file of a data directory with the permits that were given, so that a
// database that was changed while no process ran gives none of them once more. It begins with
// the name of the database; each entry has 24 bytes.
const LastPermitsFile = "last-permits"

// permits keeps LastPermitsFile. An entry is dropped at a start when no other permit could be
// given any more.
type permits struct {
	s    Storage
	box  *outbox.Outbox
	now  func() time.Time
	name string // of the database
	file *os.File
}

const permitEntry = 16 + 8

// permits has box remember the permits of the file and of the database.
func (s Storage) permits(ctx context.Context, box *outbox.Outbox, now func() time.Time) (*permits, error) {
	progress, err := box.Progress(ctx)
	if err != nil {
		return nil, err
	}
	p := &permits{s: s, box: box, now: now, name: progress.Database + "\n"}
	list, err := p.read()
	if err != nil {
		return nil, err
	}
	box.ExpectPermits(list)
	if err := box.LearnPermits(ctx, db.MillisOf(now())); err != nil {
		return nil, err
	}
	return p, p.begin(append(list, box.NewPermits()...))
}

// read gives the entries of the file that are not over, none if it is of another database. An
// entry that a crash cut off is left out.
func (p *permits) read() (list []outbox.GivenPermit, err error) {
	b, _, err := readOwnedOf(p.s.Dir, LastPermitsFile, 1<<32)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.s.file(LastPermitsFile), err)
	}
	if len(b) < len(p.name) || string(b[:len(p.name)]) != p.name {
		return nil, nil
	}
	now := db.MillisOf(p.now())
	for b = b[len(p.name):]; len(b) >= permitEntry; b = b[permitEntry:] {
		e := outbox.GivenPermit{Key: outbox.PermitKey(b[:16]), Until: db.Millis(binary.BigEndian.Uint64(b[16:permitEntry]))}
		if e.Until > now {
			list = append(list, e)
		}
	}
	return list, nil
}

// begin writes the file anew, and leaves it open to be added to.
func (p *permits) begin(list []outbox.GivenPermit) error {
	f, err := os.CreateTemp(p.s.Dir, LastPermitsFile+".")
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, p.name)
	if err = errors.Join(err, giveToOwner(f, p.s.Dir), write(f, list), f.Sync()); err == nil {
		err = os.Rename(f.Name(), p.s.file(LastPermitsFile))
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	p.file = f
	return nil
}

func write(to io.Writer, list []outbox.GivenPermit) error {
	b := make([]byte, 0, permitEntry*len(list))
	for _, e := range list {
		b = binary.BigEndian.AppendUint64(append(b, e.Key[:]...), uint64(e.Until))
	}
	_, err := to.Write(b)
	return err
}

// run adds to the file every second, and learns what other nodes gave.
func (p *permits) run(ctx context.Context) error {
	tick := time.NewTicker(p.box.Every(lastSeenEvery))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		p.look(ctx)
	}
}

func (p *permits) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_ = p.box.LearnPermits(ctx, db.MillisOf(p.now())) // others notice that the database is away
	p.keep()
}

// keep adds what is new to the file. What cannot be written is in memory still.
func (p *permits) keep() {
	list := p.box.NewPermits()
	if len(list) == 0 {
		return
	}
	if err := errors.Join(write(p.file, list), p.file.Sync()); err != nil {
		p.box.Log().Warn("permits were not noted", "file", LastPermitsFile, "error", err.Error())
	}
}

func (p *permits) close() {
	if p != nil && p.file != nil {
		p.keep()
		_ = p.file.Close()
	}
}
