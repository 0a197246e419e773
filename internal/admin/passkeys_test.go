package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest/ready"
	"countersign/internal/lab/passkeytest"
	"countersign/internal/outbox"
)

// passkeyed gives a device whose key the client's token has registered.
func passkeyed(t *testing.T, c *client.Service, signer *passkeytest.Device) (*passkeytest.Device, client.Passkey) {
	t.Helper()
	begun, err := c.PasskeyChallenge(t.Context(), "https://console.example")
	if err != nil {
		t.Fatal(err)
	}
	d := passkeytest.New(t, "https://console.example", begun.Host)
	in := client.NewPasskey{Name: "laptop", State: begun.State, Credential: d.Create(begun.Challenge)}
	if signer != nil {
		in.Passkey = signed(signer, begun.Addition)
	}
	key, err := c.AddPasskey(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return d, key
}

func signed(d *passkeytest.Device, s client.Statement) *client.Assertion {
	return &client.Assertion{Text: s.Text, Credential: d.Sign(s.Challenge)}
}

// TestPasskeys: a token with passkeys changes them and approves only with a signature.
func TestPasskeys(t *testing.T) {
	for name, url := range ready.Kinds(outbox.End()) {
		t.Run(name, func(t *testing.T) {
			h, ctx := newHarness(t, url(t)), t.Context()
			h.merchant("shop")
			admin := h.client(client.RoleAdmin)
			device, first := passkeyed(t, admin, nil)

			begun, err := admin.PasskeyChallenge(ctx, "https://console.example")
			if err != nil {
				t.Fatal(err)
			}
			thief := passkeytest.New(t, "https://console.example", begun.Host)
			_, err = admin.AddPasskey(ctx, client.NewPasskey{Name: "thief", State: begun.State, Credential: thief.Create(begun.Challenge)})
			if !errors.Is(err, client.ErrForbidden) {
				t.Errorf("a second one without a signature: %v", err)
			}
			second, key := passkeyed(t, admin, device)
			list, err := admin.Passkeys(ctx)
			if err != nil || len(list) != 2 {
				t.Fatalf("%+v, %v", list, err)
			}
			if err := admin.RemovePasskey(ctx, first.ID, signed(second, key.Removal)); !errors.Is(err, client.ErrForbidden) {
				t.Errorf("signed for another: %v", err)
			}
			late := signed(second, first.Removal)
			h.pass(16 * time.Minute)
			if err := admin.RemovePasskey(ctx, first.ID, late); !errors.Is(err, client.ErrForbidden) {
				t.Errorf("shown too long ago: %v", err)
			}
			list, err = admin.Passkeys(ctx)
			if err != nil {
				t.Fatal(err)
			}
			removal := map[string]client.Statement{}
			for _, p := range list {
				removal[p.ID] = p.Removal
			}
			if err := admin.RemovePasskey(ctx, first.ID, signed(second, removal[first.ID])); err != nil {
				t.Fatal(err)
			}
			if n := h.signatures(); n != 2 {
				t.Errorf("%d records have a signature, want the second passkey and the removal", n)
			}
			if err := admin.RemovePasskey(ctx, key.ID, signed(second, removal[key.ID])); !errors.Is(err, client.ErrConflict) {
				t.Errorf("the last one of an admin: %v", err)
			}
			if _, err := admin.PasskeyChallenge(ctx, "http://10.0.0.1"); !errors.Is(err, client.ErrInvalid) {
				t.Errorf("a page without a name: %v", err)
			}
		})
	}
}

// TestPasskeySignIn: a challenge signs in once, for as long as the token and the passkey.
func TestPasskeySignIn(t *testing.T) {
	h, ctx := sqlite(t), t.Context()
	approver := h.person(client.RoleApprover, "").Service
	self, err := approver.Self(ctx)
	if err != nil {
		t.Fatal(err)
	}
	device, _ := passkeyed(t, approver, nil)
	begun, err := approver.SignInChallenge(ctx, "https://console.example")
	if err != nil {
		t.Fatal(err)
	}
	in := client.PasskeySignIn{State: begun.State, Credential: device.Sign(begun.Challenge)}
	session, err := approver.SignIn(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := approver.SignIn(ctx, in); !errors.Is(err, client.ErrUnauthorized) {
		t.Errorf("the same again: %v", err)
	}
	stranger := passkeytest.New(t, "https://console.example", "console.example")
	if _, err := approver.SignIn(ctx, client.PasskeySignIn{State: begun.State, Credential: stranger.Sign(begun.Challenge)}); !errors.Is(err, client.ErrUnauthorized) {
		t.Errorf("a passkey that is not registered: %v", err)
	}
	who := func() (client.Self, error) {
		var out client.Self
		a := h.as(session.Secret.Reveal(), "GET", "/v1/tokens/self", "", "")
		if a.status != 200 {
			return out, client.ErrUnauthorized
		}
		return out, json.Unmarshal([]byte(a.body), &out)
	}
	if got, err := who(); err != nil || got.ID != self.ID || got.Role != client.RoleApprover {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := h.kept.Revoke(context.WithoutCancel(ctx), self.ID, 5, nil); err != nil {
		t.Fatal(err)
	}
	h.pass(2 * time.Second)
	if got, err := who(); err == nil {
		t.Errorf("after the revocation: %+v", got)
	}
}

// TestSignedChange: an approver with passkeys signs the change that is shown.
func TestSignedChange(t *testing.T) {
	h, ctx := sqlite(t), t.Context()
	h.merchant("shop")
	approver := h.person(client.RoleApprover, "").Service
	device, _ := passkeyed(t, approver, nil)
	waits, err := h.client(client.RoleOperator).UpdateMerchant(ctx, "shop", client.MerchantPatch{MerchantSettings: client.MerchantSettings{WithdrawURL: "https://shop.example/new"}})
	if err != nil || waits.Change == nil {
		t.Fatalf("%+v, %v", waits, err)
	}
	if _, err := approver.ApproveChange(ctx, waits.Change.ID); !errors.Is(err, client.ErrForbidden) {
		t.Fatalf("the token alone: %v", err)
	}
	s, err := approver.ChangeApproval(ctx, waits.Change.ID)
	if err != nil || len(s.Credentials) != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	done, err := approver.ApproveChangeSigned(ctx, waits.Change.ID, signed(device, s))
	if err != nil || done.State != client.ChangeApplied {
		t.Fatalf("%+v, %v", done, err)
	}
	passkeyed(t, approver, device)
	if n := h.signatures(); n != 2 {
		t.Errorf("%d records have a signature, want the change and the passkey", n)
	}
}

// TestSignedThaw: where passkeys are required of a role it thaws with one alone, and the record has
// the signature.
func TestSignedThaw(t *testing.T) {
	h, ctx := sqlite(t, func(c *Config) {
		changes, err := api.NewChanges(api.ChangesConfig{DB: c.Outbox.DB, Now: c.Now, RequirePasskey: []client.Role{client.RoleApprover}})
		if err != nil {
			t.Fatal(err)
		}
		c.Changes = changes
	}), t.Context()
	h.merchant("shop")
	ann, admin := h.person(client.RoleApprover, "").Service, h.client(client.RoleAdmin)
	frozen := func(want bool) {
		t.Helper()
		if f, err := admin.Frozen(ctx); err != nil || f.Frozen != want {
			t.Fatalf("%+v, %v", f, err)
		}
	}
	if _, err := ann.Freeze(ctx, "a test"); err != nil {
		t.Fatal(err)
	}
	if s, err := ann.ThawApproval(ctx); err != nil || s.MayNot == "" {
		t.Errorf("without a passkey: %+v, %v", s, err)
	}
	if _, err := ann.Thaw(ctx); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("without a passkey: %v", err)
	}
	device, _ := passkeyed(t, ann, nil)
	if _, err := ann.Thaw(ctx); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("with the token alone: %v", err)
	}
	frozen(true)
	earlier, err := ann.ThawApproval(ctx)
	if err != nil || earlier.MayNot != "" || len(earlier.Credentials) != 1 {
		t.Fatalf("%+v, %v", earlier, err)
	}
	// What was signed of one freeze ends no other.
	if _, err := admin.Thaw(ctx); err != nil {
		t.Fatal(err)
	}
	h.pass(time.Second)
	if _, err := admin.Freeze(ctx, "another"); err != nil {
		t.Fatal(err)
	}
	if _, err := ann.ThawSigned(ctx, signed(device, earlier)); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("signed of another freeze: %v", err)
	}
	frozen(true)
	s, err := ann.ThawApproval(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ann.ThawSigned(ctx, signed(passkeytest.New(t, "https://console.example", "console.example"), s)); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("signed by a stranger: %v", err)
	}
	if _, err := ann.ThawSigned(ctx, signed(device, s)); err != nil {
		t.Fatal(err)
	}
	frozen(false)
	if n := h.signatures(); n != 1 {
		t.Errorf("%d records have a signature, want the thaw", n)
	}
	if _, err := ann.Thaw(ctx); err != nil { // it is over: nothing changes
		t.Error(err)
	}
	// Nobody signs of whose role nothing is required.
	if _, err := admin.Freeze(ctx, "a third"); err != nil {
		t.Fatal(err)
	}
	if s, err := admin.ThawApproval(ctx); err != nil || len(s.Credentials) != 0 || s.MayNot != "" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := admin.Thaw(ctx); err != nil {
		t.Fatal(err)
	}
	frozen(false)
}

// signatures verifies an export of the whole log and gives how many records have a signature.
func (h *harness) signatures() (n int) {
	h.t.Helper()
	var b bytes.Buffer
	api, ctx := h.client(client.RoleAdmin), h.t.Context()
	if err := journal.Export(ctx, &b, api, 1, 0); err != nil {
		h.t.Fatal(err)
	}
	p, err := api.AuditCheckpoint(ctx, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	n = bytes.Count(b.Bytes(), []byte(`,"passkey":{`))
	v, err := journal.Verify(&b, p.Key, nil)
	if err != nil {
		h.t.Error(err)
	}
	e := client.AuditExport{First: v.First, Last: v.Last, Checkpoint: v.Signed, Digest: v.Digest}
	if got, err := api.AuditExported(ctx, e); err != nil || got.Last != v.Last {
		h.t.Errorf("acknowledging it gives %+v, %v", got, err)
	}
	return n
}
