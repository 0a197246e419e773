package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/audit"
	"countersign/internal/bodies"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// Backend is the part of the outbox that the API uses. *outbox.Outbox is one.
type Backend interface {
	api.Rows
	Ready(ctx context.Context) error

	CreateMerchant(ctx context.Context, m outbox.Merchant, now db.Millis) (outbox.Merchant, error)
	ChangeMerchant(ctx context.Context, id string, version int64, now db.Millis, change func(*outbox.Merchant) error, also func(context.Context, *db.Tx) error) (outbox.Merchant, error)
	Merchant(ctx context.Context, id string) (outbox.Merchant, error)
	Merchants(ctx context.Context, deleted bool, after string, limit int) ([]outbox.Merchant, error)
	MerchantsOf(ctx context.Context, ids []string, deleted bool, after string, limit int) ([]outbox.Merchant, error)
	DeleteMerchant(ctx context.Context, id string, version int64, now db.Millis, also func(context.Context, *db.Tx) error) (outbox.Merchant, error)
	WorkLeft(ctx context.Context, id string) error
	Waiting(ctx context.Context, id string) ([]outbox.FirstDue, error)
	Health(ctx context.Context, merchants []string, now db.Millis) (map[string]outbox.Health, error)
	EndedRotations(ctx context.Context, now db.Millis) ([]string, error)
	SetMerchantState(ctx context.Context, id string, state outbox.MerchantState, reason string, now db.Millis) (outbox.Merchant, error)

	Frozen(ctx context.Context) (outbox.Freeze, error)
	Freeze(ctx context.Context, reason, by string, now db.Millis) (outbox.Freeze, error)
	Thaw(ctx context.Context, now db.Millis) error

	Ingest(ctx context.Context, list []outbox.NewCallback, now db.Millis) ([]outbox.Ingested, error)
	IngestWithin(ctx context.Context, list []outbox.NewCallback, quota outbox.Quota, now db.Millis) ([]outbox.Ingested, error)
	Callback(ctx context.Context, id string) (outbox.Callback, error)
	Attempts(ctx context.Context, id string) ([]outbox.Attempt, error)
	CallbacksWith(ctx context.Context, requestUUID string) ([]string, error)
	Unread(ctx context.Context, id string) (map[int][]byte, error)
	Callbacks(ctx context.Context, f outbox.CallbackFilter, limit int, cursor string) ([]outbox.Callback, string, error)
	Resend(ctx context.Context, id string, now db.Millis) (outbox.Callback, error)
	Repeat(ctx context.Context, ids []string, now db.Millis) (int64, error)
	ToldDeposits(ctx context.Context, of []string, cursor string, limit int) ([]outbox.ToldDeposit, string, error)
	ResendMatching(ctx context.Context, f outbox.CallbackFilter, dryRun bool, now db.Millis) (int64, error)

	CreateWithdrawals(ctx context.Context, list []outbox.NewWithdrawal, now db.Millis) ([]outbox.CreatedWithdrawal, error)
	Withdrawal(ctx context.Context, id string) (outbox.Withdrawal, error)
	WithdrawalByCallBackID(ctx context.Context, merchant, callBackID string) (outbox.Withdrawal, error)
	WithdrawalsWhere(ctx context.Context, f outbox.WithdrawalFilter, limit int, cursor string) ([]outbox.Withdrawal, string, error)
	CancelWithdrawal(ctx context.Context, id string, now db.Millis) (outbox.Withdrawal, error)
	ResumeWithdrawal(ctx context.Context, id, reason, by string, now db.Millis) (outbox.Withdrawal, error)
	BlockWithdrawal(ctx context.Context, id, reason, by string, now db.Millis) (outbox.Withdrawal, error)
	WithdrawalNotes(ctx context.Context, id string) ([]db.Note, error)
	NoteWithdrawal(ctx context.Context, id string, n db.Note) (db.Note, error)
	Release(ctx context.Context, id string, holder outbox.Holder, permit string, now db.Millis) (outbox.Permit, error)
	RecordWaiting(ctx context.Context, id string, n outbox.NewCallback, now db.Millis) (outbox.Withdrawal, string, error)
	RecordOutcome(ctx context.Context, id string, o outbox.Outcome, now db.Millis) (outbox.Withdrawal, bool, error)
	Decisions(ctx context.Context, after int64, limit int) ([]outbox.FeedDecision, error)
	DecisionsOf(ctx context.Context, merchants []string, after int64, limit int) ([]outbox.FeedDecision, int64, error)
	Watch(t db.Topic) (<-chan struct{}, func())

	Subject(ctx context.Context, id string) (audit.Subject, error)
	Stats(ctx context.Context) (outbox.Stats, error)
	Breakers(ctx context.Context) ([]outbox.Breaker, error)
	FailingMerchants(ctx context.Context) ([]outbox.FailingMerchant, error)
}

