package db

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestRemoteServersProveTheirNames: without a word in the URL, each server of it is asked for a certificate unless all
// are on this machine, whatever the environment says.
func TestRemoteServersProveTheirNames(t *testing.T) {
	const verified, plain, trusting = "verified", "plain", "trusting"
	for _, env := range []string{"", "disable", "prefer", "allow"} {
		t.Setenv("PGSSLMODE", env)
		here := trusting + " " + plain // it tries TLS, and then goes without
		switch env {
		case "disable":
			here = plain
		case "allow":
			here = plain + " " + trusting
		}
		for url, want := range map[string]string{
			"postgres://u@db/x":                                           verified,
			"postgres://u@10.0.0.7/x":                                     verified,
			"postgres://u@127.0.0.1/x":                                    here,
			"postgres://u@[::1]/x":                                        here,
			"postgres://u@localhost/x":                                    here,
			"postgres://u@db1,db2/x?sslmode=disable":                      plain + " " + plain,
			"postgres://u@db1,localhost/x?sslmode=require":                trusting + " " + trusting,
			"postgres://u@db1,db2:5433/x?target_session_attrs=read-write": verified + " " + verified,
			"postgres:///x?host=/run/postgresql":                          plain,
			"postgres://u@localhost,db2,127.0.0.1:6000/x":                 verified + " " + verified + " " + verified,
			"postgres://u@db1,db2/x?sslmode=":                             verified + " " + verified,
			"postgres://u@db1/x?application_name=sslmode":                 verified,
			"postgres://u:sslmode=disable@db1/x":                          verified,
			"postgres://u@db1/x#?sslmode=disable":                         verified,
		} {
			c := must(parseConfig(url))(t)
			var got []string
			for _, h := range servers(c.ConnConfig) {
				switch {
				case h.TLSConfig == nil:
					got = append(got, plain)
				case h.TLSConfig.InsecureSkipVerify:
					got = append(got, trusting)
				case h.TLSConfig.ServerName == h.Host:
					got = append(got, verified)
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s with PGSSLMODE=%q: %s, want %s", url, env, got, want)
			}
		}
	}
}

// TestServerWithoutProofIsRefused connects for real: to a server that has no TLS,
// to one whose certificate nobody signed, and to one whose authority the URL names.
// The name example.com stands for a server elsewhere; it leads here.
func TestServerWithoutProofIsRefused(t *testing.T) {
	t.Setenv("PGSSLMODE", "")
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	root := filepath.Join(t.TempDir(), "root.pem")
	ok(t, os.WriteFile(root, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o600))
	cert := &web.TLS.Certificates[0]
	for _, c := range []struct {
		name, options string
		cert          *tls.Certificate
		trusted       bool // so far that the user's name is told
		hint          bool
	}{
		{"no TLS", "", nil, false, true},
		{"signed by nobody known", "", cert, false, true},
		{"signed by the URL's authority", "sslrootcert=" + root, cert, true, false},
		{"no TLS, allowed by the URL", "sslmode=disable", nil, true, false},
	} {
		addr, told := fakePostgres(t, c.cert)
		_, port, _ := net.SplitHostPort(addr)
		raw := "postgres://u@example.com:" + port + "/x?" + c.options
		config := must(parseConfig(raw))(t).ConnConfig
		config.LookupFunc = func(_ context.Context, _ string) ([]string, error) { return []string{"127.0.0.1"}, nil }
		_, err := pgx.ConnectConfig(t.Context(), config)
		if err == nil {
			t.Fatalf("%s: connected", c.name)
		}
		if told.Load() != c.trusted {
			t.Errorf("%s: the server was told who connects: %v, want %v (%v)", c.name, told.Load(), c.trusted, err)
		}
		if hint := strings.Contains(explainTLS(raw, err).Error(), "sslrootcert=FILE"); hint != c.hint {
			t.Errorf("%s: the error says what to write: %v, want %v: %v", c.name, hint, c.hint, err)
		}
	}
}

// fakePostgres takes connections, with TLS where it has a certificate, and hangs
// up on whoever says who he is.
func fakePostgres(t *testing.T, cert *tls.Certificate) (addr string, told *atomic.Bool) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	told = new(atomic.Bool)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				greet(conn, cert, told)
				conn.Close()
			}
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String(), told
}

func greet(conn net.Conn, cert *tls.Certificate, told *atomic.Bool) {
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	first := make([]byte, 8) // length and code
	if _, err := io.ReadFull(conn, first); err != nil {
		return
	}
	if code := first[4:]; string(code) == "\x04\xd2\x16\x2f" { // SSLRequest
		if cert == nil {
			_, _ = conn.Write([]byte("N"))
		} else {
			_, _ = conn.Write([]byte("S"))
			conn = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{*cert}})
		}
		if _, err := io.ReadFull(conn, first); err != nil {
			return
		}
	}
	told.Store(true)
}
