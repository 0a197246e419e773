package db

import (
	"cmp"
	"context"
	"slices"
)

// A feed is a table whose rows are numbered without gaps, in the order in which their transactions commit. Its last
// number is a row of the table feeds. A transaction that takes the next number waits for the commit of the
// transaction that took the previous one. So a transaction takes its numbers last, and all transactions take the
// numbers of several feeds in the same order.
const (
	lockFeedSQL  = `SELECT last_seq FROM feeds WHERE name = $1{lock}`
	writeFeedSQL = `UPDATE feeds SET last_seq = $2 WHERE name = $1`
	feedEndSQL   = `SELECT last_seq FROM feeds WHERE name = $1`
	lastSeqsSQL  = `SELECT name, last_seq FROM feeds`
)

// LockFeed returns the last number of a feed and keeps the feed locked until t ends.
func LockFeed(ctx context.Context, t *Tx, feed string) (seq int64, err error) {
	_, err = One(ctx, t, lockFeedSQL, []any{feed}, &seq)
	return seq, err
}

// EndFeed returns the statement that stores seq as the last number of a feed that t has locked.
func EndFeed(feed string, seq int64) Statement {
	return Statement{SQL: writeFeedSQL, Args: []any{feed, seq}}
}

// FeedEnd returns the last number of a feed.
func FeedEnd(ctx context.Context, q Querier, feed string) (seq int64, err error) {
	_, err = One(ctx, q, feedEndSQL, []any{feed}, &seq)
	return seq, err
}

// LastSeqs returns the last number of each feed.
func LastSeqs(ctx context.Context, q Querier) (map[string]int64, error) {
	return numbers(ctx, q, lastSeqsSQL)
}

// FeedOf returns the entries of a feed after a number that belong to the given owners, at most limit. read returns
// those of one owner, in order and at most limit. next is the number to continue after. It may be beyond entries of
// other owners, which are left out.
func FeedOf[T any](ctx context.Context, q Querier, feed string, owners []string, after int64, limit int, seq func(T) int64,
	read func(owner string) ([]T, error)) (list []T, next int64, err error) {
	// The end is read first, because an entry that is appended meanwhile may be missing for one owner.
	end, err := FeedEnd(ctx, q, feed)
	if err != nil {
		return nil, after, err
	}
	for _, owner := range owners {
		part, err := read(owner)
		if err != nil {
			return nil, after, err
		}
		list = append(list, part...)
	}
	list = slices.DeleteFunc(list, func(v T) bool { return seq(v) > end })
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(seq(a), seq(b)) })
	if len(list) >= limit {
		list = list[:limit]
		return list, seq(list[limit-1]), nil
	}
	return list, max(after, end), nil
}
