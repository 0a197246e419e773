package api

import (
	"countersign/client"
	"countersign/internal/db"
)

// AlarmOf is an alarm as the APIs show it.
func AlarmOf(a db.Alarm) client.Alarm {
	return client.Alarm{Seq: a.Seq, Merchant: a.Of, Kind: a.Kind, Text: a.Kind.Text(), Subject: a.Subject, Number: a.Number, Examples: a.Examples,
		First: TimeOf(a.At), Last: TimeOf(a.Last), Acked: TimeOf(a.Acked), AckedBy: a.AckedBy, AckedName: a.AckedName, AckedNote: a.AckedNote,
		Ended: TimeOf(a.Ended), EndedText: a.EndedText}
}

// alarmQuery selects a page of alarms.
type alarmQuery struct {
	Merchant string            `query:"merchant" minLength:"1" maxLength:"64" doc:"only about this merchant; at the gateway none is"`
	Kind     client.AlarmKind  `query:"kind" doc:"only of this kind"`
	State    client.AlarmState `query:"state" doc:"open: only alarms that nobody has acknowledged and that have not ended; acked: only those that somebody has acknowledged; ended: only those that have ended by themselves"`
	SeqPage
}

// alarms lists alarms. For a bound token there are its merchants' alone.
func (o Common) alarms(c *Call, q alarmQuery, _ None) (client.AlarmPage, error) {
	out := client.AlarmPage{Alarms: []client.Alarm{}}
	list, next, err := o.Lists.AlarmsWhere(c.R.Context(), db.AlarmFilter{Of: c.Token.BoundTo(), Merchant: q.Merchant, Kind: q.Kind, State: q.State}, q.Limit, q.Cursor)
	for _, a := range list {
		out.Alarms = append(out.Alarms, AlarmOf(a))
	}
	out.Next = NextSeq(next)
	return out, err
}

// ackAlarm acknowledges an alarm.
func (o Common) ackAlarm(c *Call, seq int64, in client.Ack) (client.Alarm, error) {
	switch a, err := o.Rows.Alarm(c.R.Context(), seq); {
	case err != nil:
		return client.Alarm{}, err
	case !c.Sees(a.Of):
		return client.Alarm{}, db.ErrNotFound
	}
	a, err := o.Rows.AckAlarm(c.R.Context(), seq, db.AlarmAck{By: c.Token.ID, Name: c.Token.Name, Note: in.Note, At: c.Now})
	return AlarmOf(a), err
}

// ackAlarms acknowledges the open alarms that match, of a bound token its merchants' alone.
func (o Common) ackAlarms(c *Call, _ None, in client.AckAlarms) (client.AckedAlarms, error) {
	c.Concerns(in.Filter.Merchant)
	if in.Filter == (client.AlarmSelection{}) {
		return client.AckedAlarms{}, Invalid(At("body.filter", "is empty; give at least one member"))
	}
	f := db.AlarmFilter{Of: c.Token.BoundTo(), Merchant: in.Filter.Merchant, Kind: in.Filter.Kind}
	ack := db.AlarmAck{By: c.Token.ID, Name: c.Token.Name, Note: in.Note, At: c.Now}
	out := client.AckedAlarms{DryRun: in.DryRun}
	var err error
	out.Kinds, out.UpTo, err = o.Rows.AckAlarms(c.R.Context(), f, in.UpTo, ack, in.DryRun)
	for _, n := range out.Kinds {
		out.Count += n
	}
	return out, err
}

// testAlarm posts a test and shows how that ended.
func (o Common) testAlarm(c *Call, _ None, _ None) (client.AlarmTest, error) {
	if o.TestAlarm == nil {
		return client.AlarmTest{}, &db.ConflictError{Reason: "alarms are posted nowhere: start with --alarm-url"}
	}
	return o.TestAlarm(c.R.Context())
}
