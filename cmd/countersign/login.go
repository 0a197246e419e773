package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"time"

	"countersign/client"
	"countersign/internal/cli"
)

// signInAPI is the part of both APIs that a sign-in from the command line needs.
type signInAPI interface {
	BeginDevice(ctx context.Context) (client.DeviceBegun, error)
	FinishDevice(ctx context.Context, state string) (client.DeviceSignedIn, error)
	Self(ctx context.Context) (client.Self, error)
	SignOut(ctx context.Context) error
}

// signInClient gives a client of the end that the command line asks.
func signInClient(gateway bool, c client.Config) (signInAPI, error) {
	if gateway {
		return client.NewGateway(c)
	}
	return client.NewService(c)
}

type loginCmd struct{ cli.Either }

// Help is the long help of the subcommand.
func (loginCmd) Help() string {
	return "It shows a page of the company's identity provider and a code to enter there, and waits. The session is kept in the user's settings (countersign/sessions), for this API alone; " +
		"commands without --token and --data then act as this person. docs/signin.md has the settings."
}

func (c *loginCmd) Run(std streams) error {
	if c.Token != "" {
		return errors.New("--token: login takes no token, and with COUNTERSIGN_TOKEN set commands would not use the session: unset it")
	}
	at, err := c.Address()
	if err != nil {
		return err
	}
	config, err := c.Stranger(at)
	if err != nil {
		return err
	}
	api, err := signInClient(c.Gateway, config)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	in, err := signIn(ctx, api, std, time.Now, pause)
	if err != nil {
		return fmt.Errorf("login: %w", err)
	}
	kept := cli.Session{API: at.URL, Certificate: at.Certificate, Secret: in.Secret.Reveal(), Expires: in.Expires.Time()}
	earlier, _ := cli.KeptSession(at.URL, time.Now())
	if c.CA != "" {
		kept.Certificate = "" // the authority counts
	}
	config.Token = in.Secret
	if api, err = signInClient(c.Gateway, config); err != nil {
		return err
	}
	if err := cli.KeepSession(kept); err != nil {
		return errors.Join(fmt.Errorf("login: keeping the session: %w", err), api.SignOut(context.WithoutCancel(ctx)))
	}
	if earlier.Secret != "" { // it would go on for hours, and nobody has it any more
		config.Token = client.Secret(earlier.Secret)
		if before, err := signInClient(c.Gateway, config); err == nil {
			_ = before.SignOut(ctx)
		}
	}
	self, err := api.Self(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "signed in at %s as %s, %s, until %s at the latest; countersign logout ends it\n", at.URL, cli.Cell(self.Name), self.Role, kept.Expires.UTC().Format(time.RFC3339))
	return nil
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awayAtMost is the longest pause while the API or the provider does not answer.
const awayAtMost = time.Minute

// signIn begins a sign-in, tells the person what to do, and asks until the person has done it.
func signIn(ctx context.Context, api signInAPI, std streams, now func() time.Time, pause func(context.Context, time.Duration) error) (in client.DeviceSignedIn, err error) {
	begun, err := api.BeginDevice(ctx)
	if err != nil {
		return in, err
	}
	fmt.Fprintf(std.out, "Open %s\nand enter the code %s\n", onTerminal(begun.Page), onTerminal(begun.UserCode))
	if begun.PageWithCode != "" {
		fmt.Fprintf(std.out, "or open %s, which must show the same code\n", onTerminal(begun.PageWithCode))
	}
	interval := time.Duration(min(max(begun.Interval, 1), 60)) * time.Second
	away := interval
	for {
		wait := max(interval, away)
		if !now().Add(wait).Before(begun.Ends.Time()) {
			return in, errors.New("nobody signed in before the code ended: run countersign login again")
		}
		if err := pause(ctx, wait); err != nil {
			return in, err
		}
		in, err = api.FinishDevice(ctx, begun.State)
		switch {
		case errors.Is(err, client.ErrUnavailable):
			away = min(2*wait, awayAtMost) // RFC 8628, 3.5
		case err != nil:
			return in, err
		case in.Slower:
			interval += 5 * time.Second
			away = 0
		case in.Waits:
			away = 0
		case in.Secret == "":
			return in, errors.New("the API says neither that the person signed in nor that it waits")
		default:
			return in, nil
		}
	}
}

// onTerminal gives a text of the provider as ASCII: what a terminal would act on, or what looks
// like something else, becomes a question mark.
func onTerminal(s string) string {
	return cmp.Or(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s), "?")
}

type logoutCmd struct{ cli.Either }

func (c *logoutCmd) Run(std streams) error {
	at, err := c.Address()
	if err != nil {
		return err
	}
	s, err := cli.KeptSession(at.URL, time.Now())
	var over *cli.EndedSessionError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("nobody is signed in at %s", at.URL)
	case errors.As(err, &over):
		fmt.Fprintf(std.out, "%s\n", over)
		return cli.ForgetSession(at.URL)
	case err != nil:
		return err
	}
	at.Certificate = s.Certificate
	config, err := c.Stranger(at)
	if err != nil {
		return err
	}
	config.Token = client.Secret(s.Secret)
	api, err := signInClient(c.Gateway, config)
	if err != nil {
		return err
	}
	// The secret goes in any case: who logs out wants no command to use it.
	err = api.SignOut(context.Background())
	if errors.Is(err, client.ErrUnauthorized) {
		err = nil // it has ended
	}
	if err != nil {
		err = fmt.Errorf("the session was forgotten here, and goes on at %s until %s, since it could not be ended there: %w", at.URL, s.Expires.UTC().Format(time.RFC3339), err)
	}
	if err := errors.Join(err, cli.ForgetSession(at.URL)); err != nil {
		return err
	}
	fmt.Fprintf(std.out, "signed out at %s\n", at.URL)
	return nil
}
