package main

import (
	"context"

	"countersign/client"
)

type addressesCmd struct {
	Add addressesAddCmd `cmd:"" help:"Tell a merchant that the deposit address of a user was replaced, given as a JSON object."`
}

type addressesAddCmd struct {
	apiFlags
	File string `arg:"" help:"File with the request as the API takes it; - for standard input."`
}

func (c *addressesAddCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	in, err := readJSON[client.NewAddress](c.File, std)
	if err != nil {
		return err
	}
	return std.show(api.AddAddress(ctx, in))
}
