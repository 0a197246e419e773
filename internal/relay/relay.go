package relay

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"countersign/client"
	"countersign/internal/db"
)

// Config is what a Relay needs.
type Config struct {
	// From is the URL of the core's PostgreSQL. Required.
	From string
	// Nodes are the nodes of the service, where rows go and decisions come from. One is asked until it does not answer,
	// then the next. Required.
	Nodes []*client.Service
	// Decisions writes decisions, and the permits that rows ask for, into the core's database.
	Decisions bool
	// poll is how often the table is looked at without a notification. 0: defaultPoll.
	poll time.Duration
	// batch is the most rows of one turn. 0: maxBatch.
	batch int
	// lastPause is the longest pause between two tries, and longestHold that of one merchant alone. 0: the constants of
	// these names.
	lastPause, longestHold time.Duration
	// idle is how long the transaction of a relay may be idle before the core's database ends it. 0: idleTime.
	idle time.Duration
	// probe is nodes.probe. 0: defaultProbe.
	probe time.Duration
	// Build are the metrics of the build. Nil: none.
	Build prometheus.Collector
	// Log gets a line for each refused row, for each failure, and when what failed works again. Nil: discards.
	Log *slog.Logger
}

const (
	defaultPoll = 2 * time.Second
	maxBatch    = 1000 // deposits or withdrawals in one request of the API
	// callTimeout bounds one call of the service.
	callTimeout = 20 * time.Second
	// turnTime is how long a turn sends requests: what is acknowledged is deleted only at its end.
	turnTime = 3 * time.Second
	// sqlTimeout bounds one statement in the core's database.
	sqlTimeout = 20 * time.Second
	// idleTime ends the transaction of a relay that stands still, so that another takes over. A working relay uses its
	// transaction four times meanwhile.
	idleTime = 10 * time.Second
)

// sessionSettings are the settings of a relay's connections. Most of them make every look at the table use its index.
const sessionSettings = `
SET idle_in_transaction_session_timeout = %d; SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;
SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off; SET application_name = 'countersign relay'`

// ErrNoTable means that the core's database lacks a table.
var ErrNoTable = errors.New("the table is missing in the core's database, or this role may not use it")

//go:embed outbox.sql
var outboxDDL string

//go:embed decisions.sql
var decisionsDDL string

// DDL returns the statements that make the tables in the core's database, with those of decisions if asked for.
// Applying them again changes nothing.
func DDL(decisions bool) string {
	if decisions {
		return outboxDDL + decisionsDDL
	}
	return outboxDDL
}

type Relay struct {
	c       Config
	pool    *pgxpool.Pool
	links   *db.Links
	metrics *metrics
	state   state
	wake    chan struct{} // buffered 1
	held    held
	nodes   nodes
	place   *string // the last merchant of a full turn; nil: begin with the first
}

// connect makes a pool, which connects when it is used.
func connect(url string, idle time.Duration, log *slog.Logger) (*pgxpool.Pool, *db.Links, error) {
	c, links, err := db.PoolConfig(url, log)
	if err != nil {
		return nil, nil, fmt.Errorf("--from: %w", err)
	}
	c.MaxConns = 4 // a turn, the notifications, decisions, and a read of /metrics
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, fmt.Sprintf(sessionSettings, idle.Milliseconds()))
		return err
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), c)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the core's database: %w", err)
	}
	return pool, links, nil
}
