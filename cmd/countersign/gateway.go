package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"countersign"
	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/internal/gateway"
	"countersign/internal/policy"
	"countersign/merchant"
)

type gatewayCmd struct {
	Data string `first:"" help:"Directory of the database, master.key and admin.token." default:"./countersign-gateway-data" type:"path" placeholder:"DIR"`
	daemon.GatewayConfig
	ServiceKey     []string `first:"" help:"Key that opens requests: from the service, or the merchant's own pair. Twice while it is replaced (docs/merchant/keys.md)." placeholder:"FILE" sep:"none"`
	ResponseKey    []string `first:"" help:"Public key of the service that seals answers; the service key if empty. A second one is for the second service key." placeholder:"FILE" sep:"none"`
	OAEP           bool     `first:"" name:"oaep" help:"Requests are padded with OAEP (the merchant made the pair)."`
	APIKey         secret   `first:"" name:"api-key" help:"The merchant's apiKey in every response, or @FILE." placeholder:"KEY"`
	CallbackAPIKey []secret `first:"" name:"callback-api-key" help:"X-API-KEY of the service's requests, or @FILE. Twice while it changes. Required if the merchant made the pair; without it otherwise not checked." placeholder:"KEY" sep:"none"`
	providerFlags
	PolicyFile        string   `first:"" name:"policy" help:"TOML file of rules; without it only exact orders are confirmed." type:"path" placeholder:"FILE"`
	ForwardURL        string   `first:"" name:"forward-url" help:"URL that each deposit and event is posted to, signed, until the answer is 2xx. http only on this machine; @FILE if its path is a secret." placeholder:"URL"`
	VerifyURL         string   `name:"verify-url" help:"URL of the merchant's own check, asked before a deposit counts (docs/merchant/verify.md)." placeholder:"URL"`
	ServiceSigningKey []string `help:"The service's signing key, which must have signed every callback. Twice while it is replaced." placeholder:"FILE" sep:"none"`
	PublicURL         string   `name:"public-url" help:"Beginning of the URLs that the service calls, such as https://pay.example.com. For --service-signing-key." placeholder:"URL"`
	daemonFlags
	NotifyPath     string        `help:"Path of callbacks of every type but 2." default:"/callbacks/notify" placeholder:"PATH"`
	WithdrawPath   string        `help:"Path of callbacks of type 2." default:"/callbacks/withdraw" placeholder:"PATH"`
	ForwardOnlyNew bool          `help:"Post only what comes after the first start."`
	ForwardSecret  secret        `help:"Secret that signs what is forwarded: whsec_ and Base64, or @FILE. The application needs it too." placeholder:"SECRET"`
	VerifyFor      time.Duration `help:"How long an unverified deposit is held before it is refused, with an alarm." default:"24h" placeholder:"TIME"`
	VerifySecret   secret        `help:"Secret that signs questions to --verify-url, like --forward-secret." placeholder:"SECRET"`
}

func (c *gatewayCmd) Run(std streams) error {
	log := c.logger(std.err)
	config := &c.GatewayConfig
	var err error
	if config.Callbacks, err = c.callbacks(std); err != nil {
		return err
	}
	if config.Policy, err = c.policy(log); err != nil {
		return err
	}
	if config.Forward, err = c.forwarding(); err != nil {
		return err
	}
	if config.Verify, err = c.verifying(); err != nil {
		return err
	}
	config.TakeAddresses = c.NewAddress == "take"
	if config.Grace = c.OrderGrace; config.Grace <= 0 {
		config.Grace = -1 // 0 would be the default
	}
	used, err := c.complete(&config.Common, std, "gateway", c.Data, log)
	if err != nil {
		return err
	}
	g, err := daemon.NewGateway(*config)
	if err != nil {
		return explainStart(err)
	}
	return c.run(std, g, log, func() {
		used()
		if len(config.Callbacks.CallbackAPIKeys) == 0 {
			log.Warn("X-API-KEY is not checked: everybody who reaches the callback address reads the apiKey in the response, costs RSA operations " +
				"and can post recorded callbacks again; see --callback-api-key")
		}
		if asks := c.Provider != "countersign" && config.Policy.MayAsk(); (asks || config.Verify.URL != "") &&
			!config.Callbacks.Profile.CanHold() {
			log.Warn("the policy or --verify-url can have this provider told to ask again, which it may take for a refusal; if it asks again, set --hold ask or --hold-code",
				"time", c.HoldWait.String())
		}
		log.Info("serving", "callbacks", g.CallbackURL(), "api", g.URL(), "notify", c.NotifyPath, "withdraw", c.WithdrawPath,
			"provider", c.Provider, "binding", config.Callbacks.Profile.Binding.String(), "database", g.Dialect(), "version",
			daemon.Version, "data", c.Data)
	})
}

