package main

import (
	"context"
	"fmt"

	"countersign/client"
)

type tokenCmd struct {
	New    tokenNewCmd    `cmd:"" help:"Make a token; its secret is printed once."`
	List   tokenListCmd   `cmd:"" help:"List tokens, revoked ones too."`
	Revoke tokenRevokeCmd `cmd:"" help:"Revoke a token."`
}

type tokenNewCmd struct {
	apiFlags
	Name string      `arg:"" help:"Whose token it is."`
	Role client.Role `required:"" help:"viewer reads; ingest is the wallet core: deposits, withdrawals, decisions; operator does all." enum:"viewer,ingest,operator"`
}

func (c *tokenNewCmd) Run(std streams) error {
	return show(std, c.apiFlags, client.NewService, func(ctx context.Context, api *client.Service) (client.CreatedToken, error) {
		return api.CreateToken(ctx, client.NewToken{Name: c.Name, Role: c.Role})
	})
}

type tokenListCmd struct{ apiFlags }

func (c *tokenListCmd) Run(std streams) error {
	return show(std, c.apiFlags, client.NewService, func(ctx context.Context, api *client.Service) ([]client.Token, error) {
		return api.Tokens(ctx)
	})
}

type tokenRevokeCmd struct {
	apiFlags
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
