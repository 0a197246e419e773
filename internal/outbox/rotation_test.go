package outbox

import (
	"errors"
	"slices"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
)

// rotate takes a step of the replacement of m0's keys.
func rotate(t testing.TB, s *Outbox, now db.Millis, step func(*Merchant) error) Merchant {
	t.Helper()
	return must(s.UpdateMerchant(ctx, "m0", now, step))(t)
}

func stageAll(k MerchantKeys) func(*Merchant) error {
	return func(m *Merchant) error { return m.Stage(k) }
}

func activate(overlap time.Duration) func(*Merchant) error {
	return func(m *Merchant) error { return m.Activate(overlap) }
}

// testRotation: both sets are kept sealed, each key with its own age, through every step
// and every way back; another start reads the same.
func testRotation(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, func(m *Merchant) { m.CallbackAPIKey = "callback-old" })
	old := must(s.Merchant(ctx, "m0"))(t)
	fresh := must(envelope.GenerateKey(1024))(t)
	keys := MerchantKeys{APIKey: "api-new", CallbackAPIKey: "callback-new", Key: fresh}
	same := func(what string, got Merchant, sealing, other MerchantKeys) {
		t.Helper()
		again := must(another(t, s).Merchant(ctx, "m0"))(t)
		for _, m := range []Merchant{got, again} {
			if m.Key.Fingerprint() != sealing.Key.Fingerprint() || m.APIKey != sealing.APIKey || m.CallbackAPIKey != sealing.CallbackAPIKey || m.Fingerprint != sealing.Key.Fingerprint() {
				t.Errorf("%s: other keys seal", what)
			}
			if (other.Key == nil) != (m.Rotation == nil) {
				t.Errorf("%s: rotation %+v", what, m.Rotation)
			} else if r := m.Rotation; r != nil && (r.Other.Key.Fingerprint() != other.Key.Fingerprint() || !r.Other.Key.HasPrivate() || r.Other.APIKey != other.APIKey || r.Other.CallbackAPIKey != other.CallbackAPIKey) {
				t.Errorf("%s: other keys are beside them", what)
			}
		}
		if list := must(s.Merchants(ctx, nil, "", 10))(t); (list[0].Rotation == nil) != (got.Rotation == nil) || len(list[0].Others()) != len(got.Others()) || list[0].Key != nil {
			t.Errorf("%s: in the list %+v", what, list[0].Rotation)
		}
	}
	none := MerchantKeys{}
	staged := rotate(t, s, 2000, stageAll(keys))
	same("staged", staged, old.MerchantKeys, keys)
	if r := staged.Rotation; r.Active || r.Staged != 2000 || r.Activated != 0 || r.Until() != db.Never || r.Since != (KeySince{Key: 2000, ResponseKey: 2000, APIKey: 2000, CallbackAPIKey: 2000}) || staged.Since != old.Since {
		t.Errorf("staged: %+v", r)
	}
	if _, err := s.UpdateMerchant(ctx, "m0", 2100, stageAll(keys)); !errors.Is(err, db.ErrConflict) {
		t.Errorf("staged twice: %v", err)
	}
	if _, err := s.UpdateMerchant(ctx, "m0", 2100, (*Merchant).Finish); !errors.Is(err, db.ErrConflict) {
		t.Errorf("finished before it was activated: %v", err)
	}
	same("cancelled", rotate(t, s, 2200, (*Merchant).Cancel), old.MerchantKeys, none)
	rotate(t, s, 3000, stageAll(keys))
	active := rotate(t, s, 4000, activate(time.Second))
	same("active", active, keys, old.MerchantKeys)
	if r := active.Rotation; !r.Active || r.Until() != 5000 || r.Since != old.Since || active.Since.Key != 3000 || r.Staged != 3000 {
		t.Errorf("active: %+v, since %+v", r, active.Since)
	}
	if _, err := s.UpdateMerchant(ctx, "m0", 4100, activate(time.Second)); !errors.Is(err, db.ErrConflict) {
		t.Errorf("activated twice: %v", err)
	}
	// What else changes leaves both sets alone.
	same("renamed", rotate(t, s, 4200, func(m *Merchant) error { m.Name = "other"; return nil }), keys, old.MerchantKeys)
	same("taken back", rotate(t, s, 4300, (*Merchant).Cancel), old.MerchantKeys, none)
	rotate(t, s, 4400, stageAll(keys))
	rotate(t, s, 4500, activate(time.Second))
	for at, want := range map[db.Millis]int{5499: 0, 5500: 1} {
		if ended := must(s.EndedRotations(ctx, at))(t); len(ended) != want {
			t.Errorf("at %d these have ended: %v", at, ended)
		}
	}
	last := rotate(t, s, 5500, (*Merchant).Finish)
	same("finished", last, keys, none)
	if last.Since.Key != 4400 {
		t.Errorf("the age of a key moved at the end: %+v", last.Since)
	}
	if _, err := s.UpdateMerchant(ctx, "m0", 5600, stageAll(keys)); !errors.Is(err, db.ErrConflict) {
		t.Errorf("the same keys were staged: %v", err)
	}
	// A clock that was set back gives no key the time of another.
	back := rotate(t, s, 10, func(m *Merchant) error { m.APIKey = "api-3"; return nil })
	if back.Since.APIKey <= last.Since.APIKey {
		t.Errorf("a later key has the time %d, the one before %d", back.Since.APIKey, last.Since.APIKey)
	}
	// One key alone: the others stay, and are in both sets.
	one := rotate(t, s, 6000, stageAll(MerchantKeys{CallbackAPIKey: "callback-3"}))
	if list := one.Others(); len(list) != 1 || list[0].Kind != client.KeyCallbackAPI || one.Rotation.Since.APIKey != one.Since.APIKey {
		t.Errorf("%+v", list)
	}
}

