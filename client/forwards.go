package client

// FeedName is one of the gateway's two feeds.
type FeedName string

// The feeds.
const (
	FeedOfDeposits FeedName = "deposits"
	FeedOfEvents   FeedName = "events"
)

var _ = plainWords(FeedOfDeposits, FeedOfEvents)

// Forwarding is the state of forwarding to the application.
type Forwarding struct {
	On      bool      `json:"on" doc:"whether the gateway that answers forwards (--forward-url)"`
	Begun   Time      `json:"begun,omitzero" doc:"when a gateway first forwarded; absent: never"`
	Waiting int64     `json:"waiting" doc:"entries of both feeds that the application does not have and is to get"`
	Oldest  Time      `json:"oldest,omitzero" doc:"when the oldest that waits was recorded; absent: none waits"`
	Failed  []Forward `json:"failed" nullable:"false" doc:"entries that were sent in vain, at most 100, deposits before events, in the order of seq"`
}

// Forward is an entry of a feed that could not be forwarded to the application.
type Forward struct {
	ID        string `json:"id" doc:"deposit_ or event_ and the seq of the entry: the webhook-id of the message"`
	Attempts  int    `json:"attempts" doc:"attempts begun"`
	LastError string `json:"lastError" doc:"how the last attempt failed: the status that came, or timeout or failed with the cause"`
	Sending   bool   `json:"sending,omitempty" doc:"an attempt is under way"`
	Due       Time   `json:"due" doc:"when it is sent again; while it is being sent, when the attempt counts as lost"`
	Created   Time   `json:"created" doc:"when the entry was recorded"`
}

// RetriedForwards says how many entries became due.
type RetriedForwards struct {
	Retried int64 `json:"retried" doc:"entries that are sent again now"`
}
