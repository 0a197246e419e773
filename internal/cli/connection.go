package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"countersign/client"
	"countersign/internal/daemon"
)

// Connection is the flags that say which API a subcommand speaks to, and as whom. The
// variables end, END, api and data give the defaults of an end.
type Connection struct {
	TLS
	API   string `name:"api" help:"Where the ${end}'s API is. Default: where the daemon of the data directory noted it, or ${api}." default:"${api}" placeholder:"URL" env:"COUNTERSIGN_${END}_API,COUNTERSIGN_API"`
	Token Secret `help:"API token, or @FILE to read it from there. Default: admin.token of the data directory." placeholder:"TOKEN" env:"COUNTERSIGN_${END}_TOKEN,COUNTERSIGN_TOKEN"`
	Data  string `help:"Data directory whose admin.token to use. Default: ${data}." default:"${data}" type:"path" placeholder:"DIR"`

	// Said says that somebody named the API, so that API is not its default.
	Said   bool    `kong:"-"`
	called *Called // is told the API; may be nil
}

// Either is a Connection for a subcommand that both ends have. Gateway is not read: it is
// looked for before the command line is parsed, because the defaults and the environment
// depend on it.
type Either struct {
	Connection
	Gateway bool `help:"Ask the gateway, not the service." env:"-"`
}

// TLS is the flags that say how a subcommand speaks TLS to an API.
type TLS struct {
	CA      string `name:"ca" help:"Authority of the API's certificate, in PEM. Default: those of the system." type:"path" placeholder:"FILE"`
	Cert    string `name:"cert" help:"Certificate in PEM for an API that wants one (--client-ca)." type:"path" placeholder:"FILE"`
	CertKey string `name:"cert-key" help:"Its key in PEM, for its owner alone." type:"path" placeholder:"FILE"`
}

// Called has the URL of the API that a subcommand calls; empty: it calls none.
type Called struct{ URL string }

// AfterApply offers clients of both APIs to the method Run of a subcommand.
func (f *Connection) AfterApply(k *kong.Context, called *Called) error {
	f.Said, f.called = said(k, "api"), called
	return errors.Join(
		k.BindToProvider(func() (*client.Service, error) { return NewClient(*f, client.NewService) }),
		k.BindToProvider(func() (*client.Gateway, error) { return NewClient(*f, client.NewGateway) }))
}

// said reports whether somebody gave a flag, on the command line or in the environment.
func said(k *kong.Context, name string) bool {
	return slices.ContainsFunc(k.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == name }) ||
		slices.ContainsFunc(k.Flags(), func(f *kong.Flag) bool {
			return f.Name == name && slices.ContainsFunc(f.Envs, func(env string) bool { return os.Getenv(env) != "" })
		})
}

// NewClient returns the client of an end's API.
func NewClient[C any](f Connection, of func(client.Config) (C, error)) (none C, err error) {
	config, err := f.Config()
	if err != nil {
		return none, err
	}
	return of(config)
}

// CallTimeout bounds one call of an API.
const CallTimeout = 2 * time.Minute

// NoTokenError says that there is no token, and which file would have it.
type NoTokenError struct{ Path string }

func (*NoTokenError) Error() string { return "no token" }

// Config returns what a client is made of. Without a token it is the token of the data
// directory; the error is a *NoTokenError where there is none.
func (f Connection) Config() (client.Config, error) {
	token, err := f.Token.Reveal("token")
	if err != nil {
		return client.Config{}, err
	}
	at := daemon.Address{URL: f.API}
	if token == "" {
		b, err := daemon.ReadSecretOf(f.Data, daemon.TokenFile, maxSecret)
		if errors.Is(err, fs.ErrNotExist) {
			return client.Config{}, &NoTokenError{filepath.Join(f.Data, daemon.TokenFile)}
		}
		if err != nil {
			return client.Config{}, err
		}
		if at, err = f.address(); err != nil {
			return client.Config{}, err
		}
		token = strings.TrimSpace(string(b))
	}
	if f.called != nil {
		f.called.URL = at.URL
	}
	web, err := f.web(at)
	return client.Config{URL: at.URL, Token: client.Secret(token), HTTPClient: web}, err
}

// address is where the API is: the one that was named, that of the daemon of the data directory,
// or the default.
func (f Connection) address() (daemon.Address, error) {
	if !f.Said {
		noted, err := daemon.ReadAddress(f.Data)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return noted, err
		}
	}
	return daemon.Address{URL: f.API}, nil
}

// Web returns the HTTP client for an API.
func (f TLS) Web() (*http.Client, error) { return f.web(daemon.Address{}) }

// web returns the HTTP client for the API at an address. Without --ca the certificate must be
// the one that was noted, if one was.
func (f TLS) web(at daemon.Address) (*http.Client, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if at.Certificate != "" && f.CA == "" {
		c.InsecureSkipVerify, c.VerifyConnection = true, at.Verify // in place of the authority
	}
	if f.CA != "" {
		b, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, err
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("--ca: %s has no certificate in PEM", f.CA)
		}
	}
	if f.Cert != "" || f.CertKey != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.CertKey)
		if err != nil {
			return nil, fmt.Errorf("--cert and --cert-key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = c
	return &http.Client{Transport: t, Timeout: CallTimeout}, nil
}

// maxSecret is far above the longest file of a secret or a key, in bytes.
const maxSecret = 64 << 10

// Secret is a flag that holds a secret, or @FILE to read it from there. It does not print.
type Secret string

func (s Secret) String() string { return "[secret]" }

// Reveal returns the secret of the flag that is named, read from its file where it names one.
func (s Secret) Reveal(flag string) (string, error) {
	path, isFile := strings.CutPrefix(string(s), "@")
	if !isFile {
		return string(s), nil
	}
	b, err := daemon.ReadSecret(path, maxSecret)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" || len(text) > 4096 {
		return "", fmt.Errorf("--%s: %s does not hold one secret", flag, path)
	}
	return text, nil
}
