//go:build pkcs11 && cgo

package daemon

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/envelope"
	signing "countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/outbox"
	"countersign/merchant"
)

// keeping is a merchant whose end is a countersigntest.Merchant, and which keeps what came.
type keeping struct {
	mu     sync.Mutex
	end    *countersigntest.Merchant
	bodies [][]byte
}

func (m *keeping) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m.mu.Lock()
	m.bodies = append(m.bodies, body)
	end := m.end
	m.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	end.ServeHTTP(w, r)
}

// openedByOpenSSL opens a body as a merchant with OpenSSL's program does: block by block with
// the public part.
func openedByOpenSSL(t *testing.T, publicPEM string, body []byte) string {
	t.Helper()
	inner, _, err := envelope.Unwrap(body)
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := base64.StdEncoding.DecodeString(string(inner))
	if err != nil || len(blocks) == 0 || len(blocks)%256 != 0 {
		t.Fatalf("%d bytes, %v", len(blocks), err)
	}
	var plain bytes.Buffer
	for len(blocks) > 0 {
		c := exec.CommandContext(t.Context(), "openssl", "pkeyutl", "-verifyrecover", "-pubin", "-inkey", publicPEM)
		c.Stdin, c.Stdout = bytes.NewReader(blocks[:256]), &plain
		if err := c.Run(); err != nil {
			t.Fatalf("openssl: %v", err)
		}
		blocks = blocks[256:]
	}
	return plain.String()
}

