// Package demo runs a service and a gateway on this machine, sends real deposits and withdrawals through them, and
// checks both databases.
package demo

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/daemon"
)

// Config is what New needs.
type Config struct {
	// Dir gets the data of both ends, each in its own directory, and their log. It must be new or empty. Empty: a
	// temporary directory, which is removed at the end.
	Dir string
	// Bits is the size of the RSA pair. Zero: 2048.
	Bits int
	// Stay keeps both ends running after the checks, until Run's context ends.
	Stay bool
	// Out gets the table of what happened and what was checked. Nil: nothing is written.
	Out io.Writer
	// Progress gets the progress of the run in one line, and an empty line when a stage is done. Nil: it is not called.
	Progress func(line string)
}

// ErrNotEmpty means that Config.Dir is not empty.
var ErrNotEmpty = errors.New("is not empty")

// merchantID names the merchant at the service.
const merchantID = "demo"

// Demo is one run. Use New to make one.
type Demo struct {
	c        Config
	key      *envelope.Key
	apiKey   countersign.APIKey
	service  *daemon.Service
	api      *client.Service // of the service
	shop     *client.Gateway // of the gateway, whose person approves
	links    [2]string       // to the consoles of the service and of the merchant; each signs in once
	gateway  *daemon.Gateway
	dir      string              // of the data
	deposits []client.NewDeposit // what was sent
	checks   []check
	asked    []result
	played   bool // every check passed

	try      *daemon.Listener // the page; nil without Config.Stay
	handover string           // directory of what it hands over
	tap      tap
}

// New starts nothing.
func New(c Config) *Demo {
	c.Bits = cmp.Or(c.Bits, 2048)
	if c.Out == nil {
		c.Out = io.Discard
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	return &Demo{c: c}
}

// check is a condition that must hold at the end.
type check struct {
	name  string
	holds bool
	note  string
}

func (d *Demo) check(name string, holds bool, note string) {
	d.checks = append(d.checks, check{name, holds, note})
}

func (d *Demo) say(format string, args ...any) { fmt.Fprintf(d.c.Out, format+"\n", args...) }

// progress reports how much of a stage is done.
func (d *Demo) progress(what string, done, all int) {
	if done == all {
		d.c.Progress("")
		return
	}
	d.c.Progress(fmt.Sprintf("%s %d/%d", what, done, all))
}
