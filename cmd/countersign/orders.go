package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"countersign/client"
)

type ordersCmd struct {
	Add     ordersAddCmd     `cmd:"" help:"Order a withdrawal, given as a JSON object."`
	Show    ordersShowCmd    `cmd:"" help:"Show one order."`
	Approve ordersApproveCmd `cmd:"" help:"Approve an order that awaits a person, or will."`
	Decline ordersDeclineCmd `cmd:"" help:"Decline an order; the service is told so when it asks."`
	Cancel  ordersCancelCmd  `cmd:"" help:"Take an order back that is not confirmed yet."`
}

// gatewayFlags say which gateway a subcommand speaks to, and as whom.
type gatewayFlags struct {
	API   string     `name:"api" help:"Where the gateway's API is." default:"http://127.0.0.1:8091" placeholder:"URL"`
	Token secretText `help:"API token, or @FILE to read it from there. Default: admin.token of the data directory." placeholder:"TOKEN"`
	Data  string     `help:"Data directory whose admin.token to use." default:"./countersign-gateway-data" type:"path" placeholder:"DIR"`
}

// ask makes one call and prints the order that it gives as JSON.
func ask[T any](std streams, f gatewayFlags, call func(context.Context, *client.Gateway) (T, error)) error {
	token, err := f.Token.reveal("token")
	if err != nil {
		return err
	}
	if token == "" {
		path := filepath.Join(f.Data, tokenFile)
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return &hintedError{errors.New("no token"),
				[]string{fmt.Sprintf("give --token or COUNTERSIGN_TOKEN, or --data with the gateway's data directory; %s does not exist.", path)}}
		}
		if err != nil {
			return err
		}
		token = strings.TrimSpace(string(b))
	}
	c, err := client.NewGateway(client.Config{URL: f.API, Token: client.Secret(token)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	v, err := call(ctx, c)
	if err != nil {
		return explainGateway(err)
	}
	out := json.NewEncoder(std.out)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

// explainGateway adds what to try to the errors that new users meet.
func explainGateway(err error) error {
	var p *client.Problem
	switch {
	case errors.As(err, &p) && p.Status == 401:
		return &hintedError{err, []string{"the token is of another gateway, or was revoked: give --token or --data."}}
	case errors.As(err, &p):
		return err
	}
	var op interface{ Timeout() bool }
	if errors.As(err, &op) {
		return &hintedError{err, []string{"is the gateway running, and is --api its API's address?"}}
	}
	return err
}

type ordersAddCmd struct {
	gatewayFlags
	File string `arg:"" help:"File with the order as the API takes it; - for standard input."`
}

func (c *ordersAddCmd) Run(std streams) error {
	in, err := readJSON[client.NewOrder](c.File, std)
	if err != nil {
		return err
	}
	return ask(std, c.gatewayFlags, func(ctx context.Context, api *client.Gateway) (client.AddedOrder, error) {
		return api.AddOrder(ctx, in)
	})
}

// orderID is a subcommand about one order.
type orderID struct {
	gatewayFlags
	ID string `arg:"" name:"callBackId" help:"The order's callBackId."`
}

// orderDecision is one by which an order changes.
type orderDecision struct {
	orderID
	Reason string `help:"Why, for those who look at the order later." placeholder:"TEXT"`
}

type ordersShowCmd struct{ orderID }

func (c *ordersShowCmd) Run(std streams) error {
	return ask(std, c.gatewayFlags, func(ctx context.Context, api *client.Gateway) (client.Order, error) {
		return api.Order(ctx, c.ID)
	})
}

type ordersApproveCmd struct{ orderDecision }

func (c *ordersApproveCmd) Run(std streams) error {
	return c.decide(std, (*client.Gateway).ApproveOrder)
}

type ordersDeclineCmd struct{ orderDecision }

func (c *ordersDeclineCmd) Run(std streams) error {
	return c.decide(std, (*client.Gateway).DeclineOrder)
}

type ordersCancelCmd struct{ orderDecision }

func (c *ordersCancelCmd) Run(std streams) error {
	return c.decide(std, (*client.Gateway).CancelOrder)
}

func (c *orderDecision) decide(std streams, call func(*client.Gateway, context.Context, string, string) (client.Order, error)) error {
	return ask(std, c.gatewayFlags, func(ctx context.Context, api *client.Gateway) (client.Order, error) {
		return call(api, ctx, c.ID, c.Reason)
	})
}
