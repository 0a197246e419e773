package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"countersign/internal/db"
	"countersign/internal/journal"
)

// Rekeyed is what Rekey did.
type Rekeyed struct {
	Key     string `json:"key"`               // the fingerprint of the new key, which alone opens the database
	Old     string `json:"old"`               // and of the one before
	Values  int64  `json:"values"`            // how many data keys were sealed anew; 0: an earlier run did it, and this one finished its work
	OldFile string `json:"oldFile,omitempty"` // has the old key, which opens the backups from before
}

// Rekey seals everything under a new master key, in one transaction. If to is nil, it makes the key in the data
// directory, if the old one is there. No process may use the database. It may be interrupted at any point and run
// again: at each moment the database opens with one of the two keys, and both are at hand.
func (p Place) Rekey(ctx context.Context, to *db.MasterKey) (r Rekeyed, err error) {
	is, err := p.present(ctx)
	if err != nil {
		return r, err
	}
	old, fresh, err := p.rekeyPair(is, to)
	if err != nil {
		return r, err
	}
	r.Key = fresh.Fingerprint()
	if old != nil {
		r.Old = old.Fingerprint()
	}
	if is != r.Key {
		p.at("sealing")
		err := p.change(ctx, "rekey", func(ctx context.Context, d *db.DB, now db.Millis) error {
			r.Values, err = d.Rekey(ctx, fresh, func(ctx context.Context, t *db.Tx) error {
				p.at("committing")
				return journal.Add(ctx, t, journal.Record{Kind: "masterkey.replaced", At: now, Data: rekeyedRecord{r.Key, r.Old}})
			})
			return err
		})
		if err != nil {
			return r, err
		}
	}
	if p.Keys == nil && old != nil { // the old key is a file of the data directory
		r.OldFile, err = p.putInPlace(old, to == nil)
	}
	p.at("reporting")
	return r, err
}

// rekeyPair returns the old and the new key. The database, whose key has the fingerprint is, opens with one of them.
// old is nil if an earlier run has put it away. A new key is stored before anything is sealed under it.
func (p Place) rekeyPair(is string, to *db.MasterKey) (old, fresh *db.MasterKey, err error) {
	old, err = p.masterKey()
	switch fresh = to; {
	case errors.Is(err, ErrNoMasterKey) && fresh != nil && fresh.Fingerprint() == is:
		return nil, fresh, nil
	case err != nil:
		return nil, nil, err
	case fresh == nil && p.Keys != nil:
		return nil, nil, errors.New("the new master key is missing: give --new-master-key-command or COUNTERSIGN_NEW_MASTER_KEY; it can be made in the data directory only if the old one is there")
	case fresh == nil:
		if old.Fingerprint() == is { // else an earlier run has sealed everything under the next key
			p.at("making")
			err = p.makeKey(nextKeyFile)
		}
		if err == nil {
			fresh, err = p.readKey(nextKeyFile)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = p.explainKey(&db.MasterKeyError{Key: old.Fingerprint(), Database: is})
		}
		if err != nil {
			return nil, nil, err
		}
	}
	switch a, b := old.Fingerprint(), fresh.Fingerprint(); {
	case a == b:
		return nil, nil, fmt.Errorf("the new master key is the old one, %s: make another", a)
	case is != a && is != b:
		return nil, nil, fmt.Errorf("%w: the old key is %s, the new one %s, and the database is sealed under %s",
			db.ErrMasterKey, a, b, is)
	}
	return old, fresh, nil
}

// putInPlace renames the old key and gives its name to the new one, if Rekey made it. At no moment is
// the old key without a name.
func (p Place) putInPlace(old *db.MasterKey, made bool) (oldFile string, err error) {
	path := p.file(MasterKeyFile)
	oldFile = p.oldKeyFile(old.Fingerprint())
	p.at("keeping")
	if err := os.Link(path, oldFile); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if err := syncDir(p.Dir); err != nil {
		return "", err
	}
	p.at("replacing")
	if made {
		err = os.Rename(p.file(nextKeyFile), path)
	} else {
		err = os.Remove(path)
	}
	if err == nil {
		err = syncDir(p.Dir)
	}
	return oldFile, err
}

// lookToRekey calls fn with a database that was started. It refuses a SQLite database that a process has open.
func (p Place) lookToRekey(ctx context.Context, fn func(db.Seen) error) error {
	return db.Look(ctx, p.url(), endOf(p.Gateway), p.Log, func(l db.Seen) error {
		switch {
		case !l.Made:
			return p.noDatabase("start it first")
		case l.InUse:
			return fmt.Errorf("%w: %s; stop that process, run rekey, and start it again", db.ErrInUse, p.url())
		case l.Schema < l.Knows:
			return fmt.Errorf("%w: start it, or run countersign migrate, first", db.ErrOutdated)
		}
		return fn(l)
	})
}

// present returns the fingerprint of the key to be replaced, if rekey may replace it.
func (p Place) present(ctx context.Context) (fingerprint string, err error) {
	err = p.lookToRekey(ctx, func(l db.Seen) error {
		if l.MayChange != nil {
			return fmt.Errorf("rekey seals the key of the journal anew, so it needs the role that owns the tables: %w",
				l.MayChange)
		}
		if fingerprint, err = db.KeyOf(ctx, l); err == nil && fingerprint == "" {
			err = errors.New("the database has no master key yet: start it first")
		}
		return err
	})
	return fingerprint, err
}

// rekeyedRecord is the journal's record of a replacement, with fingerprints.
type rekeyedRecord struct {
	Key string `json:"key"`
	Old string `json:"old,omitempty"`
}
