package main

import (
	"time"

	"countersign"
	"countersign/merchant"
)

// providerFlags describe the service at the other end (PROTOCOL.md, Profiles), a group of the help. An empty one has the
// value of Provider.
type providerFlags struct {
	Provider     string        `first:"" group:"profile" help:"countersign: a service of this project; other: any other, which this group describes." enum:"countersign,other" default:"countersign"`
	Binding      string        `group:"profile" help:"required: only bound requests pass; seen: broken ones are refused; off: not checked. Empty: required, or seen for another provider." enum:",required,seen,off" default:""`
	Lenient      *bool         `group:"profile" help:"Accept requests that leave out members without effect, or write them in another form. On with --provider other." negatable:""`
	APIKeyHeader string        `name:"api-key-header" group:"profile" help:"Header of the callback API key." default:"X-API-KEY" placeholder:"NAME"`
	BodyField    string        `group:"profile" help:"Form field or JSON member with the sealed body, if it is not the whole body." default:"data" placeholder:"NAME"`
	Hold         string        `group:"profile" help:"Answer about a withdrawal whose order is unknown or waits for a person. ask: ask again; wait: keep the exchange open. Empty: ask, or wait with --provider other." enum:",ask,wait" default:""`
	HoldWait     time.Duration `group:"profile" help:"How long --hold wait keeps the exchange open: at most 90s, and less than the service waits." default:"8s" placeholder:"TIME"`
	HoldCode     int64         `group:"profile" help:"errCode that asks again; 3001 or 3002 if 0." default:"0" placeholder:"CODE"`
	RefuseCode   int64         `group:"profile" help:"errCode that refuses; 2001 to 2005 if 0." default:"0" placeholder:"CODE"`
	RetryCode    int64         `group:"profile" help:"errCode for what was not understood or failed; 1001 to 1004 or 5000 if 0." default:"0" placeholder:"CODE"`
	NewAddress   string        `group:"profile" help:"What a user's replaced deposit address does. hold: it waits for a person (docs/merchant/README.md); take: it counts at once." enum:"hold,take" default:"hold"`
	OrderGrace   time.Duration `name:"grace" group:"profile" help:"How long a withdrawal with an unknown order is held, then refused." default:"30s" placeholder:"TIME"`
}

// profile returns the profile that the flags define.
func (f providerFlags) profile() (p merchant.Profile, err error) {
	if f.Provider == "other" {
		p = merchant.OtherProvider()
	}
	if f.Binding != "" {
		if p.Binding, err = merchant.ParseBinding(f.Binding); err != nil {
			return p, err
		}
	}
	if f.Lenient != nil {
		p.Lenient = *f.Lenient
	}
	if f.Hold != "" {
		if p.Hold, err = merchant.ParseHold(f.Hold); err != nil {
			return p, err
		}
	}
	p.Header, p.BodyField, p.Wait = f.APIKeyHeader, f.BodyField, f.HoldWait
	p.HoldCode, p.RefuseCode, p.RetryCode = countersign.ErrCode(f.HoldCode), countersign.ErrCode(f.RefuseCode), countersign.ErrCode(f.RetryCode)
	return p, nil
}
