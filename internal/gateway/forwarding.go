package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"time"

	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/web"
)

// Forwarding says where deposits and events are posted for the merchant's application, with the headers of Standard
// Webhooks. Every entry is posted until it is answered with status 2xx. Entries may come more than once and in any
// order: webhook-id is the same in all attempts of an entry, and seq orders the entries.
type Forwarding struct {
	// URL is https, or http to a loopback address. Private networks are allowed. Empty: nothing is forwarded.
	URL string
	// Secret signs. Required with URL; see web.ParseSecret.
	Secret web.Secret
	// OnlyNew makes the first start begin with the next new entry of each feed, not with the first one. Later starts go
	// on where forwarding stopped and ignore it.
	OnlyNew bool
}

const (
	forwardTimeout = 10 * time.Second // of one attempt
	forwardAtOnce  = 8                // attempts of this process

	forwardPoll  = 5 * time.Second // a wake-up between processes can get lost
	forwardGrace = 15 * time.Second
	forwardLease = forwardTimeout + forwardGrace // how long a claimed entry is this process's alone
	settlePause  = 200 * time.Millisecond
	claimPause   = time.Second
)

// sender forwards.
type sender struct {
	book *book.Book
	c    Config
	to   *web.Poster
	poll time.Duration // longest pause between looks
}

func newSender(b *book.Book, c Config) (*sender, error) {
	if err := checkForwardURL(c.Forward.URL); err != nil {
		return nil, err
	}
	to, err := c.poster(c.Forward.URL, c.Forward.Secret, forwardTimeout, forwardAtOnce)
	if err != nil {
		return nil, fmt.Errorf("gateway: the forward URL or its secret: %w", err)
	}
	return &sender{book: b, c: c, to: to, poll: c.DB.Every(forwardPoll)}, nil
}

// poster returns a poster to one of the merchant's systems.
func (c *Config) poster(url string, secret web.Secret, timeout time.Duration,
	connections int) (*web.Poster, error) {
	return web.NewPoster(web.PosterConfig{URL: url, Dial: c.Dial, Secret: secret, Timeout: timeout,
		Connections: connections, Agent: "countersign/" + c.Version, Now: c.Now})
}

// checkForwardURL refuses a URL that would show others who was paid what. Its errors leave the URL out: the path may be
// a secret.
func checkForwardURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("the forward URL must be https://HOST/PATH. For NATS, Kafka and the like a program of yours reads the feeds (docs/merchant/README.md)")
	case u.Scheme == "http" && u.Hostname() != "localhost" && !net.ParseIP(u.Hostname()).IsLoopback():
		return errors.New("the forward URL is http to another machine, which would send users, addresses and amounts in the clear: " +
			"give https://, or http:// to 127.0.0.1 where a proxy of yours encrypts")
	}
	return nil
}

// BeginForwarding begins to forward feeds that were never forwarded. It does nothing if forwarding is off.
func (g *Gateway) BeginForwarding(ctx context.Context) error {
	if g.sender == nil {
		return nil
	}
	begun, err := g.book.BeginForwarding(ctx, g.c.Forward.OnlyNew, db.MillisOf(g.c.Now()))
	if errors.Is(err, db.ErrConflict) {
		return fmt.Errorf("%w: begin with what is new (--forward-only-new), and let the application read what is kept from the feed", err)
	}
	if err != nil {
		return fmt.Errorf("beginning to forward: %w", err)
	}
	for _, f := range begun {
		g.c.Log.Info("forwarding begins", "feed", string(f.Feed), "from", f.Position+1)
	}
	return nil
}

// run forwards until ctx ends, then waits for the attempts under way.
func (s *sender) run(ctx context.Context) {
	wake, stop := s.book.Watch(book.TopicForwards)
	defer stop()
	defer s.to.Close()
	free := make(chan struct{}, forwardAtOnce) // holds a token for each attempt that runs
	var running sync.WaitGroup
	defer running.Wait()
	ended := make(chan struct{}, 1)
	for {
		// No attempt may begin that could outlast its lease, even if the process stalled before: another process may
		// have the entry by then.
		latest := time.Now().Add(forwardLease - forwardTimeout)
		claimed, err := s.claim(ctx, cap(free)-len(free))
		for _, f := range claimed {
			free <- struct{}{}
			running.Go(func() {
				// An attempt that has begun is finished even if the process stops.
				s.one(context.WithoutCancel(ctx), f, latest)
				<-free
				select {
				case ended <- struct{}{}:
				default:
				}
			})
		}
		if len(claimed) > 0 && len(free) < cap(free) {
			continue
		}
		if !s.wait(ctx, wake, ended, len(free) == cap(free), err != nil) {
			return
		}
	}
}

