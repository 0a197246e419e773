package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// New checks c. It connects to nothing.
func New(c Config) (*Relay, error) {
	switch {
	case c.From == "":
		return nil, errors.New("relay: Config.From is missing")
	case len(c.Nodes) == 0:
		return nil, errors.New("relay: Config.Nodes is missing")
	}
	c.poll, c.batch = cmp.Or(c.poll, defaultPoll), cmp.Or(c.batch, maxBatch)
	c.lastPause, c.longestHold, c.idle = cmp.Or(c.lastPause, lastPause), cmp.Or(c.longestHold, longestHold),
		cmp.Or(c.idle, idleTime)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	r := &Relay{c: c, wake: make(chan struct{}, 1), held: held{most: c.longestHold, until: map[string]pause{},
		parked: map[int64]string{}}}
	r.nodes.list, r.nodes.probe = c.Nodes, cmp.Or(c.probe, defaultProbe)
	r.state.log, r.state.failed = c.Log, map[string]string{}
	var err error
	if r.pool, r.links, err = connect(c.From, c.idle, c.Log); err != nil {
		return nil, err
	}
	r.metrics = newMetrics(r)
	return r, nil
}

// Run carries rows until ctx ends; then it ends the turn under way and returns. It fails at once with ErrNoTable if the
// core's database answers and lacks a table. Otherwise it waits for both ends as long as it takes.
func (r *Relay) Run(ctx context.Context) error {
	defer r.pool.Close()
	if err := r.checkTables(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer cancel()
	if r.links.Several() {
		parts.Go(func() { r.links.Watch(ctx) })
	}
	parts.Go(func() { r.listen(ctx) })
	if r.c.Decisions {
		parts.Go(func() { r.decisions(ctx) })
	}
	r.carry(ctx)
	return nil
}

// checkTables returns an error if a table is missing. A database that does not answer is no error here.
func (r *Relay) checkTables(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sqlTimeout)
	defer cancel()
	ddl := "countersign relay ddl"
	_, err := r.pool.Exec(ctx, `SELECT id, kind, body, created, merchant, refused, problem FROM countersign_outbox LIMIT 0`)
	if err == nil && r.c.Decisions {
		ddl += " --decisions"
		_, err = r.pool.Exec(ctx, `SELECT d.seq, r.decisions, p.answer FROM countersign_decisions d, countersign_relay r, countersign_permits p LIMIT 0`)
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code[:2] == "42") { // no such table, no such column, no right
		return fmt.Errorf("%w: %s; %s prints what makes it", ErrNoTable, refused.Message, ddl)
	}
	return nil
}
