package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"countersign/internal/jsonapi"
)

// Client speaks to the gateway's API. Its methods have the names of the
// operations and may be used from several goroutines at once. An answer with
// an error status is a *Problem.
type Client struct{ base *jsonapi.Client }

// NewClient makes a client of the gateway at baseURL, such as
// http://127.0.0.1:8091. A nil hc is a client that has no time-out of its own:
// contexts bound the calls, some of which wait on purpose.
func NewClient(baseURL, token string, hc *http.Client) (*Client, error) {
	base, err := jsonapi.NewClient(baseURL, token, hc)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	return &Client{base}, nil
}

// AddOrder orders a withdrawal. The same order again is a duplicate.
func (c *Client) AddOrder(ctx context.Context, o NewOrder) (AddedOrder, error) {
	return do[AddedOrder](ctx, c, post, "/v1/orders", o)
}

// Order gives one order.
func (c *Client) Order(ctx context.Context, callBackID string) (OrderStatus, error) {
	return do[OrderStatus](ctx, c, get, orderPath(callBackID, ""), nil)
}

// ApproveOrder approves an order that awaits a person, or will.
func (c *Client) ApproveOrder(ctx context.Context, callBackID, reason string) (OrderStatus, error) {
	return do[OrderStatus](ctx, c, post, orderPath(callBackID, "/approve"), Decide{reason})
}

// DeclineOrder refuses an order.
func (c *Client) DeclineOrder(ctx context.Context, callBackID, reason string) (OrderStatus, error) {
	return do[OrderStatus](ctx, c, post, orderPath(callBackID, "/decline"), Decide{reason})
}

// CancelOrder takes an order back.
func (c *Client) CancelOrder(ctx context.Context, callBackID, reason string) (OrderStatus, error) {
	return do[OrderStatus](ctx, c, post, orderPath(callBackID, "/cancel"), Decide{reason})
}

// Deposits reads the feed of deposits.
func (c *Client) Deposits(ctx context.Context, o FeedOptions) (Deposits, error) {
	return do[Deposits](ctx, c, get, jsonapi.Query("/v1/deposits", o), nil)
}

// Events reads the feed of events.
func (c *Client) Events(ctx context.Context, o FeedOptions) (Events, error) {
	return do[Events](ctx, c, get, jsonapi.Query("/v1/events", o), nil)
}

// Alarms reads the feed of alarms.
func (c *Client) Alarms(ctx context.Context, o FeedOptions) (AlarmList, error) {
	return do[AlarmList](ctx, c, get, jsonapi.Query("/v1/alarms", o), nil)
}

// CreditDeposit lets a held possible duplicate count.
func (c *Client) CreditDeposit(ctx context.Context, seq int64, reason string) (DepositEntry, error) {
	return do[DepositEntry](ctx, c, post, fmt.Sprintf("/v1/deposits/%d/credit", seq), Decide{reason})
}

// RejectDeposit lets a held possible duplicate not count.
func (c *Client) RejectDeposit(ctx context.Context, seq int64, reason string) (DepositEntry, error) {
	return do[DepositEntry](ctx, c, post, fmt.Sprintf("/v1/deposits/%d/reject", seq), Decide{reason})
}

// Cursor says how far a reader has acknowledged the feeds.
func (c *Client) Cursor(ctx context.Context, name string) (CursorStatus, error) {
	return do[CursorStatus](ctx, c, get, "/v1/cursors/"+url.PathEscape(name), nil)
}

// MoveCursor acknowledges the feeds.
func (c *Client) MoveCursor(ctx context.Context, name string, to CursorMove) (CursorStatus, error) {
	return do[CursorStatus](ctx, c, put, "/v1/cursors/"+url.PathEscape(name), to)
}

// Stats counts what the gateway holds.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	return do[Stats](ctx, c, get, "/v1/stats", nil)
}

// CreateToken makes a token.
func (c *Client) CreateToken(ctx context.Context, t NewToken) (CreatedToken, error) {
	return do[CreatedToken](ctx, c, post, "/v1/tokens", t)
}

// RevokeToken revokes a token.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	_, err := do[struct{}](ctx, c, remove, "/v1/tokens/"+url.PathEscape(id), nil)
	return err
}

func orderPath(callBackID, rest string) string {
	return "/v1/orders/" + url.PathEscape(callBackID) + rest
}

// do makes one call. A nil in sends no body.
func do[T any](ctx context.Context, c *Client, method, path string, in any) (T, error) {
	return jsonapi.Get[T](ctx, c.base, method, path, in)
}
