package daemon

import (
	"log/slog"
	"time"

	"countersign/internal/api"
)

// MaxChangeApprovals bounds Common.ChangeApprovals.
const MaxChangeApprovals = api.MaxApprovals

// Common is what both daemons need.
type Common struct {
	// Storage says where the end keeps its state. Its Dir is required.
	Storage
	// ChangeDelay is how long after its approval a change takes effect. Zero: at once.
	ChangeDelay time.Duration
	// ChangeApprovals is how many persons must approve a change. Zero: one.
	ChangeApprovals int
	// Retain is how long what is settled stays, at the gateway deposits that were taken. Zero: for ever.
	Retain time.Duration
	// Alarms says where alarms are posted. Zero: nowhere.
	Alarms AlarmPosting
	// DrainNotice is how long everything goes on after Run's context has ended, while /readyz already
	// answers 503. Zero: no time.
	DrainNotice time.Duration
	// MaxBodies is how many bytes of bodies of requests each listener holds at once. Zero: 256 MiB.
	MaxBodies int64
	// MaxConnections is how many connections each listener has at once. Zero: of the file descriptors
	// a quarter for the API and half for the gateway's callbacks, 10,000 each at most.
	MaxConnections int
	// NoConsole leaves the web console out.
	NoConsole bool
	// OIDC is the identity provider that people sign in with. Zero: they have tokens.
	OIDC OIDC
	// TLS protects the listeners; client certificates are for the API alone.
	TLS TLS
	// MetricsListen is the address of /metrics, which the API then does not have. Empty: the API
	// has it.
	MetricsListen string
	// ShowToken is called with the API's first token and its file when Open makes it, after everything
	// that can fail. Nil: it is not called.
	ShowToken func(token, file string)
	// Log gets a line for each attempt or callback, and for each call. Nil: discards.
	Log *slog.Logger
}
