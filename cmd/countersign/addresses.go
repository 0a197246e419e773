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

func (c *addressesAddCmd) Run(std streams) error {
	in, err := readJSON[client.NewAddress](c.File, std)
	if err != nil {
		return err
	}
	return show(std, c.apiFlags, client.NewService, func(ctx context.Context, api *client.Service) (client.AcceptedAddress, error) {
		return api.AddAddress(ctx, in)
	})
}
