package admin

import (
	"context"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/db"
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
