package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"time"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/web"
)

const (
	forwardTimeout = 10 * time.Second              // of one attempt
	forwardAtOnce  = 8                             // attempts of this process
	forwardPoll    = time.Second                   // a wake-up between processes can get lost, and nothing wakes for what is due again
	forwardGrace   = 15 * time.Second              // to claim entries, and to record the end of an attempt
	forwardLease   = forwardTimeout + forwardGrace // how long a claimed entry is this process's alone
)

// sender forwards.
type sender struct {
	book *book.Book
	c    Config
	to   *web.Poster
	poll time.Duration // between looks
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
	if err := secret.Check(); err != nil {
		return nil, err
	}
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

// BeginForwarding begins to forward if that was never done. It does nothing if forwarding is off.
func (g *Gateway) BeginForwarding(ctx context.Context) error {
	if g.sender == nil {
		return nil
	}
	begins, err := g.book.BeginForwarding(ctx, g.c.Forward.OnlyNew, db.MillisOf(g.c.Now()))
	switch {
	case errors.Is(err, db.ErrConflict):
		return fmt.Errorf("%w: begin with what is new (--forward-only-new), and let the application read what is kept from the feed", err)
	case err != nil:
		return fmt.Errorf("beginning to forward: %w", err)
	case begins:
		g.c.Log.Info("forwarding begins", "onlyNew", g.c.Forward.OnlyNew)
	}
	return nil
}

// run forwards until ctx ends, then waits for the attempts under way.
func (s *sender) run(ctx context.Context) {
	wake, stop := s.book.Watch(book.TopicForwards)
	defer stop()
	defer s.to.Close()
	look := time.NewTicker(s.poll)
	defer look.Stop()
	free := make(chan struct{}, forwardAtOnce) // holds a token for each attempt that runs
	var running sync.WaitGroup
	defer running.Wait()
	ended := make(chan struct{}, 1)
	for {
		claimed := s.claim(ctx, cap(free)-len(free))
		for _, f := range claimed {
			free <- struct{}{}
			running.Go(func() {
				// An attempt that has begun is finished even if the process stops.
				s.one(context.WithoutCancel(ctx), f)
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
		select {
		case <-wake:
		case <-ended:
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// claim takes at most n entries to send.
func (s *sender) claim(ctx context.Context, n int) []book.Forward {
	if n == 0 || ctx.Err() != nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, forwardGrace)
	defer cancel()
	list, err := s.book.ClaimForwards(bounded, db.MillisOf(s.c.Now()), forwardLease, n)
	if err != nil && ctx.Err() == nil {
		s.c.Log.Error("forwarding cannot read what is due", "error", err)
	}
	return list
}

// one makes one attempt and records its end. An attempt whose end is not recorded is repeated when its lease has ended,
// as is one that outlasts its lease because the process stood still.
func (s *sender) one(ctx context.Context, f book.Forward) {
	began := time.Now()
	result, status, err := s.post(ctx, f)
	took := time.Since(began)
	if s.c.Observer != nil {
		s.c.Observer.Forwarded(result, took)
	}
	ctx, cancel := context.WithTimeout(ctx, forwardGrace)
	defer cancel()
	level, text := slog.LevelDebug, "forwarded"
	attrs := []slog.Attr{slog.String("feed", string(f.Feed)), slog.Int64("seq", f.Seq), slog.Int("attempt", f.Attempts),
		slog.String("result", string(result)), slog.Int64("ms", took.Milliseconds())}
	if result == web.Posted {
		err = s.book.ForwardDone(ctx, f)
	} else {
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
		err = s.book.ForwardFailed(ctx, f, reason, db.MillisOf(s.c.Now().Add(web.RetryDelay(f.Attempts, s.c.Random()))))
	}
	s.c.Log.LogAttrs(ctx, level, text, attrs...)
	if err != nil {
		s.c.Log.Error("the end of an attempt was not recorded; the attempt is repeated", "seq", f.Seq, "error", err)
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

// mostFailed is how many failed entries the state of the forwarding shows.
const mostFailed = 100

func (g *Gateway) forwarding(c *api.Call, _ api.None, _ api.None) (client.Forwarding, error) {
	out, err := g.lists.Forwarding(c.R.Context())
	if err != nil {
		return out, err
	}
	failed, err := g.lists.FailedForwards(c.R.Context(), mostFailed)
	out.On, out.Failed = g.c.Forward.URL != "", api.OrEmpty(failed)
	return out, err
}

func (g *Gateway) retryForwards(c *api.Call, _ api.None, _ api.None) (client.RetriedForwards, error) {
	n, err := g.book.RetryForwards(c.R.Context(), c.Now)
	return client.RetriedForwards{Retried: n}, err
}

// forwardBody returns the body of the POST of f. Every attempt has the same.
func forwardBody(ctx context.Context, b *book.Book, f book.Forward) ([]byte, error) {
	var message any
	if f.Feed == client.FeedOfEvents {
		e, err := b.Event(ctx, f.Seq)
		if err != nil {
			return nil, err
		}
		message = client.ForwardedEvent{Type: e.Kind, Timestamp: e.At, Data: e}
	} else {
		d, err := b.Deposit(ctx, f.Seq)
		if err != nil {
			return nil, err
		}
		d = book.AsTaken(d) // whatever was decided meanwhile
		message = client.ForwardedDeposit{Type: client.DepositMessage("deposit." + d.State), Timestamp: d.Taken, Data: d}
	}
	var out bytes.Buffer
	err := api.EncodeJSON(&out, message)
	return out.Bytes(), err
}
