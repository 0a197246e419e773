package merchant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"countersign"
)

// Refused is a request that was refused although it opened, or although it came with an API
// key of Config.CallbackAPIKeys, or a deposit that Verify holds (ReasonHold), for a record that
// can be shown and retried later. Whoever sent it chose what is in it.
type Refused struct {
	Identity countersign.Identity
	Callback countersign.Callback // nil if none was read
	Reason   Reason
	Facts    []Fact
	Setting  string // what would let it through: the gateway's flag, and the member of Config; may be empty
	// Code and Message are what the provider gets, in its numbers.
	Code    countersign.ErrCode
	Message string
	// Body is the body of the request, Opened what it opened to, nil if it did not. Both are
	// valid only during the call.
	Body, Opened []byte
	// Signed says that the service's signature was demanded and right, though perhaps old (PROTOCOL.md, L11).
	Signed bool
}

// Fact is one thing about a request that was not as expected. A text that does not apply is empty.
type Fact struct {
	Member   string // of the message; empty: it is about the whole request
	Problem  string
	Expected string
	Got      string
}

// Retried is how Retry ended.
type Retried struct {
	Callback countersign.Callback // nil if none was read
	Reason   Reason
	Code     countersign.ErrCode
	Seq      int64 // number in the Inbox; 0 if there is none
	Facts    []Fact
	Cause    error // may be nil
}

// Retry takes the body of a request that was refused as if it came now, without its API key and whatever path it came
// to. signed is Refused.Signed: a handler that demands signatures takes a request only if it is true. A callback that
// was taken meanwhile is ReasonRepeated, so nothing takes effect twice. A question about a withdrawal is
// ReasonWrongURL: nobody would get its answer. A deposit that is refused for its blocks is suspect, so a person decides
// once more. OnRefused is not called.
func (h *Handler) Retry(ctx context.Context, body []byte, signed bool) Retried {
	if h.c.ServiceSigner != nil && !signed {
		return Retried{Reason: ReasonUnsigned, Code: countersign.CodeMalformed,
			Cause: errors.New("the service did not sign it, so nobody knows who sent it")}
	}
	leave, err := h.opening.enter(ctx, len(body))
	if err != nil {
		return Retried{Reason: ReasonOverload, Code: countersign.CodeInternal, Cause: err}
	}
	rep, opened := h.take(ctx, countersign.LaneNotify, body, nil, leave)
	return Retried{Callback: rep.callback, Reason: rep.reason, Code: rep.Code, Seq: rep.seq, Facts: rep.facts(opened),
		Cause: rep.cause}
}

// keepRefused calls OnRefused with a refused request, before the provider is answered.
func (h *Handler) keepRefused(ctx context.Context, body, opened []byte, link *linked, r *reply) {
	_, deposit := r.callback.(*countersign.Deposit)
	held := r.reason == ReasonHold && deposit
	if h.c.OnRefused == nil || !r.reason.Refusal() && !held || opened == nil && !h.keyed {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.c.Timeout)
	defer cancel()
	h.c.OnRefused(ctx, Refused{Identity: r.identity(), Callback: r.callback, Reason: r.reason, Facts: r.facts(opened),
		Setting: r.setting(), Code: h.c.Profile.code(r.Code), Message: r.Message, Body: body, Opened: opened,
		Signed: link.verified != nil})
}

// remember has the Inbox remember the blocks of a request that opened and is refused.
func (h *Handler) remember(ctx context.Context, blocks *Blocks) {
	inbox, ok := h.c.Inbox.(Rememberer)
	if !ok || blocks == nil || h.remembered.has(string(blocks.Body[:])) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.c.Timeout)
	defer cancel()
	if err := inbox.Remember(ctx, Entry{Blocks: blocks, At: h.c.Now()}); err != nil {
		h.c.Log.Error("the blocks of a refused callback were not remembered", "error", err)
		return
	}
	h.remembered.add(string(blocks.Body[:]))
}

// facts returns what was wrong with a refused request that opened to the plaintext opened.
func (r *reply) facts(opened []byte) (facts []Fact) {
	if !r.reason.Refusal() {
		return nil
	}
	about := func(member, problem, expected string) []Fact {
		return []Fact{{Member: member, Problem: problem, Expected: expected, Got: valueOf(opened, member)}}
	}
	switch r.reason {
	case ReasonUnknownType:
		return about("type", "is not known", fmt.Sprintf("1 to %d", len(countersign.TypeUnknown.Values())))
	case ReasonWrongURL:
		return about("type", "belongs to the other URL", "")
	case ReasonNotBound:
		return about("requestUUID", "is not bound to the request", "a UUID of version 8 made from the request")
	case ReasonBindingBroken:
		return about("requestUUID", "is bound to other bytes", "a UUID of version 8 made from these bytes")
	}
	if r.request != nil {
		for _, fault := range countersign.Faults(r.request, countersign.ParseOptions{Lenient: r.lenient}) {
			var at *countersign.MemberError
			if !errors.As(fault, &at) {
				facts = append(facts, Fact{Problem: fault.Error()})
				continue
			}
			facts = append(facts, Fact{Member: at.Member, Problem: at.Problem, Got: valueOf(r.request, at.Member)})
		}
	}
	if facts == nil && r.cause != nil {
		facts = []Fact{{Problem: r.cause.Error()}}
	}
	return facts
}

// valueOf returns the value of a member as it was sent, or "" if it is missing or cannot be read.
func valueOf(plaintext []byte, member string) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(plaintext, &members) != nil {
		return ""
	}
	return clip(string(bytes.TrimSpace(members[member])))
}
