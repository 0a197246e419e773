package main

import (
	"context"
	"errors"

	"countersign"
	"countersign/client"
)

type callbacksCmd struct {
	List   callbacksListCmd   `cmd:"" help:"List callbacks, the newest first."`
	Show   callbacksShowCmd   `cmd:"" help:"Show one callback with its attempts."`
	Resend callbacksResendCmd `cmd:"" help:"Send refused or exhausted callbacks again, and pending ones now: one by its id, or all that match."`
}

// callbackFilter selects callbacks.
type callbackFilter struct {
	Merchant   string               `help:"Only of this merchant." placeholder:"ID"`
	Type       countersign.Type     `help:"Only of this type (PROTOCOL.md, Messages)." placeholder:"N"`
	State      client.CallbackState `help:"Only in this state." enum:",pending,sending,accepted,refused,exhausted,cancelled" default:"" placeholder:"STATE"`
	TrackingID string               `name:"tracking-id" help:"Only with this trackingId." placeholder:"ID"`
	TxID       string               `name:"tx-id" help:"Only of this transaction." placeholder:"ID"`
	CallBackID string               `name:"call-back-id" help:"Only of this withdrawal." placeholder:"ID"`
	User       string               `name:"tenant-user-id" help:"Only about this user; finds what was taken since the upgrade to this release." placeholder:"ID"`
	Address    string               `help:"Only about what goes to this address; finds what was taken since the upgrade to this release." placeholder:"ADDRESS"`
	Told       client.Told          `help:"Only what may have been told before a restore (possibly), or what is sent again though it was accepted (again)." placeholder:"TOLD"`
	spanFlags
}

func (f callbackFilter) api() client.CallbackFilter {
	return client.CallbackFilter{Merchant: f.Merchant, Type: f.Type, State: f.State, TrackingID: f.TrackingID, TxID: f.TxID, CallBackID: f.CallBackID, TenantUserID: f.User, Address: f.Address, Told: f.Told, Since: client.Time(f.Since), Until: client.Time(f.Until)}
}

type callbacksListCmd struct {
	apiFlags
	callbackFilter
	listFlags
}

func (c *callbacksListCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	return list(std, c.listFlags, api.AllCallbacks(ctx, c.api()), "ID|CREATED|MERCHANT|TYPE|STATE|ATTEMPTS|TRACKING ID|LAST REASON",
		func(v client.Callback) []any {
			return []any{v.ID, v.Created, v.Merchant, int(v.Type), v.State, v.Attempt, v.TrackingID, v.LastReason}
		})
}

type callbacksShowCmd struct {
	apiFlags
	ID string `arg:"" help:"The callback."`
}

func (c *callbacksShowCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	return std.show(api.Callback(ctx, c.ID))
}

type callbacksResendCmd struct {
	apiFlags
	callbackFilter
	ID     string `arg:"" optional:"" help:"One callback; without it the flags select."`
	DryRun bool   `help:"Only count what would be sent."`

	Accepted bool `help:"Send the one callback also if the merchant has accepted it: for a merchant that has lost it."`
}

func (c *callbacksResendCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	filtered := c.callbackFilter != callbackFilter{}
	switch {
	case c.Accepted && c.ID == "":
		return errors.New("--accepted needs the id of one callback")
	case c.ID != "" && (filtered || c.DryRun):
		return errors.New("give an id or a selection, not both")
	case c.Accepted:
		return std.show(api.RepeatCallback(ctx, c.ID))
	case c.ID != "":
		return std.show(api.ResendCallback(ctx, c.ID))
	case !filtered:
		return errors.New("give an id, or a selection such as --merchant")
	}
	return std.show(api.ResendCallbacks(ctx, client.Resend{Filter: c.api(), DryRun: c.DryRun}))
}
