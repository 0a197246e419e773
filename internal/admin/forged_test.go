package admin

import (
	"context"
	"strings"
	"testing"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/lab/passkeytest"
)

// A merchant whose row was changed past the service is shown as paused. An edit that gives all
// that could move money puts it right, with an approval, and it stays paused until it is resumed.
func TestForgedMerchant(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme")
	alice, bob := h.person(client.RoleOperator, ""), h.person(client.RoleApprover, "")
	ctx := t.Context()
	err := h.store.Write(ctx, func(ctx context.Context, x *db.Tx) error {
		_, err := x.Exec(ctx, `UPDATE merchants SET settings = REPLACE(settings, 'acme.example/notify', 'evil.example/notify')`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	m := must(alice.Merchant(ctx, "acme"))(t)
	if m.State != client.MerchantPaused || !strings.Contains(m.PausedReason, "row_forged") {
		t.Errorf("shown as %+v", m)
	}
	_, err = alice.ResumeMerchant(ctx, "acme", client.Resume{})
	refused(t, err, client.ErrConflict, "row_forged")
	_, err = alice.StageRotation(ctx, "acme", client.NewRotation{Key: &client.KeySpec{Bits: 1024}})
	refused(t, err, client.ErrConflict, "row_forged")
	edit := client.MerchantPatch{MerchantSettings: client.MerchantSettings{NotifyURL: "https://merchant.example/n"}}
	_, err = alice.UpdateMerchant(ctx, "acme", edit)
	refused(t, err, client.ErrConflict, "withdrawUrl")
	edit.WithdrawURL, edit.FinalCodes, edit.Collect, edit.AllowPrivate = "https://merchant.example/w", m.FinalCodes, m.Collect, m.AllowPrivate
	edit.Clear = []string{"approveAbove"}
	_, err = alice.UpdateMerchant(ctx, "acme", edit)
	refused(t, err, client.ErrConflict, "answerKey") // whether answers are signed must be said
	edit.Clear = []string{"approveAbove", "answerKey"}
	waits := must(alice.UpdateMerchant(ctx, "acme", edit))(t)
	if c := waits.Change; c == nil || len(c.Before["notifyUrl"]) > 0 || c.After["notifyUrl"] != edit.NotifyURL || c.After["requestKey"] == "" || c.After["concurrency"] == "" {
		t.Fatalf("the approver sees %+v", waits)
	}
	must(bob.ApproveChange(ctx, waits.Change.ID))(t)
	if m = must(alice.Merchant(ctx, "acme"))(t); m.NotifyURL != edit.NotifyURL || m.State != client.MerchantPaused {
		t.Errorf("put right it is %+v", m)
	}
	if m = must(alice.ResumeMerchant(ctx, "acme", client.Resume{}))(t); m.State != client.MerchantActive {
		t.Errorf("resumed it is %+v", m)
	}
}

// A passkey's row that was written by hand signs nobody in and approves nothing, and the token
// that it names is not without passkeys.
func TestForgedPasskey(t *testing.T) {
	h, ctx := sqlite(t), t.Context()
	h.merchant("shop")
	approver := h.person(client.RoleApprover, "")
	thief, _ := passkeyed(t, h.person(client.RoleViewer, "").Service, nil)
	err := h.store.Write(ctx, func(ctx context.Context, x *db.Tx) error {
		_, err := x.Exec(ctx, `UPDATE passkeys SET token = $1`, approver.id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	begun := must(approver.SignInChallenge(ctx, "https://console.example"))(t)
	_, err = approver.SignIn(ctx, client.PasskeySignIn{State: begun.State, Credential: thief.Sign(begun.Challenge)})
	refused(t, err, client.ErrUnauthorized, "")
	waits := must(h.client(client.RoleOperator).UpdateMerchant(ctx, "shop", client.MerchantPatch{MerchantSettings: client.MerchantSettings{WithdrawURL: "https://shop.example/new"}}))(t)
	s := must(approver.ChangeApproval(ctx, waits.Change.ID))(t)
	_, err = approver.ApproveChangeSigned(ctx, waits.Change.ID, signed(thief, s))
	refused(t, err, client.ErrForbidden, "")
	_, err = approver.ApproveChange(ctx, waits.Change.ID)
	refused(t, err, client.ErrForbidden, "")
}

// A passkey's row that is removed lets its token do nothing without one, and the row of a passkey
// that its owner has removed signs nobody in when it is put back.
func TestRemovedPasskey(t *testing.T) {
	h, ctx := sqlite(t), t.Context()
	h.merchant("shop")
	approver := h.person(client.RoleApprover, "")
	device, first := passkeyed(t, approver.Service, nil)
	write := func(text string, args ...any) {
		t.Helper()
		err := h.store.Write(ctx, func(ctx context.Context, x *db.Tx) error {
			_, err := x.Exec(ctx, text, args...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	waits := must(h.client(client.RoleOperator).UpdateMerchant(ctx, "shop", client.MerchantPatch{MerchantSettings: client.MerchantSettings{WithdrawURL: "https://shop.example/new"}}))(t)
	write(`CREATE TABLE kept AS SELECT * FROM passkeys`)
	write(`DELETE FROM passkeys`)
	_, err := approver.ApproveChange(ctx, waits.Change.ID)
	refused(t, err, client.ErrForbidden, "passkeys")
	begun := must(approver.PasskeyChallenge(ctx, "https://console.example"))(t)
	_, err = approver.AddPasskey(ctx, client.NewPasskey{Name: "mine", State: begun.State, Credential: passkeytest.New(t, "https://console.example", begun.Host).Create(begun.Challenge)})
	refused(t, err, client.ErrForbidden, "passkeys")
	write(`INSERT INTO passkeys SELECT * FROM kept`)

	// The owner replaces it.
	second, _ := passkeyed(t, approver.Service, device)
	list := must(approver.Passkeys(ctx))(t)
	for _, p := range list {
		if p.ID == first.ID {
			if err := approver.RemovePasskey(ctx, p.ID, signed(second, p.Removal)); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(`INSERT INTO passkeys SELECT * FROM kept`)
	in := must(approver.SignInChallenge(ctx, "https://console.example"))(t)
	_, err = approver.SignIn(ctx, client.PasskeySignIn{State: in.State, Credential: device.Sign(in.Challenge)})
	refused(t, err, client.ErrUnauthorized, "")
	s := must(approver.ChangeApproval(ctx, waits.Change.ID))(t)
	_, err = approver.ApproveChangeSigned(ctx, waits.Change.ID, signed(device, s))
	refused(t, err, client.ErrForbidden, "")
	must(approver.ApproveChangeSigned(ctx, waits.Change.ID, signed(second, s)))(t)
}

// A merchant whose keys were damaged in its row is put right by an edit that has them in full.
func TestDamagedKeys(t *testing.T) {
	for _, scheme := range []client.Scheme{client.SchemeService, client.SchemeMerchant} {
		t.Run(string(scheme), func(t *testing.T) { testDamagedKeys(t, scheme) })
	}
}

func testDamagedKeys(t *testing.T, scheme client.Scheme) {
	h, ctx := sqlite(t), t.Context()
	pair := must(envelope.GenerateKey(1024))(t)
	private := client.Secret(must(pair.PrivatePEM())(t))
	public := string(pair.PublicPEM())
	fresh := newMerchant("acme")
	if fresh.Scheme = scheme; scheme == client.SchemeMerchant {
		fresh.Key = &client.KeySpec{PublicKey: public}
	}
	admin := h.client(client.RoleAdmin)
	must(admin.CreateMerchant(ctx, fresh))(t)
	bob := h.person(client.RoleApprover, "")
	alice := h.person(client.RoleOperator, "")
	err := h.store.Write(ctx, func(ctx context.Context, x *db.Tx) error {
		_, err := x.Exec(ctx, `UPDATE merchants SET request_key = $1, secret_version = secret_version + 1`, []byte("damaged"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	m := must(alice.Merchant(ctx, "acme"))(t)
	edit := client.MerchantPatch{MerchantSettings: m.MerchantSettings, Clear: []string{"approveAbove", "answerKey"}}
	_, err = alice.UpdateMerchant(ctx, "acme", edit)
	refused(t, err, client.ErrInvalid, "body.key")
	edit.APIKey = "a-key-of-responses"
	if edit.Key = (&client.KeySpec{PrivateKey: private}); scheme == client.SchemeMerchant {
		edit.Key = &client.KeySpec{PublicKey: public}
		edit.ResponseKey = &client.KeySpec{PrivateKey: private}
	}
	waits := must(alice.UpdateMerchant(ctx, "acme", edit))(t)
	if c := waits.Change; c == nil || c.After["requestKey"] != pair.Fingerprint() {
		t.Fatalf("the approver sees %+v", waits)
	}
	must(bob.ApproveChange(ctx, waits.Change.ID))(t)
	if m = must(alice.Merchant(ctx, "acme"))(t); m.Fingerprint != pair.Fingerprint() || m.State != client.MerchantPaused {
		t.Errorf("put right it is %+v", m)
	}
	if m = must(alice.ResumeMerchant(ctx, "acme", client.Resume{}))(t); m.State != client.MerchantActive {
		t.Errorf("resumed it is %+v", m)
	}
	_, err = alice.UpdateMerchant(ctx, "acme", client.MerchantPatch{Key: edit.Key})
	refused(t, err, client.ErrInvalid, "row was changed past the service")
}
