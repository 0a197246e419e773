package jsonapi

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
	"reflect"
	"strconv"
	"strings"
	"time"
)

// maxAnswer bounds what the client reads of one answer.
const maxAnswer = 64 << 20

// Client makes the calls of an end's own client. It may be used from several
// goroutines at once. An answer with an error status is a *Problem.
type Client struct {
	base string
	// authorize puts the token on a request. A function, because fmt reaches
	// the text of any unexported field.
	authorize func(*http.Request)
	http      *http.Client
}

// NewClient makes a client of the API at baseURL, such as
// http://127.0.0.1:8080. No token is sent where it is empty. A nil hc is a client that has no time-out of its own:
// contexts bound the calls, some of which wait on purpose.
func NewClient(baseURL, token string, hc *http.Client) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("the base URL must be http or https with a host, and no user and no query")
	}
	if hc == nil {
		hc = &http.Client{}
	}
	authorize := func(*http.Request) {}
	if token != "" {
		authorize = func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	}
	return &Client{base: strings.TrimSuffix(u.String(), "/"), authorize: authorize, http: hc}, nil
}

// Do makes one call. A nil in sends no body; a nil out takes none.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		var b bytes.Buffer
		if err := EncodeJSON(&b, in); err != nil {
			return fmt.Errorf("writing the request: %w", err)
		}
		body = &b
	}
	resp, err := c.Send(ctx, method, path, TypeJSON, TypeJSON, body)
	if err != nil {
		return err
	}
	defer finish(resp)
	if out == nil || resp.StatusCode == http.StatusNoContent {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(out); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}

// NewRequest makes a request of the API that carries the token.
func (c *Client) NewRequest(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	c.authorize(req)
	return req, nil
}

// Send gives the response of a call that succeeded; the caller closes its
// body.
func (c *Client) Send(ctx context.Context, method, path, contentType, accept string, body io.Reader) (*http.Response, error) {
	req, err := c.NewRequest(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	if body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer finish(resp)
	return nil, readProblem(resp)
}

// readProblem gives the error of a response. One that did not come from the
// API, such as a proxy's, is told by its status.
func readProblem(resp *http.Response) error {
	p := &Problem{}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if mediaType == typeProblem {
		_ = json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(p)
	}
	p.Status = resp.StatusCode
	if p.Title == "" {
		p.Title = http.StatusText(resp.StatusCode)
	}
	return p
}

// finish reads the little that may be left, so that the connection can be
// used again.
func finish(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	_ = resp.Body.Close()
}

// FeedOptions says where a reader of a feed stands.
type FeedOptions struct {
	After int64         // the last sequence number that the reader has
	Limit int           // at most 1,000; 0: 100
	Wait  time.Duration // how long to wait where there is nothing, at most a minute
}

// Query writes the members of vs as query parameters, leaving out what is
// zero. Fields with a query tag have that name.
func Query(path string, vs ...any) string {
	q := url.Values{}
	for _, v := range vs {
		addQuery(q, reflect.ValueOf(v))
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

func addQuery(q url.Values, v reflect.Value) {
	for _, f := range reflect.VisibleFields(v.Type()) {
		value := v.FieldByIndex(f.Index)
		if f.Anonymous || value.IsZero() {
			continue
		}
		name := f.Tag.Get("query")
		if name == "" {
			name = strings.ToLower(f.Name[:1]) + f.Name[1:]
		}
		switch x := value.Interface().(type) {
		case string:
			q.Set(name, x)
		case int:
			q.Set(name, strconv.Itoa(x))
		case int64:
			q.Set(name, strconv.FormatInt(x, 10))
		case time.Duration:
			q.Set(name, x.String())
		}
	}
}

// Get makes a call whose answer is one T.
func Get[T any](ctx context.Context, c *Client, method, path string, in any) (T, error) {
	var out T
	err := c.Do(ctx, method, path, in, &out)
	return out, err
}
