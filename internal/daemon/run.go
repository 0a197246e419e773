package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Part is one piece of a process. Run blocks until its context has ended and its work has drained.
type Part struct {
	Name string // begins Run's errors
	Run  func(context.Context) error
}

// RunParts runs all parts until ctx ends or one of them returns. It then ends the others and waits until all have
// drained. A cancelled context is not an error.
func RunParts(ctx context.Context, parts ...Part) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan error, len(parts))
	for _, p := range parts {
		go func() {
			err := p.Run(ctx)
			if errors.Is(err, context.Canceled) {
				err = nil
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", p.Name, err)
			}
			cancel() // a process must not go on without one of its parts
			results <- err
		}()
	}
	var errs []error
	for range parts {
		errs = append(errs, <-results)
	}
	return errors.Join(errs...)
}

// repeated is a part that calls do regularly, until its context ends or do returns an error.
func repeated(name string, every time.Duration, do func(context.Context) error) Part {
	return Part{name, func(ctx context.Context) error {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			if err := do(ctx); err != nil {
				return err
			}
		}
	}}
}

// noticed returns a context that ends the time notice after ctx. It calls leave when ctx ends: whoever watches /readyz
// then stops sending calls while they are still answered.
func noticed(ctx context.Context, notice time.Duration, leave func()) (context.Context, context.CancelFunc) {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer cancel()
		select {
		case <-ctx.Done():
		case <-run.Done():
			return
		}
		leave()
		wait := time.NewTimer(notice)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-run.Done():
		}
	}()
	return run, cancel
}

// Listener is an HTTP server on a bound port, with the time-outs common to all listeners of a daemon.
type Listener struct {
	name   string
	ln     net.Listener
	server *http.Server
	// beforeStop makes waiting requests answer at once; it may be nil.
	beforeStop func()
	drain      time.Duration
	secure     *tls.Config // nil: plain HTTP
}

// ListenConfig is what Listen needs.
type ListenConfig struct {
	Name    string // of the listener, in errors and log lines. Required
	Addr    string // required; port 0 picks one
	World   World
	Handler http.Handler // required
	TLS     TLS
	// AnyHost accepts requests for every host, also on the loopback; see ownHosts.
	AnyHost bool
	// Exposes names what others can read and change on the network if there is no TLS.
	Exposes string
	// Most bounds the connections; see connections. Required.
	Most int
	// Drain is how long requests under way may take after Run's context ends.
	Drain time.Duration
	// Log gets the server's own errors, as warnings. Required.
	Log *slog.Logger
	// Note gets the URL and, with TLS, the settings in use: now, and each time the certificate was read again. Nil:
	// nothing is called.
	Note func(url string, secure *tls.Config)
}

// Listen binds c.Addr at once, so that the start fails if the port is in use. Nothing is served before Run.
func Listen(c ListenConfig) (*Listener, error) {
	certificates, err := c.TLS.certificates(c.Log)
	if err != nil {
		return nil, err
	}
	var secure *tls.Config
	if certificates != nil {
		secure = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: certificates.current}
	}
	ln, err := c.World.listen(c.Addr)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", c.Addr, err)
	}
	if err := c.TLS.exposed(ln, c.Name, c.Exposes, c.Log); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	handler := wholeRequests(c.Handler)
	if !c.AnyHost && onLoopback(ln) {
		handler = ownHosts(c.TLS.Hosts, handler)
	}
	log := c.Log
	l := &Listener{name: c.Name, ln: newConnections(ln, c.Most, log), drain: c.Drain, secure: secure, server: &http.Server{
		Handler:           handler,
		TLSConfig:         secure,
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){}, // see certificates.read
		ConnContext:       withConnection,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second, // handlers that take longer set their own
		WriteTimeout:      2 * time.Minute,  // likewise
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}}
	switch {
	case c.Note == nil:
	case certificates == nil:
		c.Note(l.URL(), nil)
	default:
		certificates.note = func(now *tls.Config) { c.Note(l.URL(), now) }
		certificates.note(certificates.config)
	}
	return l, nil
}

// URL returns the URL of the listener on this machine.
func (l *Listener) URL() string {
	if l.secure != nil {
		return "https://" + l.ln.Addr().String()
	}
	return "http://" + l.ln.Addr().String()
}

func (l *Listener) serve() error {
	if l.secure != nil {
		return l.server.ServeTLS(l.ln, "", "")
	}
	return l.server.Serve(l.ln)
}

// Run serves until ctx ends, then accepts no more connections and waits for the requests under way. It returns an error
// if they take longer than the drain time.
func (l *Listener) Run(ctx context.Context) error {
	// Requests keep the values of ctx.
	l.server.BaseContext = func(net.Listener) context.Context { return context.WithoutCancel(ctx) }
	failed := make(chan error, 1)
	go func() { failed <- l.serve() }()
	select {
	case err := <-failed:
		if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
			return nil // closed because it must stop
		}
		return err
	case <-ctx.Done():
	}
	if l.beforeStop != nil {
		l.beforeStop()
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.drain)
	defer cancel()
	if err := l.server.Shutdown(stop); err != nil {
		return errors.Join(fmt.Errorf("requests were cut off: %w", err), l.server.Close())
	}
	return nil
}

// Close closes the port and all connections. It is for a listener that was never run or whose requests may be cut off.
func (l *Listener) Close() error {
	err := l.server.Close() // closes the port only while it serves
	if cerr := l.ln.Close(); cerr != nil && !errors.Is(cerr, net.ErrClosed) {
		err = errors.Join(err, cerr)
	}
	return err
}
