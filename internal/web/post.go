package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// PosterConfig is what NewPoster needs.
type PosterConfig struct {
	// URL is http or https; private networks are allowed, because the operator
	// configures it. Required.
	URL string
	// Secret signs; see ParseSecret. Nil: nothing is signed.
	Secret Secret
	// Timeout bounds one attempt. Zero: 10 s.
	Timeout time.Duration
	// Connections is how many idle connections are kept. Zero: 1.
	Connections int
	// Agent is the User-Agent. Empty: "countersign".
	Agent string
	// Dial opens connections. Nil: the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
}

// PostResult says how an attempt to post ended. The list is fixed: it is a label of
// metrics.
type PostResult string

// The results. All but Posted are tried again.
const (
	Posted      PostResult = "done"    // status 2xx
	PostStatus  PostResult = "status"  // any other
	PostTimeout PostResult = "timeout" // no answer in time
	PostFailed  PostResult = "failed"  // no connection, or it broke
)

// Poster posts to one URL. Its methods may be used from several goroutines at once.
type Poster struct {
	c      PosterConfig
	client *http.Client
}

// NewPoster checks c. It opens nothing.
func NewPoster(c PosterConfig) (*Poster, error) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "":
		return nil, errors.New("the URL must be http or https with a host, and no user and no fragment")
	case c.Secret != nil && c.Secret.Check() != nil:
		return nil, c.Secret.Check()
	case c.Timeout < 0 || c.Connections < 0:
		return nil, errors.New("a limit is below 0")
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	if c.Agent == "" {
		c.Agent = "countersign"
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: 5 * time.Second}).DialContext
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Poster{c: c, client: &http.Client{
		// An answer that redirects is not from the receiver.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:         c.Dial,
			TLSHandshakeTimeout: 5 * time.Second, DisableCompression: true,
			MaxIdleConnsPerHost: max(c.Connections, 1), IdleConnTimeout: time.Minute,
		},
	}}, nil
}

// Close closes idle connections.
func (p *Poster) Close() { p.client.CloseIdleConnections() }

// Timeout returns how long one attempt takes at most.
func (p *Poster) Timeout() time.Duration { return p.c.Timeout }

// Post makes one attempt. The receiver recognises repetitions by id, which must not contain a point.
func (p *Poster) Post(ctx context.Context, id string, body []byte) (PostResult, int, error) {
	ctx, cancel := context.WithTimeout(ctx, p.c.Timeout)
	defer cancel()
	resp, err := p.do(ctx, id, body)
	if err != nil {
		if ctx.Err() != nil {
			return PostTimeout, 0, err
		}
		return PostFailed, 0, err
	}
	defer resp.Body.Close()
	// The answer has no meaning; reading a little of it keeps the connection.
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	if resp.StatusCode/100 != 2 {
		return PostStatus, resp.StatusCode, nil
	}
	return Posted, resp.StatusCode, nil
}

// Ask makes one attempt and returns the body of the response. More than limit bytes are an error.
func (p *Poster) Ask(ctx context.Context, id string, body []byte, limit int) (answer []byte, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.c.Timeout)
	defer cancel()
	resp, err := p.do(ctx, id, body)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	if err == nil && len(answer) > limit {
		err = fmt.Errorf("the answer has more than %d bytes", limit)
	}
	return answer, resp.StatusCode, err
}

func (p *Poster) do(ctx context.Context, id string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.c.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	at := p.c.Now()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", p.c.Agent)
	req.Header.Set(HeaderID, id)
	req.Header.Set(HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	if p.c.Secret != nil {
		req.Header.Set(HeaderSignature, Sign(p.c.Secret, id, at, body))
	}
	return p.client.Do(req)
}

const (
	delayFirst = 5 * time.Second // after the first failure; it doubles up to the longest
	delayMost  = time.Hour
)

// RetryDelay returns how long after its n-th failed attempt a message is tried again. random, from 0 to below 1, adds up to
// a quarter, which spreads the retries of messages that failed together.
func RetryDelay(n int, random float64) time.Duration {
	d := delay(n)
	return d + time.Duration(random*float64(d)/4)
}

func delay(n int) time.Duration { return min(delayFirst<<min(max(n-1, 0), 12), delayMost) }

// WithoutURL returns the text of err without the URL, which can hold secrets.
func WithoutURL(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err.Error()
	}
	return err.Error()
}
