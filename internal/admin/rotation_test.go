package admin

import (
	"sync"
	"testing"
	"time"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// changesTold returns how many alarms of changes there are.
func changesTold(h *harness) int {
	return len(must(h.client(client.RoleViewer).Alarms(h.t.Context(), client.AlarmFilter{Kind: client.AlarmControlChanged}, client.PageOptions{Limit: 100}))(h.t).Items)
}

// Each step of a replacement of keys waits for another person, who sees fingerprints, and
// raises the alarm of a change.
func TestRotationWaitsForAnApprover(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		made := h.merchant("acme")
		alice, bob := h.person(client.RoleOperator, ""), h.person(client.RoleApprover, "")
		staged := must(alice.StageRotation(ctx, "acme", client.NewRotation{Key: &client.KeySpec{Bits: 1024}, ResponseKey: &client.KeySpec{Bits: 1024}, MakeAPIKey: true, CallbackAPIKey: "callback-key-staged"}))(t)
		secrets.add("staged X-API-KEY", "callback-key-staged")
		next := must(changeOf(alice, ctx, staged.Task))(t)
		if staged.PublicKey == "" || staged.Rotation != nil || len(staged.Warnings) != 2 || staged.CallbackAPIKey != "" ||
			next.After["rotation"] != "staged" || next.After["nextRequestKey"] == "" || next.After["nextApiKey"] == "" || next.After["nextCallbackApiKey"] == "" || next.Before["rotation"] != "" {
			t.Fatalf("%+v", next)
		}
		if m := must(alice.Merchant(ctx, "acme"))(t); m.Rotation != nil {
			t.Errorf("it is staged already: %+v", m.Rotation)
		}
		dbtest.Fails(alice.ApproveTask(ctx, staged.Task, ""))(t, client.ErrForbidden, "")
		must(bob.ApproveTask(ctx, staged.Task, ""))(t)
		m := must(alice.Merchant(ctx, "acme"))(t)
		if m.Rotation == nil || m.Rotation.State != client.RotationStaged || m.Fingerprint != made.Fingerprint || len(m.Rotation.Others) < 3 || m.Rotation.Others[0].Fingerprint != next.After["nextRequestKey"] {
			t.Fatalf("%+v", m.Rotation)
		}
		// What would change one set or the other is refused meanwhile.
		dbtest.Fails(alice.StageRotation(ctx, "acme", client.NewRotation{MakeAPIKey: true}))(t, client.ErrConflict, "being replaced")
		dbtest.Fails(alice.UpdateMerchant(ctx, "acme", client.MerchantPatch{MerchantSecrets: client.MerchantSecrets{APIKey: client.Secret("another-key")}}))(t, client.ErrConflict, "being replaced")
		dbtest.Fails(alice.StepRotation(ctx, "acme", "finish", 0))(t, client.ErrConflict, "no newer keys")
		if u := must(alice.UpdateMerchant(ctx, "acme", client.MerchantPatch{MerchantSettings: client.MerchantSettings{Name: "Acme 2"}}))(t); u.Task != "" {
			t.Errorf("a name waits: %+v", u.Task)
		}

		waits := must(alice.StepRotation(ctx, "acme", "activate", client.Duration(time.Hour)))(t)
		if c := must(changeOf(alice, ctx, waits.Task))(t); c.After["oldRequestKey"] != made.Fingerprint || c.After["requestKey"] != next.After["nextRequestKey"] || c.After["overlap"] != "1h0m0s" {
			t.Fatalf("%+v", c)
		}
		h.pass(time.Minute) // the overlap begins when it is approved
		must(bob.ApproveTask(ctx, waits.Task, ""))(t)
		m = must(alice.Merchant(ctx, "acme"))(t)
		if m.Rotation == nil || m.Rotation.State != client.RotationActive || m.Fingerprint != next.After["nextRequestKey"] || int64(m.Rotation.Until) != h.now().Add(time.Hour).UnixMilli() || m.APIKeyFingerprint != next.After["nextApiKey"] {
			t.Errorf("%+v", m.Rotation)
		}
		if kept := must(h.store.Merchant(ctx, "acme"))(t); kept.Key.PublicBase64() != staged.PublicKey || kept.ResponseKey.PublicBase64() != staged.ResponsePublicKey || !kept.Key.HasPrivate() {
			t.Error("other keys are used than were shown")
		}
		waits = must(alice.StepRotation(ctx, "acme", "finish", 0))(t)
		if c := must(changeOf(alice, ctx, waits.Task))(t); c.Before["oldRequestKey"] != made.Fingerprint || c.After["rotation"] != "" {
			t.Fatalf("%+v", c)
		}
		must(bob.ApproveTask(ctx, waits.Task, ""))(t)
		if m = must(alice.Merchant(ctx, "acme"))(t); m.Rotation != nil || m.Fingerprint != next.After["nextRequestKey"] {
			t.Errorf("%+v", m.Rotation)
		}
		if n := changesTold(h); n != 3 {
			t.Errorf("%d alarms for three steps", n)
		}
	})
}

