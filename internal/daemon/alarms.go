package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/signed"
)

// AlarmPosting says where a daemon posts its alarms.
type AlarmPosting struct {
	// URL is http or https; private networks are allowed. Empty: nothing is posted.
	URL string
	// Secret signs. Empty: the one in the data directory, made on first start; with a
	// shared database it is required.
	Secret signed.Secret
}

// ErrAlarmSecret: a daemon posts alarms and shares its database with others, but was not
// given the secret that all of them must sign with.
var ErrAlarmSecret = errors.New("daemons of one database must sign alarms with one secret")

const (
	alarmPoll  = 2 * time.Second // between two looks for alarms
	alarmGrace = 15 * time.Second
)

// alarmPoster posts the alarms of one end, one at a time. Several processes of one
// database share the work: each alarm is posted until somebody answers 2xx, with the
// same webhook-id and body in every attempt.
type alarmPoster struct {
	db  *db.DB
	end string // "service" or "gateway"
	to  *signed.Poster
	now func() time.Time
	log *slog.Logger
}

// alarmPoster gives the part that posts alarms of d: from now on, if nobody has posted
// any before.
func (s Storage) alarmPoster(ctx context.Context, c AlarmPosting, d *db.DB, end string, now func() time.Time, log *slog.Logger) (*alarmPoster, error) {
	var err error
	if len(c.Secret) == 0 {
		if c.Secret, err = s.signingSecret(AlarmSecretFile); err != nil {
			return nil, fmt.Errorf("alarm secret: %w", err)
		}
	}
	to, err := signed.NewPoster(signed.Config{URL: c.URL, Secret: c.Secret, Agent: "countersign/" + Version, Now: now})
	if err != nil {
		return nil, fmt.Errorf("the alarm URL or its secret: %w", err)
	}
	if err := d.BeginAlarmPosts(ctx); err != nil {
		return nil, fmt.Errorf("posting alarms: %w", err)
	}
	return &alarmPoster{d, end, to, now, log}, nil
}

// Run posts until ctx ends. A daemon that posts no alarms has no poster.
func (p *alarmPoster) Run(ctx context.Context) error {
	if p == nil {
		<-ctx.Done()
		return nil
	}
	defer p.to.Close()
	for {
		var err error
		for more := true; more && err == nil && ctx.Err() == nil; {
			more, err = p.one(ctx)
		}
		if err != nil && ctx.Err() == nil {
			p.log.Error("alarms cannot be read to be posted", "error", err)
		}
		select {
		case <-time.After(alarmPoll):
		case <-ctx.Done():
			return nil
		}
	}
}

// one posts one alarm. It reports whether there was one.
func (p *alarmPoster) one(ctx context.Context) (bool, error) {
	lease := p.to.Timeout() + alarmGrace
	began := time.Now()
	post, found, err := p.db.ClaimAlarmPost(ctx, db.MillisOf(p.now()), lease)
	if err != nil || !found {
		return false, err
	}
	id, body, err := p.message(post.Alarm)
	if err != nil {
		return false, err
	}
	if time.Since(began) > alarmGrace/2 { // the process stalled: another may have it soon
		return true, nil
	}
	// An attempt that has begun is finished even when the process stops.
	ctx = context.WithoutCancel(ctx)
	result, status, err := p.to.Post(ctx, id, body)
	attrs := []slog.Attr{slog.Int64("alarm", post.Alarm.Seq), slog.String("kind", string(post.Alarm.Kind)), slog.Int("attempt", post.Attempts), slog.String("result", string(result))}
	if result == signed.Done {
		p.log.LogAttrs(ctx, slog.LevelInfo, "alarm posted", attrs...)
		return true, p.db.SettleAlarmPost(ctx, post, true, 0)
	}
	attrs = append(attrs, slog.Int("status", status))
	if err != nil {
		attrs = append(attrs, slog.String("error", signed.WithoutURL(err)))
	}
	p.log.LogAttrs(ctx, slog.LevelWarn, "alarm not posted", attrs...)
	return true, p.db.SettleAlarmPost(ctx, post, false, db.MillisOf(p.now().Add(signed.Delay(post.Attempts))))
}

// message gives the id and the body of the message about a, the same for each attempt:
// whether somebody has acknowledged it meanwhile is not in it.
func (p *alarmPoster) message(a db.Alarm) (id string, body []byte, err error) {
	a.Acked, a.AckedBy, a.AckedName, a.AckedNote = 0, "", "", ""
	body, err = json.Marshal(client.PostedAlarm{Type: client.MessageAlarmRaised, Timestamp: api.TimeOf(a.At), Data: api.AlarmOf(a)})
	return fmt.Sprintf("%s_alarm_%d", p.end, a.Seq), body, err
}
