package db

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// SealedTable is a table whose rows hold a data key that is sealed under the master key. An empty data key means that
// there is none.
type SealedTable struct{ Name, Key, DataKey string } // the table, its primary key, the column of the data key

// Record identifies the row whose secrets are sealed. It is additional data of every seal, so a sealed value opens
// only for its table, row, purpose and version.
type Record struct {
	Table, Row string
	Version    int64
}

func (r Record) about(purpose string) string {
	return r.Table + "\x00" + r.Row + "\x00" + purpose + "\x00" + strconv.FormatInt(r.Version, 10)
}

// Seal seals the secrets of a record under a new data key, each for a purpose. It also returns the data key, sealed
// under the master key. Empty secrets are sealed too, so that the database does not show which records have one.
func (d *DB) Seal(r Record, purposes []string, plain [][]byte) (dataKey []byte, sealed [][]byte) {
	key := make([]byte, 32)
	rand.Read(key)
	dataKey = d.key.Wrap(key)
	gcm := newGCM(key)
	for i, purpose := range purposes {
		sealed = append(sealed, sealGCM(gcm, plain[i], r.about(purpose)))
	}
	return dataKey, sealed
}

// Unseal inverts Seal.
func (d *DB) Unseal(r Record, purposes []string, dataKey []byte, sealed [][]byte) ([][]byte, error) {
	return d.key.Unseal(r, purposes, dataKey, sealed)
}

// Unseal inverts DB.Seal, for a database that is not open.
func (k *MasterKey) Unseal(r Record, purposes []string, dataKey []byte, sealed [][]byte) ([][]byte, error) {
	key, err := k.Unwrap(dataKey)
	if err != nil {
		return nil, fmt.Errorf("unwrapping a data key: %w", err)
	}
	if len(key) != 32 {
		return nil, fmt.Errorf("unwrapping a data key: %w", errUnsealable)
	}
	gcm := newGCM(key)
	var plain [][]byte
	for i, purpose := range purposes {
		p, err := openGCM(gcm, sealed[i], r.about(purpose))
		if err != nil {
			return nil, fmt.Errorf("opening %s of %s %s: %w", purpose, r.Table, r.Row, err)
		}
		plain = append(plain, p)
	}
	return plain, nil
}

// SealText seals a text that is not stored in the database, such as a cookie. Every node of the database can open it.
func (d *DB) SealText(r Record, purpose string, plain []byte) []byte {
	return sealGCM(d.key.gcm, plain, r.about(purpose))
}

// OpenText inverts SealText.
func (d *DB) OpenText(r Record, purpose string, sealed []byte) ([]byte, error) {
	return openGCM(d.key.gcm, sealed, r.about(purpose))
}

// OwnKey is a secret of the end in a table of such secrets, with the columns id, data_key and private.
type OwnKey struct {
	Table   string
	ID      int64
	Purpose string
}

func (k OwnKey) record() Record {
	return Record{Table: k.Table, Row: strconv.FormatInt(k.ID, 10), Version: 1}
}

// Read returns the secret, opened with m. It returns nil if there is none.
func (k OwnKey) Read(ctx context.Context, q Querier, m *MasterKey) ([]byte, error) {
	var dataKey, sealed []byte
	found, err := One(ctx, q, "SELECT data_key, private FROM "+k.Table+" WHERE id = $1", []any{k.ID}, &dataKey, &sealed)
	if err != nil || !found {
		return nil, err
	}
	plain, err := m.Unseal(k.record(), []string{k.Purpose}, dataKey, [][]byte{sealed})
	if err != nil {
		return nil, err
	}
	return plain[0], nil
}

// Keep stores secret, unless there is one, as part of t. It reports whether it did.
func (k OwnKey) Keep(ctx context.Context, t *Tx, d *DB, secret []byte) (bool, error) {
	dataKey, sealed := d.Seal(k.record(), []string{k.Purpose}, [][]byte{secret})
	n, err := t.Exec(ctx, "INSERT INTO "+k.Table+
		" (id, data_key, private) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING", k.ID, dataKey, sealed[0])
	return n == 1, err
}

