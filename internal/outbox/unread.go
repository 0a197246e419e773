package outbox

import (
	"context"
	"strconv"

	"countersign/internal/db"
)

const (
	// UnreadMost is how many bytes of a response are kept.
	UnreadMost = 2048
	// unreadKept is of how many attempts of a callback.
	unreadKept = 3
)

const unreadPurpose = "head"

// SealedUnread is the table with its data keys.
var SealedUnread = db.SealedTable{Name: "unread", Key: "id", DataKey: "data_key"}

const keepUnreadSQL = `
INSERT INTO unread (id, number, data_key, head) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING`

const (
	// ofCallbackSQL selects the rows of one callback: "0" follows "/".
	ofCallbackSQL = ` FROM unread WHERE id > $1 || '/' AND id < $1 || '0'`

	dropUnreadSQL  = `DELETE` + ofCallbackSQL
	readUnreadSQL  = `SELECT id, number, data_key, head` + ofCallbackSQL
	olderUnreadSQL = dropUnreadSQL + ` AND number <= (SELECT number` + ofCallbackSQL + ` ORDER BY number DESC LIMIT 1 OFFSET $2)`
)

func placeUnread(row string, number int) db.Record {
	return db.Record{Table: SealedUnread.Name, Row: row, Version: int64(number)}
}

// keepUnread returns the statements that keep the beginning of the response to an attempt of
// the callback id. It seals it: the response may hold secrets.
func (o *Outbox) keepUnread(id string, number int, head []byte) []db.Statement {
	row := id + "/" + strconv.Itoa(number)
	key, sealed := o.Seal(placeUnread(row, number), []string{unreadPurpose}, [][]byte{head[:min(len(head), UnreadMost)]})
	return []db.Statement{{SQL: keepUnreadSQL, Args: []any{row, int64(number), key, sealed[0]}},
		{SQL: olderUnreadSQL, Args: []any{id, int64(unreadKept)}}}
}

// Unread returns what is kept of the responses to a callback, by the number of the attempt.
func (o *Outbox) Unread(ctx context.Context, id string) (map[int][]byte, error) {
	heads := map[int][]byte{}
	type row struct {
		id          string
		number      int
		key, sealed []byte
	}
	list, err := db.List(ctx, o, readUnreadSQL, []any{id}, func(r db.Rows) (u row, err error) {
		err = r.Scan(&u.id, &u.number, &u.key, &u.sealed)
		return u, err
	})
	for _, u := range list {
		plain, err := o.Unseal(placeUnread(u.id, u.number), []string{unreadPurpose}, u.key, [][]byte{u.sealed})
		if err != nil {
			return nil, err
		}
		heads[u.number] = plain[0]
	}
	return heads, err
}

// purgeUnread returns the statement that forgets what is kept of a callback.
func purgeUnread(id string) db.Statement { return db.Statement{SQL: dropUnreadSQL, Args: []any{id}} }