// testWithdrawnKeys: an answer that was judged under a key which the merchant does not have
// any more settles nothing, whatever withdrew it; one under a key that stayed does.
func testWithdrawnKeys(t *testing.T, s *Outbox) {
	fresh := MerchantKeys{APIKey: "api-new", Key: must(envelope.GenerateKey(1024))(t)}
	now := db.Millis(10_000)
	type judged struct{ api, response db.Millis }
	for name, c := range map[string]struct {
		withdraw func(t *testing.T, at db.Millis)
		old, new bool // whether the answers count
	}{
		"nothing":   {func(*testing.T, db.Millis) {}, true, true},
		"finished":  {func(t *testing.T, at db.Millis) { rotate(t, s, at, (*Merchant).Finish) }, false, true},
		"cancelled": {func(t *testing.T, at db.Millis) { rotate(t, s, at, (*Merchant).Cancel) }, true, false},
		"replaced at once": {func(t *testing.T, at db.Millis) {
			rotate(t, s, at, func(m *Merchant) error {
				if err := m.Finish(); err != nil {
					return err
				}
				m.APIKey, m.Key = "api-3", must(envelope.GenerateKey(1024))(t)
				return nil
			})
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			now += 10_000
			if _, err := s.Merchant(ctx, "m0"); err != nil {
				addMerchants(t, s, 1, nil)
			} else { // from the start again
				rotate(t, s, now, func(m *Merchant) error {
					m.Rotation, m.APIKey, m.Key = nil, "api-old", testPair()
					return nil
				})
			}
			rotate(t, s, now+1, stageAll(fresh))
			m := rotate(t, s, now+2, activate(time.Hour))
			old, newer := judged{m.Rotation.Since.APIKey, m.Rotation.Since.ResponseKey}, judged{m.Since.APIKey, m.Since.ResponseKey}
			if old.api == newer.api || old.response == newer.response {
				t.Fatalf("%+v and %+v", old, newer)
			}
			type answer struct {
				judged
				state client.CallbackState
				want  bool
			}
			var answers []answer
			for _, state := range []client.CallbackState{client.CallbackAccepted, client.CallbackRefused} {
				answers = append(answers, answer{old, state, c.old}, answer{newer, state, c.new},
					answer{judged{old.api, newer.response}, state, c.old && c.new}, answer{judged{newer.api, old.response}, state, c.old && c.new},
					answer{judged{newer.api, 0}, state, c.new}, answer{judged{old.api, 0}, state, c.old},
					answer{judged{12345, 0}, state, false}, answer{judged{0, 12345}, state, false})
			}
			var list []NewCallback
			for i := range answers {
				list = append(list, deposit("m0", name+string(rune('a'+i)), now))
			}
			must(s.Ingest(ctx, list, now))(t)
			claimed := claim(t, s, countersign.LaneNotify, now+10, 100)
			if len(claimed) != len(answers) {
				t.Fatalf("%d claimed", len(claimed))
			}
			slices.SortFunc(claimed, func(a, b Claimed) int { return int(a.EventID[len(a.EventID)-1]) - int(b.EventID[len(b.EventID)-1]) })
			c.withdraw(t, now+20)
			var batch []Settlement
			for i, a := range answers {
				x := settlementOf(claimed[i])
				x.State, x.APIKey, x.ResponseKey, x.MerchantVersion = a.state, a.api, a.response, m.Version
				batch = append(batch, x)
			}
			settled := must(s.Settle(ctx, batch, now+30))(t)
			again := must(s.Settle(ctx, batch, now+40))(t) // a repeated call changes nothing
			for i, a := range answers {
				got := must(s.Callback(ctx, claimed[i].ID))(t)
				if counts := got.State == a.state; counts != a.want || !settled[i].Applied || (settled[i].Stopped == "") != a.want || !again[i].Applied {
					t.Errorf("%d: %+v is %s, %+v", i, a, got.State, settled[i])
				}
				if !a.want && (got.State != client.CallbackPending || got.Failed != 0 || got.Due != now+30 || got.LastReason != client.ReasonOlderVersion) {
					t.Errorf("%d: it is asked again as %+v", i, got)
				}
			}
			// The rest is settled, so that the next case begins with nothing.
			for _, x := range claim(t, s, countersign.LaneNotify, now+2000, 100) {
				must(s.Settle(ctx, []Settlement{settlementOf(x)}, now+2001))(t)
			}
			// A lost lease stays lost, also under a withdrawn key.
			must(s.Ingest(ctx, []NewCallback{deposit("m0", name+"-lost", now)}, now))(t)
			lost := claim(t, s, countersign.LaneNotify, now+3000, 1)[0]
			must(s.Sweep(ctx, now+5000))(t)
			x := settlementOf(lost)
			x.APIKey = 12345
			if got := must(s.Settle(ctx, []Settlement{x}, now+5001))(t); got[0].Applied || got[0].Stopped != "" {
				t.Errorf("a lost lease: %+v", got[0])
			}
			if got := must(s.Attempts(ctx, lost.ID))(t); len(got) != 1 || got[0].Result != "accepted" || !got[0].Late {
				t.Errorf("its attempt: %+v", got)
			}
			must(s.Settle(ctx, []Settlement{settlementOf(claim(t, s, countersign.LaneNotify, now+6000, 1)[0])}, now+6001))(t)
		})
	}
}
