package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"countersign/internal/jsonapi"
)

// Client speaks to the service API. Its methods have the names of the
// operations and may be used from several goroutines at once. An answer with
// an error status is a *Problem.
type Client struct{ base *jsonapi.Client }

// NewClient makes a client of the service at baseURL, such as
// http://127.0.0.1:8080. A nil hc is a client that has no time-out of its own:
// contexts bound the calls, some of which wait on purpose.
func NewClient(baseURL, token string, hc *http.Client) (*Client, error) {
	base, err := jsonapi.NewClient(baseURL, token, hc)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	return &Client{base}, nil
}

// PageOptions says which page of a list. The zero value is the first page of
// 100.
type PageOptions struct {
	Limit  int // at most 1,000; 0: 100
	Cursor string
}

func idPath(collection, id string, rest ...string) string {
	return "/v1/" + collection + "/" + url.PathEscape(id) + strings.Join(rest, "")
}

// get1 makes a call whose answer is one T.
func get1[T any](ctx context.Context, c *Client, method, path string, in any) (T, error) {
	return jsonapi.Get[T](ctx, c.base, method, path, in)
}