// claim takes at most n entries to send.
func (s *sender) claim(ctx context.Context, n int) ([]book.Forward, error) {
	if n == 0 || ctx.Err() != nil {
		return nil, nil
	}
	bounded, cancel := context.WithTimeout(ctx, forwardGrace)
	defer cancel()
	list, err := s.book.ClaimForwards(bounded, db.MillisOf(s.c.Now()), forwardLease, n)
	if err != nil && ctx.Err() == nil {
		s.c.Log.Error("forwarding cannot read what is due", "error", err)
	}
	return list, err
}

// wait returns true when there may be work and false when ctx has ended. After a failed claim it pauses: entries stay
// due while the database takes no claims.
func (s *sender) wait(ctx context.Context, wake, ended <-chan struct{}, full, failed bool) bool {
	pause := s.poll
	if failed {
		pause = claimPause
	} else if !full {
		bounded, cancel := context.WithTimeout(ctx, forwardGrace)
		due, err := s.book.NextForward(bounded)
		cancel()
		if err == nil && due < db.Never {
			pause = min(pause, max(due.Time().Sub(s.c.Now()), time.Millisecond))
		}
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	if full {
		wake = nil // all places are used until an attempt ends
	}
	select {
	case <-wake:
	case <-ended:
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// one makes and settles one attempt, unless the lease is nearly over.
func (s *sender) one(ctx context.Context, f book.Forward, latest time.Time) {
	began := time.Now()
	if began.After(latest) {
		s.c.Log.Warn("the lease is nearly over: the entry is left for the next claim", "feed", string(f.Feed), "seq", f.Seq)
		return
	}
	result, status, err := s.post(ctx, f)
	took := time.Since(began)
	if s.c.Observer != nil {
		s.c.Observer.Forwarded(result, took)
	}
	level, text := slog.LevelDebug, "forwarded"
	attrs := []slog.Attr{slog.String("feed", string(f.Feed)), slog.Int64("seq", f.Seq), slog.Int("attempt", f.Attempts),
		slog.String("result", string(result)), slog.Int64("ms", took.Milliseconds())}
	end := func(ctx context.Context) error { return s.book.ForwardDone(ctx, f) }
	if result != web.Posted {
		level, text = slog.LevelWarn, "not forwarded"
		attrs = append(attrs, slog.Int("status", status))
		reason := string(result)
		switch {
		case result == web.PostStatus:
			reason = fmt.Sprintf("status %d", status)
		case err != nil:
			reason += ": " + web.WithoutURL(err)
			attrs = append(attrs, slog.String("error", web.WithoutURL(err)))
		}
		due := db.MillisOf(s.c.Now().Add(web.RetryDelay(f.Attempts, s.c.Random())))
		end = func(ctx context.Context) error { return s.book.ForwardFailed(ctx, f, reason, due) }
	}
	s.c.Log.LogAttrs(ctx, level, text, attrs...)
	if err := s.settle(ctx, forwardLease-took, end); err != nil {
		s.c.Log.Error("the end of an attempt was not recorded; the attempt is repeated", "seq", f.Seq, "error", err)
	}
}

// settle records the end of an attempt. It tries again until it succeeds or the lease ends: a failover of the database
// takes seconds, and an attempt that is not recorded is repeated.
func (s *sender) settle(ctx context.Context, lease time.Duration, end func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, lease)
	defer cancel()
	for {
		err := end(ctx)
		if err == nil || errors.Is(err, db.ErrClosed) {
			return err
		}
		pause := time.NewTimer(settlePause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}

func (s *sender) post(ctx context.Context, f book.Forward) (web.PostResult, int, error) {
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	body, err := forwardBody(ctx, s.book, f)
	if err != nil {
		return web.PostFailed, 0, err
	}
	return s.to.Post(ctx, book.ForwardID(f.Feed, f.Seq), body)
}
