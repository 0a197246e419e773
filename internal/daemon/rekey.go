package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"countersign/internal/db"
	"countersign/internal/journal"
)

// RekeyConfig is what Rekey and RekeySigning need.
type RekeyConfig struct {
	// Storage is where the end keeps its state, with the present master key.
	Storage
	// Gateway selects a gateway's database, otherwise the service's.
	Gateway bool
	// New replaces the master key. Nil: Rekey makes a key in the data directory, if the old one is there.
	New *db.MasterKey
	// Finish makes RekeySigning put the next pair in place.
	Finish bool
	// Log gets the lines of opening the database. Nil: discards.
	Log *slog.Logger
	// step is called with the name of each step of Rekey before it. A test ends the process there. Nil: nothing is
	// called.
	step func(string)
}

// Rekeyed is what Rekey did.
type Rekeyed struct {
	Key     string `json:"key"`               // the fingerprint of the new key, which alone opens the database
	Old     string `json:"old"`               // and of the one before
	Values  int64  `json:"values"`            // how many data keys were sealed anew; 0: an earlier run did it, and this one finished its work
	OldFile string `json:"oldFile,omitempty"` // has the old key, which opens the backups from before
}

// Rekey seals everything under a new master key, in one transaction. No process may use the database. It may be
// interrupted at any point and run again: at each moment the database opens with one of the two keys, and both are at
// hand.
func Rekey(ctx context.Context, c RekeyConfig) (r Rekeyed, err error) {
	is, err := c.present(ctx)
	if err != nil {
		return r, err
	}
	inDir := c.Keys == nil // the key is a file of the data directory
	old, fresh, err := c.rekeyPair(is)
	if err != nil {
		return r, err
	}
	r.Key = fresh.Fingerprint()
	if old != nil {
		r.Old = old.Fingerprint()
	}
	if is != r.Key {
		c.at("sealing")
		err := c.write(ctx, func(ctx context.Context, d *db.DB, now db.Millis) error {
			r.Values, err = d.Rekey(ctx, fresh, func(ctx context.Context, t *db.Tx) error {
				c.at("committing")
				return journal.Add(ctx, t, journal.Record{Kind: "masterkey.replaced", At: now, Data: rekeyedRecord{r.Key, r.Old}})
			})
			return err
		})
		if err != nil {
			return r, err
		}
	}
	if inDir && old != nil {
		r.OldFile, err = c.putInPlace(old)
	}
	c.at("reporting")
	return r, err
}

func (c RekeyConfig) at(step string) {
	if c.step != nil {
		c.step(step)
	}
}

// rekeyPair returns the old and the new key. The database, whose key has the fingerprint is, opens with one of them.
// old is nil if an earlier run has put it away. A new key is stored before anything is sealed under it.
func (c RekeyConfig) rekeyPair(is string) (old, fresh *db.MasterKey, err error) {
	old, err = c.masterKey()
	switch fresh = c.New; {
	case errors.Is(err, ErrNoMasterKey) && fresh != nil && fresh.Fingerprint() == is:
		return nil, fresh, nil
	case err != nil:
		return nil, nil, err
	case fresh == nil && c.Keys != nil:
		return nil, nil, errors.New("the new master key is missing: give --new-master-key-command or COUNTERSIGN_NEW_MASTER_KEY; it can be made in the data directory only if the old one is there")
	case fresh == nil:
		if old.Fingerprint() == is { // else an earlier run has sealed everything under the next key
			c.at("making")
			err = c.makeKey(nextKeyFile)
		}
		if err == nil {
			fresh, err = c.readKey(nextKeyFile)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = c.explainKey(&db.MasterKeyError{Key: old.Fingerprint(), Database: is})
		}
		if err != nil {
			return nil, nil, err
		}
	}
	switch a, b := old.Fingerprint(), fresh.Fingerprint(); {
	case a == b:
		return nil, nil, fmt.Errorf("the new master key is the old one, %s: make another", a)
	case is != a && is != b:
		return nil, nil, fmt.Errorf("%w: the old key is %s, the new one %s, and the database is sealed under %s", db.ErrMasterKey, a, b, is)
	}
	return old, fresh, nil
}

// putInPlace renames the old key and gives its name to the new one, if that is in the data directory. At no moment is
// the old key without a name.
func (c RekeyConfig) putInPlace(old *db.MasterKey) (oldFile string, err error) {
	path := c.file(MasterKeyFile)
	oldFile = c.oldKeyFile(old.Fingerprint())
	c.at("keeping")
	if err := os.Link(path, oldFile); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if err := syncDir(c.Dir); err != nil {
		return "", err
	}
	c.at("replacing")
	if c.New != nil {
		err = os.Remove(path)
	} else {
		err = os.Rename(c.file(nextKeyFile), path)
	}
	if err == nil {
		err = syncDir(c.Dir)
	}
	return oldFile, err
}

// look calls fn with a database that was started. It refuses a SQLite database that a process has open.
func (c RekeyConfig) look(ctx context.Context, fn func(db.Seen) error) error {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return db.Look(ctx, c.url(), endOf(c.Gateway), c.Log, func(l db.Seen) error {
		switch {
		case !l.Made:
			return c.noDatabase("start it first")
		case l.InUse:
			return fmt.Errorf("%w: %s; stop that process, run rekey, and start it again", db.ErrInUse, c.url())
		case l.Schema < l.Knows:
			return fmt.Errorf("%w: start it, or run countersign migrate, first", db.ErrOutdated)
		}
		return fn(l)
	})
}

// present returns the fingerprint of the key to be replaced, if rekey may replace it.
func (c RekeyConfig) present(ctx context.Context) (fingerprint string, err error) {
	err = c.look(ctx, func(l db.Seen) error {
		if l.MayChange != nil {
			return fmt.Errorf("rekey seals the key of the journal anew, so it needs the role that owns the tables: %w", l.MayChange)
		}
		if fingerprint, err = db.KeyOf(ctx, l); err == nil && fingerprint == "" {
			err = errors.New("the database has no master key yet: start it first")
		}
		return err
	})
	return fingerprint, err
}

// write opens the database, calls do as a node named rekey, and closes the database.
func (c RekeyConfig) write(ctx context.Context, do func(context.Context, *db.DB, db.Millis) error) error {
	d, err := c.openAny(ctx, c.Log, endOf(c.Gateway), false)
	if err != nil {
		return err
	}
	return errors.Join(do(journal.At(ctx, "rekey"), d, db.MillisOf(time.Now())), d.Close())
}

// rekeyedRecord is the journal's record of a replacement, with fingerprints.
type rekeyedRecord struct {
	Key string `json:"key"`
	Old string `json:"old,omitempty"`
}
