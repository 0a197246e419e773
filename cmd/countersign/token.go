package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"countersign/client"
	"countersign/internal/daemon"
)

// tokenCmd asks either end with client.NewService: both have the same calls for
// tokens.
type tokenCmd struct {
	New    tokenNewCmd    `cmd:"" help:"Make a token. Its secret is shown once, or written to a file."`
	List   tokenListCmd   `cmd:"" help:"List tokens, revoked ones too."`
	Revoke tokenRevokeCmd `cmd:"" help:"Revoke a token."`
}

type tokenNewCmd struct {
	eitherEnd
	Name string      `arg:"" help:"Whose token it is."`
	Role client.Role `required:"" help:"viewer reads; operator does all. Of the service: ingest is the wallet core: deposits, withdrawals, decisions. Of the gateway: app is the merchant's application: orders, feeds." enum:"viewer,ingest,app,operator" placeholder:"ROLE"`
	Out  string      `help:"Write the secret to this new file, for its owner alone, and do not print it." type:"path" placeholder:"FILE"`
}

func (c *tokenNewCmd) Run(std streams) error {
	if c.Out != "" {
		if _, err := os.Lstat(c.Out); err == nil {
			return fmt.Errorf("--out: %s exists and is not overwritten", c.Out)
		}
	}
	return ask(c.apiFlags, client.NewService, func(ctx context.Context, api *client.Service) error {
		made, err := api.CreateToken(ctx, client.NewToken{Name: c.Name, Role: c.Role})
		switch {
		case errors.Is(err, client.ErrInvalid):
			return &hintedError{err, []string{"the service has the roles viewer, ingest and operator; the gateway, with --gateway, has viewer, app and operator."}}
		case err != nil:
			return err
		case c.Out == "":
			return printJSON(std.out, made, "  ")
		}
		if err := daemon.CreateFile(c.Out, []byte(made.Secret.Reveal()+"\n"), 0o600); err != nil {
			return errors.Join(fmt.Errorf("--out: %w", err), api.RevokeToken(ctx, made.ID)) // nobody has the secret
		}
		return printJSON(std.out, made.Token, "  ")
	})
}

type tokenListCmd struct{ eitherEnd }

func (c *tokenListCmd) Run(std streams) error {
	return show(std, c.apiFlags, client.NewService, func(ctx context.Context, api *client.Service) ([]client.Token, error) {
		return api.Tokens(ctx)
	})
}

type tokenRevokeCmd struct {
	eitherEnd
	ID string `arg:"" help:"The token's id, not its secret."`
}

func (c *tokenRevokeCmd) Run(std streams) error {
	return ask(c.apiFlags, client.NewService, func(ctx context.Context, api *client.Service) error {
		if err := api.RevokeToken(ctx, c.ID); err != nil {
			return err
		}
		_, err := fmt.Fprintf(std.out, "revoked %s\n", c.ID)
		return err
	})
}
