package outbox

import (
	"context"

	"countersign/internal/db"
)

// decisionsFeed numbers the decisions. Every transaction locks it after the alarms.
const decisionsFeed = "decisions"

// feedEntries gathers what a transaction appends to the feeds at its end.
type feedEntries struct {
	alarms    []db.Alarm
	decisions [][2]string // merchant and the withdrawal's part of the id
}

func (f *feedEntries) alarm(merchant, kind, subject string, at db.Millis) {
	f.alarms = append(f.alarms, db.Alarm{Of: merchant, Kind: kind, Subject: subject, At: at})
}

func (f *feedEntries) decision(merchant, id string) {
	f.decisions = append(f.decisions, [2]string{merchant, id})
}

const insertDecisionSQL = `INSERT INTO decisions (seq, merchant, withdrawal) VALUES ($1, $2, $3)`

// write appends everything.
func (f *feedEntries) write(ctx context.Context, t *db.Tx) error {
	if err := db.RaiseAlarms(ctx, t, f.alarms); err != nil || len(f.decisions) == 0 {
		return err
	}
	seq, err := db.LockFeed(ctx, t, decisionsFeed)
	if err != nil {
		return err
	}
	statements := make([]db.Statement, 0, len(f.decisions)+1)
	for _, d := range f.decisions {
		seq++
		statements = append(statements, db.Statement{SQL: insertDecisionSQL, Args: []any{seq, d[0], d[1]}})
	}
	t.Wake(TopicDecisions)
	return t.Batch(ctx, append(statements, db.EndFeed(decisionsFeed, seq)))
}

const listDecisionsSQL = `
SELECT d.seq, ` + withdrawalColumns + `
FROM decisions d JOIN withdrawals w ON w.merchant = d.merchant AND w.id = d.withdrawal
WHERE d.seq > $1 ORDER BY d.seq LIMIT CAST($2 AS BIGINT)`

// Decisions gives the decisions after seq after, in order and without gaps, with the
// withdrawals in their present state.
func (o *Outbox) Decisions(ctx context.Context, after int64, limit int) ([]FeedDecision, error) {
	var list []FeedDecision
	err := db.Each(ctx, o, listDecisionsSQL, []any{after, limit}, func(r db.Rows) error {
		var d FeedDecision
		var err error
		d.Withdrawal, err = scanWithdrawal(r, &d.Seq)
		list = append(list, d)
		return err
	})
	return list, err
}
