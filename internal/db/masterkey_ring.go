package db

import (
	"context"
	"slices"
	"sync"
	"time"
)

// keyRing are the master keys that open values of a database: the one that seals, and those
// that it replaced. The database has a MasterKeyRow for each, the oldest first. While a key is
// being replaced, its row holds the next key sealed under it, and itself sealed under the next
// one. So a process that was given either key has both, and the processes need not change keys
// at the same moment.
type keyRing struct {
	given *MasterKey // what the process was given
	rows  func(context.Context) ([]MasterKeyRow, error)

	looking sync.Mutex // one look at a time

	mu   sync.RWMutex
	keys []*MasterKey // the last one seals
	is   []MasterKeyRow
	read time.Time // when the last look began
}

// newKeyRing holds the keys of a database. given is the key the process was started with;
// rows reads the stored ones. The ring is empty before Reload.
func newKeyRing(given *MasterKey, rows func(context.Context) ([]MasterKeyRow, error)) *keyRing {
	return &keyRing{given: given, rows: rows}
}

// Reload reads the keys of the database. The error is ErrMasterKey if no key of the process
// opens it any more.
func (r *keyRing) Reload(ctx context.Context) error { return r.reload(ctx, time.Time{}) }

// reload is Reload, but does nothing if the keys were read after the time after: of many
// callers who wait, one reads. The zero time always reads.
func (r *keyRing) reload(ctx context.Context, after time.Time) error {
	r.looking.Lock()
	defer r.looking.Unlock()
	r.mu.RLock()
	looked := !after.IsZero() && r.read.After(after)
	r.mu.RUnlock()
	if looked {
		return nil
	}
	at := time.Now() // before the look, which may miss what comes after it
	rows, err := r.rows(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	given := r.given
	if len(r.keys) > 0 {
		given = r.keys[len(r.keys)-1] // the key that the process was given may have ended
	}
	keys, err := MasterKeyChain(given, rows)
	if err != nil {
		return err
	}
	r.keys, r.is, r.read = keys, rows, at
	return nil
}

// Given is the key that the process was given.
func (r *keyRing) Given() *MasterKey { return r.given }

// Current is the key that seals.
func (r *keyRing) Current() *MasterKey {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.keys[len(r.keys)-1]
}

// Rows are what the database said of its keys at the last look.
func (r *keyRing) Rows() []MasterKeyRow {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.is)
}

// lookAgain is the least time between two looks at the database for a key that opens a
// value. Without it, strangers could cause a look with each value that opens with none.
const lookAgain = 100 * time.Millisecond

// Unwrap opens a data key. Another process may have begun to replace the master key since
// the last look, so a value that does not open is tried once more with keys that were read
// after the call.
func (r *keyRing) Unwrap(ctx context.Context, wrapped []byte) ([]byte, error) {
	began := time.Now()
	for {
		r.mu.RLock()
		keys, read := r.keys, r.read
		r.mu.RUnlock()
		for _, k := range slices.Backward(keys) {
			if plain, err := k.Unwrap(wrapped); err == nil {
				return plain, nil
			}
		}
		if read.After(began) {
			return nil, errUnsealable
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lookAgain - time.Since(read)):
		}
		if err := r.reload(ctx, read); err != nil {
			return nil, err
		}
	}
}
