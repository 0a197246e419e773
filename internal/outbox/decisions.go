package outbox

import (
	"context"

	"countersign/client"
	"countersign/internal/db"
)

// FeedOfDecisions is the feed of the decisions. Every transaction locks it after the feed of alarms.
const FeedOfDecisions = "decisions"

// feedEntries collects what a transaction appends to the feeds at its end.
type feedEntries struct {
	alarms    []client.Alarm
	decisions [][2]string // merchant and the withdrawal's part of the id
}

func (f *feedEntries) alarm(merchant string, kind client.AlarmKind, subject string, at db.Millis) {
	f.alarms = append(f.alarms, client.Alarm{Merchant: merchant, Kind: kind, Subject: subject, First: at})
}

func (f *feedEntries) decision(merchant, id string) {
	f.decisions = append(f.decisions, [2]string{merchant, id})
}

const insertDecisionSQL = `INSERT INTO decisions (seq, merchant, withdrawal) VALUES ($1, $2, $3)`

func (f *feedEntries) write(ctx context.Context, t *db.Tx) error {
	if err := db.RaiseAlarms(ctx, t, f.alarms); err != nil || len(f.decisions) == 0 {
		return err
	}
	seq, err := db.LockFeed(ctx, t, FeedOfDecisions)
	if err != nil {
		return err
	}
	statements := make([]db.Statement, 0, len(f.decisions)+1)
	for _, d := range f.decisions {
		seq++
		statements = append(statements, db.Statement{SQL: insertDecisionSQL, Args: []any{seq, d[0], d[1]}})
	}
	t.Wake(TopicDecisions)
	return t.Batch(ctx, append(statements, db.EndFeed(FeedOfDecisions, seq)))
}

const (
	readDecisionsSQL = `
SELECT d.seq, ` + withdrawalColumns + `
FROM decisions d JOIN withdrawals w ON w.merchant = d.merchant AND w.id = d.withdrawal WHERE `
	listDecisionsSQL = readDecisionsSQL + `d.seq > $1 ORDER BY d.seq LIMIT CAST($2 AS BIGINT)`
	decisionsOfSQL   = readDecisionsSQL + `d.merchant = $1 AND d.seq > $2 ORDER BY d.seq LIMIT CAST($3 AS BIGINT)`
)

// Decisions returns the decisions after number after, in order and without gaps. Each has its withdrawal in its
// present state.
func (o *Outbox) Decisions(ctx context.Context, after int64, limit int) ([]FeedDecision, error) {
	return o.decisions(ctx, listDecisionsSQL, after, limit)
}

// DecisionsOf returns the decisions after number after on withdrawals of some merchants, in order. It also returns
// the number to continue after.
func (o *Outbox) DecisionsOf(ctx context.Context, merchants []string, after int64,
	limit int) ([]FeedDecision, int64, error) {
	return db.FeedOf(ctx, o, FeedOfDecisions, merchants, after, limit, func(d FeedDecision) int64 { return d.Seq },
		func(m string) ([]FeedDecision, error) { return o.decisions(ctx, decisionsOfSQL, m, after, limit) })
}

func (o *Outbox) decisions(ctx context.Context, text string, args ...any) ([]FeedDecision, error) {
	return db.List(ctx, o, text, args, func(r db.Rows) (d FeedDecision, err error) {
		d.Withdrawal, err = scanWithdrawal(r, &d.Seq)
		return d, err
	})
}