// callbacks reads the configuration of the public handler.
func (c *gatewayCmd) callbacks(std streams) (m merchant.Config, err error) {
	switch {
	case len(c.ServiceKey) == 0:
		return m, &hintedError{errors.New("--service-key is missing"),
			[]string{"it is the file with the public key that the service handed over, or with the pair that you made for it (countersign keys new)."}}
	case c.APIKey == "":
		return m, errors.New("--api-key is missing: it goes into every response")
	}
	if err := c.readKeys(&m, std); err != nil {
		return m, err
	}
	m.Padding = paddingOf(c.OAEP)
	apiKey, err := c.APIKey.reveal("api-key")
	if err != nil {
		return m, err
	}
	m.APIKey = countersign.APIKey(apiKey)
	for _, k := range c.CallbackAPIKey {
		text, err := k.reveal("callback-api-key")
		if err != nil {
			return m, err
		}
		m.CallbackAPIKeys = append(m.CallbackAPIKeys, countersign.APIKey(text))
	}
	if m.Key.HasPrivate() && m.ResponseKey == nil {
		return m, &hintedError{errors.New("--service-key: that is a private key"), []string{
			"a service of this project hands over the public part of its pair, in service.b64: give that.",
			"if you made the pair, --response-key is missing: the file response.b64 of merchants add --out, or responsePublicKey in the service's reply.",
		}}
	}
	if m.Key.HasPrivate() && len(m.CallbackAPIKeys) == 0 {
		return m, &hintedError{errors.New("--callback-api-key is missing: with a pair that the merchant made, every holder of its public part can forge callbacks"),
			[]string{"it is the X-API-KEY that the service sends (callbackApiKey of the merchant there), and tells the service from others."}}
	}
	m.NotifyPath, m.WithdrawPath = c.NotifyPath, c.WithdrawPath
	m.Profile, err = c.profile()
	return m, err
}

// readKeys reads the keys for requests, for answers and for the service's signatures.
func (c *gatewayCmd) readKeys(m *merchant.Config, std streams) error {
	if len(c.ResponseKey) > len(c.ServiceKey) {
		return errors.New("--response-key is given more often than --service-key: each answers what one service key opened")
	}
	key := func(flag, file string) (k *envelope.Key, err error) {
		if k, err = readSecretKey(file, std); err == nil && flag == "response-key" && k.HasPrivate() {
			err = errors.New("that is a private key: give the public part, which the service hands over")
		}
		if err != nil {
			err = fmt.Errorf("--%s: %w", flag, err)
		}
		return k, err
	}
	signer := func(flag, file string) (*envelope.SigningKey, error) { return readSigner(flag, "@"+file, false) }
	if err := readTwice("service-key", c.ServiceKey, key, &m.Key, &m.NextKey); err != nil {
		return err
	}
	if err := readTwice("response-key", c.ResponseKey, key, &m.ResponseKey, &m.NextResponseKey); err != nil {
		return err
	}
	if err := readTwice("service-signing-key", c.ServiceSigningKey, signer, &m.ServiceSigner,
		&m.NextServiceSigner); err != nil {
		return err
	}
	if m.PublicURL = c.PublicURL; c.PublicURL == "" && m.ServiceSigner != nil {
		return errors.New("--service-signing-key needs --public-url: what the service has before the paths of callbacks, such as https://pay.example.com")
	}
	return nil
}

// readTwice reads the one or two keys of a flag.
func readTwice[K any](flag string, files []string, read func(flag, file string) (K, error), now, next *K) (err error) {
	if len(files) > 2 {
		return fmt.Errorf("--%s is given more than twice: give the old key and the new one", flag)
	}
	for i, file := range files {
		if *[]*K{now, next}[i], err = read(flag, file); err != nil {
			return err
		}
	}
	return nil
}

