package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"countersign/client"
	"countersign/internal/daemon"
)

// end is one of the two ends. If empty, it is derived from the data directory in use.
type end string

const (
	serviceEnd end = daemon.ServiceEnd
	gatewayEnd end = daemon.GatewayEnd
)

// The defaults of both ends.
var (
	defaultData = map[end]string{serviceEnd: "./countersign-data", gatewayEnd: "./countersign-gateway-data"}
	defaultAPI  = map[end]string{serviceEnd: "http://127.0.0.1:8080", gatewayEnd: "http://127.0.0.1:8091"}
	tableOf     = map[end]string{serviceEnd: "serve", gatewayEnd: "gateway"} // of a settings file
)

// endFlags select the end, for commands that both ends have.
type endFlags struct {
	Service bool `help:"At the service. Default: the end whose data directory is in use." env:"-" xor:"end"`
	Gateway bool `help:"At the gateway." env:"-" xor:"end"`
}

func (f endFlags) end() end {
	switch {
	case f.Service:
		return serviceEnd
	case f.Gateway:
		return gatewayEnd
	}
	return ""
}

// place is an end and its data directory.
type place struct {
	end end
	dir string
}

// findPlace returns where a command works: data if given, else what the settings file names, else the defaults. of is
// the end that the command is for; if empty, it is the end whose directory this is.
func findPlace(std streams, of end, data string) (place, error) {
	if data != "" {
		noted := end(daemon.EndOf(data))
		if of != "" && noted != "" && noted != of {
			return place{}, fmt.Errorf("--data: %s is the data directory of a %s, and the command is for the %s",
				data, noted, of)
		}
		return place{cmp.Or(of, noted, serviceEnd), data}, nil
	}
	dirs := map[end]string{}
	for e, dir := range defaultData {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			dirs[e] = dir
		}
	}
	if named := std.file.dataDirs(); len(named) > 0 {
		dirs = named
	}
	if of == "" {
		switch {
		case len(dirs) == 2:
			return place{}, &hintedError{fmt.Errorf("both ends are here, the service in %s and the gateway in %s",
				dirs[serviceEnd], dirs[gatewayEnd]), []string{"give --service or --gateway."}}
		case dirs[gatewayEnd] != "":
			of = gatewayEnd
		default:
			of = serviceEnd
		}
	}
	return place{of, cmp.Or(dirs[of], defaultData[of])}, nil
}

// dataDirs returns the data directories of the ends of which the file has a table. Commands find a daemon's API and
// token there.
func (s settingsFile) dataDirs() map[end]string {
	dirs := map[end]string{}
	for e, name := range tableOf {
		if table, ok := s[name].(map[string]any); ok {
			dirs[e] = defaultData[e]
			if dir, ok := table["data"].(string); ok {
				dirs[e] = kong.ExpandPath(dir)
			}
		}
	}
	return dirs
}

// connection holds the flags for the API that a command calls and for the caller.
type connection struct {
	tlsClient
	API   string `name:"api" help:"Where the API is. Default: COUNTERSIGN_API, or of one end COUNTERSIGN_SERVICE_API or COUNTERSIGN_GATEWAY_API; else where the daemon of the data directory noted it." placeholder:"URL" env:"-"`
	Token secret `help:"API token, or @FILE to read it from there. Default: COUNTERSIGN_TOKEN, likewise; else admin.token of the data directory." placeholder:"TOKEN" env:"-"`
	Data  string `help:"Data directory of the end. Default: that of the settings file, or ./countersign-data, for the gateway ./countersign-gateway-data." type:"path" placeholder:"DIR"`
}

// callTimeout bounds one call of an API.
const callTimeout = 2 * time.Minute

// client returns the client of an end, and the end.
func (f connection) client(std streams, of end) (*client.Service, end, error) {
	at, err := findPlace(std, of, f.Data)
	if err != nil {
		return nil, "", err
	}
	api, err := connectTo(std, f, at, client.NewService)
	return api, at.end, err
}

// ofEnvironment returns an end's variable, or the one for both ends.
func ofEnvironment(e end, name string) string {
	return cmp.Or(os.Getenv("COUNTERSIGN_"+strings.ToUpper(string(e))+"_"+name), os.Getenv("COUNTERSIGN_"+name))
}

