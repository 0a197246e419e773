package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"countersign/client"
	"countersign/internal/daemon"
)

type merchantsAddCmd struct {
	apiFlags
	ID             string        `arg:"" help:"1 to 64 of a-z, 0-9, _ and -."`
	NotifyURL      string        `required:"" name:"notify-url" help:"Where callbacks of every type but 2 go." placeholder:"URL"`
	WithdrawURL    string        `required:"" name:"withdraw-url" help:"Where callbacks of type 2 go. It must differ from the notify URL." placeholder:"URL"`
	Name           string        `help:"Name for people; the id if empty."`
	APIKey         secretText    `name:"api-key" help:"What the merchant's responses carry, or @FILE; made if empty." placeholder:"KEY"`
	CallbackAPIKey secretText    `name:"callback-api-key" help:"What is sent as X-API-KEY, or @FILE." placeholder:"KEY"`
	Scheme         client.Scheme `help:"Who made the pair that requests are sealed with: service, merchant or merchant-oaep." enum:"service,merchant,merchant-oaep" default:"service"`
	Bits           int           `help:"Size of a new pair; 2048 if 0, and 1024 only for old peers." placeholder:"BITS"`
	PrivateKey     string        `help:"File with the pair to use in place of a new one (scheme service)." placeholder:"FILE"`
	PublicKey      string        `help:"File with the merchant's public key (the other schemes)." placeholder:"FILE"`
	ResponseBits   int           `name:"response-key-bits" help:"Size of a new pair for answers, apart from that of requests: 2048 or more; recommended. None if 0, except in the schemes where the merchant makes the pair: 2048." placeholder:"BITS"`
	Collect        string        `help:"What an answer must show where the service was not given the details of a withdrawal: bound (the details belong to it), or any, which lets a thief of answers put other details in." enum:"bound,any" default:"bound"`
	Concurrency    int           `help:"Exchanges at once in each lane; the service's default if 0." placeholder:"N"`
	Rate           float64       `help:"Callbacks a second in each lane; no limit if 0." placeholder:"N"`
	ConfirmWithin  time.Duration `help:"How long a withdrawal awaits its confirmation; 1h if 0." placeholder:"TIME"`
	ReleaseWithin  time.Duration `help:"How long a confirmed withdrawal can be released before it lapses; 72h if 0." placeholder:"TIME"`
	Out            string        `help:"Directory for what the merchant needs: service.b64, api.key and merchant.json; made if missing. Nothing in it is overwritten. Without it all is printed." type:"path" placeholder:"DIR"`
}

func (c *merchantsAddCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	in := client.NewMerchant{
		ID: c.ID, Name: c.Name, NotifyURL: c.NotifyURL, WithdrawURL: c.WithdrawURL, Scheme: c.Scheme,
		Collect: client.Collect(c.Collect), Concurrency: c.Concurrency, RatePerSecond: c.Rate, ConfirmWithin: client.Duration(c.ConfirmWithin),
		ReleaseWithin: client.Duration(c.ReleaseWithin),
	}
	if in.Name == "" {
		in.Name = c.ID
	}
	apiKey, callbackKey, err := apiKeys(c.APIKey, c.CallbackAPIKey)
	if err != nil {
		return err
	}
	in.APIKey, in.CallbackAPIKey = apiKey, callbackKey
	if in.Key, err = keySpec(std, c.Bits, c.PrivateKey, c.PublicKey); err != nil {
		return err
	}
	if c.ResponseBits != 0 {
		in.ResponseKey = &client.KeySpec{Bits: c.ResponseBits}
	}
	if c.Out == "" {
		return std.show(api.CreateMerchant(ctx, in))
	}
	if err := makeHandover(c.Out); err != nil {
		return err
	}
	made, err := api.CreateMerchant(ctx, in)
	if err != nil {
		return err
	}
	if made.APIKey == "" {
		made.APIKey = in.APIKey
	}
	return handOver(std, c.Out, made)
}

// apiKeys reads the flags --api-key and --callback-api-key.
func apiKeys(api, callback secretText) (apiKey, callbackKey client.Secret, err error) {
	own, err := api.reveal("api-key")
	if err != nil {
		return "", "", err
	}
	theirs, err := callback.reveal("callback-api-key")
	return client.Secret(own), client.Secret(theirs), err
}

// keySpec gives nil where no flag says anything of keys.
func keySpec(std streams, bits int, privateFile, publicFile string) (*client.KeySpec, error) {
	if bits == 0 && privateFile == "" && publicFile == "" {
		return nil, nil
	}
	k := &client.KeySpec{Bits: bits}
	if privateFile != "" {
		b, err := daemon.ReadSecret(privateFile, maxKeyFile)
		if err != nil {
			return nil, err
		}
		k.PrivateKey = client.Secret(b)
	}
	if publicFile != "" {
		b, exposed, err := daemon.ReadOwned(publicFile, maxKeyFile)
		if err != nil {
			return nil, err
		}
		if exposed != nil {
			fmt.Fprintf(std.err, "countersign: warning: %v\n", exposed)
		}
		k.PublicKey = string(b)
	}
	return k, nil
}

