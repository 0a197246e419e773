package gateway

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/merchant"
)

// onRefused keeps a refused callback before the provider is answered: some providers never send it again. It keeps a
// deposit that the check holds unless the provider is known to ask again.
func (g *Gateway) onRefused(ctx context.Context, r merchant.Refused) {
	kept := book.Refused{Content: contentOf(r), CallBackID: r.Identity.CallBackID, Signed: r.Signed,
		RefusedCallback: client.RefusedCallback{
			Body: string(r.Body), Opened: r.Opened != nil, Type: r.Identity.Type, CallbackID: r.Identity.EventID(),
			Reason: client.RefusalReason(r.Reason), Setting: r.Setting, ErrCode: int64(r.Code), Message: r.Message}}
	if kept.Type == countersign.TypeDeposited {
		kept.CallBackID = "" // an unknown member may have that name
	}
	var alarm client.AlarmKind
	switch {
	case r.Reason == merchant.ReasonHold && g.c.Callbacks.Profile.CanHold():
		return
	case r.Reason == merchant.ReasonHold:
		kept.Reason, kept.Due = client.RefusalReason(merchant.ReasonUnverified), db.MillisOf(g.c.Now())+book.AskFirst
	case r.Identity.Type == countersign.TypeDeposited, r.Identity.Type.Known() && r.Reason == merchant.ReasonMalformed:
		alarm = client.AlarmDepositRefused
	}
	if !g.refusals.takes(kept, alarm) {
		return
	}
	kept.Facts = factsOf(ctx, g.book, r.Reason, r.Callback, r.Facts)
	now := db.MillisOf(g.c.Now())
	var alarms []client.Alarm
	if alarm != "" {
		alarms = []client.Alarm{{Kind: alarm, Subject: string(kept.Reason), First: now}}
	}
	if err := g.book.KeepRefused(ctx, kept, alarms, now); err != nil {
		g.c.Log.Error("a refused callback was not kept", "reason", string(r.Reason), "id", kept.CallbackID, "error", err)
	}
}

// contentOf returns what identifies a callback and is the same in all its attempts: its plaintext without the
// requestUUID, or its body if it did not open.
func contentOf(r merchant.Refused) []byte {
	if r.Opened == nil {
		return r.Body
	}
	content := slices.Clone(r.Opened)
	if start, end, ok := countersign.UUIDSpan(content); ok {
		clear(content[start:end])
	}
	return content
}

// maxFacts bounds the facts of one callback.
const maxFacts = 40

// factsOf returns the facts of a refusal. For other content under a known identifier they are the members that differ
// from what was taken first.
func factsOf(ctx context.Context, b *book.Book, reason merchant.Reason, cb countersign.Callback,
	list []merchant.Fact) []client.Fact {
	facts := []client.Fact{}
	if reason == merchant.ReasonOtherContent {
		if members, err := b.Contradicted(ctx, cb); err == nil && len(members) > 0 {
			list = members
		}
	}
	for _, f := range list[:min(len(list), maxFacts)] {
		facts = append(facts, client.Fact{Member: clean(f.Member), Cause: clean(f.Problem), Expected: clean(f.Expected),
			Came: clean(f.Got)})
	}
	return facts
}

// clean returns a text that the sender chose in a form safe for terminals.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
}

func (g *Gateway) refusedCallback(c *api.Call, _ api.None, _ api.None) (client.RefusedCallback, error) {
	id, err := seqOf(c.R.PathValue("id"))
	if err != nil {
		return client.RefusedCallback{}, err
	}
	if !slices.Contains(api.Approvers, c.Token.Role) {
		return g.lists.RefusedRow(c.R.Context(), id)
	}
	r, err := g.lists.Refused(c.R.Context(), id)
	r.Explanation = g.explain([]byte(r.Body))
	return r.RefusedCallback, err
}

// explain describes a body, with the key that opens it.
func (g *Gateway) explain(body []byte) string {
	reader := g.c.reader()
	found := reader.Read(body)
	if found.Err != nil && g.c.Callbacks.NextKey != nil {
		reader.Key = g.c.Callbacks.NextKey
		if other := reader.Read(body); other.Err == nil {
			found = other
		}
	}
	return found.String()
}

// takeRefused takes a refused callback as if it came now. If the process dies after that, the next call finds it taken.
func (g *Gateway) takeRefused(c *api.Call, seq int64, reason string) error {
	r, err := g.lists.Refused(c.R.Context(), seq)
	switch {
	case err != nil || r.State == client.RefusedTaken:
		return err
	case r.Type == countersign.TypeRequestWithdraw:
		return errQuestion
	}
	again := g.handler.Retry(c.R.Context(), []byte(r.Body), r.Signed)
	g.c.Log.Info("a refused callback was tried again", "refused", r.ID, "id", r.CallbackID, "reason", string(again.Reason),
		"seq", again.Seq)
	switch {
	case again.Code == countersign.CodeAccepted && again.Reason.Answered():
		return g.book.DecideRefused(c.R.Context(), r.ID, client.RefusedTaken, c.Token.ID, reason, c.Now)
	case again.Callback != nil && again.Callback.CallbackType() == countersign.TypeRequestWithdraw:
		return errQuestion
	case again.Reason.Refusal() && again.Reason != merchant.ReasonOverload:
		return g.conflict(c, "it is refused again", again)
	case again.Reason == merchant.ReasonHold, again.Reason == merchant.ReasonBusy:
		return g.conflict(c, "it cannot be taken yet; try it again later", again)
	}
	if again.Cause != nil {
		g.c.Log.Error("trying a refused callback again failed", "refused", r.ID, "reason", string(again.Reason), "error",
			again.Cause)
	}
	return api.NewProblem(http.StatusServiceUnavailable, "it was not decided: "+string(again.Reason)+
		"; try it again later")
}

var errQuestion = &db.ConflictError{Reason: "it asks about a withdrawal, and nobody would get the answer: nothing is confirmed; the service asks again"}

// conflict returns why a callback was not taken.
func (g *Gateway) conflict(c *api.Call, what string, r merchant.Retried) error {
	parts := []string{what + ": " + string(r.Reason)}
	if means := client.Means(client.RefusalReason(r.Reason)); means != "" {
		parts = append(parts, means)
	}
	for _, f := range factsOf(c.R.Context(), g.lists, r.Reason, r.Callback, r.Facts) {
		parts = append(parts, f.Text())
	}
	if !r.Reason.Refusal() && r.Cause != nil {
		parts = append(parts, clean(r.Cause.Error()))
	}
	return &db.ConflictError{Reason: strings.Join(parts, "; ")}
}

func (g *Gateway) dismissRefused(c *api.Call, seq int64, reason string) error {
	r, err := g.lists.RefusedRow(c.R.Context(), seq)
	if err != nil {
		return err
	}
	if r.State == client.RefusedTaken {
		return &db.ConflictError{Reason: "it was taken"}
	}
	return g.book.DecideRefused(c.R.Context(), seq, client.RefusedDismissed, c.Token.ID, reason, c.Now)
}
