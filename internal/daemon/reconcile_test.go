package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/reconcile"
	"countersign/merchant"
)

// reconcileEnds compares a service with its merchant's gateway after tellEverything, while both run: over the service's API,
// and in its database.
func reconcileEnds(t *testing.T, b *bothEnds) {
	ctx, kept := t.Context(), b.gateway.Book()
	deposits := []string{}
	for n := 2; n <= 4; n++ {
		d := countersigntest.Deposit(n)
		deposits = append(deposits, d.TrackingID)
		must(b.api.AddDeposits(ctx, newDeposit("shop", d)))
	}
	settled := func(ctx context.Context) (bool, error) {
		list, err := b.api.Callbacks(ctx, client.CallbackFilter{Type: 1, State: client.CallbackAccepted}, client.PageOptions{})
		return len(list.Items) == 4, err
	}
	b.await("four deposits", settled)

	ends := map[string]int{}
	compare := func(settle bool, report func(reconcile.Finding)) ([]string, error) {
		var found []string
		c := reconcile.Config{There: b.there, Merchant: "shop", Settle: settle, Now: db.MillisOf(time.Now()),
			Epoch: func(end string, e client.Epoch) { ends[end] += int(min(e.Epoch, 1)) },
			Report: func(f reconcile.Finding) error {
				line := string(f.Finding) + " " + f.TrackingID + f.CallBackID
				if f.Settled {
					line += " settled"
				}
				found = append(found, line)
				if report != nil {
					report(f)
				}
				return nil
			}}
		err := reconcile.Remote(ctx, b.api, c)
		if remote := slices.Clone(found); err == nil && !settle {
			found = nil
			if _, err := reconcile.Service(ctx, b.service.Outbox(), c); err != nil || !slices.Equal(found, remote) {
				t.Errorf("the service's database gives %q, %v, its API %q", found, err, remote)
			}
			found = remote
		}
		slices.Sort(found)
		return found, err
	}
	if found, err := compare(false, nil); err != nil || len(found) != 0 {
		t.Errorf("found %q, %v where nothing differs", found, err)
	}
	if _, asked := ends["service"]; !asked || len(ends) != 2 || ends["service"]+ends["gateway"] != 0 {
		t.Errorf("epochs: %v", ends)
	}

	// The gateway's database as it is after accidents.
	extra := merchant.NewEntry(countersigntest.Deposit(9))
	extra.At = time.Now()
	must(kept.Claim(ctx, extra))
	done := countersigntest.Withdrawal(1).CallBackID
	must(b.there.AddOrder(ctx, client.NewOrder{CallBackID: "lost-there", TenantUserID: "u"}.Paying(countersigntest.Order(1))))
	err := kept.Write(ctx, func(ctx context.Context, x *db.Tx) error {
		return x.Batch(ctx, []db.Statement{
			{SQL: `DELETE FROM deposits WHERE tracking_id = $1`, Args: []any{deposits[0]}},
			{SQL: `DELETE FROM inbox WHERE id = $1`, Args: []any{deposits[0]}},
			{SQL: `UPDATE deposits SET amount = '0.1' WHERE tracking_id = $1`, Args: []any{deposits[1]}},
			{SQL: `UPDATE deposits SET state = 'rejected' WHERE tracking_id = $1`, Args: []any{deposits[2]}},
			{SQL: `UPDATE orders SET confirmed = 0, state = 'open' WHERE call_back_id = $1`, Args: []any{done}},
			{SQL: `UPDATE orders SET confirmed = 1, state = 'confirmed' WHERE call_back_id = $1`, Args: []any{"lost-there"}},
		})
	})
	ok(t, err)
	want := []string{"amount_differs " + deposits[1], "booked_not_sent " + countersigntest.Deposit(9).TrackingID, "confirmed_unknown lost-there",
		"executed_not_confirmed " + done, "sent_not_booked " + deposits[0], "sent_not_counting " + deposits[2]}
	slices.Sort(want)
	if found, err := compare(false, nil); err != nil || !slices.Equal(found, want) {
		t.Errorf("found %q, %v; want %q", found, err, want)
	}

	// What the gateway lost is told again, and it has it once.
	if found, err := compare(true, nil); err != nil || !slices.Contains(found, "sent_not_booked "+deposits[0]+" settled") {
		t.Errorf("settling finds %q, %v", found, err)
	}
	b.await("the deposit that was lost", func(ctx context.Context) (bool, error) {
		list, _, err := kept.SearchDeposits(ctx, client.DepositSearch{TrackingID: deposits[0]}, 10, 0)
		return len(list) == 1, err
	})
	b.await("its settlement", settled)
	want = slices.DeleteFunc(want, func(s string) bool { return strings.HasPrefix(s, "sent_not_booked") })
	if found, err := compare(false, nil); err != nil || !slices.Equal(found, want) {
		t.Errorf("afterwards it finds %q, %v; want %q", found, err, want)
	}
	if list, _, err := b.service.Outbox().Callbacks(ctx, nil, client.CallbackFilter{Type: countersign.TypeDeposited, TrackingID: deposits[0]}, 10, ""); err != nil || len(list) != 1 || list[0].Attempt != 2 {
		t.Errorf("at the service: %+v, %v", list, err)
	}

	restored := false
	_, err = compare(true, func(reconcile.Finding) {
		if !restored {
			if _, err := kept.Restored(ctx, 0, db.MillisOf(time.Now())); err != nil {
				t.Error(err)
			}
		}
		restored = true
	})
	if err == nil || !strings.Contains(err.Error(), "restored meanwhile") {
		t.Errorf("a gateway that is restored meanwhile: %v", err)
	}
}

// TestNothingToReconcile: a database that was never made is not compared, nor made, and the error does
// not show the URL, which can have a password.
func TestNothingToReconcile(t *testing.T) {
	booked := filepath.Join(t.TempDir(), "booked")
	ok(t, os.WriteFile(booked, nil, 0o600))
	for name, url := range map[string]string{"sqlite": "", "postgres": dbtest.Postgres(t)} {
		dir := filepath.Join(t.TempDir(), "data")
		for _, gateway := range []bool{false, true} {
			p := Place{Storage: Storage{Dir: dir, DB: url}, Gateway: gateway, Log: slog.New(slog.DiscardHandler)}
			_, err := p.Reconcile(t.Context(), reconcile.Config{Booked: booked, Report: func(reconcile.Finding) error { return nil }})
			_, rekeyed := p.Rekey(t.Context(), nil)
			_, ended := p.EndApprovers(t.Context())
			for _, err := range []error{err, rekeyed, ended} {
				if err == nil || !strings.Contains(err.Error(), "there is no database yet") || url != "" && strings.Contains(err.Error(), url) {
					t.Errorf("%s, gateway %v: %v", name, gateway, err)
				}
			}
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("%s, gateway %v: %s was made", name, gateway, dir)
			}
		}
	}
}
