package outbox

import (
	"context"

	"countersign/client"
	"countersign/internal/db"
)

// quietFor is how long an alarm that can end by itself must not have been raised again before it ends.
const quietFor db.Millis = 3_600_000

// endedSinceSQL reads the 1,000 newest callbacks in a final state. It counts them, and those of them that ended since
// a time.
const endedSinceSQL = `
SELECT COUNT(*), CAST(COALESCE(SUM(CASE WHEN settled >= $2 AND lane = 0 THEN 1 ELSE 0 END), 0) AS BIGINT)
FROM (SELECT settled, lane FROM outbox WHERE merchant || '' = $1 AND state || '' = $3 AND settled > 0 ORDER BY id DESC LIMIT 1000) AS newest`

// endAlarms ends the alarms whose cause is over. It reads the alarms before it looks at the causes, so that an alarm
// that is raised meanwhile stays open.
func (o *Outbox) endAlarms(ctx context.Context, now db.Millis) error {
	standing, err := o.StandingAlarms(ctx, client.AlarmMerchantFailing, client.AlarmAnswerUnusable, client.AlarmExhausted,
		client.AlarmDepositRefused)
	if err != nil || len(standing) == 0 {
		return err
	}
	var merchants []string
	for _, a := range standing {
		merchants = append(merchants, a.Merchant)
	}
	health, err := o.Health(ctx, merchants)
	if err != nil {
		return err
	}
	var over []client.Alarm
	for _, a := range standing {
		ends, h := false, health[a.Merchant]
		switch a.Kind {
		case client.AlarmMerchantFailing:
			ends = h == nil || !h.Failing
		case client.AlarmAnswerUnusable:
			ends = now-a.Last >= quietFor && h != nil && h.LastAccepted > a.Last
		default:
			var n, since int64
			state := client.CallbackExhausted
			if a.Kind == client.AlarmDepositRefused {
				state = client.CallbackRefused
			}
			if _, err := db.One(ctx, o, endedSinceSQL, []any{a.Merchant, int64(a.First), string(state)}, &n,
				&since); err != nil {
				return err
			}
			ends = since == 0 && n < 1000
		}
		if ends {
			over = append(over, a)
		}
	}
	return o.EndStanding(ctx, over, now)
}
