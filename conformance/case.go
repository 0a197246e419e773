package conformance

import (
	"fmt"
)

// Case is one test of an endpoint, and the rule that it tests.
type Case struct {
	Number   int      `json:"number"`          // stable; the hundreds are the group
	Severity Severity `json:"severity"`        // what a failure means
	Basis    Basis    `json:"basis"`           // who demands it
	Name     string   `json:"name"`            // group/what, unique
	Rule     string   `json:"rule"`            // section and number of PROTOCOL.md, such as "Sealing, S5"
	About    string   `json:"about"`           // what must happen, one sentence
	Needs    []*Need  `json:"needs,omitempty"` // the case is skipped without them

	run func(*session) // ends with fail or skip, or passes
}

// Severity says what it means that a case fails.
type Severity string

// The severities.
const (
	// Must: money can be lost, created or misdirected, a stranger can get in, or callbacks
	// of a service that keeps to PROTOCOL.md are never settled. A run with such a failure
	// is not OK.
	Must Severity = "must"
	// Should: no money depends on it with this project's service. It helps against
	// other services, against strangers who waste the endpoint's time, or who reads the log.
	Should Severity = "should"
)

// Basis says who demands what a case tests.
type Basis string

// The bases.
const (
	ByInterface Basis = "interface" // the published interface
	ForMoney    Basis = "money"     // PROTOCOL.md alone, and money depends on it
	ByProtocol  Basis = "protocol"  // PROTOCOL.md alone

	iface, money, ours = ByInterface, ForMoney, ByProtocol // in tables
)

// Ending is how a case ended.
type Ending string

// The endings.
const (
	Fail Ending = "fail"
	Pass Ending = "pass"
	Skip Ending = "skip"
)

// Result says how one case ended.
type Result struct {
	Case
	Ending Ending `json:"result"`
	Report
}

// Report is what was found. It holds no secret of the Config.
type Report struct {
	Problem   string     `json:"problem,omitempty"`   // what is wrong, or why a case was skipped
	Fix       string     `json:"fix,omitempty"`       // what to change at the endpoint, or in the settings
	Notes     []string   `json:"notes,omitempty"`     // what is unusual
	Exchanges []Exchange `json:"exchanges,omitempty"` // the last ones; the very last is judged
}

// Exchange is one request and its response.
type Exchange struct {
	What      string `json:"what"`                // what was sent, in words
	To        string `json:"to"`                  // "notify URL" or "withdraw URL"
	Method    string `json:"method"`              // POST, except in cases about other methods
	Bytes     int    `json:"bytes"`               // of the body; -1 if it had no end
	Plaintext string `json:"plaintext,omitempty"` // what was sealed, cut if long

	Status   int    `json:"status"`             // 0 if there was no response
	Error    string `json:"error,omitempty"`    // why there was no response
	Response string `json:"response,omitempty"` // its members, without the API key and the sealed data
	Answer   string `json:"answer,omitempty"`   // the opened data
}

// Advice reports whether the case failed and is one of Should.
func (r Result) Advice() bool { return r.Ending == Fail && r.Severity == Should }

// Summary counts the endings of a run.
type Summary struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`  // of Must
	Advised int `json:"advised"` // failed, of Should
	Skipped int `json:"skipped"`

	Money map[Ending][]string `json:"money,omitempty"` // names of the cases of ForMoney
}

// OK reports whether no case of Must failed and at least one case passed.
func (s Summary) OK() bool { return s.Failed == 0 && s.Passed > 0 }

// String returns the counts in words.
func (s Summary) String() string {
	advised := ""
	if s.Advised > 0 {
		advised = fmt.Sprintf(", %d advised", s.Advised)
	}
	return fmt.Sprintf("%d passed, %d failed%s, %d skipped", s.Passed, s.Failed, advised, s.Skipped)
}

func (s *Summary) add(r Result) {
	switch {
	case r.Ending == Pass:
		s.Passed++
	case r.Ending == Skip:
		s.Skipped++
	case r.Advice():
		s.Advised++
	default:
		s.Failed++
	}
	if r.Basis == ForMoney {
		s.Money[r.Ending] = append(s.Money[r.Ending], r.Name)
	}
}

// verdict is how a check ended that did not pass. fail and skip panic with it, so that a case can check one thing after
// another.
type verdict struct {
	skip         bool
	problem, fix string
}

// fail ends the check. It says what is wrong and what to change.
func fail(fix, format string, args ...any) {
	panic(&verdict{problem: fmt.Sprintf(format, args...), fix: fix})
}

func skip(format string, args ...any) {
	panic(&verdict{skip: true, problem: fmt.Sprintf(format, args...)})
}

// catch returns how check ended, nil if it passed.
func catch(check func()) (v *verdict) {
	defer func() {
		if p := recover(); p != nil {
			v = p.(*verdict)
		}
	}()
	check()
	return nil
}
