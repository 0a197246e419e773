package client

import (
	"context"
	"net/http"
)

// DecideDeposits decides on all held deposits that a filter selects.
type DecideDeposits struct {
	Filter DepositSearch `json:"filter" doc:"which deposits; at least one member. state is held or absent"`
	Reason string        `json:"reason,omitempty" maxLength:"500" doc:"the reason, kept for later readers, at most 500 characters"`
	DryRun bool          `json:"dryRun,omitempty" doc:"only count them"`
	UpTo   int64         `json:"upTo,omitempty" minimum:"0" doc:"only deposits with this number or a lower one: upTo of the dry run, so that nothing is decided that came since. Absent: all"`
}

// DismissRefused says that nothing is to be done about all refused callbacks that a filter
// selects.
type DismissRefused struct {
	Filter RefusedFilter `json:"filter" doc:"which of them; at least one member. state is open or absent"`
	Reason string        `json:"reason,omitempty" maxLength:"500" doc:"the reason, kept for later readers, at most 500 characters"`
	DryRun bool          `json:"dryRun,omitempty" doc:"only count them"`
	UpTo   int64         `json:"upTo,omitempty" minimum:"0" doc:"only those with this id or a lower one: upTo of the dry run, so that nothing is decided that came since. Absent: all"`
}

// Decided says how much was, or would be, decided.
type Decided struct {
	Count   int64 `json:"count" doc:"how many were decided, or would be"`
	LeftOut int64 `json:"leftOut,omitempty" doc:"how many match and were left out, as possible duplicates are when deposits are credited: decide on each by itself"`
	UpTo    int64 `json:"upTo,omitempty" doc:"the highest number among them; absent: there are none"`
	More    bool  `json:"more,omitempty" doc:"more match than one call decides: repeat it for the rest"`
	DryRun  bool  `json:"dryRun" doc:"they were only counted"`
}

// RetryRefused takes all refused callbacks that a filter selects under the present settings, the
// first that came first.
type RetryRefused struct {
	Filter RefusedFilter `json:"filter" doc:"which of them; at least one member. state is open or absent"`
	Reason string        `json:"reason,omitempty" maxLength:"500" doc:"the reason, kept for later readers, at most 500 characters"`
	DryRun bool          `json:"dryRun,omitempty" doc:"only count them"`
	UpTo   int64         `json:"upTo,omitempty" minimum:"0" doc:"only those with this id or a lower one: upTo of the dry run, so that nothing is tried that came since. Absent: all"`
	After  int64         `json:"after,omitempty" minimum:"0" doc:"only those with a higher id: next of the call before"`
}

// RetriedRefused says what became of refused callbacks that were tried again.
type RetriedRefused struct {
	Count  int64           `json:"count" doc:"how many were tried, or would be. Questions about withdrawals are not: the service asks them again"`
	Taken  int64           `json:"taken" doc:"of these, how many were taken"`
	Again  []RefusedReason `json:"again" nullable:"false" doc:"why the others were not taken, by reason; they stay open"`
	UpTo   int64           `json:"upTo,omitempty" doc:"the highest id that matches; absent: none does"`
	Next   int64           `json:"next,omitempty" doc:"one call tries for some seconds: the value of after for the rest. Absent: all that match were tried"`
	DryRun bool            `json:"dryRun" doc:"they were only counted"`
}

// RefusedReason counts refused callbacks by a reason.
type RefusedReason struct {
	Reason RefusalReason `json:"reason" doc:"why they were not taken"`
	Count  int64         `json:"count" doc:"how many"`
}

// CreditDeposits credits all held deposits that match, a few thousand at most in one call. It
// leaves out those that were decided meanwhile.
func (g *Gateway) CreditDeposits(ctx context.Context, d DecideDeposits) (Decided, error) {
	return ask[Decided](ctx, &g.caller, http.MethodPost, "/v1/deposits/credit", d)
}

// RejectDeposits likewise rejects them.
func (g *Gateway) RejectDeposits(ctx context.Context, d DecideDeposits) (Decided, error) {
	return ask[Decided](ctx, &g.caller, http.MethodPost, "/v1/deposits/reject", d)
}

// RetryAllRefused takes all refused callbacks that match, as RetryRefused does with one.
func (g *Gateway) RetryAllRefused(ctx context.Context, r RetryRefused) (RetriedRefused, error) {
	return ask[RetriedRefused](ctx, &g.caller, http.MethodPost, "/v1/refused/retry", r)
}

// DismissAllRefused says of all refused callbacks that match that nothing is to be done.
func (g *Gateway) DismissAllRefused(ctx context.Context, d DismissRefused) (Decided, error) {
	return ask[Decided](ctx, &g.caller, http.MethodPost, "/v1/refused/dismiss", d)
}
