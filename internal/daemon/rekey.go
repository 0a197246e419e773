package daemon

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"countersign/internal/db"
	"countersign/internal/journal"
)

// nextKeyFile has the new key of a data directory, before it takes the place of the old one.
const nextKeyFile = MasterKeyFile + ".next"

// RekeyConfig is what Rekey needs.
type RekeyConfig struct {
	// Storage says where the end keeps its state, with the master key that is replaced; of
	// Finish, the new one.
	Storage
	// Gateway says whose database it is: a gateway's, else the service's.
	Gateway bool
	// New takes the place of the master key. Nil: one is made in the data directory, if the
	// old one is there.
	New *db.MasterKey
	// Finish ends the old key. Without it Rekey does so only where the one data directory
	// has the key and the database.
	Finish bool
	// Log gets what opening the database says. Nil: discards.
	Log *slog.Logger
}

// Rekeyed says what Rekey did, or how far it is.
type Rekeyed struct {
	State    string       `json:"state"` // "one key", "both keys" or "finished"
	Keys     []RekeyedKey `json:"keys"`
	Unopened int64        `json:"unopened,omitempty"` // values that no key opens
	Next     []string     `json:"next,omitempty"`     // what is to be done now
	Old      string       `json:"old,omitempty"`      // the file with the old key
}

// RekeyedKey is one master key of a database.
type RekeyedKey struct {
	Fingerprint string     `json:"fingerprint"`
	Since       time.Time  `json:"since"`
	Replaced    *time.Time `json:"replaced,omitempty"`
	Ended       *time.Time `json:"ended,omitempty"`
	Values      int64      `json:"values"` // that are sealed under it
}

// Rekey seals everything under a new master key. Processes may use a PostgreSQL database
// meanwhile; a SQLite one must not be open. Both keys open it until the old one is ended. It may
// be broken off anywhere and begun again.
func Rekey(ctx context.Context, c RekeyConfig) (Rekeyed, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	own := c.Keys == nil // the key is a file of the data directory
	key, err := c.key()
	if err != nil {
		return Rekeyed{}, err
	}
	state, err := c.look(ctx, key, false)
	if err != nil {
		return Rekeyed{}, err
	}
	fresh := c.New
	switch {
	case c.Finish:
	case fresh != nil:
	case !own:
		return Rekeyed{}, errors.New("the new master key is missing: it can be made in the data directory only if the old one is there")
	case state.Rekeying() && key.Fingerprint() == state.Keys[len(state.Keys)-1].Fingerprint:
		fresh = key // it was broken off after the new key took its place
	default:
		if fresh, err = c.nextKey(true); err != nil {
			return Rekeyed{}, err
		}
	}
	if !c.Finish && fresh.Fingerprint() != key.Fingerprint() {
		next := db.NextMasterKey(key, fresh)
		if err := c.replace(ctx, next); err != nil {
			return Rekeyed{}, err
		}
	}
	var old string
	if c.Finish || own && c.DB == "" && c.New == nil {
		if old, err = c.finish(ctx, own, key); err != nil {
			return Rekeyed{}, err
		}
	}
	r, err := RekeyStatus(ctx, c)
	r.Old = old
	return r, err
}

// finish ends the old key, after the new one has taken its place in the data directory.
func (c RekeyConfig) finish(ctx context.Context, own bool, key *db.MasterKey) (old string, err error) {
	state, err := c.look(ctx, key, false)
	if err != nil {
		return "", err
	}
	present := state.Keys[len(state.Keys)-1].Fingerprint
	if n := len(state.Keys); own && n > 1 && key.Fingerprint() == present {
		// A run that was broken off has put the old key away.
		path := c.file(MasterKeyFile) + "." + state.Keys[n-2].Fingerprint
		if _, err := os.Lstat(path); err == nil {
			old = path
		}
	}
	if own && key.Fingerprint() != present {
		fresh, err := c.nextKey(false)
		if err == nil && fresh.Fingerprint() != present {
			err = fmt.Errorf("%s has the key %s, and the database is sealed under %s", c.file(nextKeyFile), fresh.Fingerprint(), present)
		}
		if err != nil {
			return "", err
		}
		if old, err = c.putInPlace(key); err != nil {
			return "", err
		}
		key = fresh
	}
	if key.Fingerprint() != present {
		return "", fmt.Errorf("the master key that was given is %s: give the new one, %s, so that it is certain that it is at hand", key.Fingerprint(), present)
	}
	return old, c.endOld(ctx)
}

// putInPlace gives the new key its name, and the old one another. At no moment is there no
// master key.
func (c RekeyConfig) putInPlace(key *db.MasterKey) (old string, err error) {
	path := c.file(MasterKeyFile)
	old = path + "." + key.Fingerprint()
	if err := os.Link(path, old); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if err := syncDir(c.Dir); err != nil {
		return "", err
	}
	if err := os.Rename(c.file(nextKeyFile), path); err != nil {
		return "", err
	}
	return old, syncDir(c.Dir)
}

func (c RekeyConfig) end() db.End { return endOf(c.Gateway) }

// key is the master key that was given, or that of the data directory.
func (s Storage) key() (*db.MasterKey, error) {
	if s.Keys != nil {
		return s.Keys, nil
	}
	key, err := s.masterKey()
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %s", ErrNoMasterKey, s.file(MasterKeyFile))
	}
	return key, err
}

