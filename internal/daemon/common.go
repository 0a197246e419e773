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
	MetricsListen   string        `first:"" help:"Separate address for /metrics. Empty: the API's address." placeholder:"ADDR"`
	NoConsole       bool          `help:"Serve no web console."`
	OIDC            OIDC          `embed:"" prefix:"oidc-"`
	RetainDays      int           `first:"" help:"Days for which settled callbacks (gateway: deposits) are kept in full. 0: for ever." default:"0" placeholder:"N"`
	ChangeApprovals int           `help:"Persons of different origins who must approve a change, 1 to 10." default:"1" placeholder:"NUMBER"`
	DrainNotice     time.Duration `help:"How long /readyz says 503 after SIGTERM before the process stops." default:"0s" placeholder:"TIME"`

	// ShowToken is called with the API's first token and its file when Open makes it, after everything that can fail.
	// Nil: nothing is called.
	ShowToken func(token, file string) `kong:"-"`
	// Log gets a line for each attempt, callback and call. Nil: discards.
	Log *slog.Logger `kong:"-"`
}

// retain returns how long settled rows are kept. Zero: for ever.
func (c Common) retain() time.Duration { return time.Duration(c.RetainDays) * 24 * time.Hour }
