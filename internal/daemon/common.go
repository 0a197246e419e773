package daemon

import (
	"log/slog"
	"time"

	"countersign/internal/api"
)

// MaxChangeApprovals bounds Common.ChangeApprovals.
const MaxChangeApprovals = api.MaxApprovals

// Common is what both daemons need. A field with a tag is a flag of the command line, and the tag explains it.
type Common struct {
	// Storage is where the end keeps its state. Its Dir is required.
	Storage `kong:"-"`
	// Alarms configures where alarms are posted. Zero: nowhere.
	Alarms AlarmPosting `kong:"-"`

	// TLS protects the listeners. Client certificates are for the API only.
	TLS             TLS           `embed:""`
	MetricsListen   string        `first:"" help:"Address of /metrics alone, which the API then does not have." placeholder:"ADDR"`
	NoConsole       bool          `help:"Do not serve the web console at /console/ of the API."`
	OIDC            OIDC          `embed:"" prefix:"oidc-"`
	RetainDays      int           `first:"" help:"How many days settled callbacks are kept in full, at the gateway deposits that were taken. What answers a repetition stays. 0: for ever." default:"0" placeholder:"N"`
	ChangeApprovals int           `help:"How many persons must approve a change, 1 to 10, all of different origins." default:"1" placeholder:"NUMBER"`
	DrainNotice     time.Duration `help:"How long the process goes on after SIGTERM with /readyz at 503, so that a load balancer stops calling." default:"0s" placeholder:"TIME"`

	// MaxBodies bounds the bytes of request bodies that each listener holds at once. Zero: 256 MiB.
	MaxBodies int64 `kong:"-"`
	// MaxConnections bounds the connections of each listener. Zero: a quarter of the file descriptors for the API and
	// half for the gateway's callbacks, at most 10,000 each.
	MaxConnections int `kong:"-"`
	// ShowToken is called with the API's first token and its file when Open makes it, after everything that can fail.
	// Nil: nothing is called.
	ShowToken func(token, file string) `kong:"-"`
	// Log gets a line for each attempt, callback and call. Nil: discards.
	Log *slog.Logger `kong:"-"`
}

// retain returns how long settled rows are kept. Zero: for ever.
func (c Common) retain() time.Duration { return time.Duration(c.RetainDays) * 24 * time.Hour }
