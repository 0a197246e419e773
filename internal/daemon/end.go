package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/console"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/web"
)

// end is what a process of either end consists of: database, log, alarms, figures and listeners.
type end struct {
	c         *Common
	addresses [][2]string // of all listeners, by their names
	node      string      // names this process in leases and records
	self      db.Node     // its row; see beat
	db        *db.DB      // nil before begin
	clock     *db.Clock
	journal   *journal.Log
	purger    *db.Purger   // nil: everything stays
	alarms    *alarmPoster // nil: alarms are not posted
	figures   *figures
	held      *web.Shares
	listeners []*Listener
	api       *Listener        // one of them
	console   *console.Console // nil: none
}

// thisProcess names this process among those of one database.
func thisProcess() string {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// beginning is what begin needs from an end.
type beginning struct {
	database db.End
	name     string // of the end in its journal
	// leases ends the leases of an earlier process, so that its work goes on at once. It is called only if no other
	// process can hold any; otherwise lost leases expire. Nil: they always expire.
	leases func(context.Context, db.Millis) (int, error)
	purger func(db.PurgeConfig) (*db.Purger, error)
}

// begin opens the database, after checking that the listeners can be opened.
func (e *end) begin(ctx context.Context, b beginning) (err error) {
	c := e.c
	if err := c.firstStart(c.TLS, e.addresses, c.Log); err != nil {
		return err
	}
	if e.db, err = c.open(ctx, c.Log, b.database); err != nil {
		return err
	}
	if e.clock, err = db.NewClock(ctx, e.db, c.Log); err != nil {
		return fmt.Errorf("reading the database's clock: %w", err)
	}
	if !e.db.Dialect().Shared && b.leases != nil {
		lost, err := b.leases(ctx, db.MillisOf(e.clock.Now()))
		if err != nil {
			return fmt.Errorf("giving back leases: %w", err)
		}
		if lost > 0 {
			c.Log.Warn("leases of an earlier process were given back", "callbacks", lost)
		}
	}
	if e.journal, err = journal.Open(ctx, journal.Config{DB: e.db, End: b.name, Now: e.clock.Now,
		Log: c.Log}); err != nil {
		return err
	}
	if c.RetainDays > 0 {
		if e.purger, err = b.purger(db.PurgeConfig{DB: e.db, Keep: c.retain(), Now: e.clock.Now, Log: c.Log}); err != nil {
			return err
		}
	}
	e.self = db.Node{ID: rand.Text(), Name: e.node, Version: ThisBuild().String(), Started: db.MillisOf(e.clock.Now())}
	e.held = web.NewShares(0)
	return nil
}

// measure starts to show the figures of e and to post its alarms. It returns what the API of e is given; /metrics is no
// part of that if it has its own listener.
func (e *end) measure() (p api.Process, err error) {
	c := e.c
	onAPI := e.figures.handler()
	if c.MetricsListen != "" {
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", onAPI)
		onAPI = nil
		if _, err = e.listen(ListenConfig{Name: "metrics", Addr: c.MetricsListen, Handler: mux, TLS: c.TLS.WithoutClients(),
			Exposes: "numbers of callbacks and errors", Most: 100, Drain: 5 * time.Second}); err != nil {
			return p, err
		}
	}
	p = api.Process{Audit: e.journal, Node: e.self.ID, Metrics: onAPI, Now: e.clock.Now, Log: c.Log, Bodies: e.held,
		Version: Version}
	if c.Alarms.URL != "" {
		if e.alarms, err = e.alarmPoster(); err == nil {
			p.TestAlarm = e.alarms.test
		}
	}
	return p, err
}

// alarmPoster returns the poster of e's alarms.
func (e *end) alarmPoster() (*alarmPoster, error) {
	c := e.c
	to, err := web.NewPoster(web.PosterConfig{URL: c.Alarms.URL, Secret: c.Alarms.Secret, Agent: "countersign/" + Version,
		Now: e.clock.Now, Dial: c.World.Dial})
	if err != nil {
		return nil, fmt.Errorf("the alarm URL or its secret: %w", err)
	}
	return &alarmPoster{db: e.db, to: to, journal: e.journal, now: e.clock.Now, log: c.Log, random: c.World.random}, nil
}

// listen opens a listener of e.
func (e *end) listen(c ListenConfig) (*Listener, error) {
	c.World, c.Log = e.c.World, e.c.Log
	l, err := Listen(c)
	if err == nil {
		e.listeners = append(e.listeners, l)
	}
	return l, taken(err, e.addresses)
}

// serve opens the listener of the API, with the console, and makes the first token last. So a start that fails shows no
// token and leaves none behind.
func (e *end) serve(ctx context.Context, name, address string, drain time.Duration, h http.Handler, stop func(),
	newConsole func(console.Config) (*console.Console, error)) (err error) {
	c := e.c
	if !c.NoConsole {
		// Cookies are named after the database, by its journal: databases served under one host name then have
		// different ones.
		if e.console, err = newConsole(console.Config{API: h, Sealer: e.db, Database: e.journal.Name(),
			Bodies: e.held, Now: e.clock.Now, Log: c.Log, Version: Version}); err != nil {
			return err
		}
		h = withConsole(h, e.console)
	}
	if e.api, err = e.listen(ListenConfig{Name: "api", Addr: address, Handler: h, TLS: c.TLS,
		Most: connectionsOf(4), Drain: drain,
		Exposes: "tokens of the API, and all that is asked and answered", Note: c.noteAddress(name, c.Log)}); err != nil {
		return err
	}
	e.api.beforeStop = stop
	return c.firstToken(journal.At(ctx, e.node), e.db, e.clock.Now(), c.ShowToken)
}

// opened closes what a failed start has opened; the start failed if *err is not nil.
func (e *end) opened(err *error) {
	if *err != nil {
		*err = errors.Join(*err, e.Close())
		e.db = nil
	}
}

// run runs parts and the parts of every end until ctx ends, and then closes the database. started is the journal's
// record of the start. leave makes /readyz answer 503.
func (e *end) run(ctx context.Context, leave func(), started any, parts ...Part) error {
	ctx, cancel := noticed(journal.At(ctx, e.node), e.c.DrainNotice, leave)
	defer cancel()
	if err := e.beat(ctx); err != nil { // before it seals anything; see db.Beat
		return errors.Join(err, e.Close())
	}
	if err := e.journal.Started(ctx, started); err != nil && ctx.Err() == nil { // a stop during the start is not a failure
		return errors.Join(fmt.Errorf("audit log: %w", err), e.Close())
	}
	parts = append(parts, Part{"clock", e.clock.Run}, Part{"database", e.db.Run}, e.c.hold(e.db, e.journal),
		repeated("nodes", e.db.Every(beatEvery), e.beat), Part{"retention", e.purger.Run})
	if e.alarms != nil {
		parts = append(parts, Part{"alarms", e.alarms.Run})
	}
	for _, l := range e.listeners {
		parts = append(parts, Part{l.name, l.Run})
	}
	err := RunParts(ctx, parts...)
	e.leaveNodes(ctx)
	e.c.holdLast(ctx, e.db, e.journal)
	return errors.Join(err, e.db.Close())
}

// Close closes an end that was opened and will not be run.
func (e *end) Close() error {
	if e.db == nil {
		return nil
	}
	var errs []error
	for _, l := range e.listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(append(errs, e.db.Close())...)
}

// URL returns the URL of the API on this machine. It is known from Open on.
func (e *end) URL() string { return e.api.URL() }

// Dialect returns "sqlite" or "postgres". It is known from Open on.
func (e *end) Dialect() string { return e.db.Dialect().Name }

// TokenFile returns the file with the API's first token.
func (e *end) TokenFile() string { return e.c.file(TokenFile) }

// ConsoleLink returns the address of the console, with a code that signs in once with the token. It is empty if there
// is no console. It is known from Open on.
func (e *end) ConsoleLink(token client.Secret) string {
	if e.console == nil {
		return ""
	}
	return e.api.URL() + e.console.Link(token)
}

// mostDays is a hundred years, which do not overflow a duration.
const mostDays = 36_500

// validate sets defaults and refuses settings that no end could start with. name is the name of the configuration.
func (c *Common) validate(name string, roles []client.Role, bound bool) error {
	switch {
	case c.Dir == "":
		return fmt.Errorf("daemon: %s.Dir is missing", name)
	case c.RetainDays < 0 || c.RetainDays > mostDays:
		return fmt.Errorf("--retain-days is %d: give 0 to %d", c.RetainDays, mostDays)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.OIDC.Dial = c.World.Dial
	return c.OIDC.Check(roles, bound)
}