// Without an approver all is done at once; keys of the merchant's own, and answers alone,
// are replaced the same way, and cancelled.
func TestRotationAtOnce(t *testing.T) {
	h := sqlite(t)
	c, ctx := h.client(client.RoleAdmin), t.Context()
	in := newMerchant("theirs")
	in.Scheme, in.Key, in.ResponseKey = "merchant-oaep", &client.KeySpec{PublicKey: testKey().PublicBase64()}, &client.KeySpec{Bits: 1024}
	made := must(c.CreateMerchant(ctx, in))(t)
	theirs := must(envelope.GenerateKey(1024))(t)
	for what, bad := range map[string]client.NewRotation{
		"must be left out": {Key: &client.KeySpec{Bits: 1024}},
		"give one of them": {MakeAPIKey: true, APIKey: "beside"},
		"is refused":       {Key: &client.KeySpec{PublicKey: "no key"}},
	} {
		dbtest.Fails(c.StageRotation(ctx, "theirs", bad))(t, client.ErrInvalid, what)
	}
	dbtest.Fails(c.StepRotation(ctx, "theirs", "activate", client.Duration(100*24*time.Hour)))(t, client.ErrInvalid, "body.overlap")
	dbtest.Fails(c.StepRotation(ctx, "theirs", "cancel", 0))(t, client.ErrConflict, "no keys")
	dbtest.Fails(c.StageRotation(ctx, "theirs", client.NewRotation{Key: &client.KeySpec{PublicKey: testKey().PublicBase64()}}))(t, client.ErrConflict, "has these keys already")

	staged := must(c.StageRotation(ctx, "theirs", client.NewRotation{Key: &client.KeySpec{PublicKey: theirs.PublicBase64()}, ResponseKey: &client.KeySpec{Bits: 1024}}))(t)
	if staged.Rotation == nil || staged.PublicKey != "" || staged.ResponsePublicKey == "" || len(staged.Rotation.Others) != 2 || staged.Rotation.Staged == 0 {
		t.Fatalf("%+v", staged.Rotation)
	}
	active := must(c.StepRotation(ctx, "theirs", "activate", 0))(t)
	if active.Fingerprint != theirs.Fingerprint() || active.Rotation == nil || int64(active.Rotation.Until) != h.now().Add(7*24*time.Hour).UnixMilli() {
		t.Errorf("%+v", active.Rotation)
	}
	back := must(c.StepRotation(ctx, "theirs", "cancel", 0))(t)
	if back.Fingerprint != made.Fingerprint || back.ResponseFingerprint != made.ResponseFingerprint || back.Rotation != nil {
		t.Errorf("%+v", back)
	}
	staged = must(c.StageRotation(ctx, "theirs", client.NewRotation{APIKey: "api-key-of-theirs"}))(t)
	secrets.add("given API key", "api-key-of-theirs")
	if len(staged.Rotation.Others) != 1 || staged.Rotation.Others[0].Kind != client.KeyAPI || staged.PublicKey+staged.ResponsePublicKey != "" {
		t.Errorf("the API key alone: %+v", staged.Rotation)
	}
	must(c.StepRotation(ctx, "theirs", "activate", client.Duration(time.Hour)))(t)
	if done := must(c.StepRotation(ctx, "theirs", "finish", 0))(t); done.Rotation != nil || done.Fingerprint != made.Fingerprint {
		t.Errorf("%+v", done)
	}

	// What is made and what stays, by scheme and request; a service's own pair answers too.
	own := h.merchant("acme")
	step := func(id string, n client.NewRotation) (client.StagedKeys, client.Merchant) {
		t.Helper()
		made := must(c.StageRotation(ctx, id, n))(t)
		must(c.StepRotation(ctx, id, "activate", 0))(t)
		return made, must(c.StepRotation(ctx, id, "finish", 0))(t).Merchant
	}
	fresh, first := step("acme", client.NewRotation{})
	if kept := must(h.store.Merchant(ctx, "acme"))(t); first.Fingerprint == own.Fingerprint || kept.Key.PublicBase64() != fresh.PublicKey || !kept.Key.HasPrivate() || kept.Version != 4 || kept.APIKey.Reveal() != testAPIKey || first.ResponseFingerprint != first.Fingerprint {
		t.Errorf("%+v", first)
	}
	split, second := step("acme", client.NewRotation{ResponseKey: &client.KeySpec{Bits: 1024}})
	if second.Fingerprint != first.Fingerprint || split.PublicKey != "" || split.ResponsePublicKey == "" || second.ResponseFingerprint == second.Fingerprint {
		t.Errorf("a response key of its own: %+v", second)
	}
	if _, third := step("acme", client.NewRotation{Key: &client.KeySpec{PrivateKey: client.Secret(privatePEM(testKey()))}}); third.Fingerprint != testKey().Fingerprint() || third.ResponseFingerprint != second.ResponseFingerprint {
		t.Errorf("a key that is given: %+v", third)
	}
	if answers, is := step("theirs", client.NewRotation{}); is.Fingerprint != made.Fingerprint || is.ResponseFingerprint == made.ResponseFingerprint || answers.PublicKey != "" {
		t.Errorf("the empty request in scheme merchant: %+v", is)
	}
}

