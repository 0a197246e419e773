// Package unread keeps the beginning of the last response to a callback that was not understood, sealed at rest.
package unread

import (
	"context"

	"countersign/internal/db"
)

// Most is how many bytes of a response are kept.
const Most = 2048

const purpose = "head"

// Sealed is the table with its data keys.
var Sealed = db.SealedTable{Name: "unread", Key: "id", DataKey: "data_key"}

// A late result of an earlier attempt replaces nothing.
const keepSQL = `
INSERT INTO unread (id, number, data_key, head) VALUES ($1, $2, $3, $4)
ON CONFLICT (id) DO UPDATE SET number = $2, data_key = $3, head = $4 WHERE unread.number <= $2`

func place(id string, number int) db.Record {
	return db.Record{Table: Sealed.Name, Row: id, Version: int64(number)}
}

// Keep gives the statement that keeps the beginning of the response to an attempt of the
// callback id. It seals it: the response may hold secrets.
func Keep(ctx context.Context, d *db.DB, id string, number int, head []byte) (db.Statement, error) {
	key, sealed, err := d.Seal(ctx, place(id, number), []string{purpose}, [][]byte{head[:min(len(head), Most)]})
	if err != nil {
		return db.Statement{}, err
	}
	return db.Statement{SQL: keepSQL, Args: []any{id, int64(number), key, sealed[0]}}, nil
}

const readSQL = `SELECT number, data_key, head FROM unread WHERE id = $1`

// Read gives what is kept of a callback and the number of its attempt, 0 if there is none.
func Read(ctx context.Context, d *db.DB, id string) (number int, head []byte, err error) {
	var key, sealed []byte
	if found, err := db.One(ctx, d, readSQL, []any{id}, &number, &key, &sealed); err != nil || !found {
		return 0, nil, err
	}
	plain, err := d.Unseal(ctx, place(id, number), []string{purpose}, key, [][]byte{sealed})
	if err != nil {
		return 0, nil, err
	}
	return number, plain[0], nil
}

// Purge gives the statement that forgets what is kept of a callback.
func Purge(id string) db.Statement {
	return db.Statement{SQL: `DELETE FROM unread WHERE id = $1`, Args: []any{id}}
}
