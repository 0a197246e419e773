package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/daemon"
	"countersign/internal/policy"
)

type policyCmd struct {
	Check policyCheckCmd `cmd:"" help:"Check a policy file; with --order, show what it decides on an order."`
}

// maxPolicy bounds a policy file, in bytes.
const maxPolicy = 1 << 20

// readPolicy returns the policy with a *daemon.ExposedError if others can read or write the file.
func readPolicy(path string) (*policy.Rules, error) {
	b, exposed := daemon.ReadSecret(path, maxPolicy)
	if err := daemon.AllowExposed(exposed); err != nil {
		return nil, err
	}
	p, err := policy.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, exposed
}

type policyCheckCmd struct {
	File  string             `arg:"" help:"The policy file." placeholder:"FILE"`
	Order string             `help:"Say what the policy decides on this order, and which rule or limit decides it: a JSON object, as orders add takes it or api order gives it; or the file that holds it, - for standard input." placeholder:"JSON"`
	Now   time.Time          `help:"With --order: when the service asks. Default: now." placeholder:"2030-01-02T15:04:05Z"`
	Spent countersign.Amount `help:"With --order: what was confirmed before in every window of the limits, in the order's symbol. Default: 0." placeholder:"AMOUNT"`
}

func (c *policyCheckCmd) Run(std streams) error {
	p, exposed := readPolicy(c.File)
	switch {
	case p == nil:
		return exposed
	case c.Order != "":
		return c.try(std, p)
	case exposed != nil:
		fmt.Fprintf(std.err, "countersign: warning: %v\n", exposed)
	}
	fmt.Fprintf(std.out, "%s: %s\n", c.File, p.Summary())
	for _, w := range p.Warnings() {
		fmt.Fprintf(std.err, "countersign: warning: %s: %s\n", c.File, w)
	}
	return nil
}

// try prints what the policy decides on the order.
func (c *policyCheckCmd) try(std streams, p *policy.Rules) error {
	o, err := readOrder(c.Order, std)
	if err != nil {
		return fmt.Errorf("--order: %w", err)
	}
	table := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	ruling, err := p.Try(o, c.Now, c.Spent,
		func(s client.PolicyStep) { fmt.Fprintf(table, "%s\t%s\t%s\n", s.Kind, s.Name, s.Came) })
	if err := errors.Join(table.Flush(), err); err != nil {
		return err
	}
	fmt.Fprintf(std.out, "%s: %s\n", ruling.Word(), ruling.Why())
	return nil
}

// readOrder reads an order from JSON text, from a file, or from standard input for -.
func readOrder(text string, std streams) (o client.Order, err error) {
	b, file := []byte(text), "-"
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		file = text
		b, err = readInput(std, file, maxPolicy, "order")
	}
	if err == nil {
		if o, err = policy.ParseOrder(b); err != nil {
			err = fmt.Errorf("reading %s: %w", file, err)
		}
	}
	return o, err
}
