package conformance

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/merchant"
)

// Checker plays the service. It runs the cases, one run at a time, or sends one callback at a time, right or with a
// fault.
type Checker struct {
	cfg    Config
	urls   [2]*url.URL // by lane
	order  countersign.Details
	client *http.Client
	dialer *net.Dialer
	raw    rawKey
	fakes  *countersigntest.Service // makes the faults

	prefix  string            // of every identifier
	made    atomic.Int64      // numbers the samples, which differ from those of earlier runs
	settled map[string]effect // by trackingId: what the cases that passed have seen
}

// New checks c and connects to nothing.
func New(c Config) (*Checker, error) {
	k := &Checker{cfg: c, dialer: newDialer(c.AllowPublic), prefix: "cs" + randomHex(5)}
	k.made.Store(time.Now().UnixMilli())
	for to, raw := range []string{countersign.LaneNotify: c.NotifyURL, countersign.LaneWithdraw: c.WithdrawURL} {
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			return nil, fmt.Errorf("%w: the %v URL is not an absolute http or https URL", ErrConfig, countersign.Lane(to))
		}
		k.urls[to] = u
	}
	k.cfg.ResponseKey = cmp.Or(c.ResponseKey, c.Key)
	switch {
	case c.Key == nil:
		return nil, fmt.Errorf("%w: no key", ErrConfig)
	case !k.cfg.ResponseKey.HasPrivate():
		return nil, fmt.Errorf("%w: answers open with a private part only", ErrConfig)
	case c.Padding == envelope.OAEP && c.Key.HasPrivate():
		return nil, fmt.Errorf("%w: OAEP seals with the merchant's public part", ErrConfig)
	case c.AnswerKey != nil && c.Sign == nil:
		return nil, fmt.Errorf("%w: an endpoint signs only what answers a signed request: "+
			"give the key that signs requests too", ErrConfig)
	}
	form := envelope.FormBare
	if c.Field != "" && c.Field != merchant.DefaultBodyField {
		form = envelope.FormField
	}
	var err error
	if k.raw, err = newRawKey(c.Key); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if o := c.Order; o != nil {
		k.order = o.Details()
		if err = k.order.Validate(); err == nil && (o.CallBackID == "" || o.TenantUserID == "") {
			err = errors.New("callBackId or tenantUserId is missing")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: order: %w", ErrConfig, err)
		}
		k.cfg.User = cmp.Or(c.User, o.TenantUserID)
	}
	k.cfg.User = cmp.Or(k.cfg.User, "conformance-user")
	k.cfg.Unbound = c.Unbound || c.Other
	timeout := 15 * time.Second
	if c.Other {
		timeout = 40 * time.Second
	}
	k.cfg.Timeout = cmp.Or(c.Timeout, timeout)
	k.cfg.SlowBody, k.cfg.EffectsWait = cmp.Or(c.SlowBody, 30*time.Second), cmp.Or(c.EffectsWait, 5*time.Second)
	k.fakes, err = countersigntest.MakeService(countersigntest.ServiceConfig{Key: k.cfg.ResponseKey, RequestKey: c.Key,
		Padding: c.Padding, ResponsePadding: c.ResponsePadding, Sign: c.Sign, Unbound: k.cfg.Unbound,
		Form: form, Field: c.Field})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	// As a service (PROTOCOL.md, HTTP): it follows no redirect, uses no proxy and asks for no compression.
	k.client = &http.Client{
		Transport: &http.Transport{
			DialContext:         k.dialer.DialContext,
			DisableCompression:  true,
			MaxIdleConnsPerHost: 16,
			IdleConnTimeout:     30 * time.Second,
			TLSHandshakeTimeout: 10 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return k, nil
}

// randomHex returns n random bytes in hex.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func newDialer(allowPublic bool) *net.Dialer {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	if !allowPublic {
		// Checked when dialling, so that a second look-up cannot give another address.
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			ap, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			if a := ap.Addr().Unmap(); !a.IsLoopback() && !a.IsPrivate() {
				return ErrPublicAddress
			}
			return nil
		}
	}
	return dialer
}

// reach connects once to each URL, so that a wrong one is one error and not one for each case.
func (k *Checker) reach(ctx context.Context) error {
	for _, u := range k.urls {
		conn, err := k.dial(ctx, u)
		if err != nil {
			return err
		}
		_ = conn.Close()
	}
	return nil
}

// dial connects to the host of u. Its error is ErrPublicAddress or ErrUnreachable.
func (k *Checker) dial(ctx context.Context, u *url.URL) (net.Conn, error) {
	port := u.Port()
	if port == "" {
		port = u.Scheme
	}
	conn, err := k.dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	switch {
	case errors.Is(err, ErrPublicAddress):
		return nil, fmt.Errorf("%s: %w", u.Hostname(), ErrPublicAddress)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return conn, nil
}

// session returns a new session.
func (k *Checker) session(ctx context.Context) *session {
	return &session{Checker: k, ctx: ctx, effects: map[string]effect{}}
}

// session is the run of one case.
type session struct {
	*Checker
	ctx    context.Context
	number int

	mu        sync.Mutex // guards what follows
	count     int
	exchanges []Exchange
	notes     []string
	effects   map[string]effect // by trackingId
}

// effect is what must have become of one deposit.
type effect struct {
	times  int    // how often it was credited
	amount string // of each time, as it was sent
}

func (s *session) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := fmt.Sprintf(format, args...); !slices.Contains(s.notes, n) {
		s.notes = append(s.notes, n)
	}
}

// id is a new identifier of this run and case.
func (s *session) id() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	return fmt.Sprintf("%s-%d-%d", s.prefix, s.number, s.count)
}
