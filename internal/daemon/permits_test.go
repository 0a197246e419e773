package daemon

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// TestPermitAcrossStarts: the permit of a whole exchange carries a note that its key verifies, and
// rows of before it, put back before a start, do not give another one.
func TestPermitAcrossStarts(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { testPermitAcrossStarts(t, "", "") })
	t.Run("postgres", func(t *testing.T) { testPermitAcrossStarts(t, dbtest.Postgres(t), dbtest.Postgres(t)) })
}

func testPermitAcrossStarts(t *testing.T, serviceDB, gatewayDB string) {
	dir, ctx := t.TempDir(), t.Context()
	b := startBoth(t, dir, serviceDB, gatewayDB)
	w, details := countersigntest.Withdrawal(1), countersigntest.Order(1)
	if _, _, err := b.gateway.Book().AddOrder(ctx, book.NewOrder{CallBackID: w.CallBackID, TenantUserID: w.TenantUserID, Details: details,
		Expires: db.Never}, db.MillisOf(time.Now())); err != nil {
		t.Fatal(err)
	}
	asked, err := b.api.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: "shop", CallBackID: w.CallBackID, TenantUserID: w.TenantUserID})
	if err != nil {
		t.Fatal(err)
	}
	b.await("the decision", func(ctx context.Context) (bool, error) {
		w, err := b.api.Withdrawal(ctx, asked.ID)
		return w.Decision == countersign.DecisionConfirmed, err
	})
	exec := func(texts ...string) {
		t.Helper()
		err := b.service.Outbox().Write(ctx, func(ctx context.Context, x *db.Tx) error {
			for _, text := range texts {
				if _, err := x.Exec(ctx, text); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TABLE earlier_w AS SELECT * FROM withdrawals`, `CREATE TABLE earlier_e AS SELECT * FROM evidence`)
	permit, err := b.api.ReleaseWithdrawal(ctx, asked.ID, "wallet-7")
	if err != nil {
		t.Fatal(err)
	}
	log, err := b.api.AuditCheckpoint(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	x := client.Execution{Claim: "wallet-7", Merchant: "shop", CallBackID: w.CallBackID, Details: client.Details{Address: details.Address, ChainName: details.ChainName, Symbol: details.Symbol, Amount: details.Amount}}
	if n, err := client.VerifyPermit(permit.Note, log.Key, x); err != nil || n.Withdrawal != asked.ID || n.Epoch != 0 || n.Time == 0 {
		t.Errorf("the note: %+v, %v\n%s", n, err, permit.Note)
	}
	again, err := b.api.ReleaseWithdrawal(ctx, asked.ID, "wallet-7")
	if err != nil || again.Permit != permit.Permit {
		t.Fatalf("again: %v", err)
	}
	if _, err := client.VerifyPermit(again.Note, log.Key, x); !errors.Is(err, client.ErrPermitDuplicate) {
		t.Errorf("the note of a duplicate: %v\n%s", err, again.Note)
	}
	exec(`DELETE FROM withdrawals`, `DELETE FROM evidence`, `INSERT INTO withdrawals SELECT * FROM earlier_w`, `INSERT INTO evidence SELECT * FROM earlier_e`)
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}

	second, err := NewService(ServiceConfig{Storage: Storage{Dir: filepath.Join(dir, "service"), DB: serviceDB}, Listen: "127.0.0.1:0", AllowPrivate: true, AllowHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Open(ctx); err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- second.Run(running) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	token, err := os.ReadFile(second.TokenFile())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	api, err := client.NewService(client.Config{URL: second.URL(), Token: client.Secret(strings.TrimSpace(string(token))), HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	for _, claim := range []string{"wallet-7", "wallet-8"} {
		var p *client.Problem
		if got, err := api.ReleaseWithdrawal(ctx, asked.ID, claim); !errors.As(err, &p) || p.Status != http.StatusConflict || !strings.Contains(p.Detail, string(client.AlarmEvidenceDiffers)) {
			t.Errorf("%s after the start: %+v, %v", claim, got, err)
		}
	}
	alarms, err := api.Alarms(ctx, client.AlarmFilter{Kind: client.AlarmEvidenceDiffers}, client.PageOptions{})
	if err != nil || len(alarms.Alarms) == 0 || alarms.Alarms[0].Subject != asked.ID {
		t.Errorf("alarms %+v, %v", alarms, err)
	}
	// A person decides.
	if got, err := api.BlockWithdrawal(ctx, asked.ID, "the database was changed"); err != nil || got.State != client.WithdrawalBlocked {
		t.Errorf("blocking: %+v, %v", got, err)
	}
}
