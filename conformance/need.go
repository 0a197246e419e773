package conformance

import (
	"strings"

	"countersign/envelope"
)

// Need is something that a case requires, and the flag of countersign check that gives it. A case whose needs are not
// met is skipped.
type Need struct {
	name string
	met  func(*Checker) bool
}

// The needs.
var (
	NeedBound = &Need{"a service that binds", func(k *Checker) bool { return !k.cfg.Unbound }}
	NeedUsual = &Need{"a service that keeps to the forms of the interface",
		func(k *Checker) bool { return !k.cfg.Other }}
	NeedOther     = &Need{"a service that is not of this project", func(k *Checker) bool { return k.cfg.Other }}
	NeedNoDetails = &Need{"a service that is not given the details of withdrawals",
		func(k *Checker) bool { return !k.cfg.Ordered }}
	NeedOwnPair = &Need{"a pair that the merchant made", func(k *Checker) bool { return !k.cfg.Key.HasPrivate() }}
	NeedPKCS1   = &Need{"PKCS #1 v1.5 padding of requests",
		func(k *Checker) bool { return k.cfg.Padding == envelope.PKCS1v15 }}
	NeedSigning = &Need{"a service that signs its requests: --sign FILE",
		func(k *Checker) bool { return k.cfg.Sign != nil }}
	NeedAnswerKey = &Need{"the key that signs answers: --answer-key KEY",
		func(k *Checker) bool { return k.cfg.AnswerKey != nil }}

	NeedOrder = &Need{"an order that the endpoint knows: --order FILE",
		func(k *Checker) bool { return k.cfg.Order != nil }}
	NeedLongOrder = &Need{"an order whose amount has more than 17 digits: --order FILE", func(k *Checker) bool {
		return len(strings.ReplaceAll(strings.TrimLeft(k.order.Amount.Canonical(), "0."), ".", "")) > 17
	}}
	NeedCallbackKey = &Need{"a callback API key: --callback-api-key VALUE",
		func(k *Checker) bool { return k.cfg.CallbackAPIKey != "" }}
	NeedEffects = &Need{"a look at credits: --effects COMMAND", func(k *Checker) bool { return k.cfg.Effects != nil }}
	NeedRestart = &Need{"a way to kill the endpoint: --restart COMMAND",
		func(k *Checker) bool { return k.cfg.Restart != nil }}
)

// String returns what is needed, in words.
func (n *Need) String() string { return n.name }

// MarshalText is String.
func (n *Need) MarshalText() ([]byte, error) { return []byte(n.name), nil }
