package client

import (
	"context"
	"net/http"
)

// MerchantHealth is how attempts to tell a merchant something end, by wall clock.
type MerchantHealth struct {
	LastReached  Time           `json:"lastReached,omitzero" doc:"when it last answered with HTTP status 200; absent: never"`
	LastAccepted Time           `json:"lastAccepted,omitzero" doc:"when an answer of it was last taken: an acceptance, a hold, or the refusal of a withdrawal; absent: never"`
	FailingSince Time           `json:"failingSince,omitzero" doc:"the first attempt that failed since then; absent: the last one did not fail"`
	Failing      bool           `json:"failing" doc:"the alarm merchant_failing stands, or ten or more attempts were made within an hour and all failed"`
	Attempts     int64          `json:"attempts" doc:"attempts that ended within the last hour and say something of the merchant"`
	Failed       int64          `json:"failed" doc:"how many of them failed"`
	Reasons      []ReasonCount  `json:"reasons,omitempty" nullable:"false" doc:"why they failed, the most first; absent: none did"`
	LastFailure  *FailedAttempt `json:"lastFailure,omitempty" doc:"the last attempt that failed; absent: none did"`
	OldestDue    []OldestDue    `json:"oldestDue,omitempty" nullable:"false" maxItems:"2" doc:"of each lane with pending callbacks, the one that is due first; only GET /v1/merchants/{id}/health gives it; absent: nothing is pending"`
}

// ReasonCount says how many attempts failed for a reason.
type ReasonCount struct {
	Reason Reason `json:"reason" doc:"the reason"`
	Count  int64  `json:"count" doc:"how many attempts"`
}

// FailedAttempt is an attempt that failed.
type FailedAttempt struct {
	Callback string `json:"callback" doc:"id of the callback"`
	At       Time   `json:"at" doc:"when it ended"`
	Reason   Reason `json:"reason" doc:"the reason"`
	Text     string `json:"text" doc:"what the reason means and what helps, for people"`
	Facts    *Fact  `json:"facts,omitempty" doc:"what was wrong; absent: nothing more is known"`
}

// MerchantHealth returns the health of a merchant.
func (s *Service) MerchantHealth(ctx context.Context, id string) (MerchantHealth, error) {
	return ask[MerchantHealth](ctx, &s.Common, http.MethodGet, pathOf("merchants", id, "/health"), nil)
}
