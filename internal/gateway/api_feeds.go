package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"countersign/internal/store"
)

// pollEvery is how often a waiting reader of a feed looks by itself, because a
// wake-up between processes can get lost.
const pollEvery = 2 * time.Second

// after is where a reader of a feed starts: behind the number given, or behind
// what its cursor has acknowledged.
func (a *api) after(c *call, feed store.Feed) (int64, error) {
	name := c.query["reader"]
	if name == "" {
		return c.number("after"), nil
	}
	if c.r.URL.Query().Has("after") {
		return 0, invalid(Fault{"query.reader", "is in place of after, not beside it"})
	}
	cursor, err := a.end.Cursor(c.r.Context(), name)
	if feed == store.FeedEvents {
		return cursor.Events, err
	}
	return cursor.Deposits, err
}

func (a *api) deposits(c *call, _ none) (any, error) {
	after, err := a.after(c, store.FeedDeposits)
	if err != nil {
		return nil, err
	}
	out := Deposits{Deposits: []DepositEntry{}, Next: after}
	err = a.follow(c, store.TopicDeposits, func(ctx context.Context) (bool, error) {
		read := a.end.Deposits
		if state := store.DepositState(c.query["state"]); state != "" {
			read = func(ctx context.Context, after int64, limit int) ([]store.TakenDeposit, error) {
				return a.end.DepositsIn(ctx, state, after, limit)
			}
		}
		list, err := read(ctx, after, int(c.number("limit")))
		for _, d := range list {
			out.Deposits = append(out.Deposits, depositOf(d))
			out.Next = d.Seq
		}
		return len(list) > 0, err
	})
	return out, err
}

func (a *api) events(c *call, _ none) (any, error) {
	after, err := a.after(c, store.FeedEvents)
	if err != nil {
		return nil, err
	}
	out := Events{Events: []EventEntry{}, Next: after}
	err = a.follow(c, store.TopicEvents, func(ctx context.Context) (bool, error) {
		list, err := a.end.Events(ctx, after, int(c.number("limit")))
		for _, e := range list {
			out.Events = append(out.Events, eventOf(e))
			out.Next = e.Seq
		}
		return len(list) > 0, err
	})
	return out, err
}

func (a *api) alarms(c *call, _ none) (any, error) {
	out := AlarmList{Alarms: []AlarmEntry{}, Next: c.number("after")}
	err := a.follow(c, store.TopicEvents, func(ctx context.Context) (bool, error) {
		list, err := a.c.Store.Alarms(ctx, c.number("after"), int(c.number("limit")))
		for _, x := range list {
			out.Alarms = append(out.Alarms, AlarmEntry{Seq: x.Seq, Kind: x.Kind, Subject: x.Subject, At: timeOf(x.At)})
			out.Next = x.Seq
		}
		return len(list) > 0, err
	})
	return out, err
}

// follow calls read until it finds something, the reader's wait is over, or the
// gateway stops. The answer is then what there is, which may be nothing.
func (a *api) follow(c *call, topic store.Topic, read func(context.Context) (bool, error)) error {
	wait, _ := time.ParseDuration(c.query["wait"])
	wake, stop := a.c.Store.Watch(topic) // before the first look, or what comes in between is missed
	defer stop()
	ctx := c.r.Context()
	found, err := read(ctx)
	if found || err != nil || wait == 0 {
		return err
	}
	// The server's own time-outs are for answers that do not wait.
	conn := http.NewResponseController(c.w)
	_ = conn.SetWriteDeadline(time.Now().Add(wait + 30*time.Second))
	defer func() { _ = conn.SetWriteDeadline(time.Time{}) }()
	over := time.NewTimer(wait)
	defer over.Stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		select {
		case <-wake:
		case <-poll.C:
		case <-over.C:
			return nil
		case <-a.stopping:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		if found, err := read(ctx); found || err != nil {
			return err
		}
	}
}

func (a *api) cursor(c *call, _ none) (any, error) {
	cursor, err := a.end.Cursor(c.r.Context(), c.r.PathValue("name"))
	return cursorOf(cursor), err
}

// maxCursorName is the longest name of a reader, in bytes.
const maxCursorName = 100

func (a *api) moveCursor(c *call, in CursorMove) (any, error) {
	name := c.r.PathValue("name")
	if len(name) > maxCursorName {
		return nil, invalid(Fault{"path.name", "is longer than 100 bytes"})
	}
	cursor, err := a.end.MoveCursor(c.r.Context(), name, in.Deposits, in.Events, c.now)
	return cursorOf(cursor), err
}

func (a *api) stats(c *call, _ none) (any, error) {
	s, err := a.end.Stats(c.r.Context())
	out := Stats{Callbacks: s.Inbox, CallbacksOpen: s.InboxOpen, Deposits: s.Deposits, DepositsHeld: s.DepositsHeld, Events: s.Events,
		Orders: map[string]int64{}, Forwards: s.Forwards, ForwardOldest: timeOf(s.ForwardOldest)}
	for state, n := range s.Orders {
		out.Orders[string(state)] = n
	}
	return out, err
}

// Health is what the probes answer.
type Health struct {
	Status string `json:"status"`
}

func (a *api) healthz(*call, none) (any, error) { return Health{"ok"}, nil }

// readyTimeout bounds how long /readyz waits for the database.
const readyTimeout = 5 * time.Second

func (a *api) readyz(c *call, _ none) (any, error) {
	if a.isStopping() {
		return nil, errStopping
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), readyTimeout)
	defer cancel()
	if err := a.c.Store.Ping(ctx); err != nil {
		a.c.Log.Warn("not ready", "cause", err)
		return nil, problem(http.StatusServiceUnavailable, "the database does not answer")
	}
	return Health{"ready"}, nil
}

func (a *api) openapi(*call, none) (any, error) { return json.RawMessage(a.document), nil }
