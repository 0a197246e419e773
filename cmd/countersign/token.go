package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"countersign/client"
	"countersign/internal/cli"
	"countersign/internal/daemon"
)

type tokenNewCmd struct {
	cli.Either
	Name     string      `arg:"" help:"Whose token it is."`
	Role     client.Role `required:"" help:"viewer reads; approver decides on what others propose; admin does all. Of the service: ingest adds deposits; core is the wallet core: deposits, withdrawals, decisions; operator makes merchants, proposes changes, pauses, resends. Of the gateway: app is the merchant's application: orders, feeds." enum:"viewer,ingest,core,operator,app,approver,admin" placeholder:"ROLE"`
	Merchant []string    `help:"Bind it to this merchant of the service: for it there is no other. May be given several times." placeholder:"ID" env:"-"`
	Expires  string      `help:"When it ends: after a time such as 12h or 90d, or at one such as 2027-01-31T00:00:00Z. Never if empty." placeholder:"TIME" env:"-"`
	Out      string      `help:"Write the secret to this new file, for its owner alone, and do not print it." type:"path" placeholder:"FILE"`
}

func (c *tokenNewCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	if c.Out != "" {
		if _, err := os.Lstat(c.Out); err == nil {
			return fmt.Errorf("--out: %s exists and is not overwritten", c.Out)
		}
	}
	expires, err := timeAfter(c.Expires, time.Now())
	if err != nil {
		return fmt.Errorf("--expires: %w", err)
	}
	made, err := api.CreateToken(ctx, client.NewToken{Name: c.Name, Role: c.Role, Merchants: c.Merchant, Expires: expires})
	switch {
	case errors.Is(err, client.ErrInvalid):
		return &hintedError{err, []string{"the service has the roles viewer, ingest, core, operator, approver and admin; the gateway, with --gateway, has viewer, app, approver and admin, and one merchant."}}
	case err != nil:
		return err
	}
	tellWaiting(std, made.Change)
	switch {
	case c.Out == "" && made.Change != nil:
		return printJSON(std.out, client.Proposed{Change: *made.Change, Secret: made.Secret}, "  ")
	case c.Out == "":
		return printJSON(std.out, made, "  ")
	}
	if err := daemon.CreateFile(c.Out, []byte(made.Secret.Reveal()+"\n"), 0o600); err != nil {
		return errors.Join(fmt.Errorf("--out: %w", err), undo(ctx, api, made)) // nobody has the secret
	}
	if made.Change != nil {
		return printJSON(std.out, made.Change, "  ")
	}
	return printJSON(std.out, made.Token, "  ")
}

// timeAfter reads a time, or a span after now with days as another unit; 0 for nothing.
func timeAfter(text string, now time.Time) (client.Time, error) {
	if text == "" {
		return 0, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return client.TimeOf(at), nil
	}
	span, ok := client.Span(text)
	if !ok {
		return 0, fmt.Errorf("%q is neither a time after now, such as 12h or 90d, nor one such as 2027-01-31T00:00:00Z", text)
	}
	return client.TimeOf(now.Add(span)), nil
}

// undo ends a token that was made, or the change that would make it.
func undo(ctx context.Context, api *client.Service, made client.CreatedToken) error {
	if made.Change != nil {
		_, err := api.RejectChange(ctx, made.Change.ID, "its secret was lost")
		return err
	}
	_, err := api.RevokeToken(ctx, made.ID)
	return err
}