// merchantID is a subcommand about one merchant.
type merchantID struct {
	apiFlags
	ID string `arg:"" help:"The merchant."`
}

type merchantsEditCmd struct {
	merchantID
	Name           *string         `help:"Name for people." env:"-"`
	NotifyURL      *string         `name:"notify-url" help:"Where callbacks of every type but 2 go." placeholder:"URL" env:"-"`
	WithdrawURL    *string         `name:"withdraw-url" help:"Where callbacks of type 2 go." placeholder:"URL" env:"-"`
	APIKey         secretText      `name:"api-key" help:"What the merchant's responses carry, or @FILE." placeholder:"KEY" env:"-"`
	CallbackAPIKey secretText      `name:"callback-api-key" help:"What is sent as X-API-KEY, or @FILE." placeholder:"KEY" env:"-"`
	Collect        *client.Collect `help:"bound or any; see merchants add." placeholder:"bound|any" env:"-"`
	Concurrency    *int            `help:"Exchanges at once in each lane." placeholder:"N" env:"-"`
	Rate           *float64        `help:"Callbacks a second in each lane." placeholder:"N" env:"-"`
	ConfirmWithin  *time.Duration  `help:"How long a withdrawal awaits its confirmation." placeholder:"TIME" env:"-"`
	ReleaseWithin  *time.Duration  `help:"How long a withdrawal that is confirmed from now on can be released before it lapses." placeholder:"TIME" env:"-"`
	Clear          []string        `help:"Set these back to their defaults: callback-api-key, collect, concurrency, rate, confirm-within, release-within." enum:"callback-api-key,collect,concurrency,rate,confirm-within,release-within" placeholder:"SETTING" env:"-"`
}

func (c *merchantsEditCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	apiKey, callbackKey, err := apiKeys(c.APIKey, c.CallbackAPIKey)
	if err != nil {
		return err
	}
	clear := func(setting string) bool { return slices.Contains(c.Clear, setting) }
	p := client.MerchantPatch{
		Name: patch(c.Name, false), NotifyURL: patch(c.NotifyURL, false), WithdrawURL: patch(c.WithdrawURL, false),
		APIKey: patch(secretOf(apiKey), false), CallbackAPIKey: patch(secretOf(callbackKey), clear("callback-api-key")),
		Collect: patch(c.Collect, clear("collect")), Concurrency: patch(c.Concurrency, clear("concurrency")),
		RatePerSecond: patch(c.Rate, clear("rate")), ConfirmWithin: patch(durationOf(c.ConfirmWithin), clear("confirm-within")),
		ReleaseWithin: patch(durationOf(c.ReleaseWithin), clear("release-within")),
	}
	return showChanged(std)(api.UpdateMerchant(ctx, c.ID, p))
}

// patch gives the member of a request that sets v, or clears it, or leaves it alone
// where v is nil.
func patch[T any](v *T, clear bool) client.Patch[T] {
	switch {
	case clear:
		return client.Clear[T]()
	case v != nil:
		return client.Change(*v)
	}
	return client.Patch[T]{}
}

func durationOf(d *time.Duration) *client.Duration {
	if d == nil {
		return nil
	}
	return new(client.Duration(*d))
}

func secretOf(s client.Secret) *client.Secret {
	if s == "" {
		return nil
	}
	return &s
}

type merchantsKeysCmd struct {
	merchantID
	merchantKeyFlags
}

// merchantKeyFlags say which RSA keys of a merchant are replaced.
type merchantKeyFlags struct {
	Bits         int    `help:"Size of the new pair; 2048 if 0." placeholder:"BITS"`
	PrivateKey   string `help:"File with the pair to use in place of a new one (scheme service)." placeholder:"FILE"`
	PublicKey    string `help:"File with the merchant's new public key (the other schemes)." placeholder:"FILE"`
	ResponseBits int    `name:"response-key-bits" help:"Make a new pair of this size for answers too. Without any other flag only this pair is made." placeholder:"BITS"`
	ResponseFile string `name:"response-private-key" help:"File with the pair for answers to use in place of a new one." placeholder:"FILE"`
}

func (f *merchantKeyFlags) keys(std streams) (in client.NewKeys, err error) {
	if in.Key, err = keySpec(std, f.Bits, f.PrivateKey, f.PublicKey); err == nil {
		in.ResponseKey, err = keySpec(std, f.ResponseBits, f.ResponseFile, "")
	}
	return in, err
}

func (c *merchantsKeysCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	in, err := c.keys(std)
	if err != nil {
		return err
	}
	keys, err := api.RotateKeys(ctx, c.ID, in)
	tellWaiting(std, keys.Change)
	return std.show(keys, err)
}
