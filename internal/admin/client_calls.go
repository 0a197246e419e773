package admin

import (
	"context"
	"encoding/json"
	"iter"

	"countersign/internal/jsonapi"
)

// CreateMerchant makes a merchant and its keys. What the answer holds beside
// the merchant is shown this once.
func (c *Client) CreateMerchant(ctx context.Context, m NewMerchant) (CreatedMerchant, error) {
	return get1[CreatedMerchant](ctx, c, post, "/v1/merchants", m)
}

// Merchants gives a page of merchants by id.
func (c *Client) Merchants(ctx context.Context, o PageOptions) (MerchantPage, error) {
	return get1[MerchantPage](ctx, c, get, jsonapi.Query("/v1/merchants", o), nil)
}

// AllMerchants gives every merchant by id, page after page.
func (c *Client) AllMerchants(ctx context.Context) iter.Seq2[Merchant, error] {
	return all(func(cursor string) ([]Merchant, *string, error) {
		p, err := c.Merchants(ctx, PageOptions{Limit: 1000, Cursor: cursor})
		return p.Merchants, p.Next, err
	})
}

// Merchant gives one merchant.
func (c *Client) Merchant(ctx context.Context, id string) (Merchant, error) {
	return get1[Merchant](ctx, c, get, idPath("merchants", id), nil)
}

// UpdateMerchant changes the members that p sets.
func (c *Client) UpdateMerchant(ctx context.Context, id string, p MerchantPatch) (Merchant, error) {
	return get1[Merchant](ctx, c, patch, idPath("merchants", id), p)
}

// PauseMerchant stops sending to a merchant. An empty reason says that an
// operator did it.
func (c *Client) PauseMerchant(ctx context.Context, id, reason string) (Merchant, error) {
	return get1[Merchant](ctx, c, post, idPath("merchants", id, "/pause"), Pause{reason})
}

// ResumeMerchant sends to a merchant again.
func (c *Client) ResumeMerchant(ctx context.Context, id string) (Merchant, error) {
	return get1[Merchant](ctx, c, post, idPath("merchants", id, "/resume"), nil)
}

// RotateKeys makes or sets new keys. They hold from the next attempt on: pause
// the merchant first and resume it when it has them.
func (c *Client) RotateKeys(ctx context.Context, id string, k NewKeys) (Keys, error) {
	return get1[Keys](ctx, c, post, idPath("merchants", id, "/keys"), k)
}

// AddDeposits tells merchants of 1 to 1,000 deposits, all or nothing. See
// StreamDeposits for more.
func (c *Client) AddDeposits(ctx context.Context, list ...NewDeposit) ([]Accepted, error) {
	if list == nil {
		list = []NewDeposit{}
	}
	out, err := get1[AcceptedDeposits](ctx, c, post, "/v1/deposits", list)
	return out.Callbacks, err
}

// CreateWithdrawal asks a merchant to confirm a withdrawal. The same callBackId
// with the same content gives the one that is there.
func (c *Client) CreateWithdrawal(ctx context.Context, w NewWithdrawal) (AcceptedWithdrawal, error) {
	return get1[AcceptedWithdrawal](ctx, c, post, "/v1/withdrawals", w)
}

// WithdrawalFilter selects withdrawals. Empty members select all; CallBackID
// needs Merchant.
type WithdrawalFilter struct {
	Merchant   string
	CallBackID string `query:"callBackId"`
	State      string
}

// Withdrawals gives a page of withdrawals, the newest first.
func (c *Client) Withdrawals(ctx context.Context, f WithdrawalFilter, o PageOptions) (WithdrawalPage, error) {
	return get1[WithdrawalPage](ctx, c, get, jsonapi.Query("/v1/withdrawals", f, o), nil)
}

// AllWithdrawals gives every withdrawal that f selects, the newest first.
func (c *Client) AllWithdrawals(ctx context.Context, f WithdrawalFilter) iter.Seq2[Withdrawal, error] {
	return all(func(cursor string) ([]Withdrawal, *string, error) {
		p, err := c.Withdrawals(ctx, f, PageOptions{Limit: 1000, Cursor: cursor})
		return p.Withdrawals, p.Next, err
	})
}

// Withdrawal gives one withdrawal.
func (c *Client) Withdrawal(ctx context.Context, id string) (Withdrawal, error) {
	return get1[Withdrawal](ctx, c, get, idPath("withdrawals", id), nil)
}

// CancelWithdrawal withdraws the question while it awaits its answer.
func (c *Client) CancelWithdrawal(ctx context.Context, id string) (Withdrawal, error) {
	return get1[Withdrawal](ctx, c, post, idPath("withdrawals", id, "/cancel"), nil)
}

