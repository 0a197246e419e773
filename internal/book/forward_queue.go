package book

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

const (
	positionsSQL = `SELECT feed, seq, begun FROM forwarding ORDER BY feed`

	beginForwardingSQL = `UPDATE forwarding SET seq = $2, begun = $3 WHERE feed = $1 AND begun = 0`
)

// positions returns how far each feed was handed to the forwarding.
func positions(ctx context.Context, q db.Querier, text string) ([]client.ForwardingFeed, error) {
	last, err := db.LastSeqs(ctx, q)
	if err != nil {
		return nil, err
	}
	return db.List(ctx, q, text, nil, func(r db.Rows) (p client.ForwardingFeed, err error) {
		err = r.Scan(&p.Feed, &p.Position, &p.Begun)
		// A row that was read later may be ahead of the numbers.
		p.Last = max(last[string(p.Feed)], p.Position)
		return p, err
	})
}

// BeginForwarding begins to forward the feeds that were never forwarded: with their first entry, or
// with the next new one if only what is new is to be forwarded. It returns these feeds.
func (b *Book) BeginForwarding(ctx context.Context, onlyNew bool, now db.Millis) (begun []client.ForwardingFeed, err error) {
	err = b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		begun = nil
		list, err := positions(ctx, t, positionsSQL+"{lock}")
		if err != nil {
			return err
		}
		purged, err := purgedUpTo(ctx, t)
		if err != nil {
			return err
		}
		for _, p := range list {
			switch {
			case p.Begun != 0:
				continue
			case onlyNew:
				p.Position = p.Last
			case p.Feed == client.FeedOfDeposits && purged > 0:
				return &db.ConflictError{Reason: fmt.Sprintf("deposits up to number %d were purged and cannot be forwarded", purged)}
			}
			p.Begun = max(1, now)
			begun = append(begun, p)
			if _, err := t.Exec(ctx, beginForwardingSQL, string(p.Feed), p.Position, int64(p.Begun)); err != nil {
				return err
			}
			if err := journal.Add(ctx, t, journal.Record{Kind: journal.ForwardingBegun, At: now,
				Data: journal.Forward{Feed: string(p.Feed), Seq: p.Position + 1}}); err != nil {
				return err
			}
		}
		return nil
	})
	return begun, err
}

const (
	// A feed's entries are recorded in the order of their numbers.
	oldestForwardSQL = `SELECT created FROM forwards WHERE feed = $1 AND skipped = 0 ORDER BY seq LIMIT 1`

	oldestFreshDepositSQL = `SELECT taken FROM deposits
WHERE seq > (SELECT seq FROM forwarding WHERE feed = 'deposits' AND begun > 0) ORDER BY seq LIMIT 1`
	oldestFreshEventSQL = `SELECT at FROM events
WHERE seq > (SELECT seq FROM forwarding WHERE feed = 'events' AND begun > 0) ORDER BY seq LIMIT 1`
)

// Forwarding returns how far the feeds were forwarded, without the entries that failed. Its cost does
// not grow with their number.
func (b *Book) Forwarding(ctx context.Context) (client.Forwarding, error) {
	var s client.Forwarding
	epochs, err := db.ReadEpochs(ctx, b)
	if err != nil {
		return s, err
	}
	// Before the counts: what is handed over in between is in both, and not in neither.
	if s.Feeds, err = positions(ctx, b, positionsSQL); err != nil {
		return s, err
	}
	counts, err := db.Counts(ctx, b)
	if err != nil {
		return s, err
	}
	s.Retrying, s.Skipped = counts[countForwards], counts[countSkipped]
	s.Waiting = s.Retrying
	for _, p := range s.Feeds {
		if p.Begun != 0 {
			s.Waiting += epochs.Between(string(p.Feed), p.Position, p.Last)
		}
	}
	oldest := func(r db.Rows) error {
		var at db.Millis
		err := r.Scan(&at)
		if s.Oldest == 0 || at < s.Oldest {
			s.Oldest = at
		}
		return err
	}
	return s, b.Batch(ctx, []db.Statement{
		{SQL: oldestForwardSQL, Args: []any{feedDeposits}, Row: oldest},
		{SQL: oldestForwardSQL, Args: []any{feedEvents}, Row: oldest},
		{SQL: oldestFreshDepositSQL, Row: oldest},
		{SQL: oldestFreshEventSQL, Row: oldest},
	})
}

// ForwardID is the webhook-id of an entry.
func ForwardID(feed client.FeedName, seq int64) string {
	if feed == client.FeedOfEvents {
		return "event_" + strconv.FormatInt(seq, 10)
	}
	return "deposit_" + strconv.FormatInt(seq, 10)
}

var forwardIDText = regexp.MustCompile(`^(deposit|event)_([1-9][0-9]{0,17})$`)

// ParseForwardID inverts ForwardID. known is false for any other text.
func ParseForwardID(id string) (feed client.FeedName, seq int64, known bool) {
	m := forwardIDText.FindStringSubmatch(id)
	if m == nil {
		return "", 0, false
	}
	seq, err := strconv.ParseInt(m[2], 10, 64)
	return client.FeedName(m[1] + "s"), seq, err == nil
}

