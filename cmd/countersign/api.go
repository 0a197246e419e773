package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"countersign/client"
	"countersign/internal/admin"
	"countersign/internal/cli"
	"countersign/internal/daemon"
	"countersign/internal/gateway"
)

// apiFlags say which API a subcommand speaks to, and as whom. The defaults are
// those of the service; a group of subcommands of the gateway sets others.
type apiFlags struct {
	apiTLSFlags
	API   string     `name:"api" help:"Where the ${end}'s API is. Default: ${api}." default:"${api}" placeholder:"URL" env:"COUNTERSIGN_${END}_API,COUNTERSIGN_API"`
	Token secretText `help:"API token, or @FILE to read it from there. Default: admin.token of the data directory." placeholder:"TOKEN" env:"COUNTERSIGN_${END}_TOKEN,COUNTERSIGN_TOKEN"`
	Data  string     `help:"Data directory whose admin.token to use. Default: ${data}." default:"${data}" type:"path" placeholder:"DIR"`
}

// apiTLSFlags say how a subcommand speaks TLS to an API.
type apiTLSFlags struct {
	CA      string `name:"ca" help:"Authority of the API's certificate, in PEM. Default: those of the system." type:"path" placeholder:"FILE"`
	Cert    string `name:"cert" help:"Certificate in PEM for an API that wants one (--client-ca)." type:"path" placeholder:"FILE"`
	CertKey string `name:"cert-key" help:"Its key in PEM, for its owner alone." type:"path" placeholder:"FILE"`
}

// The ends and the defaults of apiFlags for each.
var (
	serviceEnd = kong.Vars{"end": "service", "END": "SERVICE", "api": "http://127.0.0.1:8080", "data": "./countersign-data"}
	gatewayEnd = kong.Vars{"end": "gateway", "END": "GATEWAY", "api": "http://127.0.0.1:8091", "data": "./countersign-gateway-data"}
)

// eitherEnd is apiFlags for a subcommand that both ends have. Gateway is not read:
// run looks for it before the command line is parsed, because the defaults and the
// environment depend on it.
type eitherEnd struct {
	apiFlags
	Gateway bool `help:"Ask the gateway, not the service." env:"-"`
}

// AfterApply is that of apiFlags, which kong does not find below a made struct.
func (f *eitherEnd) AfterApply(k *kong.Context, called *calledAPI) error {
	return f.apiFlags.AfterApply(k, called)
}

// AfterApply gives Run of a subcommand clients of both APIs, of which it asks for the
// one it needs.
func (f *apiFlags) AfterApply(k *kong.Context, called *calledAPI) error {
	called.url = f.API
	return errors.Join(
		k.BindToProvider(func() (*client.Service, error) { return newClient(f, client.NewService) }),
		k.BindToProvider(func() (*client.Gateway, error) { return newClient(f, client.NewGateway) }))
}

func newClient[C any](f *apiFlags, of func(client.Config) (C, error)) (none C, err error) {
	config, err := f.config()
	if err != nil {
		return none, err
	}
	return of(config)
}

// callTimeout bounds one call of an API.
const callTimeout = 2 * time.Minute

// config gives what the client is made of.
func (f apiFlags) config() (client.Config, error) {
	token, err := f.Token.reveal("token")
	if err != nil {
		return client.Config{}, err
	}
	if token == "" {
		path := filepath.Join(f.Data, tokenFile)
		b, err := daemon.ReadSecret(path, maxKeyFile)
		if errors.Is(err, fs.ErrNotExist) {
			return client.Config{}, &hintedError{errors.New("no token"),
				[]string{fmt.Sprintf("give --token or COUNTERSIGN_TOKEN, or --data with the data directory; %s does not exist.", path)}}
		}
		if err != nil {
			return client.Config{}, err
		}
		token = strings.TrimSpace(string(b))
	}
	web, err := f.web()
	return client.Config{URL: f.API, Token: client.Secret(token), HTTPClient: web}, err
}

