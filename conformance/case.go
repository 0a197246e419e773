package conformance

import (
	"fmt"
	"slices"
)

// Case is one thing that is tried, and the rule that it is held to.
type Case struct {
	Number int    `json:"number"`          // stable; the hundreds are the group
	Name   string `json:"name"`            // group/what, unique
	Rule   string `json:"rule"`            // section and number of PROTOCOL.md, such as "Sealing, S5"
	About  string `json:"about"`           // what must happen, one sentence
	Needs  []Need `json:"needs,omitempty"` // without which it is skipped

	run func(*session) error
}

// Need is what a case cannot do without. A case whose needs are not met is
// skipped.
type Need string

// The needs.
const (
	NeedOrder       Need = "an order that the endpoint knows"
	NeedCallbackKey Need = "a callback API key"
	NeedBound       Need = "a service that binds"
	NeedUnbound     Need = "a service that does not bind"
	NeedPKCS1       Need = "PKCS #1 v1.5 padding of requests"
)

// Outcome is how a case ended. The zero Outcome is Fail.
type Outcome int

// The outcomes.
const (
	Fail Outcome = iota
	Pass
	Skip
)

// String gives "pass", "fail" or "skip".
func (o Outcome) String() string {
	switch o {
	case Pass:
		return "pass"
	case Skip:
		return "skip"
	}
	return "fail"
}

// MarshalText is String.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Result is what came of one case. No secret of the Config is in it.
type Result struct {
	Case
	Outcome   Outcome    `json:"outcome"`
	Problem   string     `json:"problem,omitempty"`   // what is wrong, or why the case was skipped
	Fix       string     `json:"fix,omitempty"`       // what to change at the endpoint, or in the settings
	Note      string     `json:"note,omitempty"`      // passed, but worth knowing
	Exchanges []Exchange `json:"exchanges,omitempty"` // in the order in which they began; the last shows the problem
}

// Exchange is one request and what came back.
type Exchange struct {
	What      string `json:"what"`                // what was sent, in words
	To        string `json:"to"`                  // "notify URL" or "withdraw URL"
	Method    string `json:"method"`              // POST as a rule
	Bytes     int    `json:"bytes"`               // of the body; -1 where it had no end
	Plaintext string `json:"plaintext,omitempty"` // what was sealed, long texts cut

	Status   int    `json:"status"`             // 0 where nothing came back
	Error    string `json:"error,omitempty"`    // why nothing came back
	Response string `json:"response,omitempty"` // its members, the API key and the sealed data left out
	Answer   string `json:"answer,omitempty"`   // the opened data
}

// Summary counts the outcomes of a run.
type Summary struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

// OK says whether nothing failed and something passed.
func (s Summary) OK() bool { return s.Failed == 0 && s.Passed > 0 }

// String counts in words.
func (s Summary) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", s.Passed, s.Failed, s.Skipped)
}

func (s *Summary) add(o Outcome) {
	switch o {
	case Pass:
		s.Passed++
	case Skip:
		s.Skipped++
	default:
		s.Failed++
	}
}

// Cases lists all cases by number.
func Cases() []Case {
	return slices.Concat(depositCases(), repeatCases(), noticeCases(), withdrawalCases(), responseCases(),
		httpCases(), sealingCases(), formCases(), messageCases(), bindingCases())
}

// verdict is the error of a case that did not pass.
type verdict struct {
	skip         bool
	problem, fix string
}

func (v *verdict) Error() string { return v.problem }

// fail says what is wrong and what to change.
func fail(fix, format string, args ...any) error {
	return &verdict{problem: fmt.Sprintf(format, args...), fix: fix}
}

func skip(format string, args ...any) error {
	return &verdict{skip: true, problem: fmt.Sprintf(format, args...)}
}
