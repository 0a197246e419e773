package gateway

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/signed"
)

// orderedBatch is how many entries of a feed are sent as one. The first that fails keeps those behind
// it, so a batch costs one claim and one settlement.
const orderedBatch = 200

// runInOrder forwards until ctx ends, batch by batch: the order of a feed holds because no entry is
// claimed while an earlier one of its feed is.
func (s *sender) runInOrder(ctx context.Context, wake <-chan struct{}) {
	defer s.into.Close()
	for {
		latest := time.Now().Add(s.lease() - s.c.Timeout)
		claimed, err := s.claim(ctx, orderedBatch)
		if len(claimed) > 0 {
			s.batch(context.WithoutCancel(ctx), claimed, latest)
			continue
		}
		if !s.wait(ctx, wake, nil, false, err != nil) {
			return
		}
	}
}

// batch sends what was claimed of both feeds and settles it.
func (s *sender) batch(ctx context.Context, claimed []book.Forward, latest time.Time) {
	began := time.Now()
	if began.After(latest) {
		s.log.Warn("the lease is nearly over: the entries are left for the next claim", "entries", len(claimed))
		return
	}
	var feeds [2][]book.Forward
	for _, f := range claimed {
		feeds[f.Feed] = append(feeds[f.Feed], f)
	}
	bounded, cancel := context.WithTimeout(ctx, s.c.Timeout)
	defer cancel()
	var done []book.Forwarded
	for _, list := range feeds {
		if len(list) > 0 {
			done = append(done, s.feed(bounded, list)...)
		}
	}
	if err := s.settle(ctx, s.lease()-time.Since(began), done...); err != nil {
		s.log.Error("the end of an attempt was not recorded; the attempt is repeated", "seq", claimed[0].Seq, "error", err)
	}
}

// feed sends entries of one feed, in order, and gives how each ended.
func (s *sender) feed(ctx context.Context, list []book.Forward) []book.Forwarded {
	began := time.Now()
	messages, unwritten := s.messages(list)
	acked, err := 0, error(nil)
	if len(messages) > 0 {
		acked, err = s.into.Send(ctx, messages)
	}
	if err == nil && acked == len(messages) {
		err = unwritten
	}
	took := time.Since(began)
	done := make([]book.Forwarded, len(list))
	for i, f := range list {
		done[i] = book.Forwarded{Feed: f.Feed, Seq: f.Seq, Attempts: f.Attempts, Done: i < acked}
		if i < acked {
			s.count(signed.Done, took)
			s.log.Debug("forwarded", "feed", f.Feed.String(), "seq", f.Seq, "attempt", f.Attempts, "result", string(signed.Done), "ms", took.Milliseconds())
		}
	}
	if acked == len(list) {
		s.vain[list[0].Feed] = 0
		return done
	}
	result, first := signed.Failed, list[acked]
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		result = signed.Timeout
	}
	s.count(result, took)
	text := "no acknowledgement"
	if err != nil {
		text = db.Clean(err.Error())
	}
	now := s.now()
	for i := acked; i < len(list); i++ { // those behind the first one wait for it, and go on at once when a person gives it up
		done[i].Due = db.MillisOf(now)
	}
	if acked > 0 {
		s.vain[first.Feed] = 0
	}
	s.vain[first.Feed]++
	done[acked].Due = db.MillisOf(now.Add(signed.Delay(s.vain[first.Feed], s.random())))
	done[acked].Reason = string(result) + ": " + text
	s.log.LogAttrs(ctx, slog.LevelWarn, "not forwarded", slog.String("feed", first.Feed.String()), slog.Int64("seq", first.Seq), slog.Int("attempt", first.Attempts),
		slog.String("result", string(result)), slog.Int64("ms", took.Milliseconds()), slog.String("error", text))
	return done
}

// messages writes entries as they are sent, up to one that cannot be written.
func (s *sender) messages(list []book.Forward) (messages []message, err error) {
	at := s.now()
	for _, f := range list {
		id, body, err := forwardBody(f)
		if err != nil {
			return messages, err
		}
		messages = append(messages, message{id: id, key: keyOf(f), body: body, headers: signedHeaders(s.c.Secret, id, at, body)})
	}
	return messages, nil
}

// keyOf is the key of a message: what is about one user stays in order, and in one partition.
func keyOf(f book.Forward) string {
	user := f.Event.TenantUserID
	if f.Feed == book.FeedDeposits {
		user = f.Deposit.Deposit.TenantUserID
	}
	if user == "" {
		return f.Feed.String()
	}
	return user
}
