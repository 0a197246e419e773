package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"countersign/internal/passkey"
)

// shows reports whether records of a kind are of an act that was signed. A change that is
// applied at once has no record of its approval alone, and the approval of an order by one of
// several has one of its own.
func shows(act, kind string) bool {
	return act == kind || act == "change.approved" && kind == "change.applied" || act == "order.approved" && kind == OrderApproval
}

// beside gives the members of a record's data that are not in what a person signed, with the
// value that they must have; nil: any.
func beside(s passkey.Statement) map[string]any {
	switch s.Act {
	case "order.approved":
		return map[string]any{"callBackId": s.ID, "state": "approved", "decidedBy": s.Token, "reason": nil}
	case DepositCredited:
		return map[string]any{"state": "credited", "decidedBy": s.Token, "reason": nil}
	case WithdrawalApproved:
		return map[string]any{"reason": nil}
	case "change.approved":
		return map[string]any{"reason": nil, "takesEffect": nil}
	case "passkey.added": // the key is made after it was signed
		return map[string]any{"token": s.Token, "key": nil, "name": nil, "origin": nil, "public": nil}
	case "passkey.removed":
		return map[string]any{"token": s.Token, "key": s.ID, "name": nil, "origin": nil, "public": nil}
	}
	return nil
}

// longestApproval is how long after it was shown something may be approved. The API allows
// less.
const longestApproval = time.Hour

// signed checks, with nothing but the record, that the passkey in it has signed what the
// record tells of. strict is whether the record is written as records are.
func (t Entry) signed(strict bool) error {
	if t.Passkey == nil {
		return nil
	}
	s, err := t.Passkey.Check()
	if err != nil {
		return err
	}
	if !strict { // such as a member that comes twice
		return fmt.Errorf("%w: the record is not written as records are", passkey.ErrAssertion)
	}
	other := func(what string) error {
		return fmt.Errorf("%w: %s of the record is not what was signed", passkey.ErrAssertion, what)
	}
	shown := time.UnixMilli(s.At)
	switch at := t.At.Time(); {
	case !shows(s.Act, t.Kind):
		return other("the kind")
	case t.By == nil || s.Token != t.By.Token:
		return other("the token")
	case !slices.Contains(t.About, s.ID):
		return other("the id")
	case at.Before(shown) || at.After(shown.Add(longestApproval)):
		return other("the time")
	}
	says, err := members(t.Data)
	if err != nil {
		return err
	}
	signs, err := members(s.About)
	if err != nil {
		return err
	}
	allowed := beside(s)
	ids := []string{s.ID}
	for name, value := range says {
		var id string
		if json.Unmarshal(value, &id) == nil {
			ids = append(ids, id)
		}
		want, is := signs[name]
		if must, ok := allowed[name]; !is && ok {
			if is = true; must == nil {
				continue
			}
			if want, err = Marshal(must); err != nil {
				return err
			}
		}
		if !is || !bytes.Equal(value, want) {
			return other("member " + name)
		}
	}
	for _, id := range t.About {
		if !slices.Contains(ids, id) {
			return other("the id " + id)
		}
	}
	return nil
}

// members gives the members of a JSON object as they are written. One that comes twice could
// say two things. No object has none.
func members(object json.RawMessage) (map[string]json.RawMessage, error) {
	list := map[string]json.RawMessage{}
	err := eachMember(object, func(name string, value json.RawMessage) error {
		if _, twice := list[name]; twice {
			return fmt.Errorf("%w: member %s comes twice", passkey.ErrAssertion, name)
		}
		list[name] = value
		return nil
	})
	return list, err
}
