package journal

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"countersign"
	"countersign/client"
)

// story is what the records of a file tell of one withdrawal of a service.
type story struct {
	id       string
	kinds    map[string]int64 // the last record of each
	attempts map[int]bool     // that have a record or an item
	decided  int              // the attempt that decided; 0: none did
	to       string           // the decision
}

// Lacking reads the records of a proof. missing are those that must be in the log because of others
// in the file, and are not in the file; doubts are attempts without a record. A file
// that lacks nothing can still lack what came last: only an export shows that nothing did.
func Lacking(list []client.AuditRecord) (missing, doubts []string, err error) {
	stories := map[string]*story{}
	of := func(id string) *story {
		if stories[id] == nil {
			stories[id] = &story{id: id, kinds: map[string]int64{}, attempts: map[int]bool{}}
		}
		return stories[id]
	}
	for _, r := range list {
		e, err := Read(r.Record)
		if err != nil {
			return nil, nil, err
		}
		for _, item := range r.Items {
			whole, err := wholeItem(item.Item)
			if err != nil {
				return nil, nil, err
			}
			var a Attempt
			if json.Unmarshal(whole, &a) == nil && a.Attempt > 0 {
				of(a.Callback).attempts[a.Attempt] = true
			}
		}
		if len(e.About) != 1 {
			continue
		}
		s := of(e.About[0])
		s.kinds[e.Kind] = r.Seq
		switch e.Kind {
		case WithdrawalAnswered:
			var a Attempt
			if err := json.Unmarshal(e.Data, &a); err == nil && a.Attempt > 0 {
				s.attempts[a.Attempt] = true
			}
		case WithdrawalDecided:
			var d Decided
			if err := json.Unmarshal(e.Data, &d); err == nil {
				s.decided, s.to = d.Attempt, d.Decision
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(stories)) {
		s := stories[id]
		missing = append(missing, s.missing()...)
		if s.kinds[WithdrawalDecided] == 0 {
			continue
		}
		for n := 1; n <= slices.Max(append(slices.Collect(maps.Keys(s.attempts)), 0)); n++ {
			if !s.attempts[n] && n != s.decided {
				doubts = append(doubts, fmt.Sprintf("attempt %d to ask about %q has no record here: a process that died left none, or it was taken out", n, id))
			}
		}
	}
	return missing, doubts, nil
}

// missing names the records without which others of s cannot be in the log.
func (s *story) missing() (list []string) {
	if s.kinds[WithdrawalAdopted] > 0 {
		return nil // what came before was lost with the database
	}
	after := func(kinds ...string) (seq int64, kind string) {
		for _, k := range kinds {
			if s.kinds[k] > 0 {
				return s.kinds[k], k
			}
		}
		return 0, ""
	}
	lacks := func(what string, kinds ...string) {
		if seq, kind := after(kinds...); seq > 0 {
			list = append(list, fmt.Sprintf("record %d (%s) of %q needs %s, which is not in the file", seq, kind, s.id, what))
		}
	}
	released := []string{WithdrawalEnded, WithdrawalContradicted, WithdrawalWaits, WithdrawalRepeated, WithdrawalClaimRefused}
	if s.kinds[WithdrawalReleased] == 0 {
		lacks("the permit ("+WithdrawalReleased+")", released...)
	}
	if s.kinds[WithdrawalDecided] == 0 || s.to != string(countersign.DecisionConfirmed) {
		lacks("the decision ("+WithdrawalDecided+")", append(released, WithdrawalReleased)...)
	}
	if s.decided > 0 && !s.attempts[s.decided] {
		lacks(fmt.Sprintf("attempt %d, which decided", s.decided), WithdrawalDecided)
	}
	if s.kinds[WithdrawalCreated] == 0 {
		lacks("what was to be confirmed ("+WithdrawalCreated+")", append(released, WithdrawalDecided, WithdrawalReleased)...)
	}
	return list
}