// TestKeyStore: a service whose pairs are in a token of softhsm2. It starts with a wrong PIN and
// says so, goes on with the right one, makes a pair inside, and tells deposits that OpenSSL
// opens: 1,000 in the whole check.
func TestKeyStore(t *testing.T) {
	const module, pin = "/usr/lib/softhsm/libsofthsm2.so", "7316-of-the-test"
	if _, err := os.Stat(module); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("softhsm2 is missing: apt-get install softhsm2")
		}
		t.Skip("softhsm2 is missing: apt-get install softhsm2")
	}
	n := 20
	if dbtest.IsWhole() {
		n = 1000
	}
	ctx, dir := t.Context(), t.TempDir()
	conf, pinFile := filepath.Join(dir, "softhsm2.conf"), filepath.Join(dir, "pin")
	for path, text := range map[string]string{conf: "directories.tokendir = " + dir + "/tokens\nlog.level = ERROR\n", pinFile: "wrong-s3cret\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "tokens"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOFTHSM2_CONF", conf)
	if out, err := exec.CommandContext(ctx, "softhsm2-util", "--init-token", "--free", "--label", "shop keys", "--so-pin", "so-pin-of-the-test", "--pin", pin).CombinedOutput(); err != nil {
		t.Fatalf("softhsm2-util: %v\n%s", err, out)
	}

	log, token := new(bytes.Buffer), ""
	var logMu sync.Mutex
	store := envelope.KeyStoreConfig{URI: "pkcs11:token=shop%20keys?module-path=" + module + "&pin-source=file:" + pinFile}
	newService := func() *Service {
		service, err := NewService(ServiceConfig{
			Storage: Storage{Dir: filepath.Join(dir, "service")}, Listen: "127.0.0.1:0", AllowPrivate: true, AllowHTTP: true, KeyStore: store,
			ShowToken: func(first, _ string) { token = first }, Log: slog.New(slog.NewTextHandler(lockedWriter{&logMu, log}, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		return service
	}
	setPIN := func(text string) {
		if err := os.WriteFile(pinFile, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	logged := func(text string) bool {
		logMu.Lock()
		defer logMu.Unlock()
		return strings.Contains(log.String(), text)
	}
	b := &bothEnds{t: t}

	// The first start makes the keys that sign in the token, and waits for it.
	service := newService()
	opened := make(chan error, 1)
	go func() { opened <- service.Open(ctx) }()
	b.await("the first start waits", func(context.Context) (bool, error) { return logged("and waits for it"), nil })
	setPIN(pin)
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	if !service.audit.InKeyStore() {
		t.Error("the key of permits is in the database")
	}
	if _, err := signing.StageSigningKey(ctx, service.db.DB, nil); err == nil || !strings.Contains(err.Error(), "key store") {
		t.Errorf("a new signing key in the database: %v", err)
	}
	verifier := service.audit.Key()
	if err := service.Close(); err != nil {
		t.Fatal(err)
	}

	// A later one does not.
	setPIN("wrong-s3cret")
	service = newService()
	if err := service.Open(ctx); err != nil {
		t.Fatal(err)
	}
	if service.audit.Key() != verifier {
		t.Error("the second start has another key")
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	var api *client.Service
	run := func() (stop func()) {
		running, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- service.Run(running) }()
		var err error
		if api, err = client.NewService(client.Config{URL: service.URL(), Token: client.Secret(token), HTTPClient: &http.Client{Transport: transport}}); err != nil {
			t.Fatal(err)
		}
		return sync.OnceFunc(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	stop := run()
	defer func() {
		stop()
		for _, secret := range []string{pin, "s3cret"} {
			if logged(secret) {
				t.Errorf("the log has the PIN %s", secret)
			}
		}
	}()

	shop := &keeping{}
	server := httptest.NewServer(shop)
	defer server.Close()
	in := client.NewMerchant{ID: "shop", Key: &client.KeySpec{Bits: 2048},
		MerchantSettings: client.MerchantSettings{Name: "Shop", NotifyURL: server.URL + merchant.DefaultNotifyPath, WithdrawURL: server.URL + merchant.DefaultWithdrawPath},
		MerchantSecrets:  client.MerchantSecrets{APIKey: client.Secret(apiKey.Reveal())}}

	standing := func(ctx context.Context) int {
		page, err := api.Alarms(ctx, client.AlarmFilter{Kind: client.AlarmKeyStoreAway, State: client.AlarmOpen}, client.PageOptions{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Alarms)
	}
	b.await("the alarm", func(ctx context.Context) (bool, error) { return standing(ctx) == 1, nil })
	if status, body := get(t, service.URL()+"/readyz"); status != http.StatusOK || !strings.Contains(body, `"keyStoreAway":true`) {
		t.Errorf("/readyz: %d %s", status, body)
	}
	var problem *client.Problem
	if _, err := api.CreateMerchant(ctx, in); !errors.As(err, &problem) || problem.Status != http.StatusServiceUnavailable || !strings.Contains(problem.Detail, "key store") {
		t.Errorf("a merchant without the token: %v", err)
	}
	// Of a process that was killed while its token was away.
	if err := service.db.RaiseAlarm(ctx, db.Alarm{Kind: client.AlarmKeyStoreAway, Subject: "killed-1", At: db.MillisOf(time.Now())}); err != nil || standing(ctx) != 2 {
		t.Errorf("%v, %d alarms", err, standing(ctx))
	}
	if err := service.audit.CanSign(); !errors.Is(err, envelope.ErrKeyStore) {
		t.Errorf("permits without the token: %v", err)
	}
	setPIN(pin)
	b.await("the end of the alarms", func(ctx context.Context) (bool, error) { return standing(ctx) == 0, nil })
	if _, body := get(t, service.URL()+"/readyz"); strings.Contains(body, "keyStoreAway") {
		t.Errorf("/readyz: %s", body)
	}

	given := in
	_, private := newPair(t)
	given.Key = &client.KeySpec{PrivateKey: client.Secret(private)}
	if _, err := api.CreateMerchant(ctx, given); !errors.As(err, &problem) || problem.Status != http.StatusUnprocessableEntity {
		t.Errorf("a pair from outside: %v", err)
	}
	made, err := api.CreateMerchant(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	public, err := envelope.ParseKey([]byte(made.PublicKey))
	if err != nil || public.Fingerprint() != made.Fingerprint || public.Bits() != 2048 {
		t.Fatalf("%v, %v", public, err)
	}
	end, err := countersigntest.MakeMerchant(countersigntest.MerchantConfig{Key: public, APIKey: apiKey, Orders: countersigntest.SampleOrders})
	if err != nil {
		t.Fatal(err)
	}
	shop.mu.Lock()
	shop.end = end
	shop.mu.Unlock()

	var deposits []client.NewDeposit
	for i := range n {
		d := countersigntest.Deposit(i)
		deposits = append(deposits, client.NewDeposit{Merchant: "shop", TrackingID: d.TrackingID, TenantUserID: d.TenantUserID, TxID: d.TxID,
			ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount, FromAddress: d.FromAddress, ToAddress: d.ToAddress, TxIndex: d.TxIndex})
	}
	if _, err := api.AddDeposits(ctx, deposits...); err != nil {
		t.Fatal(err)
	}
	accepted := 0
	defer func() {
		if accepted != n {
			t.Errorf("%d deposits of %d are accepted", accepted, n)
		}
	}()
	b.await("the deposits", func(ctx context.Context) (bool, error) {
		accepted = 0
		for cursor := ""; ; { // a page may have fewer than it was asked for
			list, next, err := service.Outbox().Callbacks(ctx, outbox.CallbackFilter{State: outbox.CallbackAccepted}, n, cursor)
			accepted, cursor = accepted+len(list), next
			if err != nil || next == "" {
				return accepted == n, err
			}
		}
	})
	pem := filepath.Join(dir, "public.pem")
	if err := os.WriteFile(pem, public.PublicPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	shop.mu.Lock()
	bodies := shop.bodies
	shop.mu.Unlock()
	told := map[string]bool{}
	for _, body := range bodies {
		cb, err := countersign.ParseCallback([]byte(openedByOpenSSL(t, pem, body)), countersign.ParseOptions{})
		if err != nil {
			t.Fatal(err)
		}
		told[cb.(*countersign.Deposit).TrackingID] = true
	}
	if len(told) != n {
		t.Errorf("OpenSSL opened %d deposits of %d", len(told), n)
	}
	wd := countersigntest.Withdrawal(1)
	w, err := api.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: "shop", CallBackID: wd.CallBackID, TenantUserID: wd.TenantUserID})
	if err != nil {
		t.Fatal(err)
	}
	b.await("the decision", func(ctx context.Context) (bool, error) {
		w, err := api.Withdrawal(ctx, w.ID)
		return w.Decision == countersign.DecisionConfirmed, err
	})

	// The permit is signed in the token. While that is away, none is given: not one that nobody gets.
	stop()
	setPIN("wrong-s3cret")
	service = newService()
	if err := service.Open(ctx); err != nil {
		t.Fatal(err)
	}
	stop = run()
	if _, err := api.ReleaseWithdrawal(ctx, w.ID, "wallet-1"); !errors.As(err, &problem) || problem.Status != http.StatusServiceUnavailable {
		t.Errorf("a permit without the token: %v", err)
	}
	if _, err := api.ReleaseWithdrawals(ctx, client.WithdrawalClaim{Merchant: "shop", CallBackID: wd.CallBackID, Claim: client.Claim{Holder: "wallet-1"}}); !errors.As(err, &problem) || problem.Status != http.StatusServiceUnavailable {
		t.Errorf("permits without the token: %v", err)
	}
	setPIN(pin)
	b.await("the end of the second alarm", func(ctx context.Context) (bool, error) {
		return standing(ctx) == 0 && service.audit.CanSign() == nil, nil
	})
	p, err := api.ReleaseWithdrawal(ctx, w.ID, "wallet-1")
	if err != nil || p.Duplicate {
		t.Fatalf("%+v, %v", p, err)
	}
	if _, err := client.VerifyPermit(p.Note, verifier, client.Execution{Claim: "wallet-1", Details: p.Details}); err != nil {
		t.Error(err)
	}

	// Both pairs of a rotation are in the token, and go with their merchant.
	staged, err := api.StageRotation(ctx, "shop", client.NewRotation{Key: &client.KeySpec{Bits: 1024}, ResponseKey: &client.KeySpec{Bits: 1024}})
	if err != nil || staged.PublicKey == "" || staged.ResponsePublicKey == "" || staged.PublicKey == made.PublicKey {
		t.Fatalf("%+v, %v", staged, err)
	}
	row, err := service.Outbox().Merchant(ctx, "shop")
	if err != nil {
		t.Fatal(err)
	}
	var keys []*envelope.Key
	for _, k := range []*envelope.Key{row.Key, row.Rotation.Other.Key, row.Rotation.Other.ResponseKey} {
		k = k.In(service.store.store())
		if _, err := envelope.Seal(k, envelope.PKCS1v15, []byte("x")); err != nil || k.InKeyStore() == "" {
			t.Errorf("%v: id %q, %v", k, k.InKeyStore(), err)
		}
		keys = append(keys, k)
	}
	if _, err := api.ReportOutcome(ctx, w.ID, client.Outcome{Permit: p.Permit, Executed: &client.Executed{TxID: "0xdone"}}); err != nil {
		t.Fatal(err)
	}
	b.await("the merchant is deleted", func(ctx context.Context) (bool, error) {
		_, err := api.DeleteMerchant(ctx, "shop")
		if errors.As(err, &problem) && problem.Status == http.StatusConflict { // the notice of its end is under way
			return false, nil
		}
		return true, err
	})
	for _, k := range keys {
		if _, err := envelope.Seal(k, envelope.PKCS1v15, []byte("x")); !errors.Is(err, envelope.ErrKeyNotInStore) {
			t.Errorf("after the deletion %v seals: %v", k, err)
		}
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