func (c *gatewayCmd) policy(log *slog.Logger) (*policy.Rules, error) {
	if c.PolicyFile == "" {
		return policy.ExactOrders(), nil
	}
	p, exposed := readPolicy(c.PolicyFile)
	if p == nil {
		return nil, fmt.Errorf("--policy: %w", exposed)
	}
	if exposed != nil {
		log.Warn("others can read the limits in the policy file, or change them", "policy", exposed.Error())
	}
	return p, nil
}

func (c *gatewayCmd) forwarding() (f gateway.Forwarding, err error) {
	if c.ForwardURL == "" {
		if c.ForwardOnlyNew {
			return f, errors.New("--forward-only-new: there is no --forward-url, so nothing is forwarded")
		}
		return f, nil
	}
	f.OnlyNew = c.ForwardOnlyNew
	if f.URL, err = secret(c.ForwardURL).reveal("forward-url"); err != nil {
		return f, err
	}
	f.Secret, err = signingSecret("forward-secret", c.ForwardSecret, true)
	return f, err
}

func (c *gatewayCmd) verifying() (v gateway.Verifying, err error) {
	if c.VerifyURL == "" {
		return v, nil
	}
	if c.VerifyFor <= 0 {
		return v, errors.New("--verify-for must be above 0")
	}
	v.URL, v.For = c.VerifyURL, c.VerifyFor
	v.Secret, err = signingSecret("verify-secret", c.VerifySecret, true)
	return v, err
}

// providerFlags describe the service at the other end (PROTOCOL.md, Profiles), a group of the help. An empty one has
// the value of Provider.
type providerFlags struct {
	Provider     string        `first:"" group:"profile" help:"countersign: a service of this project; other: any other, which this group describes." enum:"countersign,other" default:"countersign"`
	Binding      string        `group:"profile" help:"required: only bound requests pass; seen: broken ones are refused; off: not checked. Empty: required, or seen for another provider." enum:",required,seen,off" default:""`
	Lenient      *bool         `group:"profile" help:"Accept requests that leave out members without effect, or write them in another form. On with --provider other." negatable:""`
	APIKeyHeader string        `name:"api-key-header" group:"profile" help:"Header of the callback API key." default:"X-API-KEY" placeholder:"NAME"`
	BodyField    string        `group:"profile" help:"Form field or JSON member with the sealed body, if it is not the whole body." default:"data" placeholder:"NAME"`
	Hold         string        `group:"profile" help:"Answer about a withdrawal whose order is unknown or waits for a person. ask: ask again; wait: keep the exchange open. Empty: ask, or wait with --provider other." enum:",ask,wait" default:""`
	HoldWait     time.Duration `group:"profile" help:"How long --hold wait keeps the exchange open: at most 90s, and less than the service waits." default:"8s" placeholder:"TIME"`
	HoldCode     int64         `group:"profile" help:"errCode that asks again; 3001 or 3002 if 0." default:"0" placeholder:"CODE"`
	RefuseCode   int64         `group:"profile" help:"errCode that refuses; 2001 to 2005 if 0." default:"0" placeholder:"CODE"`
	RetryCode    int64         `group:"profile" help:"errCode for what was not understood or failed; 1001 to 1004 or 5000 if 0." default:"0" placeholder:"CODE"`
	NewAddress   string        `group:"profile" help:"What a user's replaced deposit address does. hold: it waits for a person (docs/merchant/README.md); take: it counts at once." enum:"hold,take" default:"hold"`
	OrderGrace   time.Duration `name:"grace" group:"profile" help:"How long a withdrawal with an unknown order is held, then refused." default:"30s" placeholder:"TIME"`
}

// profile returns the profile that the flags define.
func (f providerFlags) profile() (p merchant.Profile, err error) {
	if f.Provider == "other" {
		p = merchant.OtherProvider()
	}
	if f.Binding != "" {
		if p.Binding, err = merchant.ParseBinding(f.Binding); err != nil {
			return p, err
		}
	}
	if f.Lenient != nil {
		p.Lenient = *f.Lenient
	}
	if f.Hold != "" {
		if p.Hold, err = merchant.ParseHold(f.Hold); err != nil {
			return p, err
		}
	}
	p.Header, p.BodyField, p.Wait = f.APIKeyHeader, f.BodyField, f.HoldWait
	p.HoldCode, p.RefuseCode, p.RetryCode = countersign.ErrCode(f.HoldCode), countersign.ErrCode(f.RefuseCode),
		countersign.ErrCode(f.RetryCode)
	return p, nil
}
