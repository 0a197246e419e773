package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxAnswer bounds what the client reads of one answer.
const maxAnswer = 64 << 20

// Client speaks to the gateway's API. Its methods have the names of the
// operations and may be used from several goroutines at once. An answer with
// an error status is a *Problem.
type Client struct {
	base  string
	token Secret
	http  *http.Client
}

// NewClient makes a client of the gateway at baseURL, such as
// http://127.0.0.1:8091. A nil hc is a client that has no time-out of its own:
// contexts bound the calls, some of which wait on purpose.
func NewClient(baseURL, token string, hc *http.Client) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("gateway: the base URL must be http or https with a host, and no user and no query")
	}
	if hc == nil {
		hc = &http.Client{}
	}
	return &Client{base: strings.TrimSuffix(u.String(), "/"), token: Secret(token), http: hc}, nil
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

// FeedOptions says where a reader of a feed stands.
type FeedOptions struct {
	After int64         // the last sequence number that the reader has
	Limit int           // at most 1,000; 0: 100
	Wait  time.Duration // how long to wait where there is nothing, at most a minute
}

func (o FeedOptions) path(feed string) string {
	q := url.Values{"after": {strconv.FormatInt(o.After, 10)}}
	if o.Limit != 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	if o.Wait != 0 {
		q.Set("wait", o.Wait.String())
	}
	return "/v1/" + feed + "?" + q.Encode()
}

// Deposits reads the feed of deposits.
func (c *Client) Deposits(ctx context.Context, o FeedOptions) (Deposits, error) {
	return do[Deposits](ctx, c, get, o.path("deposits"), nil)
}

// Events reads the feed of events.
func (c *Client) Events(ctx context.Context, o FeedOptions) (Events, error) {
	return do[Events](ctx, c, get, o.path("events"), nil)
}

// Alarms reads the feed of alarms.
func (c *Client) Alarms(ctx context.Context, o FeedOptions) (AlarmList, error) {
	return do[AlarmList](ctx, c, get, o.path("alarms"), nil)
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
func do[T any](ctx context.Context, c *Client, method, path string, in any) (out T, err error) {
	var body io.Reader
	if in != nil {
		b, err := encodeJSON(in)
		if err != nil {
			return out, fmt.Errorf("writing the request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return out, err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return out, err
	}
	defer func() {
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // the little that may be left, to use the connection again
		_ = resp.Body.Close()
	}()
	switch {
	case resp.StatusCode >= 300:
		return out, readProblem(resp)
	case resp.StatusCode == http.StatusNoContent:
		return out, nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&out); err != nil {
		return out, fmt.Errorf("reading the answer: %w", err)
	}
	return out, nil
}

// readProblem gives the error of a response. One that did not come from the
// API, such as a proxy's, is told by its status.
func readProblem(resp *http.Response) error {
	p := &Problem{}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if mediaType == "application/problem+json" {
		_ = json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(p)
	}
	p.Status = resp.StatusCode
	if p.Title == "" {
		p.Title = http.StatusText(resp.StatusCode)
	}
	return p
}
