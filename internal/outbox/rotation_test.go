package outbox

import (
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
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
			if m.Key.Fingerprint() != sealing.Key.Fingerprint() || m.APIKey != sealing.APIKey || m.CallbackAPIKey != sealing.CallbackAPIKey || m.Of(client.KeyRequest).Fingerprint != sealing.Key.Fingerprint() {
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
	if r := staged.Rotation; r.Active || r.Staged != 2000 || r.Activated != 0 || r.Until() != db.Never || since(r.Other) != [4]db.Millis{2000, 2000, 2000, 2000} || since(staged.KeySet) != since(old.KeySet) {
		t.Errorf("staged: %+v", r)
	}
	dbtest.Fails(s.UpdateMerchant(ctx, "m0", 2100, stageAll(keys)))(t, db.ErrConflict, "")     // staged twice
	dbtest.Fails(s.UpdateMerchant(ctx, "m0", 2100, (*Merchant).Finish))(t, db.ErrConflict, "") // before it was activated
	same("cancelled", rotate(t, s, 2200, (*Merchant).Cancel), old.MerchantKeys, none)
	rotate(t, s, 3000, stageAll(keys))
	active := rotate(t, s, 4000, activate(time.Second))
	same("active", active, keys, old.MerchantKeys)
	if r := active.Rotation; !r.Active || r.Until() != 5000 || since(r.Other) != since(old.KeySet) || since(active.KeySet)[0] != 3000 || r.Staged != 3000 {
		t.Errorf("active: %+v, since %+v", r, active.Shown)
	}
	dbtest.Fails(s.UpdateMerchant(ctx, "m0", 4100, activate(time.Second)))(t, db.ErrConflict, "") // activated twice
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
	if since(last.KeySet)[0] != 4400 {
		t.Errorf("the age of a key moved at the end: %+v", last.Shown)
	}
	dbtest.Fails(s.UpdateMerchant(ctx, "m0", 5600, stageAll(keys)))(t, db.ErrConflict, "") // the same keys
	// One key alone: the others stay, and are in both sets.
	one := rotate(t, s, 6000, stageAll(MerchantKeys{CallbackAPIKey: "callback-3"}))
	if list := one.Others(); len(list) != 1 || list[0].Kind != client.KeyCallbackAPI || one.Rotation.Other.Of(client.KeyAPI) != one.Of(client.KeyAPI) {
		t.Errorf("%+v", list)
	}
}

// testOlderVersion: an answer to a callback that was sent under an older version of the merchant, which may have had
// other keys, settles nothing and costs nothing, and the callback is sent again. A failure counts as ever.
func testOlderVersion(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	for i, state := range []client.CallbackState{client.CallbackAccepted, client.CallbackRefused, client.CallbackExhausted} {
		now, answers := db.Millis(10_000*(i+1)), state != client.CallbackExhausted
		one := claimOne(t, s, string(state), now)
		rotate(t, s, now+1, func(m *Merchant) error { m.APIKey = countersign.APIKey(state); return nil })
		n := settlementOf(one)
		n.State, n.Counts = state, true
		if got := must(s.Settle(ctx, []Settlement{n}, now+2))(t)[0]; !got.Applied || (got.Stopped == client.ReasonOlderVersion) != answers {
			t.Errorf("%s: %+v", state, got)
		}
		if got := must(s.Settle(ctx, []Settlement{n}, now+3))(t)[0]; got != (Settled{Applied: true}) { // repeated
			t.Errorf("%s again: %+v", state, got)
		}
		c := must(s.Callback(ctx, one.ID))(t)
		if asked := c.State == client.CallbackPending && c.Failed == 0 && c.Due == now+2 && c.LastReason == client.ReasonOlderVersion; asked != answers {
			t.Errorf("%s: it is %+v", state, c)
		}
		if answers {
			settleAll(t, s, claim(t, s, countersign.LaneNotify, now+4, 1), now+5)
		}
	}
	// A lost lease stays lost.
	lost := claimOne(t, s, "lost", 50_000)
	must(s.Sweep(ctx, 60_000))(t)
	rotate(t, s, 60_001, func(m *Merchant) error { m.APIKey = "other"; return nil })
	if got := must(s.Settle(ctx, []Settlement{settlementOf(lost)}, 60_002))(t)[0]; got != (Settled{}) {
		t.Errorf("a lost lease: %+v", got)
	}
	if got := must(s.Attempts(ctx, lost.ID))(t); len(got) != 1 || got[0].Result != client.AttemptAccepted || !got[0].Late {
		t.Errorf("its attempt: %+v", got)
	}
}
