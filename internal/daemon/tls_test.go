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

// authority makes certificates for this machine.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) sign(c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.next++
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(a.next), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = c, key
	}
	b, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	c, err = x509.ParseCertificate(b)
	if err != nil {
		a.t.Fatal(err)
	}
	return c, key
}

func (a *authority) write(path string) string {
	a.t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// pair writes a certificate for this machine and its key, and gives both for a client.
func (a *authority) pair(name, cert, key string) tls.Certificate {
	a.t.Helper()
	c, k := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: c.Raw}, key: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: k}
}

// caller is a client that trusts a, over connections of its own.
func (a *authority) caller(change func(*tls.Config)) *http.Client {
	c := &tls.Config{RootCAs: x509.NewCertPool()}
	c.RootCAs.AddCert(a.cert)
	if change != nil {
		change(c)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}}
}

// TestTLS: the certificate is that of the files as they are now, TLS 1.1 is refused, and
// with authorities of clients nobody else gets in. /metrics has its own address and
// needs no certificate.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	a, others := newAuthority(t), newAuthority(t)
	a.pair("first", file("cert"), file("key"))
	mine := a.pair("me", file("mine"), file("mine.key"))
	foreign := others.pair("somebody", file("theirs"), file("theirs.key"))
	s, _ := startService(t, ServiceConfig{Common: Common{Storage: Storage{Dir: file("data")}, MetricsListen: "127.0.0.1:0",
		TLS: TLS{Cert: file("cert"), Key: file("key"), ClientCA: a.write(file("ca"))}}})
	get := func(c *http.Client, url string) (string, error) {
		r, err := c.Get(url)
		if err != nil {
			return "", err
		}
		defer r.Body.Close()
		if _, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusOK {
			t.Errorf("%s gives %s, %v", url, r.Status, err)
		}
		return r.TLS.PeerCertificates[0].Subject.CommonName, nil
	}
	known := func(c *tls.Config) { c.Certificates = []tls.Certificate{mine} }
	if !strings.HasPrefix(s.URL(), "https://") {
		t.Errorf("its URL is %s", s.URL())
	}
	if name, err := get(a.caller(known), s.URL()+"/readyz"); name != "first" || err != nil {
		t.Errorf("with a certificate: %q, %v", name, err)
	}
	noted := func() *http.Client { // by what the data directory says
		at, err := ReadAddress(file("data"))
		if err != nil || at.URL != s.URL() {
			t.Fatalf("the noted address: %+v, %v", at, err)
		}
		return a.caller(func(c *tls.Config) {
			known(c)
			c.RootCAs, c.InsecureSkipVerify, c.VerifyConnection = nil, true, at.Verify
		})
	}
	first := noted()
	if _, err := get(first, s.URL()+"/readyz"); err != nil {
		t.Errorf("with the noted certificate: %v", err)
	}
	for what, change := range map[string]func(*tls.Config){
		"no certificate":           nil,
		"a certificate of another": func(c *tls.Config) { c.Certificates = []tls.Certificate{foreign} },
		"TLS 1.1":                  func(c *tls.Config) { known(c); c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 },
	} {
		if _, err := get(a.caller(change), s.URL()+"/readyz"); err == nil {
			t.Errorf("%s got in", what)
		}
	}
	status := func(c *http.Client, url string) int {
		r, err := c.Get(url)
		if err != nil {
			return 0
		}
		r.Body.Close()
		return r.StatusCode
	}
	if n := status(a.caller(nil), "http"+strings.TrimPrefix(s.URL(), "https")+"/readyz"); n == http.StatusOK {
		t.Error("plain HTTP got in")
	}
	if _, err := get(a.caller(nil), s.listeners[0].URL()+"/metrics"); err != nil {
		t.Errorf("metrics: %v", err)
	}
	if n := status(a.caller(known), s.URL()+"/metrics"); n != http.StatusNotFound {
		t.Errorf("the API still has the metrics: %d", n)
	}

	measured := func(name string) float64 {
		t.Helper()
		r := must(a.caller(nil).Get(s.listeners[0].URL() + "/metrics"))
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		_, rest, _ := strings.Cut(string(text), "\n"+name+" ")
		line, _, _ := strings.Cut(rest, "\n")
		return must(strconv.ParseFloat(line, 64))
	}
	end := time.Unix(int64(measured("countersign_certificate_end_timestamp_seconds")), 0)
	if left := time.Until(end); left < 0 || left > time.Hour || measured("countersign_certificate_readable") != 1 {
		t.Errorf("the certificate ends at %v", end)
	}
	// Half of a new pair changes nothing, and both do.
	a.pair("second", file("cert"), file("new.key"))
	time.Sleep(certificatesEvery + 50*time.Millisecond)
	if name, err := get(a.caller(known), s.URL()+"/readyz"); name != "first" || err != nil {
		t.Errorf("with half of a pair: %q, %v", name, err)
	}
	if measured("countersign_certificate_readable") != 0 {
		t.Error("half of a pair is readable")
	}
	ok(t, os.Rename(file("new.key"), file("key")))
	time.Sleep(certificatesEvery + 50*time.Millisecond)
	if name, err := get(a.caller(known), s.URL()+"/readyz"); name != "second" || err != nil {
		t.Errorf("with another pair: %q, %v", name, err)
	}
	first.CloseIdleConnections()
	if _, err := get(first, s.URL()+"/readyz"); err == nil {
		t.Error("another certificate than the noted one was taken")
	}
	if _, err := get(noted(), s.URL()+"/readyz"); err != nil {
		t.Errorf("the new certificate was not noted: %v", err)
	}
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
	dir := t.TempDir()
	a := newAuthority(t)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{a.pair("merchant", filepath.Join(dir, "merchant.pem"), filepath.Join(dir, "merchant.key"))}}
	server.StartTLS()
	defer server.Close()
	for ca, want := range map[string]client.Reason{"": client.ReasonTLS, a.write(filepath.Join(dir, "ca.pem")): client.ReasonStatus} {
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
	if _, err := NewService(ServiceConfig{Common: Common{Storage: Storage{Dir: dir}}, Listen: "127.0.0.1:0", MerchantCA: filepath.Join(dir, "merchant.key")}); err == nil || !strings.Contains(err.Error(), "--merchant-ca") {
		t.Errorf("a file without a certificate: %v", err)
	}
}
