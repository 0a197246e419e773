package db

import "context"

// A feed is a table whose rows are numbered without gaps, in the order in which
// their transactions commit. Its last number is a row of the table feeds. A
// transaction that takes the next number waits for the commit of the one that took
// the number before. So a transaction takes its numbers last, and all transactions
// take numbers of several feeds in the same order.
const (
	lockFeedSQL  = `SELECT last_seq FROM feeds WHERE name = $1{lock}`
	writeFeedSQL = `UPDATE feeds SET last_seq = $2 WHERE name = $1`
	lastSeqsSQL  = `SELECT name, last_seq FROM feeds`
)

// LockFeed gives the last number of a feed and locks it until t ends.
func LockFeed(ctx context.Context, t *Tx, feed string) (seq int64, err error) {
	_, err = One(ctx, t, lockFeedSQL, []any{feed}, &seq)
	return seq, err
}

// EndFeed is the statement that stores seq as the last number of a feed that t has
// locked.
func EndFeed(feed string, seq int64) Statement {
	return Statement{SQL: writeFeedSQL, Args: []any{feed, seq}}
}

// LastSeqs gives the last number of each feed.
func LastSeqs(ctx context.Context, q Querier) (map[string]int64, error) {
	return numbers(ctx, q, lastSeqsSQL)
}
