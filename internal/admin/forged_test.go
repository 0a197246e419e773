package admin

import (
	"context"
	"strings"
	"testing"

	"countersign/client"
	"countersign/envelope"
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
