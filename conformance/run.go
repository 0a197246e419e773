package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Run runs the chosen cases one after another and reports each when it ends. If the endpoint cannot be reached or has a
// public address that is not allowed, Run sends nothing and returns ErrUnreachable or ErrPublicAddress. It stops with
// ctx's error when ctx ends. A case that fails is a Result, not an error.
func (k *Checker) Run(ctx context.Context, report func(Result)) (Summary, error) {
	sum := Summary{Money: map[Ending][]string{}}
	switch {
	case k.cfg.NotifyURL == k.cfg.WithdrawURL:
		return sum, fmt.Errorf("%w: the withdraw URL must differ from the notify URL", ErrConfig)
	case k.cfg.APIKey == "":
		return sum, fmt.Errorf("%w: no API key", ErrConfig)
	}
	if err := k.reach(ctx); err != nil {
		return sum, err
	}
	k.settled = map[string]effect{}
	for _, c := range Cases() {
		if k.cfg.Interface {
			switch c.Basis {
			case ByProtocol:
				continue
			case ForMoney:
				c.Severity = Should
			}
		}
		if k.cfg.Only != nil && !k.cfg.Only(c) {
			continue
		}
		r := k.runCase(ctx, c)
		if err := ctx.Err(); err != nil {
			return sum, err // the case was cut short, so its result means nothing
		}
		sum.add(r)
		report(r)
	}
	return sum, nil
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

// maxExchanges is the most exchanges in a Result; a kill can interrupt hundreds.
const maxExchanges = 50

func (k *Checker) runCase(ctx context.Context, c Case) Result {
	s := k.session(ctx)
	s.number = c.Number
	v := catch(func() {
		for _, need := range c.Needs {
			if !need.met(k) {
				skip("needs %s", need)
			}
		}
		c.run(s)
		if len(s.effects) > 0 {
			s.credited()
			maps.Copy(s.settled, s.effects)
		}
	})
	c.run = nil
	last := s.exchanges[max(0, len(s.exchanges)-maxExchanges):]
	res := Result{Case: c, Ending: Pass, Report: Report{Notes: s.notes, Exchanges: last}}
	if v != nil {
		res.Ending, res.Problem = Skip, s.redact(v.problem)
		if !v.skip {
			res.Ending, res.Fix = Fail, strings.TrimSpace(v.fix+" "+fixOf(c.Name))
		}
	}
	return res
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
