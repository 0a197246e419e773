package daemon

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/countersigntest"
)

// pair writes a certificate for this machine, which its own key signed, and that key. It returns both for a client.
func pair(t *testing.T, name, cert, key string) tls.Certificate {
	t.Helper()
	k := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der := must(x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k))
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(k))}} {
		ok(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: k}
}

// TestTLS: the certificate is that of the files as they are now, TLS 1.1 is refused, and
// with authorities of clients nobody else gets in. /metrics has its own address and
// needs no certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	trusted := x509.NewCertPool()
	serve := func(name, key string) {
		trusted.AddCert(must(x509.ParseCertificate(pair(t, name, file("cert"), file(key)).Certificate[0])))
	}
	caller := func(change func(*tls.Config)) *http.Client { // over connections of its own
		c := &tls.Config{RootCAs: trusted}
		if change != nil {
			change(c)
		}
		return &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}}
	}
	serve("first", "key")
	mine := pair(t, "me", file("mine"), file("mine.key"))
	foreign := pair(t, "me", file("theirs"), file("theirs.key"))
	s, _ := startService(t, ServiceConfig{Common: Common{Storage: Storage{Dir: file("data")}, MetricsListen: "127.0.0.1:0",
		TLS: TLS{Cert: file("cert"), Key: file("key"), ClientCA: file("mine")}}})
	// get returns whose certificate the listener of url has, and what it answers; 0 if it does not.
	get := func(c *http.Client, url string) (name string, status int, err error) {
		r, err := c.Get(url)
		if err != nil {
			return "", 0, err
		}
		defer r.Body.Close()
		if r.TLS != nil {
			name = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		return name, r.StatusCode, nil
	}
	shows := func(when string, c *http.Client, want string) {
		t.Helper()
		if name, status, err := get(c, s.URL()+"/readyz"); name != want || status != http.StatusOK {
			t.Errorf("%s: %q, %d, %v", when, name, status, err)
		}
	}
	known := func(c *tls.Config) { c.Certificates = []tls.Certificate{mine} }
	if !strings.HasPrefix(s.URL(), "https://") {
		t.Errorf("its URL is %s", s.URL())
	}
	shows("with a certificate", caller(known), "first")
	noted := func() *http.Client { // by what the data directory says
		at, err := ReadAddress(file("data"))
		if err != nil || at.URL != s.URL() {
			t.Fatalf("the noted address: %+v, %v", at, err)
		}
		return caller(func(c *tls.Config) {
			known(c)
			c.RootCAs, c.InsecureSkipVerify, c.VerifyConnection = nil, true, at.Verify
		})
	}
	first := noted()
	shows("with the noted certificate", first, "first")
	for what, change := range map[string]func(*tls.Config){
		"no certificate":           nil,
		"a certificate of another": func(c *tls.Config) { c.Certificates = []tls.Certificate{foreign} },
		"TLS 1.1":                  func(c *tls.Config) { known(c); c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 },
	} {
		if _, status, err := get(caller(change), s.URL()+"/readyz"); err == nil {
			t.Errorf("%s got in: %d", what, status)
		}
	}
	if _, status, _ := get(caller(nil), "http"+strings.TrimPrefix(s.URL(), "https")+"/readyz"); status == http.StatusOK {
		t.Error("plain HTTP got in")
	}
	if _, status, err := get(caller(known), s.URL()+"/metrics"); status != http.StatusNotFound {
		t.Errorf("the API still has the metrics: %d, %v", status, err)
	}

	measured := func(name string) float64 {
		t.Helper()
		r := must(caller(nil).Get(s.listeners[0].URL() + "/metrics"))
		defer r.Body.Close()
		_, rest, _ := strings.Cut(string(must(io.ReadAll(r.Body))), "\n"+name+" ")
		line, _, _ := strings.Cut(rest, "\n")
		return must(strconv.ParseFloat(line, 64))
	}
	end := time.Unix(int64(measured("countersign_certificate_end_timestamp_seconds")), 0)
	if left := time.Until(end); left < 0 || left > time.Hour || measured("countersign_certificate_readable") != 1 {
		t.Errorf("the certificate ends at %v", end)
	}
	// Half of a new pair changes nothing, and both do.
	serve("second", "new.key")
	time.Sleep(certificatesEvery + 50*time.Millisecond)
	shows("with half of a pair", caller(known), "first")
	if measured("countersign_certificate_readable") != 0 {
		t.Error("half of a pair is readable")
	}
	ok(t, os.Rename(file("new.key"), file("key")))
	time.Sleep(certificatesEvery + 50*time.Millisecond)
	shows("with another pair", caller(known), "second")
	first.CloseIdleConnections()
	if _, _, err := get(first, s.URL()+"/readyz"); err == nil {
		t.Error("another certificate than the noted one was taken")
	}
	shows("the new one is noted", noted(), "second")
}

// TestExposed: a plain listener that others reach needs leave, and the warning names
// what they can read.
func TestExposed(t *testing.T) {
	config := ListenConfig{Name: "api", Addr: ":0", Handler: http.NotFoundHandler(), Exposes: "tokens", Most: 10, Log: slog.New(slog.DiscardHandler)}
	if _, err := Listen(config); err == nil || !strings.Contains(err.Error(), "--insecure-listen") || !strings.Contains(err.Error(), "tokens") {
		t.Errorf("a listener of all addresses without TLS: %v", err)
	}
	var log bytes.Buffer
	config.Log, config.TLS.Insecure = slog.New(slog.NewTextHandler(&log, nil)), true
	l := must(Listen(config))
	l.Close()
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "exposed=tokens") {
		t.Errorf("the warning is %q", log.String())
	}
	for _, bad := range []TLS{{Cert: "x"}, {Key: "x"}, {ClientCA: "x"}, {Cert: "missing", Key: "missing"}} {
		config.TLS = bad
		if _, err := Listen(config); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// TestMerchantCA: a merchant whose certificate is of a private authority is asked where
// --merchant-ca has that authority, and nowhere else.
func TestMerchantCA(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "merchant.pem"), filepath.Join(dir, "merchant.key")
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair(t, "merchant", cert, key)}}
	server.StartTLS()
	defer server.Close()
	for ca, want := range map[string]client.Reason{"": client.ReasonTLS, cert: client.ReasonStatus} {
		s, token := startService(t, ServiceConfig{Common: Common{Storage: Storage{Dir: t.TempDir()}}, AllowPrivate: true, MerchantCA: ca})
		ctx := t.Context()
		api := must(client.NewService(client.Config{URL: s.URL(), Token: token}))
		must(api.CreateMerchant(ctx, client.NewMerchant{ID: "shop", MerchantSettings: client.MerchantSettings{NotifyURL: server.URL + "/notify", WithdrawURL: server.URL + "/withdraw"}}))
		d := countersigntest.Deposit(1)
		id := must(api.AddDeposits(ctx, newDeposit("shop", d)))[0].ID
		b := &bothEnds{t: t}
		b.await("the attempt", func(ctx context.Context) (bool, error) {
			cb, err := api.Callback(ctx, id)
			if len(cb.Attempts) == 0 || cb.State == client.CallbackSending {
				return false, err
			}
			if got := cb.Attempts[0].Reason; got != want {
				t.Errorf("with authorities %q the reason is %s, not %s", ca, got, want)
			}
			return true, err
		})
	}
	if _, err := NewService(ServiceConfig{Common: Common{Storage: Storage{Dir: dir}}, Listen: "127.0.0.1:0", MerchantCA: key}); err == nil || !strings.Contains(err.Error(), "--merchant-ca") {
		t.Errorf("a file without a certificate: %v", err)
	}
}
