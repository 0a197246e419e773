package daemon

import (
	"context"
	"errors"
	"fmt"

	"countersign/internal/db"
	"countersign/internal/journal"
)

// Rekeyed is what Rekey did.
type Rekeyed struct {
	Key     string `json:"key"`               // the fingerprint of the new key, which alone opens the database
	KeyFile string `json:"keyFile,omitempty"` // has it, if Rekey made it
	Old     string `json:"old,omitempty"`     // the fingerprint of the old key, which opens the backups from before
	Values  int64  `json:"values"`            // how many data keys were sealed anew; 0: an earlier run did it
}

// Rekey seals everything under a new master key, in one transaction. If to is nil, it makes the key in the data
// directory, if the old one is there. No process may use the database. If it is interrupted, the database opens with
// one of the two keys, and both are at hand.
func (p Place) Rekey(ctx context.Context, to *db.MasterKey) (r Rekeyed, err error) {
	is, err := p.present(ctx)
	if err != nil {
		return r, err
	}
	old, err := p.masterKey(is)
	switch has := err == nil && old.Fingerprint() == is; {
	case to != nil && to.Fingerprint() == is && has:
		return r, fmt.Errorf("the new master key is the old one, %s: make another", is)
	case to != nil && to.Fingerprint() == is:
		return Rekeyed{Key: is}, nil // an earlier run did it
	case err != nil:
		return r, err
	case !has:
		return r, &db.MasterKeyError{Key: old.Fingerprint(), Database: is}
	case to == nil && p.Keys != nil:
		return r, errors.New("the new master key is missing: give --new-master-key-command or COUNTERSIGN_NEW_MASTER_KEY; it can be made in the data directory only if the old one is there")
	case to == nil:
		p.at("making")
		fresh, digits := newMasterKey()
		r.KeyFile = p.file(MasterKeyFile) + "." + fresh.Fingerprint()
		if err := createFile(r.KeyFile, []byte(digits+"\n"), giveToOwner); err != nil {
			return r, err
		}
		to = fresh
	}
	r.Key, r.Old = to.Fingerprint(), is
	p.at("sealing")
	err = p.change(ctx, "rekey", func(ctx context.Context, d *db.DB, now db.Millis) error {
		r.Values, err = d.Rekey(ctx, to, func(ctx context.Context, t *db.Tx) error {
			p.at("committing")
			return journal.Add(ctx, t, journal.Record{Kind: "masterkey.replaced", At: now, Data: rekeyedRecord{r.Key, r.Old}})
		})
		return err
	})
	p.at("reporting")
	return r, err
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
