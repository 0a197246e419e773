package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"

	"countersign/client"
	"countersign/internal/daemon"
	"countersign/internal/reconcile"
)

type reconcileCmd struct {
	Data string `help:"Data directory of the end. Default: that of the settings file, or ./countersign-data, for the gateway ./countersign-gateway-data." type:"path" placeholder:"DIR"`
	endFlags
	storeFlags
	tlsClient
	ServiceAPI   string `name:"service-api" help:"The service's API, in place of its database; with --gateway-api or --booked." placeholder:"URL" env:"-"`
	ServiceToken secret `help:"Token of that API, or @FILE, with the role viewer, or operator with --settle." placeholder:"TOKEN"`
	GatewayAPI   string `name:"gateway-api" help:"The API of the merchant's gateway, which the service is compared with." placeholder:"URL" env:"-"`
	GatewayToken secret `help:"Token of that API, or @FILE, with the role viewer." placeholder:"TOKEN"`
	Executed     string `help:"JSON lines of every withdrawal of the wallet core: merchant, callBackId, state (open, cancelled, executed, failed), and where it had a permit claim, permit, tenantUserId, address, chainName, symbol, amount." type:"path" placeholder:"FILE" env:"-"`
	Booked       string `help:"JSON lines of every deposit that the merchant's application has booked: trackingId, symbol, amount, txId, txIndex, chainName, address; and of its orders: callBackId, state, txId; for the service merchant too." type:"path" placeholder:"FILE" env:"-"`
	Added        string `help:"JSON lines of every deposit and withdrawal that the wallet core has added: merchant, trackingId or callBackId, symbol, amount." type:"path" placeholder:"FILE" env:"-"`
	Merchant     string `help:"The merchant of lines that do not name one, and of the gateway's API." placeholder:"ID" env:"-"`
	Settle       bool   `help:"Settle what a restore left open, and have the service send again what was sent and not booked. Without it, only report." env:"-"`
}

// Help is the long help of the subcommand.
func (reconcileCmd) Help() string {
	return "Compares the service with what the wallet core executed and the merchant booked, and prints every difference, a line each. The service is its database, or " +
		"its API with --service-api; the merchant is a file, or its gateway's API with --gateway-api. After a restore, " +
		"--settle takes permits that were given before as given, and decides on the deposits that were held; then the rest goes on. " +
		"A SQLite database must not be in use. The exit status is 0 if nothing differs or all was settled, also if the core only has to send something again after --settle, " +
		"1 if a person must decide something, and 2 if it could not compare."
}

func (c *reconcileCmd) Run(std streams) error {
	found, err := c.compare(std)
	if err != nil {
		return statusError{err, exitUsage}
	}
	open, again := reconcile.Left(found)
	if !c.Settle {
		open = slices.DeleteFunc(found, func(f reconcile.Finding) bool { return f.Settled })
	} else if len(again) > 0 {
		fmt.Fprintf(std.err, "%d are to be sent again by whoever sent them first; nobody has to decide on them\n", len(again))
	}
	if len(open) > 0 {
		return fmt.Errorf("%d differences are not settled", len(open))
	}
	return nil
}

// compare compares and returns the findings.
func (c *reconcileCmd) compare(std streams) (found []reconcile.Finding, err error) {
	of := c.end()
	if of == "" && c.Data == "" {
		of = serviceEnd
	}
	at, err := findPlace(std, of, c.Data)
	if err != nil {
		return nil, err
	}
	ofGateway := at.end == gatewayEnd
	switch {
	case ofGateway && (c.Booked == "" || c.Executed != "" || c.Added != "" || c.ServiceAPI != ""):
		return nil, errors.New("the gateway's database is compared with --booked, and with nothing else")
	case c.Booked != "" && c.GatewayAPI != "":
		return nil, errors.New("give --booked or --gateway-api, not both")
	case c.Executed == "" && c.Booked == "" && c.Added == "" && c.GatewayAPI == "":
		return nil, errors.New("give --executed, --booked, --added or --gateway-api; for the gateway's database --booked alone")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	defer debug.SetGCPercent(debug.SetGCPercent(25)) // the index is most of the memory, and stays
	config := reconcile.Config{
		Executed: c.Executed, Booked: c.Booked, Added: c.Added, Merchant: c.Merchant, Settle: c.Settle,
		Epoch: func(end string, e client.Epoch) { fmt.Fprintln(std.err, epochText(end, e)) },
		Report: func(f reconcile.Finding) error {
			found = append(found, f)
			return printJSON(std.out, f, "")
		},
	}
	if c.GatewayAPI != "" {
		if config.There, err = apiOf(std, c, c.GatewayAPI, c.GatewayToken, "--gateway-token", client.NewGateway); err != nil {
			return nil, err
		}
	}
	ended, settles := false, c.Settle
	if c.ServiceAPI != "" {
		settles = false
		var api *client.Service
		if api, err = apiOf(std, c, c.ServiceAPI, c.ServiceToken, "--service-token", client.NewService); err == nil {
			err = reconcile.Remote(ctx, api, config)
		}
	} else {
		p := daemon.Place{Gateway: ofGateway, Log: slog.New(slog.DiscardHandler)}
		if p.Storage, err = c.storage(at.dir, std.warnings()); err == nil {
			ended, err = p.Reconcile(ctx, config)
		}
	}
	if err != nil {
		return nil, explainStart(err)
	}
	switch {
	case ended:
		fmt.Fprintln(std.err, "reconciled: what was held back after the restore goes on")
	case settles:
		fmt.Fprintln(std.err, "nothing was held back: this database was not restored, or is reconciled")
	}
	return found, nil
}

// apiOf returns the client of one of the two APIs.
func apiOf[C any](std streams, c *reconcileCmd, url string, token secret, flag string,
	newClient func(client.Config) (C, error)) (api C, err error) {
	if token == "" {
		return api, fmt.Errorf("give %s", flag)
	}
	return connectTo(std, connection{tlsClient: c.tlsClient, API: url, Token: token}, place{}, newClient)
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
