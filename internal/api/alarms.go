package api

import (
	"countersign/client"
	"countersign/internal/db"
)

// alarmQuery selects a page of alarms.
type alarmQuery struct {
	client.AlarmFilter
	SeqPage
}

// alarms lists alarms. A bound token sees those of its merchants only.
func (o Common) alarms(c *Call, q alarmQuery, _ None) (client.AlarmPage, error) {
	list, next, err := o.Lists.AlarmsWhere(c.R.Context(), c.Token.BoundTo(), q.AlarmFilter, q.Limit, q.Cursor)
	return client.AlarmPage{Alarms: append([]client.Alarm{}, list...), Next: NextSeq(next)}, err
}

// ackAlarm acknowledges an alarm.
func (o Common) ackAlarm(c *Call, seq int64, in client.Ack) (client.Alarm, error) {
	switch a, err := o.Rows.Alarm(c.R.Context(), seq); {
	case err != nil:
		return client.Alarm{}, err
	case !c.Sees(a.Merchant):
		return client.Alarm{}, db.ErrNotFound
	}
	return o.Rows.AckAlarm(c.R.Context(), client.Alarm{Seq: seq, Acked: c.Now, AckedBy: c.Token.ID, AckedName: c.Token.Name, AckedNote: in.Note})
}

// testAlarm posts a test message and returns the result.
func (o Common) testAlarm(c *Call, _ None, _ None) (client.AlarmTest, error) {
	if o.TestAlarm == nil {
		return client.AlarmTest{}, &db.ConflictError{Reason: "alarms are not posted: start this end with --alarm-url"}
	}
	return o.TestAlarm(c.R.Context())
}
