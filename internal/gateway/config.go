package gateway

import (
	"context"
	"net"
	"time"

	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/policy"
	"countersign/internal/web"
	"countersign/merchant"
)

// DefaultGrace is the default of Config.Grace.
const DefaultGrace = 30 * time.Second

// Config configures a Gateway.
type Config struct {
	api.Process
	// DB is required and must have been opened for book.End. Several processes may share a PostgreSQL database.
	DB *db.DB
	// Callbacks configures the public handler: keys, API keys, binding, paths, time-outs. A Key with its private part
	// needs CallbackAPIKeys. Inbox, functions, Log, Now and Observer are ignored: the gateway sets its own.
	Callbacks merchant.Config
	// Learn books nothing: it asks for every callback again and keeps it as refused.
	Learn bool
	// Policy decides on orders that agree with the service's question. Nil: ExactOrders.
	Policy *policy.Rules
	// Grace is how long an unknown order is answered with "ask again", from its first question on. Zero: 30 s. Below
	// zero: none.
	Grace time.Duration
	// TakeAddresses lets a changed deposit address count at once. Otherwise it is held for a person.
	TakeAddresses bool
	// ChangeApprovals is how many persons must approve a change. Zero: one.
	ChangeApprovals int
	// OIDC is the identity provider with which people sign in. Zero: they use tokens.
	OIDC api.OIDCConfig
	// Forward tells the merchant's application of every deposit and event; BeginForwarding must be called before Run.
	// Zero: nothing is forwarded.
	Forward Forwarding
	// Verify asks the merchant's own check about every deposit before it counts. Zero: no check is asked.
	Verify Verifying
	// Dial opens the connections of Forward and Verify. Nil: the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Random returns numbers from 0 to below 1, which spread retries. Nil: rand.Float64.
	Random func() float64
	// Observer counts what the gateway does. Nil: nothing is counted.
	Observer Observer

	// For tests.
	lease   time.Duration                                                // of a question; zero: questionLease
	decides func(context.Context, policy.Request) (policy.Ruling, error) // nil: Policy
}

// Forwarding says where deposits and events are posted for the merchant's application, with the headers of Standard
// Webhooks. Every entry is posted until it is answered with status 2xx. Entries may come more than once and in any
// order: webhook-id is the same in all attempts of an entry, and seq orders the entries.
type Forwarding struct {
	// URL is https, or http to a loopback address. Private networks are allowed. Empty: nothing is forwarded.
	URL string
	// Secret signs. Required with URL; see web.ParseSecret.
	Secret web.Secret
	// OnlyNew makes the first start begin with the next new entry of each feed, not with the first one. Later starts go
	// on where forwarding stopped and ignore it.
	OnlyNew bool
}

// Verifying configures the merchant's own check of deposits. A deposit counts only after the check said yes;
// docs/merchant/verify.md describes the question and the answer.
type Verifying struct {
	// URL is http or https; private networks are allowed. Empty: deposits are taken as the service reports them.
	URL string
	// Secret signs the questions. Required with URL; see web.ParseSecret.
	Secret web.Secret
	// Timeout bounds one question. Zero: 30 s.
	Timeout time.Duration
	// For is how long an unverified deposit is held. Zero: 24 h.
	For time.Duration
}

// questionLease is how long other nodes leave a question to the node that works on it. A handler asks for more than the
// work can take, but a node's work on a question takes milliseconds here. Two that work on one at once agree: a final
// answer is first made the order's state, by one guarded statement, and the later node finds that state. So a lease
// only saves work. A short one lets the next node answer within the same request if one has died or lost its database.
const questionLease = 5 * time.Second

// Observer counts what a gateway does. Its methods must not block.
type Observer interface {
	merchant.Observer
	// Forwarded is called after each attempt to forward an entry to the application.
	Forwarded(result web.PostResult, took time.Duration)
}