// nextKey is the new key of the data directory. It is kept before anything is sealed under
// it.
func (c RekeyConfig) nextKey(make bool) (*db.MasterKey, error) {
	path := c.file(nextKeyFile)
	text, err := readSecret(path)
	if errors.Is(err, fs.ErrNotExist) && make {
		var fresh [32]byte
		_, _ = rand.Read(fresh[:]) // never fails
		text, err = keepSecret(path, hex.EncodeToString(fresh[:]))
	}
	if err != nil {
		return nil, err
	}
	key, err := ParseMasterKey(text)
	if err != nil {
		err = fmt.Errorf("%s %w", path, err)
	}
	return key, err
}

// look reads how far the replacement is. count counts the values too. Only that may be done
// beside a process that has a SQLite database open.
func (c RekeyConfig) look(ctx context.Context, key *db.MasterKey, count bool) (s db.MasterKeyState, err error) {
	err = db.Look(ctx, c.url(), c.end(), c.Log, func(l db.Seen) error {
		if l.InUse && !count {
			return fmt.Errorf("%w: %s; stop that process, run rekey, and start it again", db.ErrInUse, c.url())
		}
		if l.Schema < l.Knows {
			return fmt.Errorf("%w: start it, or run countersign migrate, first", db.ErrOutdated)
		}
		s, err = db.LookAtMasterKeys(ctx, l, c.end().Sealed, key, count)
		if err == nil && len(s.Keys) == 0 {
			err = errors.New("the database has no master key yet: start it first")
		}
		return err
	})
	return s, err
}

// RekeyStatus says how far the replacement of a master key is.
func RekeyStatus(ctx context.Context, c RekeyConfig) (r Rekeyed, err error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	key, err := c.key()
	if err != nil {
		return r, err
	}
	s, err := c.look(ctx, key, true)
	if errors.Is(err, db.ErrMasterKey) && c.New != nil {
		s, err = c.look(ctx, c.New, true)
	}
	if err != nil {
		return r, err
	}
	r.Unopened = s.Lost
	at := func(ms int64) *time.Time {
		if ms == 0 {
			return nil
		}
		t := db.Millis(ms).Time().UTC()
		return &t
	}
	earlier := int64(0)
	for i, k := range s.Keys {
		r.Keys = append(r.Keys, RekeyedKey{k.Fingerprint, *at(k.Since), at(k.Replaced), at(k.Ended), s.Values[i]})
		if i < len(s.Keys)-1 {
			earlier += s.Values[i]
		}
	}
	present := s.Keys[len(s.Keys)-1].Fingerprint
	switch {
	case s.Rekeying():
		r.State = "both keys"
		if earlier > 0 || !s.Rewrapped() {
			r.Next = append(r.Next, "not everything is sealed under the new key yet: wait, or run countersign rekey again")
		}
		r.Next = append(r.Next, fmt.Sprintf("give every process the key %s for its next start", present),
			"then run countersign rekey --finish with that key; until then the old one opens the database too")
	case len(s.Keys) > 1:
		r.State = "finished"
		if earlier > 0 {
			r.Next = append(r.Next, "a process has sealed values under an old key meanwhile: run countersign rekey --finish again")
		}
		r.Next = append(r.Next, "the old key opens this database no more: keep it as long as there are backups of before, then remove it")
	default:
		r.State = "one key"
	}
	return r, nil
}

// write opens the database, does something as a node named rekey, and closes it.
func (c RekeyConfig) write(ctx context.Context, do func(context.Context, *db.DB, db.Millis) error) error {
	d, err := c.openAny(ctx, c.Log, c.end(), false)
	if err != nil {
		return err
	}
	return errors.Join(do(journal.At(ctx, "rekey"), d, db.MillisOf(time.Now())), d.Close())
}

// replace makes the new key the one that seals, and seals everything under it.
func (c RekeyConfig) replace(ctx context.Context, next db.Next) error {
	return c.write(ctx, func(ctx context.Context, d *db.DB, now db.Millis) error {
		err := db.ReplaceMasterKey(ctx, d, next, now, rekeyed("masterkey.replaced", now, rekeyedRecord{next.New, next.Old}))
		if err == nil {
			_, err = db.RewrapKeys(ctx, d, now)
		}
		return err
	})
}

// endOld makes the old key cease to open the database.
func (c RekeyConfig) endOld(ctx context.Context) error {
	return c.write(ctx, func(ctx context.Context, d *db.DB, now db.Millis) error {
		return db.EndMasterKeys(ctx, d, now, rekeyed("masterkey.ended", now, rekeyedRecord{Key: d.MasterKey().Fingerprint()}))
	})
}

// rekeyedRecord is what the audit log has of a replacement: fingerprints.
type rekeyedRecord struct {
	Key string `json:"key"`
	Old string `json:"old,omitempty"`
}

// rekeyed adds a record to the audit log.
func rekeyed(kind string, now db.Millis, data rekeyedRecord) func(context.Context, *db.Tx) error {
	return func(ctx context.Context, t *db.Tx) error {
		return journal.Add(ctx, t, journal.Record{Kind: kind, At: now, Data: data})
	}
}