// Config is what a Server needs.
type Config struct {
	// Outbox is required.
	Outbox Backend
	// Lists is Outbox with connections of its own, for the calls that read lists.
	// Nil: Outbox.
	Lists Backend
	// Audit is the service's audit log. Nil: its routes find nothing.
	Audit *audit.Log
	// Trace is told of what calls did. Nil: nothing is.
	Trace func(api.Traced)
	// Tokens keeps the service's tokens. Required.
	Tokens api.TokenStore
	// Changes keeps the changes that wait for an approver, and the passkeys of Tokens. New
	// says how changes of merchants are applied. Required.
	Changes *api.Changes
	// Keys are the service's keys beside those of merchants. Nil: none are shown.
	Keys *api.Keys
	// CheckURL says whether a merchant's URL may be called. Its error is shown
	// to the caller. Required.
	CheckURL func(rawURL string, allowPrivate bool) error
	// DefaultAllowPrivate is the default of a merchant's allowPrivate. If it is
	// false, no call of the API can set allowPrivate to true.
	DefaultAllowPrivate bool
	// Aside runs what keeps a core for long, such as making a key, behind the sending of
	// callbacks. Its error is shown with status 503. Nil: it runs at once.
	Aside func(ctx context.Context, f func()) error
	// Hour gives what this process did in the last hour. Nil: nothing is counted.
	Hour func() client.Hour
	// Node is the id of this process among the nodes of the database. Empty: it is none of
	// them.
	Node string
	// Metrics answers /metrics, without a token. Nil: there is no such route.
	Metrics http.Handler
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
	// Log gets one line for every call that changes something, is refused or
	// fails. Nil: discards.
	Log *slog.Logger
	// MaxBody is the longest body in bytes; what is sent as lines has no such
	// limit. 0: 4 MiB, which holds 1,000 deposits of 4 KiB.
	MaxBody int64
	// Bodies is as in api.Config.
	Bodies *bodies.Shares
	// RatePerSecond is how many requests a second one token may make, and how
	// many at once; what is sent as a line counts as one. 0: 2,000.
	RatePerSecond float64
	// StreamLife is how long one request of lines may go on. 0: 10 min.
	StreamLife time.Duration
	// Version is told in the OpenAPI document. Empty: "dev".
	Version string
}

// maxBatch is the most deposits or withdrawals in one JSON request, and the most lines in one
// commit.
const maxBatch = 1000

// Server answers the API. Make it with New.
type Server struct {
	Config
	api *api.API
}

// New checks c. It starts nothing.
func New(c Config) (*Server, error) {
	switch {
	case c.Outbox == nil || c.Tokens == nil || c.Changes == nil:
		return nil, errors.New("admin: Config.Outbox, Config.Tokens or Config.Changes is missing")
	case c.CheckURL == nil:
		return nil, errors.New("admin: Config.CheckURL is missing")
	case c.MaxBody < 0 || c.RatePerSecond < 0 || c.StreamLife < 0:
		return nil, errors.New("admin: a limit is below 0")
	}
	if c.Lists == nil {
		c.Lists = c.Outbox
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.MaxBody == 0 {
		c.MaxBody = 4 << 20
	}
	if c.RatePerSecond == 0 {
		c.RatePerSecond = 2000
	}
	if c.Hour == nil {
		c.Hour = func() client.Hour { return client.Hour{Slices: []client.HourSlice{}} }
	}
	if c.StreamLife == 0 {
		c.StreamLife = defaultLife
	}
	if c.Version == "" {
		c.Version = "dev"
	}
	s := &Server{Config: c}
	c.Changes.Versions(func(ctx context.Context, merchant string) (int64, error) {
		m, err := c.Outbox.Merchant(ctx, merchant)
		return m.Version, err
	})
	c.Changes.Handle(client.ChangeMerchant, s.applySettings())
	c.Changes.Handle(client.ChangeKeys, s.applyKeys())
	c.Changes.Handle(client.ChangeRotation, s.applyRotation())
	c.Changes.Handle(client.ChangeDelete, s.applyDelete())
	var err error
	s.api, err = api.New(api.Config{
		Self: "the service", Title: title, Description: description, TokenDescription: tokenUse, Tags: tags, Version: c.Version,
		Tokens: c.Tokens, Metrics: c.Metrics, Now: c.Now, Log: c.Log, Trace: c.Trace,
		MaxBody: c.MaxBody, Bodies: c.Bodies, RatePerSecond: c.RatePerSecond, Concerns: concernsPath, ProblemOf: problemOf,
		Aliases: aliases(), Shape: shapeSettings, Webhooks: []api.Webhook{api.AlarmPosted()},
	}, s.table())
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	return s, nil
}

// Handler answers every route, /healthz, /readyz, /metrics and /openapi.json
// included.
func (s *Server) Handler() http.Handler { return s.api.Mux() }

// Leave makes /readyz answer 503 while everything else goes on.
func (s *Server) Leave() { s.api.Leave() }

// Stop makes waiting requests answer at once, requests of lines end at their next line
// and /readyz answer 503. Call it before http.Server.Shutdown, which would otherwise
// wait for those requests.
func (s *Server) Stop() { s.api.Stop() }
