package outbox

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

const (
	minute       db.Millis = 60_000
	healthKept             = 60 // minutes
	failingAfter           = 10 * minute
	failingShare           = 20 // attempts of which half failed
	failingAll             = 10 // attempts that failed, and none was accepted
	failingNew             = 3  // attempts that failed at a merchant that never accepted one
)

// counts says whether an attempt says something of its merchant, and whether it failed. What
// ended because of this node or of a person here says nothing.
func (b *settling) counts() (counts, failed bool) {
	switch b.Attempt.Reason {
	case client.ReasonStopped, client.ReasonOpenFiles, client.ReasonInternal, client.ReasonFrozen, client.ReasonPaused, client.ReasonOlderVersion,
		client.ReasonKeyRefused, client.ReasonNotOpened:
		return false, false
	case client.ReasonLate:
		if b.Attempt.HTTPStatus == 0 { // it may not have been sent
			return false, false
		}
	case client.ReasonMerchantRefused:
		return true, b.Type != countersign.TypeRequestWithdraw
	}
	return true, b.Attempt.Result != client.AttemptAccepted && b.Attempt.Result != client.AttemptHold
}

var (
	keepEnded = db.NewInsert(`
INSERT INTO ended (merchant, minute, reason, failed, n) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (merchant, minute, reason, failed) DO UPDATE SET n = ended.n + excluded.n`, 50, 10)

	keepHealth = db.NewInsert(`
INSERT INTO health (merchant, reached, accepted, failing, failed, callback, reason, facts) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (merchant) DO UPDATE SET
	reached = CASE WHEN excluded.reached > 0 THEN excluded.reached ELSE health.reached END,
	accepted = CASE WHEN excluded.accepted > 0 THEN excluded.accepted ELSE health.accepted END,
	failing = CASE WHEN excluded.accepted > 0 THEN 0 WHEN health.failing > 0 THEN health.failing ELSE excluded.failing END,
	callback = CASE WHEN excluded.failed > 0 THEN excluded.callback ELSE health.callback END,
	reason = CASE WHEN excluded.failed > 0 THEN excluded.reason ELSE health.reason END,
	facts = CASE WHEN excluded.failed > 0 THEN excluded.facts ELSE health.facts END,
	failed = CASE WHEN excluded.failed > 0 THEN excluded.failed ELSE health.failed END`, 50, 10)
)

// settleHealth returns the statements that count the attempts of a batch. They come after the
// lanes, in the order of the merchants.
func settleHealth(batch []*settling, now db.Millis) []db.Statement {
	type endedKey struct {
		merchant string
		reason   client.Reason
		failed   bool
	}
	counts := map[endedKey]int64{}
	merchants := map[string]*struct{ reached, accepted, failed db.Millis }{}
	last := map[string]*settling{}
	for _, b := range batch {
		is, failed := b.counts()
		if !b.found || !is {
			continue
		}
		counts[endedKey{b.Merchant, b.Attempt.Reason, failed}]++
		h := merchants[b.Merchant]
		if h == nil {
			h = &struct{ reached, accepted, failed db.Millis }{}
			merchants[b.Merchant] = h
		}
		if b.Reached {
			h.reached = now
		}
		if failed {
			h.failed, last[b.Merchant] = now, b
		} else {
			h.accepted = now
		}
	}
	var rows, args []any
	for _, k := range slices.SortedFunc(maps.Keys(counts), func(a, b endedKey) int {
		return cmp.Or(cmp.Compare(a.merchant, b.merchant), cmp.Compare(a.reason, b.reason), cmp.Compare(flag(a.failed), flag(b.failed)))
	}) {
		rows = append(rows, k.merchant, int64(now/minute), db.Clean(string(k.reason)), flag(k.failed), counts[k])
	}
	for _, m := range slices.Sorted(maps.Keys(merchants)) {
		h := merchants[m]
		callback, reason, facts, failing := "", "", "", db.Millis(0)
		if b := last[m]; b != nil {
			callback, reason, facts = b.CallbackID, db.Clean(string(b.Attempt.Reason)), b.Attempt.factsText()
			if h.accepted == 0 {
				failing = now
			}
		}
		args = append(args, m, int64(h.reached), int64(h.accepted), int64(failing), int64(h.failed), callback, reason, facts)
	}
	return append(keepEnded.Statements(rows, nil), keepHealth.Statements(args, nil)...)
}

const (
	readHealthSQL = `SELECT merchant, reached, accepted, failing, told, failed, callback, reason, facts FROM health WHERE merchant {in}$1{end}`
	readEndedSQL  = `
SELECT merchant, reason, failed, CAST(SUM(n) AS BIGINT) FROM ended WHERE merchant {in}$1{end} AND minute > $2
GROUP BY merchant, reason, failed ORDER BY merchant, 4 DESC, reason`
)

