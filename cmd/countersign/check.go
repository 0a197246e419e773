package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"countersign"
	"countersign/conformance"
	"countersign/envelope"
	"countersign/internal/cli"
)

type checkCmd struct {
	NotifyURL   string `name:"notify-url" help:"Where every type but 2 goes." placeholder:"URL"`
	WithdrawURL string `name:"withdraw-url" help:"Where type 2 goes." placeholder:"URL"`

	Key          string `help:"The service's part of the key. Without it a pair is made, and the endpoint must be given its public part." placeholder:"FILE"`
	Out          string `help:"Directory for a pair that is made." default:"countersign-check" type:"path" placeholder:"DIR"`
	ResponseKey  string `help:"Private key that opens answers, where that is another." placeholder:"FILE"`
	OAEP         bool   `name:"oaep" help:"Requests are sealed with OAEP, and --key is the merchant's public key."`
	ResponseOAEP bool   `name:"response-oaep" help:"Answers are sealed with OAEP."`
	Unbound      bool   `help:"Check as a service that does not bind its requests."`
	Provider     string `help:"Check as which service. countersign: one of this project; other: any other, which does not bind, leaves members out and has other forms of them. Give another --order for each." enum:"countersign,other" default:"countersign"`
	Ordered      bool   `help:"Check as a service that is given the details of every withdrawal, and need not take them from answers."`

	APIKey         cli.Secret `name:"api-key" help:"The merchant's API key, which every response must carry; @FILE reads it." placeholder:"VALUE"`
	CallbackAPIKey cli.Secret `name:"callback-api-key" help:"What is sent as X-API-KEY; @FILE reads it. Without it there is no header." placeholder:"VALUE"`

	Order          string `help:"JSON file of a withdrawal that the endpoint knows: callBackId, tenantUserId, address, chainName, symbol, amount." placeholder:"FILE"`
	User           string `help:"A tenantUserId that the endpoint knows; that of the order if empty." placeholder:"ID"`
	DepositAddress string `help:"An address where deposits of that user go; made-up ones if empty." placeholder:"ADDRESS"`

	Effects     string        `help:"Shell command that prints what the application credited for deposits: a line a credit, the trackingId and the amount. It may print all credits; the trackingIds that are asked for are in TRACKING_IDS, separated by spaces." placeholder:"COMMAND"`
	EffectsWait time.Duration `help:"How long after the answer a deposit may be credited." default:"5s"`
	Restart     string        `help:"Shell command that kills the endpoint (SIGKILL, no orderly end) and starts it again with its data; it may leave it in the background." placeholder:"COMMAND"`

	Cases    string        `name:"run" help:"Run only the cases whose number or name matches." placeholder:"REGEXP"`
	List     bool          `help:"List the cases and run none."`
	JSON     bool          `name:"json" help:"Write the results as one JSON object."`
	JUnit    string        `name:"junit" help:"Write the results as JUnit XML, too." type:"path" placeholder:"FILE"`
	Timeout  time.Duration `help:"How long one exchange may take. 0: 15s, or 40s for another provider." default:"0s"`
	Waits    time.Duration `name:"service-waits" help:"How long the service waits for an answer (its --exchange-timeout); a slower endpoint is warned about. 0: 15s, or not known for another provider." default:"0s"`
	SlowBody time.Duration `help:"How long the endpoint may wait for the rest of a body." default:"30s"`

	YesPublic bool `env:"-" help:"Send to addresses outside this machine and private networks. Only to endpoints that are yours."`
}

// Help is the long help of the subcommand.
func (checkCmd) Help() string {
	return "Plays the service against a merchant's endpoint, right and wrong, and holds each response to one rule of PROTOCOL.md. " +
		"Use a test system: the endpoint takes deposits from it and confirms the order. " +
		"Each case has a severity. must: money can be lost or a stranger can get in, or callbacks never settle. should: advice. " +
		"Exit status 1 if a case of must fails. Every failure says what was sent, what came back and what to fix."
}

// Validate is called by kong; what it refuses is a usage error.
func (c *checkCmd) Validate() error {
	if _, err := regexp.Compile(c.Cases); err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	if c.List {
		return nil
	}
	for _, f := range []struct{ name, value string }{{"notify-url", c.NotifyURL}, {"withdraw-url", c.WithdrawURL}} {
		if f.value == "" {
			return fmt.Errorf("--%s is missing", f.name)
		}
		if u, err := url.Parse(f.value); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			return fmt.Errorf("--%s is not an absolute http or https URL", f.name)
		}
	}
	switch {
	case c.APIKey == "":
		return errors.New("--api-key is missing")
	case c.NotifyURL == c.WithdrawURL:
		return errors.New("--withdraw-url must differ from --notify-url: type 2 has a URL of its own")
	case c.OAEP && c.Key == "":
		return errors.New("--oaep needs --key, the merchant's public key")
	case c.OAEP && c.ResponseKey == "":
		return errors.New("--oaep needs --response-key, the private key that opens answers")
	case c.EffectsWait <= 0:
		return errors.New("--effects-wait must be above 0")
	case c.Timeout < 0 || c.Waits < 0 || c.SlowBody <= 0:
		return errors.New("--timeout and --service-waits must not be below 0, and --slow-body must be above 0")
	}
	return nil
}

var errCasesFailed = errors.New("the endpoint does not pass")