// web gives the HTTP client for the API.
func (f apiTLSFlags) web() (*http.Client, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
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
	return &http.Client{Transport: t, Timeout: callTimeout}, nil
}

// calledAPI is where the API is that a subcommand speaks to; empty: it speaks to none.
type calledAPI struct{ url string }

// explain adds what to try to the errors that new users meet.
func (c calledAPI) explain(err error) error {
	var p *client.Problem
	switch {
	case c.url == "":
	case errors.Is(err, client.ErrUnauthorized):
		return &hintedError{err, []string{"the token is not of this API, or was revoked: give --token or --data."}}
	case errors.As(err, &p) && p.Status == http.StatusNotFound && p.Detail == "there is no such path":
		return &hintedError{err, []string{fmt.Sprintf("--api %s may be the other end's API.", c.url)}}
	case errors.Is(err, client.ErrUnavailable) && !errors.As(err, &p):
		return &hintedError{err, []string{fmt.Sprintf("nothing answers at %s: is it running, and is --api right?", c.url)}}
	}
	return err
}

// apiCommands makes the subcommands of the APIs. words are the command line.
func apiCommands(words []string, ofGateway bool) (service, gateways kong.Plugins, err error) {
	ends := cli.Ends{Service: admin.Operations(), Gateway: gateway.Operations(), OfGateway: ofGateway, One: apiFlags{}, Either: eitherEnd{}}
	commands := slices.Clone(serviceWords)
	if slices.Contains(words, "api") { // else the help of everything would list them all
		commands = append(commands, cli.All("api", ends.Of(cli.EitherEnd), cli.EitherEnd)...)
	}
	ofService, err := ends.Plugin(commands)
	if err != nil {
		return nil, nil, err
	}
	ofGateways, err := ends.Plugin(gatewayWords)
	return kong.Plugins{ofService}, kong.Plugins{ofGateways}, err
}

// apiListCmd lists what countersign api reaches.
type apiListCmd struct {
	Gateway bool `help:"Those of the gateway, not of the service." env:"-"`
	List    bool `hidden:"" help:"As api list." env:"-"`
}

func (c *apiListCmd) Run(std streams) error {
	operations := admin.Operations()
	if c.Gateway {
		operations = gateway.Operations()
	}
	w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	for _, o := range operations {
		fmt.Fprintf(w, "%s\t%s %s\t%s\n", o.ID, o.Method, o.Path, o.Summary)
	}
	return w.Flush()
}

// call runs a subcommand that is made of an operation.
func (std streams) call(k *kong.Context, c *cli.Call) error {
	to := cli.Streams{In: std.in, Out: std.out, Err: std.err, Terminal: isTerminal(std.out), Secret: func(flag, text string) (string, error) {
		return secretText(text).reveal(flag)
	}}
	var err error
	_, bad := k.Call(func(ctx context.Context, api *client.Service) { err = c.Run(ctx, api, to) })
	return errors.Join(bad, err)
}

// tellWaiting says what waits for whom, if something does.
func tellWaiting(std streams, e *client.ChangeEntry) {
	if e != nil {
		cli.TellWaiting(std.err, *e)
	}
}

// show prints the answer of a call as JSON.
func (std streams) show(v any, err error) error {
	if err != nil {
		return err
	}
	return printJSON(std.out, v, "  ")
}

// printJSON writes v and a line end, leaving <, > and & as they are. It is on
// one line where indent is empty.
func printJSON(w io.Writer, v any, indent string) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	return e.Encode(v)
}

// readJSON reads one JSON object for a request from a file, - for standard
// input. The server checks its members.
func readJSON[T any](path string, std streams) (T, error) {
	var v T
	in := std.in
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return v, err
		}
		defer f.Close()
		in = f
	}
	b, err := readAll(in, 1<<20, "request")
	if err != nil {
		return v, err
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return v, fmt.Errorf("reading %s: %w", path, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return v, fmt.Errorf("reading %s: more follows the object", path)
	}
	return v, nil
}