// Health returns the health of those merchants of list that were called.
func (o *Outbox) Health(ctx context.Context, list []string, now db.Millis) (map[string]*client.MerchantHealth, error) {
	all, told := map[string]*client.MerchantHealth{}, map[string]bool{}
	of := o.Dialect().List(list)
	err := db.Each(ctx, o, readHealthSQL, []any{of}, func(r db.Rows) error {
		var merchant, facts string
		var is int64
		var h client.MerchantHealth
		var f client.FailedAttempt
		err := r.Scan(&merchant, &h.LastReached, &h.LastAccepted, &h.FailingSince, &is, &f.At, &f.Callback, &f.Reason, &facts)
		h.Failing = is == 1
		told[merchant] = h.Failing
		if f.At != 0 {
			f.Facts, f.Text = factsOf(facts), f.Reason.Text()
			h.LastFailure = &f
		}
		all[merchant] = &h
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, db.Each(ctx, o, readEndedSQL, []any{of, int64(now/minute) - healthKept}, func(r db.Rows) error {
		var merchant string
		var failed int64
		var n client.ReasonCount
		err := r.Scan(&merchant, &n.Reason, &failed, &n.Count)
		if h := all[merchant]; h != nil {
			h.Attempts += n.Count
			if failed == 1 {
				h.Failed += n.Count
				h.Reasons = append(h.Reasons, n)
			}
			all := h.FailingSince > 0 && h.Attempts >= failingAll && h.Failed == h.Attempts // the alarm comes half a minute later
			h.Failing = told[merchant] || all
		}
		return err
	})
}

const (
	dropEndedSQL = `DELETE FROM ended WHERE minute <= $1`

	// Merchants of whose attempts none was accepted for a time, or too few, or none ever.
	failingSQL = `
SELECT h.merchant, h.told, h.reason, h.facts FROM health h JOIN merchants m ON m.id = h.merchant AND m.state = 'active'
WHERE h.failing > 0 AND h.failing <= $1
UNION SELECT h.merchant, h.told, h.reason, h.facts FROM health h JOIN merchants m ON m.id = h.merchant AND m.state = 'active'
WHERE h.merchant IN (SELECT merchant FROM ended WHERE minute > $2 GROUP BY merchant HAVING SUM(n) >= $3 AND 2 * SUM(failed * n) >= SUM(n))
UNION SELECT h.merchant, h.told, h.reason, h.facts FROM health h JOIN merchants m ON m.id = h.merchant AND m.state = 'active'
WHERE h.failing > 0 AND h.merchant IN (SELECT merchant FROM ended WHERE minute > $2 GROUP BY merchant HAVING SUM(n) >= $5 AND SUM(failed * n) = SUM(n))
UNION SELECT h.merchant, h.told, h.reason, h.facts FROM health h JOIN merchants m ON m.id = h.merchant AND m.state = 'active'
WHERE h.accepted = 0 AND h.failing > 0 AND h.merchant IN (SELECT merchant FROM ended WHERE minute > $2 GROUP BY merchant HAVING SUM(failed * n) >= $4)`

	commonestSQL = `
SELECT reason FROM ended WHERE merchant = $1 AND minute > $2 AND failed = 1 GROUP BY reason ORDER BY SUM(n) DESC, reason LIMIT 1`

	// A merchant has recovered when its last answer was taken and fewer than a quarter of its
	// attempts failed: at a half, the alarm would come and go. One that is not active any more
	// has nothing to recover.
	recoveredSQL = `
SELECT h.merchant FROM health h WHERE h.told = 1 AND (NOT EXISTS (SELECT 1 FROM merchants m WHERE m.id = h.merchant AND m.state = 'active')
	OR h.failing = 0 AND h.merchant NOT IN (
		SELECT merchant FROM ended WHERE minute > $1 GROUP BY merchant HAVING SUM(n) >= $2 AND 4 * SUM(failed * n) >= SUM(n)))`

	tellSQL   = `UPDATE health SET told = 1 WHERE merchant = $1 AND told = 0`
	untellSQL = `UPDATE health SET told = 0 WHERE merchant = $1 AND told = 1`
)

// healthSweep remembers when a process looked last.
type healthSweep struct {
	mu     sync.Mutex
	looked db.Millis
}

func (s *healthSweep) due(now db.Millis) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now >= s.looked && now-s.looked < minute/2 {
		return false
	}
	s.looked = now
	return true
}

// sweep raises AlarmMerchantFailing for merchants that fail, forgets what is older than an
// hour, and ends the alarms whose cause is over.
func (s *healthSweep) sweep(ctx context.Context, o *Outbox, now db.Millis) error {
	if !s.due(now) {
		return nil
	}
	type row struct {
		merchant string
		told     int64
		reason   string // of the last failure, as facts
		facts    string
	}
	failing, err := db.List(ctx, o, failingSQL, []any{int64(now - failingAfter), int64((now - failingAfter) / minute), int64(failingShare), int64(failingNew), int64(failingAll)}, func(r db.Rows) (f row, err error) {
		err = r.Scan(&f.merchant, &f.told, &f.reason, &f.facts)
		return f, err
	})
	if err != nil {
		return fmt.Errorf("failing merchants: %w", err)
	}
	recovered, err := db.List(ctx, o, recoveredSQL, []any{int64((now - failingAfter) / minute), int64(failingShare)}, func(r db.Rows) (m string, err error) {
		err = r.Scan(&m)
		return m, err
	})
	if err != nil {
		return err
	}
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if _, err := t.Exec(ctx, dropEndedSQL, int64(now/minute)-healthKept); err != nil {
			return err
		}
		var alarms []db.Alarm
		for _, f := range failing {
			if f.told == 1 {
				continue
			}
			switch n, err := t.Exec(ctx, tellSQL, f.merchant); {
			case err != nil:
				return err
			case n == 0: // another node told
				continue
			}
			subject := f.reason
			if _, err := db.One(ctx, t, commonestSQL, []any{f.merchant, int64((now - failingAfter) / minute)}, &subject); err != nil {
				return err
			}
			if facts := factsOf(f.facts); facts != nil && subject == f.reason {
				subject += ": " + facts.Text() // so that whoever gets the alarm knows what to mend
			}
			alarms = append(alarms, db.Alarm{Of: f.merchant, Kind: client.AlarmMerchantFailing, Subject: subject, At: now})
		}
		for _, m := range recovered {
			if _, err := t.Exec(ctx, untellSQL, m); err != nil {
				return err
			}
		}
		return db.RaiseAlarms(ctx, t, alarms)
	})
	if err != nil {
		return err
	}
	return o.endAlarms(ctx, now)
}
