package conformance

import (
	"context"
	"fmt"
	"maps"
	"strings"
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
