package main

import (
	"errors"
	"log/slog"

	"countersign/internal/demo"
)

type demoCmd struct {
	Data string `help:"Keep both ends' data in this new directory. Empty: a temporary directory, removed at the end." type:"path" placeholder:"DIR"`
	Bits int    `help:"Size of the RSA pair: 1024, 2048 or 3072." default:"2048" enum:"1024,2048,3072" placeholder:"BITS"`
	Stay bool   `help:"Keep both ends running afterwards and print where they are, until Ctrl-C."`
}

func (c *demoCmd) Run(std streams) error {
	ctx, stop := untilSignal(slog.New(slog.DiscardHandler))
	defer stop()
	err := demo.New(demo.Config{Dir: c.Data, Bits: c.Bits, Stay: c.Stay, Out: std.out, Progress: std.progress}).Run(ctx)
	if errors.Is(err, demo.ErrNotEmpty) {
		return &hintedError{err, []string{"give --data a directory that does not exist yet."}}
	}
	return err
}
