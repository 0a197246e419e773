package conformance

import (
	"strings"

	"countersign/envelope"
)

// Need is something that a case requires. A case whose needs are not met is skipped.
type Need struct {
	name string
	// unseen says what a run without it does not check, and which flag of countersign check meets it. Empty: the need
	// depends on the service, and without it the case does not apply.
	unseen string
	met    func(*Checker) bool
}

// The needs.
var (
	NeedBound   = &Need{"a service that binds", "", func(k *Checker) bool { return !k.cfg.Unbound }}
	NeedUnbound = &Need{"a service that does not bind", "", func(k *Checker) bool { return k.cfg.Unbound }}
	NeedUsual   = &Need{"a service that keeps to the forms of the interface", "",
		func(k *Checker) bool { return !k.cfg.Other }}
	NeedOther     = &Need{"a service that is not of this project", "", func(k *Checker) bool { return k.cfg.Other }}
	NeedNoDetails = &Need{"a service that is not given the details of withdrawals", "",
		func(k *Checker) bool { return !k.cfg.Ordered }}
	NeedOwnPair = &Need{"a pair that the merchant made", "", func(k *Checker) bool { return !k.cfg.Key.HasPrivate() }}
	NeedPKCS1   = &Need{"PKCS #1 v1.5 padding of requests", "",
		func(k *Checker) bool { return k.cfg.Padding == envelope.PKCS1v15 }}
	NeedSigning   = &Need{"a service that signs its requests", "", func(k *Checker) bool { return k.cfg.Sign != nil }}
	NeedAnswerKey = &Need{"the key that signs answers", "", func(k *Checker) bool { return k.cfg.AnswerKey != nil }}

	NeedOrder = &Need{"an order that the endpoint knows", "withdrawals that the endpoint knows: give --order FILE",
		func(k *Checker) bool { return k.cfg.Order != nil }}
	NeedLongOrder = &Need{"an order whose amount has more than 17 digits",
		"a withdrawal of over 17 digits: give --order FILE with such an amount", func(k *Checker) bool {
			return len(strings.ReplaceAll(strings.TrimLeft(k.order.Amount.Canonical(), "0."), ".", "")) > 17
		}}
	NeedCallbackKey = &Need{"a callback API key", "the X-API-KEY of requests: give --callback-api-key VALUE",
		func(k *Checker) bool { return k.cfg.CallbackAPIKey != "" }}
	NeedEffects = &Need{"a look at credits", "credits: give --effects COMMAND",
		func(k *Checker) bool { return k.cfg.Effects != nil }}
	NeedRestart = &Need{"a way to kill the endpoint", "kills: give --restart COMMAND",
		func(k *Checker) bool { return k.cfg.Restart != nil }}
)

// String returns what is needed, in words.
func (n *Need) String() string { return n.name }

// MarshalText is String.
func (n *Need) MarshalText() ([]byte, error) { return []byte(n.name), nil }

// lacking returns a need of c that is not met, or nil: one of the service before those that a setting meets.
func (k *Checker) lacking(c Case) (first *Need) {
	for _, need := range c.Needs {
		switch {
		case need.met(k):
		case need.unseen == "":
			return need
		case first == nil:
			first = need
		}
	}
	return first
}