// Open returns the secret. If there is none, it stores the one that make returns; made then runs in the same
// transaction, unless it is nil. All nodes of a database get the same.
func (k OwnKey) Open(ctx context.Context, d *DB, make func() ([]byte, error),
	made func(context.Context, *Tx) error) ([]byte, error) {
	secret, err := k.Read(ctx, d, d.key)
	if secret != nil || err != nil {
		return secret, err
	}
	fresh, err := make()
	if err != nil {
		return nil, err
	}
	err = d.Write(ctx, func(ctx context.Context, t *Tx) error {
		kept, err := k.Keep(ctx, t, d, fresh)
		if err == nil {
			secret, err = k.Read(ctx, t, d.key) // another node may have been first
		}
		if err != nil || !kept || made == nil {
			return err
		}
		return made(ctx, t)
	})
	return secret, err
}

// MasterKey seals the data keys of records with AES-256-GCM. It never prints.
type MasterKey struct {
	key [32]byte
	gcm cipher.AEAD
}

// NewMasterKey returns the master key with these 32 random bytes.
func NewMasterKey(key [32]byte) *MasterKey { return &MasterKey{key, newGCM(key[:])} }

const wrapPurpose = "countersign data key"

// Wrap seals a data key.
func (k *MasterKey) Wrap(dataKey []byte) []byte { return sealGCM(k.gcm, dataKey, wrapPurpose) }

// Unwrap inverts Wrap. It returns errUnsealable if wrapped does not open.
func (k *MasterKey) Unwrap(wrapped []byte) ([]byte, error) {
	return openGCM(k.gcm, wrapped, wrapPurpose)
}

// Fingerprint returns a name of the key that may be shown: the beginning of a SHA-256 of it.
func (k *MasterKey) Fingerprint() string {
	sum := sha256.Sum256(append([]byte("countersign master key\x00"), k.key[:]...))
	return hex.EncodeToString(sum[:8])
}

// Format hides the key from every fmt verb.
func (*MasterKey) Format(f fmt.State, _ rune) { io.WriteString(f, "master key") }

// sealFormat is the first byte of everything sealed here.
const sealFormat = 1

// errUnsealable means that a sealed value does not open with the key.
var errUnsealable = errors.New("sealed value does not open")

// newGCM returns AES-256-GCM with random nonces, for a key of 32 bytes.
func newGCM(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the length is fixed
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return gcm
}

// sealGCM returns the format, a random nonce and the sealed text. A data key seals a few values, and a master key one
// value for each change of a record. Both are far too few for random nonces to repeat.
func sealGCM(gcm cipher.AEAD, plain []byte, about string) []byte {
	return gcm.Seal([]byte{sealFormat}, nil, plain, []byte(about))
}

// openGCM inverts sealGCM. It returns errUnsealable if sealed does not open.
func openGCM(gcm cipher.AEAD, sealed []byte, about string) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != sealFormat {
		return nil, errUnsealable
	}
	plain, err := gcm.Open(nil, nil, sealed[1:], []byte(about))
	if err != nil {
		return nil, errUnsealable
	}
	return plain, nil
}

const (
	readMetaSQL  = `SELECT value FROM meta WHERE name = $1`
	writeMetaSQL = `INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`

	// metaKey is the row of meta with the fingerprint of the master key. With it a wrong key fails at the start, and
	// not at the first secret.
	metaKey = "master_key"
)

// KeyOf returns the fingerprint of the master key under which everything in a database is sealed. It returns "" if
// nothing has been sealed yet.
func KeyOf(ctx context.Context, q Querier) (fingerprint string, err error) {
	var b []byte
	_, err = One(ctx, q, readMetaSQL, []any{metaKey}, &b)
	return string(b), err
}

// Opens returns a *MasterKeyError unless everything in the database is sealed under k.
func (k *MasterKey) Opens(ctx context.Context, q Querier) error {
	is, err := KeyOf(ctx, q)
	if err == nil && is != k.Fingerprint() {
		err = &MasterKeyError{Key: k.Fingerprint(), Database: is}
	}
	return err
}

// MasterKey returns the key that seals.
func (d *DB) MasterKey() *MasterKey { return d.key }

