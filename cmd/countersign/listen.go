package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/daemon"
	"countersign/internal/gateway"
)

type listenCmd struct {
	Listen string `help:"Address where callbacks come, at any path." default:"127.0.0.1:8090" placeholder:"ADDR"`
	Key    string `help:"The public part of the provider's pair. Without it that of --in is taken." placeholder:"FILE"`

	RequestKey string `help:"The merchant's own private key that opens requests, if the merchant made the pair." placeholder:"FILE"`
	wireFlags
	ServiceSigner string `name:"service-signing-key" help:"Public part of the provider's signing key: callbacks that it did not sign are refused." placeholder:"FILE"`
	PublicURL     string `name:"public-url" help:"Beginning of the URLs that the provider calls, if a proxy changes it; signatures cover it." placeholder:"URL"`
	BodyField     string `help:"Form field or JSON member that carries the body." default:"data" placeholder:"NAME"`

	Confirm bool          `help:"Confirm withdrawals that --details does not have too, with made-up details."`
	Details string        `help:"JSON file of orders that are confirmed, one or an array: callBackId, tenantUserId, address, chainName, symbol, amount." type:"existingfile" placeholder:"FILE"`
	Decline int64         `help:"Answer every callback with this errCode." default:"0" placeholder:"CODE"`
	Fault   string        `help:"Put this fault into each response: see the names above." enum:"${merchantFaults}" default:"" placeholder:"NAME"`
	Late    time.Duration `help:"How long an answer takes with --fault late." default:"20s"`

	TLSCert        string `name:"tls-cert" help:"Certificate in PEM." type:"path" placeholder:"FILE"`
	TLSKey         string `name:"tls-key" help:"The certificate's key in PEM." type:"path" placeholder:"FILE"`
	InsecureListen bool   `help:"Allow an address without TLS that other machines reach."`
}

// Help is the long help of the subcommand.
func (listenCmd) Help() string {
	return "Plays a merchant for tests: opens each callback, shows it block by block, and answers as the flags say. " +
		"It takes deposits and notices, and refuses withdrawals that it does not know. Nothing is booked. " +
		"A service accepts an answer with done-twice, or with one from number-amount to content-type. Those from unsigned on need --sign; a service accepts them unless it demands signatures." +
		faultsHelp(countersigntest.MerchantFaults)
}

// Validate is called by kong. Its errors are usage errors.
func (c *listenCmd) Validate() error {
	switch {
	case c.Late <= 0:
		return errors.New("--late must be above 0")
	case c.Sign == "" && countersigntest.MerchantFault(c.Fault).NeedsSigning():
		return fmt.Errorf("--fault %s needs --sign", c.Fault)
	}
	return nil
}

func (c *listenCmd) Run(std streams) error {
	if err := c.played(&c.Key, publicFile); err != nil {
		return err
	}
	config, err := c.config(std)
	if err != nil {
		return err
	}
	var m *countersigntest.Merchant
	config.Fault = func(int, countersign.Callback) countersigntest.MerchantFault {
		fault := countersigntest.MerchantFault(c.Fault)
		if fault == countersigntest.FaultAnswersLate {
			time.AfterFunc(c.Late, m.Release)
		}
		return fault
	}
	if m, err = countersigntest.MakeMerchant(config); err != nil {
		return err
	}
	defer m.Close()
	shown := &gateway.Shower{CallbackReader: gateway.CallbackReader{Key: cmp.Or(config.RequestKey, config.Key),
		Padding: config.Padding, Field: config.BodyField}, Next: m, Out: std.out}
	log := std.warnings()
	ctx, stop := untilSignal(log)
	defer stop()
	l, err := daemon.Listen(daemon.ListenConfig{Name: "callbacks", Addr: c.Listen, Handler: shown, AnyHost: true,
		Exposes: "what the provider posts", Most: 1000, Drain: 5 * time.Second, Log: log,
		TLS: daemon.TLS{Cert: c.TLSCert, Key: c.TLSKey, Insecure: c.InsecureListen}})
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "listening at %s until Ctrl-C\n", l.URL())
	return l.Run(ctx)
}

// config returns the merchant that the flags define.
func (c *listenCmd) config(std streams) (m countersigntest.MerchantConfig, err error) {
	m = countersigntest.MerchantConfig{APIKeyHeader: c.APIKeyHeader, BodyField: c.BodyField,
		Unbound: c.Provider == "other", PublicURL: c.PublicURL, Padding: paddingOf(c.OAEP),
		ResponsePadding: paddingOf(c.ResponseOAEP)}
	if m.APIKey, m.CallbackAPIKey, m.Sign, err = c.keys(); err != nil {
		return m, err
	}
	if m.APIKey == "" {
		return m, errors.New("--api-key is missing: a response carries it")
	}
	if m.Key, err = readKey(c.Key, std); err != nil {
		return m, err
	}
	m.Key = m.Key.Public()
	if c.RequestKey != "" {
		if m.RequestKey, err = readKey(c.RequestKey, std); err != nil {
			return m, err
		}
	}
	if c.ServiceSigner != "" {
		if m.ServiceSigner, err = readSigner("service-signing-key", "@"+c.ServiceSigner, false); err != nil {
			return m, err
		}
	}
	orders, err := c.orders()
	if err != nil {
		return m, fmt.Errorf("--details: %w", err)
	}
	m.Orders = func(id string) (countersign.Details, bool) {
		o, known := orders[id]
		if !known && c.Confirm {
			return countersigntest.Order(1), true
		}
		return o.Details(), known
	}
	m.Users = func(id string) string { return cmp.Or(orders[id].TenantUserID, "65515") }
	m.Code = func(cb countersign.Callback) countersign.ErrCode {
		if user := orders[cb.OrderID()].TenantUserID; c.Decline == 0 && user != "" && cb.User() != "" && user != cb.User() {
			return countersign.CodeUnknownOrder
		}
		return countersign.ErrCode(c.Decline)
	}
	return m, nil
}

// orders returns the orders of --details, by callBackId.
func (c *listenCmd) orders() (map[string]client.NewOrder, error) {
	var list []client.NewOrder
	if c.Details != "" {
		data, err := os.ReadFile(c.Details)
		if err != nil {
			return nil, err
		}
		if json.Unmarshal(data, &list) != nil {
			list = make([]client.NewOrder, 1)
			if err := json.Unmarshal(data, &list[0]); err != nil {
				return nil, fmt.Errorf("%s: %w", c.Details, err)
			}
		}
	}
	orders := map[string]client.NewOrder{}
	for _, o := range list {
		if err := o.Details().Validate(); err != nil {
			return nil, fmt.Errorf("order %q: %w", o.CallBackID, err)
		}
		orders[o.CallBackID] = o
	}
	return orders, nil
}
