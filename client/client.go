package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Config configures a Service or a Gateway.
type Config struct {
	// URL is the address of the API: http or https, a host, optionally a path
	// before /v1, and no user and no query. Required. Example:
	// http://127.0.0.1:8080.
	URL string
	// Token is sent with every call. Empty: none is sent, and only Healthz,
	// Readyz and OpenAPI answer.
	Token Secret
	// HTTPClient makes the requests. Nil: a client without a time-out of its
	// own and with the transport of net/http.
	HTTPClient *http.Client
}

const typeJSON = "application/json"

// maxAnswer bounds what is read of one answer, in bytes.
const maxAnswer = 64 << 20

// Common makes the HTTP calls of Service and Gateway and has the methods that both
// share. Its methods may be used from several goroutines at once.
type Common struct {
	base string
	// authorize puts the token on a request. It is a function because fmt
	// prints the text of any unexported field.
	authorize func(*http.Request)
	http      *http.Client
}

// API is a *Service, a *Gateway or what both share.
type API interface{ common() *Common }

func (c *Common) common() *Common { return c }

func newCaller(c Config) (Common, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return Common{}, errors.New("client: Config.URL must be http or https with a host, and no user and no query")
	}
	if strings.ContainsFunc(c.Token.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return Common{}, errors.New("client: Config.Token has a character that no token has, such as a space or a line end")
	}
	if c.HTTPClient == nil {
		c.HTTPClient = &http.Client{}
	}
	authorize := func(*http.Request) {}
	if c.Token != "" {
		header := "Bearer " + c.Token.Reveal()
		authorize = func(r *http.Request) { r.Header.Set("Authorization", header) }
	}
	return Common{base: strings.TrimSuffix(u.String(), "/"), authorize: authorize, http: c.HTTPClient}, nil
}

// Call makes any call of the OpenAPI document, for programs that know it only at run time. path begins with /v1 and
// includes the query. An empty in sends no body. The answer is returned as it came, empty if there is none.
func (c *Common) Call(ctx context.Context, method, path string, in json.RawMessage) (json.RawMessage, error) {
	var body any
	if len(in) > 0 {
		body = in
	}
	return ask[json.RawMessage](ctx, c, method, path, body)
}

// Get returns what the API answers at a path, to which the fields of query are added as Query says. It serves the
// operations that have no method here.
func Get[T any](ctx context.Context, c API, path string, query ...any) (T, error) {
	if q := Query(query...); len(q) > 0 {
		path += "?" + q.Encode()
	}
	return ask[T](ctx, c, http.MethodGet, path, nil)
}

// Post posts in to a path of the API and returns the answer. A nil in sends no body. Like Get, it serves the operations
// that have no method here.
func Post[T any](ctx context.Context, c API, path string, in any) (T, error) {
	return ask[T](ctx, c, http.MethodPost, path, in)
}

// Path returns the path of the API with these parts, each escaped: Path("orders", id, "ruling").
func Path(parts ...any) string {
	path := "/v1"
	for _, part := range parts {
		path += "/" + url.PathEscape(fmt.Sprint(part))
	}
	return path
}

// ask makes a call whose answer is one T, which stays zero if there is none. A nil in sends no body.
func ask[T any](ctx context.Context, c API, method, path string, in any) (out T, err error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return out, fmt.Errorf("writing the request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	resp, err := c.common().send(ctx, method, path, body)
	if err != nil {
		return out, err
	}
	defer finish(resp)
	if resp.StatusCode == http.StatusNoContent {
		return out, nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&out); err != nil {
		return out, fmt.Errorf("reading the answer: %w", err)
	}
	return out, nil
}

// send returns the response of a call that succeeded. The caller closes its body.
func (c *Common) send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	c.authorize(req)
	req.Header.Set("Accept", typeJSON)
	if body != nil {
		req.Header.Set("Content-Type", typeJSON)
	}
	resp, err := c.http.Do(req)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case resp.StatusCode < 300:
		return resp, nil
	}
	defer finish(resp)
	return nil, readProblem(resp)
}

// finish reads the little that may be left, so that the connection can be
// used again.
func finish(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	_ = resp.Body.Close()
}