// setKey sets the master key, and stores its fingerprint in a new database. If key is nil, it calls find for the key.
func (d *DB) setKey(ctx context.Context, key *MasterKey, find func(newDatabase bool) (*MasterKey, error)) error {
	is, err := KeyOf(ctx, d)
	if err != nil {
		return err
	}
	if key == nil {
		if key, err = find(is == ""); err != nil {
			return err
		}
	}
	d.key = key
	if is != "" {
		return key.Opens(ctx, d)
	}
	return d.Write(ctx, func(ctx context.Context, t *Tx) error {
		if _, err := t.Exec(ctx, writeMetaSQL, metaKey, []byte(key.Fingerprint())); err != nil {
			return err
		}
		return key.Opens(ctx, t) // another node may have been first
	})
}

const (
	replaceKeySQL = `UPDATE meta SET value = $1 WHERE name = 'master_key' AND value = $2`

	// stopNodesSQL makes nodes that start wait for the end of the transaction.
	stopNodesSQL = `LOCK TABLE nodes IN SHARE MODE`

	// rekeyRows is how many rows of a table Rekey reads at a time.
	rekeyRows = 200
)

// ErrRunning means that a node uses the database.
var ErrRunning = errors.New("the database is in use by a daemon")

// Rekey seals every data key of the database under fresh, in one transaction; also runs at the end of it. Afterwards
// only fresh opens the database, and d can only be closed. It returns the number of data keys. It returns ErrRunning
// if a node is listed that is not silent.
func (d *DB) Rekey(ctx context.Context, fresh *MasterKey,
	also func(context.Context, *Tx) error) (values int64, err error) {
	now, err := d.serverNow(ctx)
	if err != nil {
		return 0, err
	}
	err = d.Write(ctx, func(ctx context.Context, t *Tx) error {
		values = 0
		if d.dialect.Shared {
			if _, err := t.Exec(ctx, stopNodesSQL); err != nil {
				return err
			}
			nodes, err := readNodes(ctx, t)
			if err != nil {
				return err
			}
			for _, n := range nodes {
				if !n.Silent(now) {
					return fmt.Errorf("%w: the node %s wrote its row %d s ago; stop every daemon of this database. One that was killed counts for %v",
						ErrRunning, n.Name, (now-n.Seen)/1000, NodeSilent)
				}
			}
		}
		n, err := t.Exec(ctx, replaceKeySQL, []byte(fresh.Fingerprint()), []byte(d.key.Fingerprint()))
		if err == nil && n != 1 {
			err = d.key.Opens(ctx, t) // another run was first
		}
		if err != nil {
			return err
		}
		for _, table := range d.end.Sealed {
			n, err := d.rekeyTable(ctx, t, table, fresh)
			if err != nil {
				return err
			}
			values += n
		}
		return also(ctx, t)
	})
	return values, err
}

// rekeyTable seals the data keys of one table under fresh and returns how many there are.
func (d *DB) rekeyTable(ctx context.Context, t *Tx, table SealedTable, fresh *MasterKey) (values int64, err error) {
	head := "SELECT " + table.Key + ", " + table.DataKey + " FROM " + table.Name
	tail := fmt.Sprintf(" ORDER BY %s LIMIT %d", table.Key, rekeyRows)
	change := "UPDATE " + table.Name + " SET " + table.DataKey + " = $1 WHERE " + table.Key + " = $2 AND " +
		table.DataKey + " = $3"
	text, args := head+tail, []any(nil)
	for {
		var list []Statement
		var last any
		rows := 0
		err := Each(ctx, t, text, args, func(r Rows) error {
			var sealed []byte
			if err := r.Scan(&last, &sealed); err != nil {
				return err
			}
			rows++
			if len(sealed) == 0 {
				return nil
			}
			key, err := d.key.Unwrap(sealed)
			if err != nil {
				return fmt.Errorf("the data key of %s %v: %w", table.Name, last, err)
			}
			list = append(list, Statement{SQL: change, Args: []any{fresh.Wrap(key), last, sealed}, N: new(int64)})
			return nil
		})
		if err == nil {
			err = t.Batch(ctx, list)
		}
		if err != nil {
			return values, err
		}
		for _, s := range list {
			if *s.N != 1 {
				return values, fmt.Errorf("the data key of %s %v was changed by somebody else: stop it, and run rekey again",
					table.Name, s.Args[1])
			}
			values++
		}
		if rows < rekeyRows {
			return values, nil
		}
		text, args = head+" WHERE "+table.Key+" > $1"+tail, []any{last}
	}
}
