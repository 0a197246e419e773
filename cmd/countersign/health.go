package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"countersign/internal/daemon"
)

// healthCmd asks a daemon whether it works, for images without another HTTP client.
type healthCmd struct {
	tlsClient
	API   string `name:"api" help:"URL of the daemon's API, or of a relay's --metrics-listen." default:"http://127.0.0.1:8080" placeholder:"URL" env:"COUNTERSIGN_API"`
	Ready bool   `help:"Ask whether it can work now, with its database."`
}

func (c *healthCmd) Run(std streams) error {
	web, err := c.web(daemon.Address{})
	if err != nil {
		return err
	}
	web.Timeout = 5 * time.Second // a daemon that takes longer does not work
	path := "/healthz"
	if c.Ready {
		path = "/readyz"
	}
	resp, err := web.Get(strings.TrimSuffix(c.API, "/") + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "%s\n", strings.TrimSpace(string(said)))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", path, resp.Status)
	}
	return nil
}