// ReleaseWithdrawal takes the one permit to execute a confirmed withdrawal.
// The same claim again gets the same permit; any other is store.ErrConflict
// for ever.
func (c *Client) ReleaseWithdrawal(ctx context.Context, id, claim string) (Permit, error) {
	return get1[Permit](ctx, c, post, idPath("withdrawals", id, "/release"), Claim{claim})
}

// ReportOutcome says how a released withdrawal ended.
func (c *Client) ReportOutcome(ctx context.Context, id string, o Outcome) (AcceptedWithdrawal, error) {
	return get1[AcceptedWithdrawal](ctx, c, post, idPath("withdrawals", id, "/outcome"), o)
}

// Decisions gives a part of the decision feed.
func (c *Client) Decisions(ctx context.Context, o FeedOptions) (Decisions, error) {
	return get1[Decisions](ctx, c, get, jsonapi.Query("/v1/decisions", o), nil)
}

// FollowDecisions gives the decisions after a sequence number and waits for
// new ones, until ctx ends or a call fails.
func (c *Client) FollowDecisions(ctx context.Context, after int64) iter.Seq2[Decision, error] {
	return follow(ctx, after, func(o FeedOptions) ([]Decision, int64, error) {
		p, err := c.Decisions(ctx, o)
		return p.Decisions, p.Next, err
	})
}

// Callbacks gives a page of callbacks, the newest first.
func (c *Client) Callbacks(ctx context.Context, f CallbackFilter, o PageOptions) (CallbackPage, error) {
	return get1[CallbackPage](ctx, c, get, jsonapi.Query("/v1/callbacks", f, o), nil)
}

// AllCallbacks gives every callback that f selects, the newest first.
func (c *Client) AllCallbacks(ctx context.Context, f CallbackFilter) iter.Seq2[Callback, error] {
	return all(func(cursor string) ([]Callback, *string, error) {
		p, err := c.Callbacks(ctx, f, PageOptions{Limit: 1000, Cursor: cursor})
		return p.Callbacks, p.Next, err
	})
}

// Callback gives one callback with its attempts.
func (c *Client) Callback(ctx context.Context, id string) (CallbackDetail, error) {
	return get1[CallbackDetail](ctx, c, get, idPath("callbacks", id), nil)
}

// ResendCallback sends a refused or exhausted callback again.
func (c *Client) ResendCallback(ctx context.Context, id string) (Callback, error) {
	return get1[Callback](ctx, c, post, idPath("callbacks", id, "/resend"), nil)
}

// ResendCallbacks sends all refused and exhausted callbacks that match again.
func (c *Client) ResendCallbacks(ctx context.Context, r Resend) (Resent, error) {
	return get1[Resent](ctx, c, post, "/v1/callbacks/resend", r)
}

// Alarms gives a part of the alarm feed.
func (c *Client) Alarms(ctx context.Context, o FeedOptions) (Alarms, error) {
	return get1[Alarms](ctx, c, get, jsonapi.Query("/v1/alarms", o), nil)
}

// FollowAlarms gives the alarms after a sequence number and waits for new
// ones, until ctx ends or a call fails.
func (c *Client) FollowAlarms(ctx context.Context, after int64) iter.Seq2[Alarm, error] {
	return follow(ctx, after, func(o FeedOptions) ([]Alarm, int64, error) {
		p, err := c.Alarms(ctx, o)
		return p.Alarms, p.Next, err
	})
}

// Stats gives the queues, withdrawals and breakers.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	return get1[Stats](ctx, c, get, "/v1/stats", nil)
}

// CreateToken makes a token. Its secret is shown this once.
func (c *Client) CreateToken(ctx context.Context, t NewToken) (CreatedToken, error) {
	return get1[CreatedToken](ctx, c, post, "/v1/tokens", t)
}

// Tokens lists all tokens, revoked ones too.
func (c *Client) Tokens(ctx context.Context) ([]Token, error) {
	out, err := get1[Tokens](ctx, c, get, "/v1/tokens", nil)
	return out.Tokens, err
}

// RevokeToken ends a token: at once on the node that is asked, within a second
// on the others.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	return c.base.Do(ctx, remove, idPath("tokens", id), nil, nil)
}

// Healthz fails where the process does not answer.
func (c *Client) Healthz(ctx context.Context) error { return c.base.Do(ctx, get, "/healthz", nil, nil) }

// Readyz fails where the service cannot work.
func (c *Client) Readyz(ctx context.Context) error { return c.base.Do(ctx, get, "/readyz", nil, nil) }

// OpenAPI gives the OpenAPI document.
func (c *Client) OpenAPI(ctx context.Context) (json.RawMessage, error) {
	return get1[json.RawMessage](ctx, c, get, "/openapi.json", nil)
}