const (
	forwardColumns = `feed, seq, attempts, sending, due, created, reason, skipped, skipped_by, skip_reason`

	failedForwardsSQL = `SELECT ` + forwardColumns + ` FROM forwards
WHERE (feed, seq) > ($1, $2) AND skipped = 0 AND reason <> '' ORDER BY feed, seq LIMIT CAST($3 AS BIGINT)`

	skippedForwardsSQL = `SELECT ` + forwardColumns + ` FROM forwards
WHERE (feed, seq) > ($1, $2) AND skipped > 0 ORDER BY feed, seq LIMIT CAST($3 AS BIGINT)`

	readForwardSQL = `SELECT ` + forwardColumns + ` FROM forwards WHERE feed = $1 AND seq = $2{lock}`
)

// Forwards returns the entries after one of a feed, deposits before events, that the application does
// not have: those that were sent in vain, or those that a person gave up.
func (b *Book) Forwards(ctx context.Context, skipped bool, feed client.FeedName, seq int64, limit int) ([]client.Forward, error) {
	text := failedForwardsSQL
	if skipped {
		text = skippedForwardsSQL
	}
	return db.List(ctx, b, text, []any{string(feed), seq, limit}, scanForward)
}

func scanForward(r db.Rows) (f client.Forward, err error) {
	var feed client.FeedName
	var seq, sending int64
	err = r.Scan(&feed, &seq, &f.Attempts, &sending, &f.Due, &f.Created, &f.LastError, &f.Skipped, &f.SkippedBy, &f.Reason)
	f.ID = ForwardID(feed, seq)
	if f.Sending = sending != 0 && f.Skipped == 0; f.Skipped != 0 {
		f.Due = 0
	}
	return f, err
}

const (
	retryForwardsSQL = `UPDATE forwards SET due = $1 WHERE skipped = 0 AND sending = 0 AND due > $1`

	retryForwardSQL = `
UPDATE forwards SET due = $3, sending = 0, skipped = 0, skipped_by = '', skip_reason = ''
WHERE feed = $1 AND seq = $2 AND (skipped > 0 OR sending = 0)`

	skipForwardSQL = `UPDATE forwards SET due = $3, skipped = $4, skipped_by = $5, skip_reason = $6 WHERE feed = $1 AND seq = $2 AND skipped = 0`
)

// RetryForwards makes all entries due that were sent in vain, and gives their number.
func (b *Book) RetryForwards(ctx context.Context, now db.Millis) (n int64, err error) {
	err = b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		// Two that change the same rows at once could wait for each other.
		if err := lockForwarding(ctx, t); err != nil {
			return err
		}
		t.Wake(TopicForwards)
		if n, err = t.Exec(ctx, retryForwardsSQL, int64(now)); err != nil {
			return err
		}
		return journal.Add(ctx, t, journal.Record{Kind: journal.ForwardRetried, At: now, Data: journal.Forward{Retried: n}})
	})
	return n, err
}

// RetryForward makes one entry due, also one that was given up. While an attempt is
// under way it changes nothing.
func (b *Book) RetryForward(ctx context.Context, id string, now db.Millis) (client.Forward, error) {
	return b.changeForward(ctx, id, journal.Record{Kind: journal.ForwardRetried, At: now}, "", retryForwardSQL, int64(now))
}

// SkipForward gives an entry up: it is not sent again. An attempt that is under way
// may still bring it to the application, and then it is no longer listed. Repeating
// it changes nothing.
func (b *Book) SkipForward(ctx context.Context, id, by, reason string, now db.Millis) (client.Forward, error) {
	if err := checkTexts("reason", reason); err != nil {
		return client.Forward{}, err
	}
	return b.changeForward(ctx, id, journal.Record{Kind: journal.ForwardSkipped, At: now}, reason,
		skipForwardSQL, int64(db.Never), int64(now), by, reason)
}

// changeForward changes the row of an entry, records that, and returns the row as it is then.
func (b *Book) changeForward(ctx context.Context, id string, record journal.Record, reason, text string, args ...any) (f client.Forward, err error) {
	feed, seq, known := ParseForwardID(id)
	if !known {
		return f, db.ErrNotFound
	}
	at := []any{string(feed), seq}
	err = b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if f, err = db.Find(ctx, t, readForwardSQL, at, scanForward); isNotFound(err) {
			return noForward(ctx, t, feed, seq)
		}
		if err != nil {
			return err
		}
		skipped := bit(f.Skipped != 0)
		if n, err := t.Exec(ctx, text, append(at, args...)...); err != nil || n == 0 {
			return err
		}
		t.Wake(TopicForwards)
		record.Data = journal.Forward{Feed: string(feed), Seq: seq, Reason: reason}
		if err := journal.Add(ctx, t, record); err != nil {
			return err
		}
		if f, err = db.Find(ctx, t, readForwardSQL, at, scanForward); err != nil {
			return err
		}
		skipped -= bit(f.Skipped != 0)
		return t.Batch(ctx, t.Counted(t.Counted(nil, countSkipped, -skipped), countForwards, skipped))
	})
	return f, err
}

// noForward says why an entry has no row.
func noForward(ctx context.Context, t *db.Tx, feed client.FeedName, seq int64) error {
	list, err := positions(ctx, t, positionsSQL)
	for _, p := range list {
		switch {
		case p.Feed != feed:
		case seq > p.Last:
			return db.ErrNotFound
		case seq > p.Position || p.Begun == 0:
			return &db.ConflictError{Reason: "the entry was not sent yet"}
		default:
			return &db.ConflictError{Reason: "the entry does not wait: the application has it, or forwarding began after it"}
		}
	}
	return err
}
