package outbox

import (
	"context"

	"countersign/internal/db"
)

// UnreadMost is how many bytes of a response are kept.
const UnreadMost = 2048

const unreadPurpose = "head"

// SealedUnread is the table with its data keys.
var SealedUnread = db.SealedTable{Name: "unread", Key: "id", DataKey: "data_key"}

// A late result of an earlier attempt replaces nothing.
const keepUnreadSQL = `
INSERT INTO unread (id, number, data_key, head) VALUES ($1, $2, $3, $4)
ON CONFLICT (id) DO UPDATE SET number = $2, data_key = $3, head = $4 WHERE unread.number <= $2`

func placeUnread(id string, number int) db.Record {
	return db.Record{Table: SealedUnread.Name, Row: id, Version: int64(number)}
}

// keepUnread gives the statement that keeps the beginning of the response to an attempt of the
// callback id. It seals it: the response may hold secrets.
func keepUnread(ctx context.Context, d *db.DB, id string, number int, head []byte) (db.Statement, error) {
	key, sealed, err := d.Seal(ctx, placeUnread(id, number), []string{unreadPurpose}, [][]byte{head[:min(len(head), UnreadMost)]})
	if err != nil {
		return db.Statement{}, err
	}
	return db.Statement{SQL: keepUnreadSQL, Args: []any{id, int64(number), key, sealed[0]}}, nil
}

const readUnreadSQL = `SELECT number, data_key, head FROM unread WHERE id = $1`

// ReadUnread gives what is kept of a callback and the number of its attempt, 0 if there is none.
func ReadUnread(ctx context.Context, d *db.DB, id string) (number int, head []byte, err error) {
	var key, sealed []byte
	if found, err := db.One(ctx, d, readUnreadSQL, []any{id}, &number, &key, &sealed); err != nil || !found {
		return 0, nil, err
	}
	plain, err := d.Unseal(ctx, placeUnread(id, number), []string{unreadPurpose}, key, [][]byte{sealed})
	if err != nil {
		return 0, nil, err
	}
	return number, plain[0], nil
}

// purgeUnread gives the statement that forgets what is kept of a callback.
func purgeUnread(id string) db.Statement {
	return db.Statement{SQL: `DELETE FROM unread WHERE id = $1`, Args: []any{id}}
}
