package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"countersign/client"
	"countersign/internal/daemon"
	"countersign/internal/reconcile"
)

type reconcileCmd struct {
	Data string `help:"Data directory of the end. Default: that of the settings file, or ./countersign-data, with --gateway alone ./countersign-gateway-data." type:"path" placeholder:"DIR"`
	storeFlags
	Service      string     `help:"The service's API, in place of its database; with --gateway URL or --booked." placeholder:"URL" env:"-"`
	ServiceToken secret     `help:"A token of it, or @FILE: viewer; operator with --settle." placeholder:"TOKEN"`
	Gateway      eitherSide `help:"Alone: the gateway's database, not the service's. With a URL: the API of the merchant's gateway, which the service is compared with." placeholder:"[URL]" env:"-"`
	GatewayToken secret     `help:"A token of it, or @FILE: viewer." placeholder:"TOKEN"`
	CA           string     `name:"ca" help:"Authority of the APIs' certificates, in PEM. Default: those of the system." type:"path" placeholder:"FILE" env:"-"`
	Cert         string     `help:"Certificate in PEM for an API that wants one." type:"path" placeholder:"FILE" env:"-"`
	CertKey      string     `help:"Its key in PEM, for its owner alone." type:"path" placeholder:"FILE" env:"-"`
	Executed     string     `help:"JSON lines of every withdrawal of the wallet core: merchant, callBackId, state (open, cancelled, executed, failed), and where it had a permit claim, permit, tenantUserId, address, chainName, symbol, amount." type:"path" placeholder:"FILE" env:"-"`
	Booked       string     `help:"JSON lines of every deposit that the merchant's application has booked: trackingId, symbol, amount, txId, txIndex, chainName, address; and of its orders: callBackId, state, txId; for the service merchant too." type:"path" placeholder:"FILE" env:"-"`
	Added        string     `help:"JSON lines of every deposit and withdrawal that the wallet core has added: merchant, trackingId or callBackId, symbol, amount." type:"path" placeholder:"FILE" env:"-"`
	Merchant     string     `help:"The merchant of lines that do not name one, and of the gateway's API." placeholder:"ID" env:"-"`
	Settle       bool       `help:"Settle what a restore left open, and end it; have the service tell again what was told and not booked. Without it, only report." env:"-"`
}

// eitherSide is --gateway: alone, or with the URL of an API behind it.
type eitherSide struct {
	set bool
	url string
}

// Decode takes the next argument if it is a URL.
func (e *eitherSide) Decode(ctx *kong.DecodeContext) error {
	e.set = true
	if next := ctx.Scan.Peek(); next.Type == kong.FlagValueToken || isURL(next.String()) {
		e.url = ctx.Scan.Pop().String()
		if !isURL(e.url) {
			return fmt.Errorf("%q is no URL", e.url)
		}
	}
	return nil
}

func isURL(s string) bool { return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") }

// Help is the long help of the subcommand.
func (reconcileCmd) Help() string {
	return "Compares the service with what the wallet core executed and the merchant booked, and prints every difference, a line each. The service is its database, or " +
		"its API with --service; the merchant is a file, or its gateway's API with --gateway URL. After a restore, " +
		"--settle takes permits that were given before as given, and decides on the deposits that were held; then the rest goes on. " +
		"A SQLite database must not be in use. The exit status is 0 if nothing differs or all was settled, 1 if a person must decide something, and 2 if it could not compare."
}

func (c *reconcileCmd) Run(std streams) error {
	open, err := c.compare(std)
	switch {
	case err != nil:
		return statusError{err, exitUsage}
	case open > 0:
		return fmt.Errorf("%d differences are not settled", open)
	}
	return nil
}

// compare compares, and gives how many differences are not settled.
func (c *reconcileCmd) compare(std streams) (open int, err error) {
	var of end
	switch {
	case c.Gateway.set && c.Gateway.url == "": // its database
		of = gatewayEnd
	case c.Data == "":
		of = serviceEnd
	}
	at, err := findPlace(std, of, c.Data)
	if err != nil {
		return 0, err
	}
	ofGateway := at.end == gatewayEnd
	switch {
	case ofGateway && (c.Booked == "" || c.Executed != "" || c.Added != "" || c.Service != ""):
		return 0, errors.New("the gateway's database is compared with --booked, and with nothing else")
	case c.Booked != "" && c.Gateway.url != "":
		return 0, errors.New("give --booked or --gateway URL, not both")
	case c.Executed == "" && c.Booked == "" && c.Added == "" && c.Gateway.url == "":
		return 0, errors.New("give --executed, --booked, --added or --gateway URL; for the gateway's database --booked alone")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	debug.SetGCPercent(25) // the index is most of the memory, and stays
	config := reconcile.Config{
		Executed: c.Executed, Booked: c.Booked, Added: c.Added, Merchant: c.Merchant, Settle: c.Settle,
		Epoch: func(end string, e client.Epoch) { fmt.Fprintln(std.err, epochText(end, e)) },
		Report: func(f reconcile.Finding) error {
			if !f.Settled {
				open++
			}
			return printJSON(std.out, f, "")
		},
	}
	if c.Gateway.url != "" {
		if config.There, err = apiOf(std, c, c.Gateway.url, c.GatewayToken, "--gateway-token", client.NewGateway); err != nil {
			return 0, err
		}
	}
	ended, settles := false, c.Settle
	if c.Service != "" {
		settles = false
		var api *client.Service
		if api, err = apiOf(std, c, c.Service, c.ServiceToken, "--service-token", client.NewService); err == nil {
			err = reconcile.Remote(ctx, api, config)
		}
	} else {
		var storage daemon.Storage
		if storage, err = c.storage(at.dir, std.warnings()); err == nil {
			ended, err = daemon.Reconcile(ctx, storage, ofGateway, config)
		}
	}
	if err != nil {
		return 0, explainStart(fmt.Errorf("reconcile: %w", err))
	}
	switch {
	case ended:
		fmt.Fprintln(std.err, "reconciled: what was held back after the restore goes on")
	case settles:
		fmt.Fprintln(std.err, "nothing was held back: this database was not restored, or is reconciled")
	}
	return open, nil
}

// apiOf makes the client of one of the two APIs.
func apiOf[C any](std streams, c *reconcileCmd, url string, token secret, flag string, newClient func(client.Config) (C, error)) (api C, err error) {
	if token == "" {
		return api, fmt.Errorf("give %s", flag)
	}
	return connectTo(std, connection{tlsClient: tlsClient{CA: c.CA, Cert: c.Cert, CertKey: c.CertKey}, API: url, Token: token}, newClient)
}

func epochText(end string, e client.Epoch) string {
	switch {
	case e.Epoch == 0:
		return "the " + end + " was never restored"
	case e.Open:
		return fmt.Sprintf("the %s is in epoch %d, restored %s and not reconciled", end, e.Epoch, e.Began)
	}
	return fmt.Sprintf("the %s is in epoch %d, restored %s and reconciled %s", end, e.Epoch, e.Began, e.Reconciled)
}
