package console_test

import (
	"context"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/audit"
	"countersign/internal/daemon"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/outbox"
)

// Purged records have their places in the pages of the audit log, and a withdrawal whose
// records are purged has its page.
func TestPurgedRecords(t *testing.T) {
	at := dbtest.Postgres(t)
	base, token := node(t, func(c *daemon.ServiceConfig) { c.DB, c.Keys = at, sharedKeys() })
	admin := serviceAPI(t, base, token)
	if _, err := admin.CreateMerchant(t.Context(), client.NewMerchant{ID: "shop", Name: "Shop", NotifyURL: "http://127.0.0.1:9/n", WithdrawURL: "http://127.0.0.1:9/w", Key: &client.KeySpec{Bits: 1024}}); err != nil {
		t.Fatal(err)
	}
	w, err := admin.CreateWithdrawal(t.Context(), client.NewWithdrawal{Merchant: "shop", CallBackID: "w-1", TenantUserID: "u"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.AuditCheckpoint(t.Context(), 0); err != nil { // what was not signed is never purged
		t.Fatal(err)
	}
	d, err := db.Open(t.Context(), db.Config{URL: at, Keys: sharedKeys()}, outbox.End())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	gone := 0
	err = d.Write(t.Context(), func(ctx context.Context, x *db.Tx) error {
		list, err := audit.Wholes(ctx, x, 0, 1000, 1000)
		if err != nil {
			return err
		}
		var old []audit.Whole
		for _, r := range list {
			if strings.HasPrefix(r.Told.Kind, "withdrawal.") {
				old = append(old, r)
			}
		}
		gone = len(old)
		if err := audit.Announce(ctx, x, audit.Purging{Upto: list[len(list)-1].Seq}, 1); err != nil {
			return err
		}
		return audit.Purge(ctx, x, old)
	})
	if err != nil || gone == 0 {
		t.Fatal(gone, err)
	}
	s := newSite(t, base).signIn(token)
	const said = "purged: of this record only its hash is kept"
	for _, path := range []string{"/console/audit", "/console/audit?subject=" + w.ID} {
		if p := s.get(path); p.status != 200 || strings.Count(p.body, said) != gone || !strings.Contains(p.body, "audit.purging") {
			t.Errorf("%s: %d\n%s", path, p.status, p.body)
		}
	}
	if p := s.get("/console/audit?text=purged%3A"); p.status != 200 || strings.Contains(p.body, said) {
		t.Errorf("a search finds what is not there: %d", p.status)
	}
	if p := s.get("/console/withdrawals/" + w.ID); p.status != 200 {
		t.Errorf("the withdrawal: %d\n%s", p.status, p.body)
	}
}
