package daemon

import (
	"log/slog"
	"time"

	"countersign/internal/api"
)

// MaxChangeApprovals bounds Common.ChangeApprovals.
const MaxChangeApprovals = api.MaxApprovals

// Common is what both daemons need. Fields with a tag are flags of the command line, and the tag says what they mean.
type Common struct {
	// Storage says where the end keeps its state. Its Dir is required.
	Storage `kong:"-"`
	// Alarms says where alarms are posted. Zero: nowhere.
	Alarms AlarmPosting `kong:"-"`

	// TLS protects the listeners; client certificates are for the API alone.
	TLS             TLS           `embed:""`
	MetricsListen   string        `first:"" help:"Address of /metrics alone, which the API then does not have." placeholder:"ADDR"`
	NoConsole       bool          `help:"Do not serve the web console at /console/ of the API."`
	OIDC            OIDC          `embed:"" prefix:"oidc-"`
	RetainDays      int           `first:"" help:"How many days settled callbacks are kept in full, at the gateway deposits that were taken. What answers a repetition stays. 0: for ever." default:"0" placeholder:"N"`
	ChangeApprovals int           `help:"How many persons must approve a change, 1 to 10, all of different origins." default:"1" placeholder:"NUMBER"`
	DrainNotice     time.Duration `help:"How long the process goes on after SIGTERM with /readyz at 503, so that a load balancer stops calling." default:"0s" placeholder:"TIME"`

	// MaxBodies is how many bytes of bodies of requests each listener holds at once. Zero: 256 MiB.
	MaxBodies int64 `kong:"-"`
	// MaxConnections is how many connections each listener has at once. Zero: of the file descriptors
	// a quarter for the API and half for the gateway's callbacks, 10,000 each at most.
	MaxConnections int `kong:"-"`
	// ShowToken is called with the API's first token and its file when Open makes it, after everything
	// that can fail. Nil: it is not called.
	ShowToken func(token, file string) `kong:"-"`
	// Log gets a line for each attempt or callback, and for each call. Nil: discards.
	Log *slog.Logger `kong:"-"`
}

// retain is how long what is settled stays. Zero: for ever.
func (c Common) retain() time.Duration { return time.Duration(c.RetainDays) * 24 * time.Hour }
