package client_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/merchant"
)

// Where the ends of an example are, the token that each made when it started, and a client of each.
type ends struct {
	ServiceURL   string
	ServiceToken client.Secret
	Service      *client.Service
	GatewayURL   string
	GatewayToken client.Secret
	Gateway      *client.Gateway
	Close        func() // ends both and removes their databases
}

// startBothEnds runs a service and the gateway of its merchant "shop" in this
// process, on databases of their own.
func startBothEnds() *ends {
	dir := must(os.MkdirTemp("", "client-example"))
	e := &ends{}
	s := must(daemon.NewService(daemon.ServiceConfig{
		Common: daemon.Common{Storage: daemon.Storage{Dir: filepath.Join(dir, "service")}, ShowToken: func(token, _ string) { e.ServiceToken = client.Secret(token) }},
		Listen: "127.0.0.1:0", AllowPrivate: true, AllowHTTP: true,
	}))
	key := must(envelope.GenerateKey(1024)) // small, because tests make it anew
	const apiKey = "the-shop-says-this"
	g := must(daemon.NewGateway(daemon.GatewayConfig{
		Common: daemon.Common{Storage: daemon.Storage{Dir: filepath.Join(dir, "gateway")}, ShowToken: func(token, _ string) { e.GatewayToken = client.Secret(token) }},
		Listen: "127.0.0.1:0", APIListen: "127.0.0.1:0",
		Callbacks: merchant.Config{Key: key.Public(), APIKey: apiKey},
	}))
	ctx, stop := context.WithCancel(context.Background())
	ok(errors.Join(s.Open(ctx), g.Open(ctx)))
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.RunParts(ctx, daemon.Part{Name: "service", Run: s.Run}, daemon.Part{Name: "gateway", Run: g.Run})
	}()
	e.Close = func() {
		stop()
		ok(errors.Join(<-ended, os.RemoveAll(dir)))
	}
	e.ServiceURL, e.GatewayURL = s.URL(), g.URL()
	e.Service = must(client.NewService(client.Config{URL: e.ServiceURL, Token: e.ServiceToken}))
	e.Gateway = must(client.NewGateway(client.Config{URL: e.GatewayURL, Token: e.GatewayToken}))
	must(e.Service.CreateMerchant(ctx, client.NewMerchant{
		ID:               "shop",
		Key:              &client.KeySpec{PrivateKey: client.Secret(must(key.PrivatePEM()))},
		MerchantSettings: client.MerchantSettings{Name: "Shop", NotifyURL: g.CallbackURL() + merchant.DefaultNotifyPath, WithdrawURL: g.CallbackURL() + merchant.DefaultWithdrawPath},
		MerchantSecrets:  client.MerchantSecrets{APIKey: apiKey},
	}))
	return e
}

// must ends an example or a test that cannot go on.
func must[T any](v T, err error) T {
	ok(err)
	return v
}

func ok(err error) {
	if err != nil {
		panic(err)
	}
}

// amount reads an amount that is known to be one.
func amount(text string) countersign.Amount { return must(countersign.ParseAmount(text)) }
