package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"countersign/client"
	"countersign/internal/admin"
	"countersign/internal/cli"
	"countersign/internal/gateway"
	"countersign/internal/sheet"
)

// The ends and the defaults of cli.Connection for each.
var (
	serviceEnd = kong.Vars{"end": "service", "END": "SERVICE", "api": "http://127.0.0.1:8080", "data": "./countersign-data"}
	gatewayEnd = kong.Vars{"end": "gateway", "END": "GATEWAY", "api": "http://127.0.0.1:8091", "data": "./countersign-gateway-data"}
)

// explain adds what to try to the errors that new users meet.
func explain(c *cli.Called, err error) error {
	var p *client.Problem
	var none *cli.NoTokenError
	switch {
	case errors.As(err, &none):
		return &hintedError{err, []string{fmt.Sprintf("give --token or COUNTERSIGN_TOKEN, or give --data with the data directory; %s does not exist.", none.Path)}}
	case c.URL == "":
	case errors.As(err, &p) && slices.ContainsFunc(p.Faults, func(f client.Fault) bool { return f.Location == "body.role" }):
		return &hintedError{err, []string{fmt.Sprintf("roles of the service: %s. Roles of the gateway, with --gateway: %s; it has one merchant.", client.ServiceRoles(), client.GatewayRoles())}}
	case errors.Is(err, client.ErrUnauthorized):
		return &hintedError{err, []string{"the token is not of this API, or was revoked: give --token or --data."}}
	case errors.As(err, &p) && p.Status == http.StatusNotFound && p.Detail == "there is no such path":
		return &hintedError{err, []string{fmt.Sprintf("--api %s may be the other end's API.", c.URL)}}
	case errors.Is(err, http.ErrSchemeMismatch):
		return &hintedError{err, []string{fmt.Sprintf("the API at %s has no TLS: give --api http://…", c.URL)}}
	case errors.As(err, &p) && p.Status == http.StatusBadRequest && p.Detail == "" && strings.HasPrefix(c.URL, "http:"):
		return &hintedError{err, []string{fmt.Sprintf("the API at %s may have TLS: give --api https://…", c.URL)}}
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return &hintedError{err, []string{"this machine does not know the authority of the API's certificate: give --ca FILE with it, or --data with the data directory of the daemon."}}
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return &hintedError{err, []string{fmt.Sprintf("the certificate of %s is not right for this address; --api names another.", c.URL)}}
	case errors.Is(err, client.ErrUnavailable) && !errors.As(err, &p):
		return &hintedError{err, []string{fmt.Sprintf("nothing answers at %s: is it running, and is --api right?", c.URL)}}
	}
	return err
}

// apiCommands makes the subcommands of the APIs. words are the command line.
func apiCommands(words []string, atGateway bool) (ofServiceAPI, ofGatewayAPI kong.Plugins, err error) {
	ends := cli.Ends{Service: admin.Operations(), Gateway: gateway.Operations(), OfGateway: atGateway}
	commands := slices.Clone(serviceWords)
	if slices.Contains(words, "api") { // else the help of everything would list them all
		commands = append(commands, cli.All("api", ends.Of(cli.EitherEnd), cli.EitherEnd)...)
	}
	ofGateway := slices.Clone(gatewayWords)
	// The tree of all takes longer to make than most commands take. A mistyped word is looked for among all.
	asked := func(c cli.Command) bool { return len(words) > 0 && strings.HasPrefix(c.Words+" ", words[0]+" ") }
	if slices.ContainsFunc(slices.Concat(commands, ofGateway), asked) {
		other := func(c cli.Command) bool { return !asked(c) }
		commands, ofGateway = slices.DeleteFunc(commands, other), slices.DeleteFunc(ofGateway, other)
	}
	service, err := ends.Plugin(commands)
	if err != nil {
		return nil, nil, err
	}
	gateways, err := ends.Plugin(ofGateway)
	return kong.Plugins{service}, kong.Plugins{gateways}, err
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
	to := cli.Streams{In: std.in, Out: std.out, Err: std.err, Terminal: isTerminal(std.out)}
	var err error
	_, bad := k.Call(func(ctx context.Context, api *client.Service) { err = c.Run(ctx, api, to) })
	return errors.Join(bad, err)
}

// printJSON writes v and a line end, leaving <, > and & as they are. It is on
// one line where indent is empty.
func printJSON(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(sheet.PrintableJSON(b.Bytes()))
	return err
}
