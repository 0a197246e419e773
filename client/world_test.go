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

// Where the ends of an example are, and the token that each made when it started.
type ends struct {
	ServiceURL   string
	ServiceToken client.Secret
	GatewayURL   string
	GatewayToken client.Secret
	dir          string
	stop         context.CancelFunc
	ended        chan error
}

// startBothEnds runs a service and the gateway of its merchant "shop" in this
// process, on databases of their own.
func startBothEnds() *ends {
	dir, err := os.MkdirTemp("", "client-example")
	must(err)
	e := &ends{dir: dir, ended: make(chan error, 1)}
	s, err := daemon.NewService(daemon.ServiceConfig{
		Common: daemon.Common{Storage: daemon.Storage{Dir: filepath.Join(dir, "service")}, ShowToken: func(token, _ string) { e.ServiceToken = client.Secret(token) }},
		Listen: "127.0.0.1:0", AllowPrivate: true, AllowHTTP: true,
	})
	must(err)
	key, err := envelope.GenerateKey(1024) // small, because tests make it anew
	must(err)
	private, err := key.PrivatePEM()
	must(err)
	const apiKey = "the-shop-says-this"
	g, err := daemon.NewGateway(daemon.GatewayConfig{
		Common: daemon.Common{Storage: daemon.Storage{Dir: filepath.Join(dir, "gateway")}, ShowToken: func(token, _ string) { e.GatewayToken = client.Secret(token) }},
		Listen: "127.0.0.1:0", APIListen: "127.0.0.1:0",
		Callbacks: merchant.Config{Key: key.Public(), APIKey: apiKey},
	})
	must(err)
	ctx, stop := context.WithCancel(context.Background())
	e.stop = stop
	must(errors.Join(s.Open(ctx), g.Open(ctx)))
	go func() {
		e.ended <- daemon.RunParts(ctx, daemon.Part{Name: "service", Run: s.Run}, daemon.Part{Name: "gateway", Run: g.Run})
	}()
	e.ServiceURL, e.GatewayURL = s.URL(), g.URL()
	service, err := client.NewService(client.Config{URL: e.ServiceURL, Token: e.ServiceToken})
	must(err)
	_, err = service.CreateMerchant(ctx, client.NewMerchant{
		ID:               "shop",
		Key:              &client.KeySpec{PrivateKey: client.Secret(private)},
		MerchantSettings: client.MerchantSettings{Name: "Shop", NotifyURL: g.CallbackURL() + merchant.DefaultNotifyPath, WithdrawURL: g.CallbackURL() + merchant.DefaultWithdrawPath},
		MerchantSecrets:  client.MerchantSecrets{APIKey: apiKey},
	})
	must(err)
	return e
}

// Close ends both ends and removes their databases.
func (e *ends) Close() {
	e.stop()
	must(errors.Join(<-e.ended, os.RemoveAll(e.dir)))
}

// must ends an example that cannot go on.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// amount reads an amount that is known to be one.
func amount(text string) countersign.Amount {
	a, err := countersign.ParseAmount(text)
	must(err)
	return a
}
