package client

// Approvals says who approved something, and how many are still missing.
type Approvals struct {
	Needed  int        `json:"needed" doc:"how many persons must approve it, each with a token of another origin"`
	Missing int        `json:"missing" doc:"how many of them are missing; 0: it is approved"`
	Given   []Approval `json:"given" nullable:"false" doc:"who approved it, the first first"`
	Could   []string   `json:"could,omitempty" nullable:"false" doc:"names of tokens that may give what is missing, at most 20"`
	Nobody  string     `json:"nobody,omitempty" doc:"says that those who exist cannot give what is missing, and what to do; absent: they can"`
}

// Approval is what one person approved.
type Approval struct {
	Token  string `json:"token" doc:"id of the token"`
	Name   string `json:"name,omitempty" doc:"the name of the token"`
	At     Time   `json:"at" doc:"when it was given"`
	Reason string `json:"reason,omitempty" doc:"the reason that the person gave"`
	Void   string `json:"void,omitempty" doc:"why it does not count; absent: it does"`
}
