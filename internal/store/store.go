// Package store keeps what must survive a restart, for both ends of the
// protocol, in SQLite or PostgreSQL with one SQL text.
//
// Every change that callers rely on has been committed durably when its method
// returns. A method that returns an error because its context ended or the
// connection broke may have been done all the same: every method can be
// repeated, and says what a repetition gives.
package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Config is what Open needs.
type Config struct {
	URL  string       // required: path of a SQLite file, or postgres://… (several hosts allowed)
	Keys KeyWrapper   // required: seals secrets at rest
	Log  *slog.Logger // nil: discards
}

// Store is the database of one end. Its methods may be used from several
// goroutines at once.
type Store struct {
	keys    KeyWrapper
	log     *slog.Logger
	dialect *dialect
	db      backend
	hub     *hub
	ids     idMaker
	known   sync.Map // ids of merchants that were seen; merchants are never deleted
	swept   sweepPlace
}

// Open opens the database at c.URL, brings its schema up to date and checks
// that c.Keys opens it. It fails with ErrNewerSchema where a later version of
// this program wrote the schema, with ErrMasterKey where the key is another
// one, and with ErrInUse where another process has the SQLite file.
func Open(ctx context.Context, c Config) (*Store, error) {
	if c.URL == "" || c.Keys == nil {
		return nil, errors.New("opening the store: URL and Keys are required")
	}
	s := &Store{keys: c.Keys, log: c.Log, hub: &hub{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := s.open(ctx, c.URL); err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	if err := s.checkKeys(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, url string) error {
	if isPostgres(url) {
		db, err := openPostgres(ctx, url, s.log, s.hub, s.committed)
		if err != nil {
			return err
		}
		s.db, s.dialect = db, db.d
		return nil
	}
	db, err := openSQLite(ctx, url, s.committed)
	if err != nil {
		return err
	}
	s.db, s.dialect = db, db.d
	return nil
}

// committed runs after every commit.
func (s *Store) committed(t *tx) {
	for topic, woken := range t.here {
		if woken {
			s.hub.wake(Topic(topic))
		}
	}
}

// Close ends background work and closes the database. Calls that still wait
// fail with ErrClosed.
func (s *Store) Close() error { return s.db.close() }

// Ping checks that the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.db.ping(ctx) }

// Dialect is "sqlite" or "postgres".
func (s *Store) Dialect() string { return s.dialect.name }

const serverNowSQL = `SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)`

// ServerNow is the clock that all nodes of the database share: PostgreSQL's
// own. With SQLite there is one process, so its local clock is that clock.
// Nodes take their offset from it at start; nothing else here reads a clock.
func (s *Store) ServerNow(ctx context.Context) (Millis, error) {
	if s.dialect.name == "sqlite" {
		return MillisOf(time.Now()), nil
	}
	var now Millis
	_, err := one(ctx, s.db, serverNowSQL, nil, &now)
	return now, err
}

const (
	readMetaSQL  = `SELECT value FROM meta WHERE name = $1`
	writeMetaSQL = `INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`
)

// canary is sealed in every database so that a wrong master key is found at
// start and not at the first secret.
const canary = "countersign"

// checkKeys seals the canary in a new database and opens it in any.
func (s *Store) checkKeys(ctx context.Context) error {
	place := record{table: "meta", row: "canary", version: 1}
	read := func(q querier, value *[]byte) (bool, error) {
		return one(ctx, q, readMetaSQL, []any{"canary"}, value)
	}
	var kept []byte
	found, err := read(s.db, &kept)
	if err != nil {
		return err
	}
	if !found {
		dataKey, sealed, err := sealSecrets(ctx, s.keys, place, []string{"canary"}, [][]byte{[]byte(canary)})
		if err != nil {
			return err
		}
		value := append([]byte{byte(len(dataKey) >> 8), byte(len(dataKey))}, dataKey...)
		value = append(value, sealed[0]...)
		err = s.db.write(ctx, func(ctx context.Context, t *tx) error {
			if _, err := t.exec(ctx, writeMetaSQL, "canary", value); err != nil {
				return err
			}
			_, err := read(t, &kept) // another node may have been first
			return err
		})
		if err != nil {
			return err
		}
	}
	if len(kept) < 2 {
		return ErrMasterKey
	}
	n := int(kept[0])<<8 | int(kept[1])
	if len(kept) < 2+n {
		return ErrMasterKey
	}
	plain, err := openSecrets(ctx, s.keys, place, []string{"canary"}, kept[2:2+n], [][]byte{kept[2+n:]})
	switch {
	case err == nil && bytes.Equal(plain[0], []byte(canary)):
		return nil
	case err == nil || errors.Is(err, errSealBroken):
		return ErrMasterKey
	}
	return err // a key management service that can't be reached, say
}

func isPostgres(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}

// identifierMost bounds identifiers, in bytes. PostgreSQL keeps no more than
// about 2,700 in an entry of an index.
const identifierMost = 1024

// checkIdentifier is checkText for what is looked up by an index.
func checkIdentifier(member, text string) error {
	if len(text) > identifierMost {
		return fmt.Errorf("%s is %w: it has %d bytes, at most %d go", member, ErrInvalid, len(text), identifierMost)
	}
	return checkText(member, text)
}

// checkText refuses what one of the databases would not keep unchanged.
func checkText(member, text string) error {
	if strings.IndexByte(text, 0) >= 0 || !utf8.ValidString(text) {
		return fmt.Errorf("%s is %w: it holds U+0000 or is not UTF-8", member, ErrInvalid)
	}
	return nil
}
