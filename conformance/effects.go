package conformance

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"time"
)

// decimal matches an exact amount as an application may print it, also Oracle's ".5" and Java's "1E-18". Its length
// bounds the arithmetic.
var decimal = regexp.MustCompile(`^(?:[0-9]{1,160}(?:\.[0-9]{0,160})?|\.[0-9]{1,160})(?:[eE][+-]?[0-9]{1,3})?$`)

func sameValue(a, b string) bool {
	if !decimal.MatchString(a) || !decimal.MatchString(b) {
		return a == b
	}
	x, okX := new(big.Rat).SetString(a)
	y, okY := new(big.Rat).SetString(b)
	return okX && okY && x.Cmp(y) == 0
}

// expect says how often the deposit of q must have been credited when the case ends.
func (s *session) expect(q request, n int) {
	id, amount := q.m.bare("trackingId"), q.m.bare("amount")
	if id == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.effects[id]; before.times > 0 {
		amount = before.amount // of the first that was accepted
	}
	s.effects[id] = effect{n, amount}
}

// expectNothing is expect with 0, for a deposit that was not accepted before.
func (s *session) expectNothing(q request) {
	if _, ok := s.effects[q.m.bare("trackingId")]; !ok {
		s.expect(q, 0)
	}
}

// credited compares the credits so far, if they can be seen.
func (s *session) credited() {
	if s.cfg.Effects != nil {
		s.compare(s.effects)
	}
}

// compare fails unless every deposit was credited as it must. It waits for credits that are
// missing, since an application may book them after it answered.
func (s *session) compare(want map[string]effect) {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.EffectsWait)
	defer cancel()
	for {
		missing := s.look(want)
		if missing == "" {
			return
		}
		if !sleep(ctx, 100*time.Millisecond) {
			fail("Credit what you accept, in the transaction that records it. If credits come later than "+
				s.cfg.EffectsWait.String()+" after the answer, give check that time (--effects-wait).", "%s", missing)
		}
	}
}

// sleep reports whether d passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// look fails for what was credited too often or with another amount, and says what is
// missing.
func (s *session) look(want map[string]effect) (missing string) {
	ids := slices.Sorted(maps.Keys(want))
	got := map[string][]string{}
	credits, err := s.cfg.Effects(s.ctx, ids)
	if err != nil {
		fail("Look at the command of --effects: it must print the credits of the trackingIds that it is given.",
			"looking at the credits: %v", err)
	}
	for _, c := range credits {
		got[c.TrackingID] = append(got[c.TrackingID], c.Amount)
	}
	for _, id := range ids {
		w, n := want[id], len(got[id])
		switch {
		case n > 0 && w.times == 0:
			fail("Credit only what is answered with errCode 0 and is no possible duplicate.",
				"the deposit %s was credited, and must not be", id)
		case n > w.times:
			fail("Record (type, trackingId) in the transaction that credits, with a unique index; credit if it is new.",
				"the deposit %s was credited %d times, not %d", id, n, w.times)
		case n < w.times && missing == "":
			missing = fmt.Sprintf("the deposit %s was accepted with errCode 0, and was credited %d times, not %d",
				id, n, w.times)
		}
		for _, amount := range got[id] {
			if !sameValue(amount, w.amount) {
				fail("Keep amounts as exact decimals, from the message to the ledger: no floating-point number, and a column with "+
					"enough digits.", "the deposit %s of %s was credited with %q", id, w.amount, s.show([]byte(amount)))
			}
		}
	}
	return missing
}
