package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"countersign/client"
	"countersign/conformance"
)

type checkCmd struct {
	NotifyURL   string `name:"notify-url" help:"URL for callbacks of every type but 2." placeholder:"URL"`
	WithdrawURL string `name:"withdraw-url" help:"URL for callbacks of type 2." placeholder:"URL"`

	Profile string `help:"Rules to check. interface: only the published interface; countersign: all of PROTOCOL.md." enum:"interface,countersign" default:"countersign"`
	Unbound bool   `help:"Play a service that does not bind its requests."`
	serviceFlags

	Order          string `help:"JSON file of a withdrawal that the endpoint knows: callBackId, tenantUserId, address, chainName, symbol, amount." placeholder:"FILE"`
	User           string `help:"A tenantUserId that the endpoint knows. Empty: the order's." placeholder:"ID"`
	DepositAddress string `help:"A deposit address of that user. Empty: made-up addresses." placeholder:"ADDRESS"`

	Effects     string        `help:"Shell command that prints what the application credited for deposits: a line a credit, the trackingId and the amount. It may print all credits; the trackingIds that are asked for are in TRACKING_IDS, separated by spaces." placeholder:"COMMAND"`
	EffectsWait time.Duration `help:"How long after the answer a deposit may be credited." default:"5s"`
	Restart     string        `help:"Shell command that kills the endpoint (SIGKILL, no orderly end) and starts it again with its data; it may leave it in the background." placeholder:"COMMAND"`

	Cases string `name:"run" help:"Run only the cases whose number or name matches." placeholder:"REGEXP"`
	List  bool   `help:"List the cases and run none."`
	JSON  bool   `name:"json" help:"Write the results as one JSON object."`
}

// Help is the long help of the subcommand.
func (checkCmd) Help() string {
	return "Plays the service against a merchant's endpoint, right and wrong, and holds each response to one rule of PROTOCOL.md. " +
		"Use a test system: the endpoint takes deposits from it and confirms the order. " +
		"Each case has a severity. must: money can be lost or a stranger can get in, or callbacks never settle. should: advice. " +
		"With --profile interface only the cases of the published interface count; those on which money depends run as advice. " +
		"Exit status 1 if a case of must fails. Every failure says what was sent, what came back and what to fix."
}

// Validate is called by kong. Its errors are usage errors.
func (c *checkCmd) Validate() error {
	if _, err := regexp.Compile(c.Cases); err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	if c.List {
		return nil
	}
	switch {
	case c.NotifyURL == "":
		return errors.New("--notify-url is missing")
	case c.WithdrawURL == "":
		return errors.New("--withdraw-url is missing")
	case c.APIKey == "" && c.Key != "":
		return errors.New("--api-key is missing")
	case c.NotifyURL == c.WithdrawURL:
		return errors.New("--withdraw-url must differ from --notify-url: type 2 has a URL of its own")
	case c.EffectsWait <= 0:
		return errors.New("--effects-wait must be above 0")
	}
	return c.validate()
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
	printer := conformance.Printer{Out: std.out}
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
		_ = printJSON(std.out, struct {
			Summary conformance.Summary  `json:"summary"`
			Results []conformance.Result `json:"results"`
		}{sum, results}, "  ")
	default:
		printer.Summary(sum, time.Since(began))
	}
	switch {
	case err != nil:
		return errors.New("stopped before the last case")
	case sum.Failed > 0:
		return errCasesFailed
	case sum.Passed+sum.Advised == 0:
		return errors.New("no case was run: --list shows their names")
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

// explainRun adds what to try if nothing could be sent.
func explainRun(err error) error {
	switch {
	case errors.Is(err, conformance.ErrPublicAddress):
		return &hintedError{err, []string{"nothing was sent. With --yes-public it is sent all the same; do that only with an endpoint of your own, made for tests."}}
	case errors.Is(err, conformance.ErrUnreachable):
		return &hintedError{err, []string{"start the endpoint first, and compare the URL with where it listens."}}
	}
	return err
}

func (c *checkCmd) config(std streams) (conformance.Config, error) {
	var order *client.NewOrder
	if c.Order != "" {
		data, err := os.ReadFile(c.Order)
		if err != nil {
			return conformance.Config{}, fmt.Errorf("--order: %w", err)
		}
		if err := json.Unmarshal(data, &order); err != nil {
			return conformance.Config{}, fmt.Errorf("--order: %s: %w", c.Order, err)
		}
	}
	config, err := c.asService(std)
	if err != nil {
		return config, err
	}
	config.NotifyURL, config.WithdrawURL, config.User, config.DepositAddress = c.NotifyURL, c.WithdrawURL, c.User,
		c.DepositAddress
	config.Order, config.Unbound, config.Interface, config.EffectsWait = order, c.Unbound, c.Profile == "interface",
		c.EffectsWait
	if c.Effects != "" {
		config.Effects = effectsBy(c.Effects)
	}
	if c.Restart != "" {
		config.Restart = restartBy(c.Restart)
	}
	return config, nil
}

// commandWait bounds one run of --effects or --restart.
const commandWait = 2 * time.Minute

// effectsBy reads credits by the shell command of --effects.
func effectsBy(command string) func(context.Context, []string) ([]conformance.Credit, error) {
	return func(ctx context.Context, trackingIDs []string) (credits []conformance.Credit, err error) {
		err = runShell(ctx, command, func(cmd *exec.Cmd) error {
			cmd.Env = append(os.Environ(), "TRACKING_IDS="+strings.Join(trackingIDs, " "))
			out, err := cmd.Output()
			credits = conformance.ParseCredits(string(out))
			return err
		})
		if err != nil {
			err = fmt.Errorf("--effects: %w", err)
		}
		return credits, err
	}
}

// restartBy kills and starts the endpoint by the shell command of --restart.
func restartBy(command string) func(context.Context) error {
	return func(ctx context.Context) error {
		// No pipe: an endpoint that the command leaves running would hold it open, and would end with it.
		said, err := os.CreateTemp("", "countersign-check-*")
		if err != nil {
			return err
		}
		err = runShell(ctx, command, func(cmd *exec.Cmd) error {
			cmd.Stderr = said
			err := cmd.Run()
			if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
				failed.Stderr, _ = os.ReadFile(said.Name())
			}
			return err
		})
		if err = errors.Join(err, said.Close(), os.Remove(said.Name())); err != nil {
			err = fmt.Errorf("--restart: %w", err)
		}
		return err
	}
}

// runShell runs a shell command.
func runShell(ctx context.Context, command string, run func(*exec.Cmd) error) error {
	ctx, cancel := context.WithTimeout(ctx, commandWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.WaitDelay = time.Second // for what it has started, when it is killed
	err := run(cmd)
	var failed *exec.ExitError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("the command did not end within %v", commandWait)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &failed):
		return fmt.Errorf("the command failed (%w): %s", err, onTerminal(string(bytes.TrimSpace(failed.Stderr))))
	}
	return err
}