func (c *checkCmd) Run(std streams) error {
	only := regexp.MustCompile(c.Cases) // compiled before, by Validate
	chosen := func(k conformance.Case) bool {
		return only.MatchString(k.Name) || only.MatchString(strconv.Itoa(k.Number))
	}
	if c.List {
		return c.list(std, chosen)
	}
	config, err := c.config(std)
	if err != nil {
		return err
	}
	config.Only = chosen
	checker, err := conformance.New(config)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if config.Effects != nil { // a command that fails is said once, and not once a case
		if _, err := config.Effects(ctx, nil); err != nil {
			return err
		}
	}
	printer := conformance.Printer{Out: std.out, Colour: paints(std.out)}
	var results []conformance.Result
	began := time.Now()
	sum, err := checker.Run(ctx, func(r conformance.Result) {
		if results = append(results, r); !c.JSON {
			printer.Result(r)
		}
	})
	switch {
	case err != nil && len(results) == 0:
		return explainRun(err)
	case c.JSON:
		_ = conformance.WriteJSON(std.out, sum, results)
	default:
		printer.Summary(sum, time.Since(began))
	}
	if c.JUnit != "" {
		var suite bytes.Buffer
		if err := errors.Join(conformance.WriteJUnit(&suite, results), os.WriteFile(c.JUnit, suite.Bytes(), 0o644)); err != nil {
			return fmt.Errorf("--junit: %w", err)
		}
	}
	switch {
	case err != nil:
		return errors.New("stopped before the last case")
	case sum.Failed > 0:
		return errCasesFailed
	case sum.Passed+sum.Advised == 0:
		return errors.New("no case was run: see --list for their names")
	}
	return nil
}

// list prints the chosen cases.
func (c *checkCmd) list(std streams, chosen func(conformance.Case) bool) error {
	cases := slices.DeleteFunc(slices.Clone(conformance.Cases()), func(k conformance.Case) bool { return !chosen(k) })
	if c.JSON {
		return printJSON(std.out, cases, "  ")
	}
	for _, k := range cases {
		conformance.Printer{Out: std.out}.Case(k)
	}
	return nil
}

// paints says whether w is a terminal that wants colour (no-color.org).
func paints(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(w)
}

// explainRun says what to try where nothing could be sent.
func explainRun(err error) error {
	switch {
	case errors.Is(err, conformance.ErrPublicAddress):
		return &hintedError{err, []string{"nothing was sent. With --yes-public it is sent all the same; do that only with an endpoint of your own, made for tests."}}
	case errors.Is(err, conformance.ErrUnreachable):
		return &hintedError{err, []string{"start the endpoint first, and compare --notify-url and --withdraw-url with where it listens."}}
	}
	return err
}

func (c *checkCmd) config(std streams) (conformance.Config, error) {
	config := conformance.Config{
		NotifyURL: c.NotifyURL, WithdrawURL: c.WithdrawURL, User: c.User, DepositAddress: c.DepositAddress,
		Unbound: c.Unbound, Other: c.Provider == "other", Ordered: c.Ordered, AllowPublic: c.YesPublic, Timeout: c.Timeout, SlowBody: c.SlowBody, Waits: c.Waits,
	}
	for _, s := range []struct {
		name string
		flag cli.Secret
		to   *countersign.APIKey
	}{{"api-key", c.APIKey, &config.APIKey}, {"callback-api-key", c.CallbackAPIKey, &config.CallbackAPIKey}} {
		text, err := s.flag.Reveal(s.name)
		if err != nil {
			return config, err
		}
		*s.to = countersign.APIKey(text)
	}
	if c.Order != "" {
		data, err := os.ReadFile(c.Order)
		if err != nil {
			return config, fmt.Errorf("--order: %w", err)
		}
		var order conformance.Order
		if err := json.Unmarshal(data, &order); err != nil {
			return config, fmt.Errorf("--order: %s: %w", c.Order, err)
		}
		config.Order = &order
	}
	config.EffectsWait = c.EffectsWait
	if c.Effects != "" {
		config.Effects = effectsBy(c.Effects)
	}
	if c.Restart != "" {
		config.Restart = restartBy(c.Restart)
	}
	var err error
	if c.ResponseKey != "" {
		if config.ResponseKey, err = readKey(c.ResponseKey, std); err != nil {
			return config, err
		}
	}
	if c.OAEP {
		config.Padding = envelope.OAEP
	}
	if c.ResponseOAEP {
		config.ResponsePadding = envelope.OAEP
	}
	if c.Key == "" {
		config.Key, err = c.freshKey(std)
		return config, err
	}
	if config.Key, err = readKey(c.Key, std); err != nil {
		return config, err
	}
	if !config.Key.HasPrivate() && config.ResponseKey == nil {
		return config, &hintedError{errors.New("--key has no private part"), []string{
			"the service's part is wanted here, private.pem as a rule; the endpoint holds the public part.",
			"in the schemes where the merchant makes the pair, give its public key here and your own private key with --response-key.",
		}}
	}
	return config, nil
}

// freshKey makes a pair and waits until somebody has given the endpoint its
// public part.
func (c *checkCmd) freshKey(std streams) (*envelope.Key, error) {
	made := streams{in: std.in, out: std.err, err: std.err}
	if err := (&keysNewCmd{Bits: 2048, Out: c.Out}).Run(made); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, &hintedError{err, []string{"run the check with --key " + filepath.Join(c.Out, "private.pem") + ", or give another --out."}}
		}
		return nil, err
	}
	fmt.Fprintf(std.err, "\nGive the endpoint %s as the service's key, and then press Enter.\n", filepath.Join(c.Out, "public.b64"))
	if _, err := bufio.NewReader(std.in).ReadString('\n'); err != nil {
		return nil, &hintedError{errors.New("nothing was checked yet"), []string{
			"install the public key, and run the check with --key " + filepath.Join(c.Out, "private.pem") + "."}}
	}
	return readKey(filepath.Join(c.Out, "private.pem"), std)
}
