package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
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
	// To are the URLs of chats, mail servers and pagers, as shoutrrr takes them.
	To []client.Secret
}

// ErrAlarmSecret: a daemon posts alarms and shares its database with others, but was not
// given the secret that all of them must sign with.
var ErrAlarmSecret = errors.New("daemons of one database must sign alarms with one secret")

const (
	alarmPoll  = 2 * time.Second // between two looks for messages
	alarmGrace = 15 * time.Second
	alarmSeen  = time.Hour // between two times that a process says that it posts to a destination
)

// alarmURLName is the destination --alarm-url in the database, whatever URL it is.
const alarmURLName = "url"

// alarmDestination is where the messages about alarms of one end go.
type alarmDestination struct {
	name    string // in the database
	shown   string // in the log; no secret
	timeout time.Duration
	// send makes one attempt. The text of its error has no secret.
	send  func(ctx context.Context, p db.AlarmPost) (result signed.Result, status int, err error)
	close func()
}

// alarmPosters post the messages about the alarms of one end, to each destination one at a time.
// Several processes of one database share the work: each message is posted until it is taken,
// the same in every attempt.
type alarmPosters struct {
	db     *db.DB
	to     []alarmDestination
	now    func() time.Time
	log    *slog.Logger
	random func() float64
}

// alarmPosters gives the part that posts alarms of d: for each destination from now on, or from
// where it was. Nil: nothing is posted.
func (s Storage) alarmPosters(ctx context.Context, c AlarmPosting, d *db.DB, end string, now func() time.Time, log *slog.Logger) (*alarmPosters, error) {
	p := &alarmPosters{db: d, now: now, log: log, random: s.World.random}
	if c.URL != "" {
		var err error
		if len(c.Secret) == 0 {
			if c.Secret, err = s.signingSecret(AlarmSecretFile); err != nil {
				return nil, fmt.Errorf("alarm secret: %w", err)
			}
		}
		to, err := signed.NewPoster(signed.Config{URL: c.URL, Secret: c.Secret, Agent: "countersign/" + Version, Now: now, Dial: s.World.Dial})
		if err != nil {
			return nil, fmt.Errorf("the alarm URL or its secret: %w", err)
		}
		p.to = append(p.to, alarmDestination{name: alarmURLName, shown: "alarm-url", timeout: to.Timeout(), close: to.Close,
			send: func(ctx context.Context, post db.AlarmPost) (signed.Result, int, error) {
				id, body, err := alarmMessage(end, post)
				if err != nil {
					return signed.Failed, 0, err
				}
				result, status, err := to.Post(ctx, id, body)
				if err != nil {
					err = errors.New(signed.WithoutURL(err))
				}
				return result, status, err
			}})
	}
	for i, text := range c.To {
		name := d.DestinationOf(string(text))
		to, err := newChat(text, strings.TrimPrefix(name, "to-"))
		if err != nil {
			return nil, fmt.Errorf("the destination %d of alarms: %w", i+1, err)
		}
		if slices.ContainsFunc(p.to, func(other alarmDestination) bool { return other.name == name }) {
			return nil, fmt.Errorf("the destination %d of alarms is given twice", i+1)
		}
		p.to = append(p.to, to.destination(name, end, i+1))
	}
	for _, to := range p.to {
		if err := d.PostAlarmsTo(ctx, to.name, db.MillisOf(now())); err != nil {
			return nil, fmt.Errorf("posting alarms: %w", err)
		}
	}
	if len(p.to) == 0 {
		return nil, nil
	}
	return p, nil
}

// Run posts until ctx ends.
func (p *alarmPosters) Run(ctx context.Context) error {
	if p == nil {
		<-ctx.Done()
		return nil
	}
	var all sync.WaitGroup
	for _, to := range p.to {
		all.Go(func() { p.run(ctx, to) })
	}
	all.Wait()
	return nil
}

func (p *alarmPosters) run(ctx context.Context, to alarmDestination) {
	defer to.close()
	said := p.now()
	for {
		var err error
		if now := p.now(); now.Sub(said).Abs() >= alarmSeen {
			if err = p.db.PostAlarmsTo(ctx, to.name, db.MillisOf(now)); err == nil {
				said = now
			}
		}
		for more := true; more && err == nil && ctx.Err() == nil; {
			more, err = p.one(ctx, to)
		}
		if err != nil && ctx.Err() == nil {
			p.log.Error("alarms cannot be read to be posted", "error", err)
		}
		select {
		case <-time.After(p.db.Every(alarmPoll)):
		case <-ctx.Done():
			return
		}
	}
}

// one posts one message. It reports whether there was one.
func (p *alarmPosters) one(ctx context.Context, to alarmDestination) (bool, error) {
	began := time.Now()
	post, found, err := p.db.ClaimAlarmPost(ctx, to.name, db.MillisOf(p.now()), to.timeout+alarmGrace)
	if err != nil || !found {
		return false, err
	}
	if time.Since(began) > alarmGrace/2 { // the process stalled: another may have it soon
		return true, nil
	}
	// An attempt that has begun is finished even when the process stops.
	ctx = context.WithoutCancel(ctx)
	result, status, err := to.send(ctx, post)
	attrs := []slog.Attr{slog.String("to", to.shown), slog.String("message", string(post.Type())), slog.Int64("alarm", post.Alarm.Seq), slog.String("kind", string(post.Alarm.Kind)),
		slog.Int("attempt", post.Attempts), slog.String("result", string(result))}
	if result == signed.Done {
		p.log.LogAttrs(ctx, slog.LevelInfo, "alarm posted", attrs...)
		return true, p.db.SettleAlarmPost(ctx, post, true, 0)
	}
	attrs = append(attrs, slog.Int("status", status))
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	p.log.LogAttrs(ctx, slog.LevelWarn, "alarm not posted", attrs...)
	return true, p.db.SettleAlarmPost(ctx, post, false, db.MillisOf(p.now().Add(signed.Delay(post.Attempts, p.random()))))
}

// alarmMessage gives the id and the body of a message, the same for each attempt.
func alarmMessage(end string, p db.AlarmPost) (id string, body []byte, err error) {
	body, err = json.Marshal(client.PostedAlarm{Type: p.Type(), Timestamp: api.TimeOf(p.At), Data: api.AlarmOf(p.Alarm)})
	id = fmt.Sprintf("%s_alarm_%d", end, p.Alarm.Seq)
	switch p.Type() {
	case client.MessageAlarmGrown:
		id += fmt.Sprintf("_%d", p.Step)
	case client.MessageAlarmEnded:
		id += "_ended"
	}
	return id, body, err
}
