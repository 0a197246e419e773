package merchant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"countersign"
)

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