// At the end of the overlap the older keys end by themselves, once, on whichever node looks
// first, with an alarm.
func TestRotationEnds(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		c, ctx := h.client(client.RoleAdmin), t.Context()
		old := h.merchant("acme")
		must(c.StageRotation(ctx, "acme", client.NewRotation{Key: &client.KeySpec{Bits: 1024}}))(t)
		must(c.StepRotation(ctx, "acme", "activate", client.Duration(time.Hour)))(t)
		look := func() {
			var nodes sync.WaitGroup
			for range 3 {
				nodes.Go(func() {
					if err := h.server.EndRotations(ctx, db.MillisOf(h.now())); err != nil {
						t.Error(err)
					}
				})
			}
			nodes.Wait()
		}
		before := changesTold(h)
		h.pass(time.Hour - time.Millisecond)
		look()
		if m := must(c.Merchant(ctx, "acme"))(t); m.Rotation == nil {
			t.Error("it ended too early")
		}
		h.pass(time.Millisecond)
		look()
		look()
		m := must(h.store.Merchant(ctx, "acme"))(t)
		if m.Rotation != nil || m.Of(client.KeyRequest).Fingerprint == old.Fingerprint || m.State != client.MerchantActive {
			t.Errorf("%+v", m.Rotation)
		}
		if n := changesTold(h) - before; n != 1 {
			t.Errorf("%d alarms", n)
		}
	})
}
