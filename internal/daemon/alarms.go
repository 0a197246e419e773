package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/web"
)

// AlarmPosting configures where a daemon posts its alarms.
type AlarmPosting struct {
	// URL is http or https; private networks are allowed. Empty: nothing is posted.
	URL string
	// Secret signs the messages. Nil: they are not signed; chats check no signature.
	Secret web.Secret
}

const (
	alarmPoll  = 2 * time.Second // between two looks for messages
	alarmGrace = 15 * time.Second
)

var alarmDelay = web.RetryDelay // shorter in a test

// alarmPoster posts the messages about the alarms of one end, one at a time. Several processes of one database share
// the work. Each message is posted until it is taken or is a week old, with the alarm in its state at that time.
type alarmPoster struct {
	db      *db.DB
	to      *web.Poster
	journal *journal.Log
	now     func() time.Time
	log     *slog.Logger
	random  func() float64
}

// Run posts until ctx ends.
func (p *alarmPoster) Run(ctx context.Context) error {
	defer p.to.Close()
	for {
		var err error
		for more := true; more && err == nil && ctx.Err() == nil; {
			more, err = p.one(ctx)
		}
		if err != nil && ctx.Err() == nil {
			p.log.Error("alarms to be posted cannot be read", "error", err)
		}
		select {
		case <-time.After(p.db.Every(alarmPoll)):
		case <-ctx.Done():
			return nil
		}
	}
}

// one posts one message, and reports whether there was one.
func (p *alarmPoster) one(ctx context.Context) (bool, error) {
	began := time.Now()
	post, found, err := p.db.ClaimAlarmPost(ctx, db.MillisOf(p.now()), p.to.Timeout()+alarmGrace)
	if err != nil || !found {
		return false, err
	}
	if time.Since(began) > alarmGrace/2 { // the process stalled: another may have it soon
		return true, nil
	}
	// An attempt that has begun is finished even if the process stops.
	ctx = context.WithoutCancel(ctx)
	id, body, err := alarmMessage(p.journal.End(), p.journal.Newest(ctx), post)
	if err != nil {
		return false, err
	}
	result, status, err := p.to.Post(ctx, id, body)
	attrs := []slog.Attr{slog.String("message", string(post.Event)), slog.Int64("alarm", post.Alarm.Seq),
		slog.String("kind", string(post.Alarm.Kind)), slog.Int("attempt", post.Attempts),
		slog.String("result", string(result))}
	if result == web.Posted {
		p.log.LogAttrs(ctx, slog.LevelInfo, "alarm posted", attrs...)
		return true, p.db.SettleAlarmPost(ctx, post, true, 0)
	}
	attrs = append(attrs, slog.Int("status", status))
	if err != nil {
		attrs = append(attrs, slog.String("error", web.WithoutURL(err)))
	}
	p.log.LogAttrs(ctx, slog.LevelWarn, "alarm not posted", attrs...)
	return true, p.db.SettleAlarmPost(ctx, post, false, db.MillisOf(p.now().Add(alarmDelay(post.Attempts, p.random()))))
}

// alarmMessage returns the id and the body of a message. The id is the same in each attempt.
func alarmMessage(end, checkpoint string, p db.AlarmPost) (id string, body []byte, err error) {
	text := alarmText(end, p)
	body, err = json.Marshal(client.PostedAlarm{Event: p.Event, Timestamp: p.At(), Text: text, Content: text,
		Data: p.Alarm, Checkpoint: checkpoint})
	id = fmt.Sprintf("%s_alarm_%d", end, p.Alarm.Seq)
	switch p.Event {
	case client.MessageAlarmGrown:
		id += fmt.Sprintf("_%d", p.Step)
	case client.MessageAlarmEnded:
		id += "_ended"
	}
	return id, body, err
}

// test posts one message that calls itself a test, and returns the result.
func (p *alarmPoster) test(ctx context.Context) (client.AlarmTest, error) {
	now := p.now()
	text := fmt.Sprintf("countersign %s: a test of alarms. Nothing is wrong.", p.journal.End())
	body, err := json.Marshal(client.PostedAlarm{Event: client.MessageAlarmTest, Timestamp: db.MillisOf(now), Text: text,
		Content: text})
	if err != nil {
		return client.AlarmTest{}, err
	}
	result, status, err := p.to.Post(ctx, fmt.Sprintf("%s_alarm_test_%d", p.journal.End(), now.UnixNano()), body)
	out := client.AlarmTest{Taken: result == web.Posted, Status: status}
	if err != nil {
		out.Error = web.WithoutURL(err)
	}
	return out, nil
}
