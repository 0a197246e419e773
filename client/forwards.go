package client

import (
	"context"
	"iter"
	"net/http"
)

// FeedName is one of the gateway's two feeds.
type FeedName string

// The feeds.
const (
	FeedOfDeposits FeedName = "deposits"
	FeedOfEvents   FeedName = "events"
)

// Values returns both.
func (FeedName) Values() []FeedName { return []FeedName{FeedOfDeposits, FeedOfEvents} }

// Forwarding is the state of forwarding to the application.
type Forwarding struct {
	On       bool             `json:"on" doc:"whether the gateway that answers forwards (--forward-url)"`
	Feeds    []ForwardingFeed `json:"feeds" nullable:"false" doc:"one entry for each feed"`
	Waiting  int64            `json:"waiting" doc:"entries of both feeds that the application does not have and is to get"`
	Retrying int64            `json:"retrying" doc:"of them, those that are being sent or were sent in vain"`
	Skipped  int64            `json:"skipped" doc:"entries that a person gave up"`
	Oldest   Time             `json:"oldest,omitzero" doc:"when the oldest that waits was recorded; absent: none waits"`
	Failed   []Forward        `json:"failed" nullable:"false" doc:"entries that were sent in vain, at most 10, deposits before events, in the order of seq"`
}

// ForwardingFeed is the state of forwarding one feed.
type ForwardingFeed struct {
	Feed     FeedName `json:"feed" doc:"the feed"`
	Begun    Time     `json:"begun,omitzero" doc:"when a gateway first forwarded it; absent: never"`
	Position int64    `json:"position" doc:"seq of the last entry that was taken up for forwarding; those after it are sent in their turn"`
	Last     int64    `json:"last" doc:"seq of the last entry"`
}

// Forward is an entry of a feed that the application was sent in vain, or that a
// person gave up.
type Forward struct {
	ID        string `json:"id" doc:"deposit_ or event_ and the seq of the entry: the webhook-id of the message"`
	Attempts  int    `json:"attempts" doc:"attempts begun"`
	LastError string `json:"lastError,omitempty" doc:"how the last attempt failed: the status that came, or timeout or failed with the cause; absent: none failed"`
	Sending   bool   `json:"sending,omitempty" doc:"an attempt is under way"`
	Due       Time   `json:"due,omitzero" doc:"when it is sent again; while it is being sent, when the attempt counts as lost; absent: it was given up"`
	Created   Time   `json:"created" doc:"when the entry was recorded"`
	Skipped   Time   `json:"skipped,omitzero" doc:"when a person gave it up; absent: nobody did"`
	SkippedBy string `json:"skippedBy,omitempty" doc:"id of the token that gave it up"`
	Reason    string `json:"reason,omitempty" doc:"why it was given up"`
}

// ForwardsPage is a page of the entries that failed or were given up.
type ForwardsPage struct {
	Forwards []Forward `json:"forwards" nullable:"false" doc:"deposits before events, in the order of seq"`
	Next     *string   `json:"next" doc:"the cursor of the next page; null: there is none"`
}

// RetriedForwards says how many entries became due.
type RetriedForwards struct {
	Retried int64 `json:"retried" doc:"entries that are sent again now"`
}

// SkipForward gives up an entry.
type SkipForward struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"why, kept for later readers, 1 to 500 characters"`
}

// ForwardFilter selects entries.
type ForwardFilter struct {
	State string // failed or skipped; empty: failed
}

// Forwarding returns the state of forwarding to the application.
func (g *Gateway) Forwarding(ctx context.Context) (Forwarding, error) {
	return ask[Forwarding](ctx, &g.Common, http.MethodGet, "/v1/forwarding", nil)
}

// Forwards returns a page of the entries that were sent in vain, or that were given up.
func (g *Gateway) Forwards(ctx context.Context, f ForwardFilter, o PageOptions) (ForwardsPage, error) {
	return ask[ForwardsPage](ctx, &g.Common, http.MethodGet, withQuery("/v1/forwards", f, o), nil)
}

// AllForwards returns every entry that f selects.
func (g *Gateway) AllForwards(ctx context.Context, f ForwardFilter) iter.Seq2[Forward, error] {
	return all(func(o PageOptions) ([]Forward, *string, error) {
		p, err := g.Forwards(ctx, f, o)
		return p.Forwards, p.Next, err
	})
}

// RetryForwards sends all entries again now that were sent in vain.
func (g *Gateway) RetryForwards(ctx context.Context) (RetriedForwards, error) {
	return ask[RetriedForwards](ctx, &g.Common, http.MethodPost, "/v1/forwards/retry", nil)
}

// RetryForward sends one entry again now, also one that was given up.
func (g *Gateway) RetryForward(ctx context.Context, id string) (Forward, error) {
	return ask[Forward](ctx, &g.Common, http.MethodPost, pathOf("forwards", id, "/retry"), nil)
}

// SkipForward ends the forwarding of an entry that was sent in vain. The reason must not be empty.
func (g *Gateway) SkipForward(ctx context.Context, id, reason string) (Forward, error) {
	return ask[Forward](ctx, &g.Common, http.MethodPost, pathOf("forwards", id, "/skip"), SkipForward{reason})
}
