package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"time"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// LastSeenFile is the file of a data directory that says how far the database had come.
// It is beside the database, so that a database that is put back to an earlier state is
// noticed: what it does not know may be done twice.
const LastSeenFile = "last-seen.json"

// LastTokensFile is the file of a data directory with the tokens that there were, without their
// secrets, so that a restore can say which of them are gone or valid again where the database
// that was lost cannot be read.
const LastTokensFile = "last-tokens.json"

// lastToken is a token as LastTokensFile has it.
type lastToken struct {
	ID      string      `json:"id"`
	Name    string      `json:"name"`
	Role    client.Role `json:"role"`
	Revoked db.Millis   `json:"revoked,omitempty"`
}

func (t lastToken) String() string { return fmt.Sprintf("%s (%s, %s)", t.ID, t.Name, t.Role) }

// lastTokens reads the tokens of a database.
func lastTokens(ctx context.Context, d *db.DB) ([]lastToken, error) {
	list, err := api.NewTokens(d).List(ctx)
	tokens := make([]lastToken, len(list))
	for i, t := range list {
		tokens[i] = lastToken{t.ID, t.Name, t.Role, t.Revoked}
	}
	return tokens, err
}

// lastSeenEvery is how often the file is written. What a database lost within that time
// is not noticed.
const lastSeenEvery = time.Second

// ErrOlder: the database was put back to an earlier state, or is a backup.
var ErrOlder = db.ErrOlder

// lastSeen reads the file. The zero Progress: there is none.
func (s Storage) lastSeen() (p db.Progress, err error) {
	return p, s.readJSON(LastSeenFile, &p)
}

// readJSON reads a file of the data directory into v. A file that is missing leaves v as it is.
func (s Storage) readJSON(name string, v any) error {
	b, _, err := readOwnedOf(s.Dir, name, 1<<24)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", s.file(name), err)
	}
	return err
}

// see writes the file.
func (s Storage) see(p db.Progress) error { return s.replaceJSON(LastSeenFile, p) }

// replaceJSON writes a file of the data directory, so that a reader finds it whole.
func (s Storage) replaceJSON(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(s.Dir, name+".")
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, giveToOwner(f, s.Dir), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), s.file(name))
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// checkSeen fails with ErrOlder if d had come further when it was in use here.
func (s Storage) checkSeen(ctx context.Context, d *db.DB) error {
	before, err := s.lastSeen()
	if err != nil {
		return err
	}
	p, err := d.Progress(ctx)
	if err != nil {
		return err
	}
	if err := p.Older(before); errors.Is(err, db.ErrAnother) {
		return fmt.Errorf("%w: if it is meant, remove %s", err, s.file(LastSeenFile))
	} else if err != nil {
		return fmt.Errorf("%w (%s)", err, s.file(LastSeenFile))
	}
	return nil
}

// expect tells the audit log which head it must continue: that of the last restore, and what
// was signed since as far as the file knows.
func (s Storage) expect(ctx context.Context, d *db.DB, l *journal.Log) error {
	before, err := s.lastSeen()
	if err != nil {
		return err
	}
	e, err := db.LastEpoch(ctx, d)
	if err == nil && e.Number == before.Epoch { // a restore loses records
		l.Expect(before.Head)
	}
	l.Expect(e.Head)
	return err
}

// watch is a part of a daemon that keeps the file up to date. It fails with ErrOlder if
// the database goes back while it is in use: this process would act on what it knew.
func (s Storage) watch(d *db.DB, l *journal.Log) Part {
	return Part{"database", func(ctx context.Context) error {
		last, err := s.lastSeen()
		if err != nil {
			return err
		}
		var noted noted
		tick := time.NewTicker(d.Every(lastSeenEvery))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			if last, err = s.look(ctx, d, l, last, &noted); err != nil {
				return err
			}
		}
	}}
}

// noted is what stands in the other files of a data directory.
type noted struct {
	tokens []lastToken
}

// look notes how far the database has come since last, and gives what is noted. It fails with ErrOlder if the database went back.
func (s Storage) look(ctx context.Context, d *db.DB, l *journal.Log, last db.Progress, noted *noted) (db.Progress, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	p, err := d.Progress(ctx)
	if err != nil {
		return last, nil // others notice that the database is away
	}
	if err := p.Older(last); err != nil {
		return last, err
	}
	p.Head = l.Seen()
	if reflect.DeepEqual(p, last) {
		return last, nil
	}
	if err := s.see(p); err != nil {
		d.Log().Warn("what the database knows was not noted", "file", LastSeenFile, "error", err.Error())
		return last, nil
	}
	if p.Records != last.Records { // each change of a token is in the audit log
		s.seeTokens(ctx, d, noted)
	}
	return p, nil
}

// seeTokens writes the file of tokens if they are not those that were noted.
func (s Storage) seeTokens(ctx context.Context, d *db.DB, noted *noted) {
	is, err := lastTokens(ctx, d)
	if err == nil && slices.Equal(is, noted.tokens) {
		return
	}
	if err == nil {
		err = s.replaceJSON(LastTokensFile, is)
	}
	if err != nil {
		d.Log().Warn("the tokens were not noted", "file", LastTokensFile, "error", err.Error())
		return
	}
	noted.tokens = is
}

// seeLast writes the file when everything else has ended, unless the database went back. l may
// be nil.
func (s Storage) seeLast(ctx context.Context, d *db.DB, l *journal.Log) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	before, err := s.lastSeen()
	if err != nil {
		return
	}
	p, err := d.Progress(ctx)
	if err != nil || p.Older(before) != nil {
		return
	}
	if l != nil {
		p.Head = l.Seen()
	} else if p.Epoch == before.Epoch {
		p.Head = before.Head
	}
	_ = s.see(p) // an older one is right too
	s.seeTokens(ctx, d, &noted{})
}
