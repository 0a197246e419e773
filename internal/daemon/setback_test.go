package daemon

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"countersign/client"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/merchant"
)

// TestSetBackIsNoticed: a service goes on from an earlier copy of its database, in a new directory, and
// nobody says so. The gateway notices by the exchanges alone. When the restore is declared, the alarm ends.
func TestSetBackIsNoticed(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		testSetBack(t, "", "", func(t *testing.T, dir, _ string) string {
			copied := filepath.Join(t.TempDir(), "copy")
			copyOf(t, filepath.Join(dir, DatabaseFile), copied)
			return copied
		})
	})
	t.Run("postgres", func(t *testing.T) {
		testSetBack(t, dbtest.Postgres(t), dbtest.Postgres(t), func(t *testing.T, _, url string) string { return dbtest.Copy(t, url) })
	})
}

func copyOf(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// often is a world whose ends speak of their logs more often than once a minute.
var often = World{World: db.World{Every: func(usual time.Duration) time.Duration { return min(usual, 20*time.Millisecond) }}}

// lifeOf is one process of a service.
type lifeOf struct {
	*Service
	api  *client.Service
	stop func()
}

func testSetBack(t *testing.T, serviceDB, gatewayDB string, backup func(t *testing.T, dir, url string) string) {
	ctx, dir, token := t.Context(), t.TempDir(), ""
	start := func(dir, url string) lifeOf {
		t.Helper()
		s, err := NewService(ServiceConfig{Storage: Storage{Dir: dir, DB: url, World: often}, Listen: "127.0.0.1:0", AllowPrivate: true, AllowHTTP: true,
			ShowToken: func(first, _ string) { token = first }})
		if err == nil {
			err = s.Open(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{}
		api, err := client.NewService(client.Config{URL: s.URL(), Token: client.Secret(token), HTTPClient: &http.Client{Transport: transport}})
		if err != nil {
			t.Fatal(err)
		}
		return lifeOf{s, api, runUntil(t, s.Run, transport.CloseIdleConnections)}
	}
	first := filepath.Join(dir, "service")
	s := start(first, serviceDB)
	key, private := newPair(t)
	own := envelope.GenerateSigningKey()
	if _, err := s.api.CreateMerchant(ctx, client.NewMerchant{ID: "shop", Key: &client.KeySpec{PrivateKey: client.Secret(private)},
		MerchantSettings: client.MerchantSettings{NotifyURL: "http://127.0.0.1:1/n", WithdrawURL: "http://127.0.0.1:1/w", AnswerKey: own.PublicBase64()},
		MerchantSecrets:  client.MerchantSecrets{APIKey: client.Secret(apiKey.Reveal())}}); err != nil {
		t.Fatal(err)
	}
	shop, err := s.api.Merchant(ctx, "shop")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := envelope.ParseSigningKey([]byte(shop.ServiceSigningKey))
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGateway(GatewayConfig{Storage: Storage{Dir: filepath.Join(dir, "merchant"), DB: gatewayDB, World: often}, Listen: "127.0.0.1:0", APIListen: "127.0.0.1:0",
		Callbacks: merchant.Config{Key: key, APIKey: apiKey, Sign: own, ServiceSigner: signer, PublicURL: "http://127.0.0.1:1"}})
	if err == nil {
		err = g.Open(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	stopGateway := runUntil(t, g.Run, func() {})
	if _, err := s.api.UpdateMerchant(ctx, "shop", client.MerchantPatch{MerchantSettings: client.MerchantSettings{
		NotifyURL: g.CallbackURL() + merchant.DefaultNotifyPath, WithdrawURL: g.CallbackURL() + merchant.DefaultWithdrawPath}}); err != nil {
		t.Fatal(err)
	}
	wait, n := &bothEnds{t: t}, 0
	// exchanges lets deposits go from the service to the gateway until is.
	exchanges := func(what string, is func(held client.AuditPeer) bool) (held client.AuditPeer) {
		t.Helper()
		wait.await(what, func(ctx context.Context) (bool, error) {
			n++
			d := countersigntest.Deposit(1)
			d.TrackingID, d.TxID = fmt.Sprint("d-", n), fmt.Sprint("tx-", n)
			if _, err := s.api.AddDeposits(ctx, client.NewDeposit{Merchant: "shop", TrackingID: d.TrackingID, TenantUserID: d.TenantUserID, TxID: d.TxID,
				ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount, FromAddress: d.FromAddress, ToAddress: d.ToAddress, TxIndex: d.TxIndex}); err != nil {
				return false, err
			}
			s.audit.Sign(ctx)
			g.audit.Sign(ctx)
			list, err := g.audit.Held(ctx)
			held = client.AuditPeer{}
			if len(list.Peers) > 0 {
				held = list.Peers[0]
			}
			return is(held), err
		})
		return held
	}
	alarms := func() int {
		t.Helper()
		list, err := g.Book().StandingAlarms(ctx, client.AlarmPeerLogBroken)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	was := exchanges("the gateway holds the service's log", func(h client.AuditPeer) bool { return h.Size > 0 })
	exchanges("the service holds the gateway's", func(client.AuditPeer) bool {
		list, err := s.audit.Held(ctx)
		return err == nil && len(list.Peers) == 1 && list.Peers[0].Peer == "shop" && list.Peers[0].Holds > 0
	})
	s.stop()
	earlier := backup(t, first, serviceDB)
	s = start(first, serviceDB)
	held := exchanges("the log grows", func(h client.AuditPeer) bool { return h.Size > was.Size+8 })
	if alarms() != 0 || held.Broken != "" {
		t.Fatalf("after a restart: %+v", held)
	}
	s.stop()

	other, url := filepath.Join(dir, "other"), ""
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	copyOf(t, filepath.Join(first, MasterKeyFile), filepath.Join(other, MasterKeyFile))
	if serviceDB == "" {
		copyOf(t, earlier, filepath.Join(other, DatabaseFile))
	} else {
		url = dbtest.Copy(t, earlier)
	}
	s = start(other, url)
	broken := exchanges("the gateway notices", func(h client.AuditPeer) bool { return h.Broken != "" })
	if alarms() != 1 || broken.Size < held.Size || broken.Conflict == "" {
		t.Errorf("%d alarms, held %+v", alarms(), broken)
	}
	exchanges("the deposits go on", func(client.AuditPeer) bool {
		list, err := g.Book().Deposits(ctx, 0, 10_000)
		return err == nil && len(list) >= n-1
	})
	s.stop()

	declared := RestoreConfig{Storage: Storage{Dir: first, World: often}, From: earlier, Replace: true}
	if serviceDB != "" {
		declared = RestoreConfig{Storage: Storage{Dir: first, DB: dbtest.Copy(t, earlier), World: often}}
	}
	if _, err := Restore(ctx, declared); err != nil {
		t.Fatal(err)
	}
	s = start(first, declared.DB)
	held = exchanges("the restore is told", func(h client.AuditPeer) bool { return h.Epoch > 0 })
	exchanges("the log grows again", func(h client.AuditPeer) bool { return h.Size > held.Size+2 })
	if list, err := g.audit.Held(ctx); err != nil || list.Peers[0].Broken != "" || alarms() != 0 {
		t.Errorf("after it was declared: %d alarms, %+v, %v", alarms(), list, err)
	}
	s.stop()
	stopGateway()
}

// runUntil runs a daemon until the function that it gives is called, or the test ends.
func runUntil(t *testing.T, run func(context.Context) error, after func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		after()
	}
	t.Cleanup(stop)
	return stop
}
