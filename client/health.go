package client

// MerchantHealth says how attempts to reach a merchant ended, by wall clock.
type MerchantHealth struct {
	LastReached  Time           `json:"lastReached,omitzero" doc:"when it last answered with HTTP status 200; absent: never"`
	LastAccepted Time           `json:"lastAccepted,omitzero" doc:"when an answer of it was last taken: an acceptance, a hold, or the refusal of a withdrawal; absent: never"`
	FailingSince Time           `json:"failingSince,omitzero" doc:"the first attempt that failed since then; absent: the last one did not fail"`
	Failing      bool           `json:"failing" doc:"the alarm merchant_failing stands"`
	LastFailure  *FailedAttempt `json:"lastFailure,omitempty" doc:"the last attempt that failed; absent: none did"`
}

// FailedAttempt is an attempt that failed.
type FailedAttempt struct {
	Callback string `json:"callback" doc:"id of the callback"`
	At       Time   `json:"at" doc:"when it ended"`
	Reason   Reason `json:"reason" doc:"the reason"`
	Text     string `json:"text" doc:"what the reason means and what helps, for people"`
	Facts    *Fact  `json:"facts,omitempty" doc:"what was wrong; absent: nothing more is known"`
}
