package conformance

import (
	"strings"

	"countersign/envelope"
)

// Need is something that a case requires. A case whose needs are not met is skipped.
type Need struct {
	name string
	met  func(*Checker) bool
	// What, Give: a setting meets it. Neither: it depends on the service, and a case that lacks it does not apply.
	Unseen
}

// Unseen is something that a run did not look at, because a setting was not given.
type Unseen struct {
	What  string `json:"what"`
	Give  string `json:"give"`  // the flag of countersign check that lets it look
	Cases int    `json:"cases"` // how many were skipped for it, or saw responses alone
}

// The needs.
var (
	NeedBound   = needs("a service that binds", func(k *Checker) bool { return !k.cfg.Unbound })
	NeedUnbound = needs("a service that does not bind", func(k *Checker) bool { return k.cfg.Unbound })
	NeedUsual   = needs("a service that keeps to the forms of the interface",
		func(k *Checker) bool { return !k.cfg.Other })
	NeedOther     = needs("a service that is not of this project", func(k *Checker) bool { return k.cfg.Other })
	NeedNoDetails = needs("a service that is not given the details of withdrawals",
		func(k *Checker) bool { return !k.cfg.Ordered })
	NeedOwnPair = needs("a pair that the merchant made", func(k *Checker) bool { return !k.cfg.Key.HasPrivate() })
	NeedPKCS1   = needs("PKCS #1 v1.5 padding of requests",
		func(k *Checker) bool { return k.cfg.Padding == envelope.PKCS1v15 })
	NeedSigning   = needs("a service that signs its requests", func(k *Checker) bool { return k.cfg.Sign != nil })
	NeedAnswerKey = needs("the key that signs answers", func(k *Checker) bool { return k.cfg.AnswerKey != nil })

	NeedOrder = &Need{"an order that the endpoint knows", func(k *Checker) bool { return k.cfg.Order != nil },
		Unseen{What: "withdrawals that the endpoint knows", Give: "--order FILE"}}
	NeedLongOrder = &Need{"an order whose amount has more than 17 digits", func(k *Checker) bool {
		return len(strings.ReplaceAll(strings.TrimLeft(k.order.Amount.Canonical(), "0."), ".", "")) > 17
	}, Unseen{What: "a withdrawal of over 17 digits", Give: "--order FILE with such an amount"}}
	NeedCallbackKey = &Need{"a callback API key", func(k *Checker) bool { return k.cfg.CallbackAPIKey != "" },
		Unseen{What: "the X-API-KEY of requests", Give: "--callback-api-key VALUE"}}
	NeedEffects = &Need{"a look at credits", func(k *Checker) bool { return k.cfg.Effects != nil },
		Unseen{What: "credits", Give: "--effects COMMAND"}}
	NeedRestart = &Need{"a way to kill the endpoint", func(k *Checker) bool { return k.cfg.Restart != nil },
		Unseen{What: "kills", Give: "--restart COMMAND"}}
	// needAmounts is met by an Effects that tells the amounts of credits.
	needAmounts = &Need{Unseen: Unseen{What: "the amounts of credits",
		Give: "--effects COMMAND that prints the amount behind the trackingId"}}
)

func needs(name string, met func(*Checker) bool) *Need { return &Need{name: name, met: met} }

// String returns what is needed, in words.
func (n *Need) String() string { return n.name }

// MarshalText is String.
func (n *Need) MarshalText() ([]byte, error) { return []byte(n.name), nil }

// lacking returns a need of c that is not met, or nil: one of the service before those that a setting meets.
func (k *Checker) lacking(c Case) (first *Need) {
	for _, need := range c.Needs {
		switch {
		case need.met(k):
		case need.What == "":
			return need
		case first == nil:
			first = need
		}
	}
	return first
}

// notLookedAt counts the cases of a run by what they could not look at.
func notLookedAt(cases map[*Need]int) (all []Unseen) {
	for _, need := range []*Need{NeedOrder, NeedLongOrder, NeedCallbackKey, NeedEffects, needAmounts, NeedRestart} {
		if u := need.Unseen; cases[need] > 0 {
			u.Cases = cases[need]
			all = append(all, u)
		}
	}
	return all
}
