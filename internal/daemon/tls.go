package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// TLS is how the listeners of a daemon are protected on the network. The zero TLS is plain HTTP, on this machine alone.
type TLS struct {
	Cert     string   `first:"" name:"tls-cert" help:"Certificate of the listeners and its chain in PEM; read again when it changes. TLS 1.2 at least." type:"path" placeholder:"FILE"`
	Key      string   `first:"" name:"tls-key" help:"The certificate's key in PEM. Only the file's owner may read it." type:"path" placeholder:"FILE"`
	ClientCA string   `name:"client-ca" help:"Authorities in PEM. API callers also need a certificate that one of them signed." type:"path" placeholder:"FILE"`
	Hosts    []string `name:"allowed-host" help:"Another host that a loopback listener answers to, such as a proxy's. May be repeated." placeholder:"NAME"`
	Insecure bool     `name:"insecure-listen" help:"Allow listeners without TLS that other machines can reach, for use behind a proxy that does TLS."`
}

func (t TLS) check() error {
	switch {
	case (t.Cert == "") != (t.Key == ""):
		return errors.New("a certificate and its key are given together: --tls-cert and --tls-key")
	case t.ClientCA != "" && t.Cert == "":
		return errors.New("--client-ca needs --tls-cert and --tls-key")
	}
	return nil
}

// WithoutClients returns t for a listener whose callers have no certificates.
func (t TLS) WithoutClients() TLS {
	t.ClientCA = ""
	return t
}

// certificatesEvery is the least time between two checks of the files.
const certificatesEvery = time.Second

// certificates are the files of a TLS as last read.
type certificates struct {
	t   TLS
	log *slog.Logger

	note func(*tls.Config) // gets the settings when they were read again; may be nil

	mu     sync.Mutex
	looked time.Time
	stamp  string
	config *tls.Config
}

// certificates reads the files now, so that the start fails if they are wrong. It returns nil for plain HTTP.
func (t TLS) certificates(log *slog.Logger) (*certificates, error) {
	if err := t.check(); err != nil || t.Cert == "" {
		return nil, err
	}
	c := &certificates{t: t, log: log, looked: time.Now()}
	var err error
	if c.stamp, err = c.files(); err != nil {
		return nil, err
	}
	if c.config, err = c.read(); err != nil {
		return nil, err
	}
	return c, nil
}

// files identifies the files by their times and sizes. It returns an error for a pipe or a device: reading one could
// block for ever, and every new connection with it.
func (c *certificates) files() (string, error) {
	var b strings.Builder
	for _, name := range []string{c.t.Cert, c.t.Key, c.t.ClientCA} {
		if name == "" {
			continue
		}
		info, err := os.Stat(name)
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a regular file", name)
		}
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&b, info.ModTime().UnixNano(), info.Size())
	}
	return b.String(), nil
}

func (c *certificates) read() (*tls.Config, error) {
	key, err := ReadSecret(c.t.Key, 1<<20)
	if err != nil {
		return nil, fmt.Errorf("--tls-key: %w", err)
	}
	cert, err := os.ReadFile(c.t.Cert)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
	}
	// Only HTTP/1.1: connections are counted and closed one by one.
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair},
		NextProtos: []string{"http/1.1"}}
	if c.t.ClientCA == "" {
		return config, nil
	}
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	return config, AddAuthorities(config.ClientCAs, "client-ca", c.t.ClientCA)
}

// AddAuthorities adds the certificates of a PEM file to pool. Its errors name the flag.
func AddAuthorities(pool *x509.CertPool, flag, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("--%s: %s has no certificate in PEM", flag, file)
	}
	return nil
}

// current returns the settings for a new connection. If the files cannot be read, the settings stay as they are: a pair
// may be half written.
func (c *certificates) current(*tls.ClientHelloInfo) (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < certificatesEvery {
		return c.config, nil
	}
	c.looked = time.Now()
	stamp, err := c.files()
	if err == nil && stamp == c.stamp {
		return c.config, nil
	}
	var config *tls.Config
	if err == nil {
		config, err = c.read()
	}
	if err != nil {
		c.log.Warn("the certificate could not be read again; the earlier one stays in use", "error", err.Error())
		return c.config, nil
	}
	c.config, c.stamp = config, stamp
	c.log.Info("the certificate was read again", "file", c.t.Cert)
	if c.note != nil {
		c.note(config)
	}
	return config, nil
}

// exposed returns an error, or warns if that is allowed, if other machines can reach a plain listener. what names what
// they can then read and change on the network.
func (t TLS) exposed(ln net.Listener, name, what string, log *slog.Logger) error {
	a := ln.Addr()
	switch {
	case t.Cert != "" || onLoopback(ln):
		return nil
	case !t.Insecure:
		return fmt.Errorf("the listener %s on %s can be reached from other machines, and without TLS they read and change %s on the way: "+
			"give --tls-cert and --tls-key, or --insecure-listen if something in front of it does TLS", name, a, what)
	}
	log.Warn("a listener without TLS can be reached from other machines (--insecure-listen)", "listener", name, "address",
		a.String(), "exposed", what)
	return nil
}

// onLoopback reports whether only this machine can reach a listener.
func onLoopback(ln net.Listener) bool {
	a, ok := ln.Addr().(*net.TCPAddr)
	return !ok || a.IP.IsLoopback()
}