// clientConfig returns the configuration of a client. The default token is that of the data directory.
func (f connection) clientConfig(std streams, at place) (client.Config, error) {
	token, err := f.Token.reveal("token")
	if err == nil && token == "" {
		token, err = secret(ofEnvironment(at.end, "TOKEN")).reveal("token")
	}
	if err != nil {
		return client.Config{}, err
	}
	if token == "" {
		b, err := daemon.ReadSecretOf(at.dir, daemon.TokenFile, maxSecret)
		if errors.Is(err, fs.ErrNotExist) {
			return client.Config{}, &hintedError{errors.New("no token"),
				[]string{"give --token or COUNTERSIGN_TOKEN, or give --data with the data directory; " +
					filepath.Join(at.dir, daemon.TokenFile) + " does not exist."}}
		}
		if err != nil {
			return client.Config{}, err
		}
		token = strings.TrimSpace(string(b))
	}
	address, err := f.address(at)
	if err != nil {
		return client.Config{}, err
	}
	*std.called = address.URL
	web, err := f.web(address)
	return client.Config{URL: address.URL, Token: client.Secret(token), HTTPClient: web}, err
}

// address returns the address of the API: what was named, or what the data directory's daemon has noted. If there is a
// data directory, a token is never sent to a default address: another daemon may listen there.
func (f connection) address(at place) (daemon.Address, error) {
	if url := cmp.Or(f.API, ofEnvironment(at.end, "API")); url != "" {
		return daemon.Address{URL: url}, nil
	}
	noted, err := daemon.ReadAddress(at.dir)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return noted, err
	}
	if _, err := os.Stat(at.dir); err == nil {
		return noted, &hintedError{fmt.Errorf("%s does not say where the API of the %s is", at.dir, at.end),
			[]string{"give --api URL; the daemon notes it there when it starts."}}
	}
	return daemon.Address{URL: defaultAPI[at.end]}, nil
}

// tlsClient holds the flags for TLS to an API.
type tlsClient struct {
	CA      string `name:"ca" help:"Authority that signed the API's certificate, in PEM. Default: the system's authorities." type:"path" placeholder:"FILE"`
	Cert    string `name:"cert" help:"Client certificate in PEM, for an API with --client-ca." type:"path" placeholder:"FILE"`
	CertKey string `name:"cert-key" help:"The certificate's key in PEM. Only the file's owner may read it." type:"path" placeholder:"FILE"`
}

// web returns the HTTP client for the API at an address. Without --ca the certificate must be the noted one, if one was
// noted.
func (f tlsClient) web(at daemon.Address) (*http.Client, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if at.Certificate != "" && f.CA == "" {
		c.InsecureSkipVerify, c.VerifyConnection = true, at.Verify // in place of the authority
	}
	if f.CA != "" {
		c.RootCAs = x509.NewCertPool()
		if err := daemon.AddAuthorities(c.RootCAs, "ca", f.CA); err != nil {
			return nil, err
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
	return &http.Client{Transport: t, Timeout: callTimeout}, nil
}

// maxSecret is far above the longest file with a secret or a key, in bytes.
const maxSecret = 64 << 10

// secret is a flag with a secret, or @FILE to read it from a file. It cannot be printed.
type secret string

func (s secret) String() string { return "[secret]" }

// reveal returns the secret of the named flag, read from its file if it names one.
func (s secret) reveal(flag string) (string, error) {
	path, isFile := strings.CutPrefix(string(s), "@")
	if !isFile {
		if _, err := os.Stat(path); err == nil && path != "" {
			return "", fmt.Errorf("--%s: a file of this name exists: give @%s to read it", flag, path)
		}
		return string(s), nil
	}
	b, err := daemon.ReadSecret(path, maxSecret)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" || len(text) > 16<<10 {
		return "", fmt.Errorf("--%s: %s does not hold one secret", flag, path)
	}
	return text, nil
}

// connectTo returns the client of the API of an end.
func connectTo[C any](std streams, f connection, at place, of func(client.Config) (C, error)) (none C, err error) {
	config, err := f.clientConfig(std, at)
	if err != nil {
		return none, err
	}
	return of(config)
}
