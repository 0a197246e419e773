package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"countersign/client"
)

// apiFlags say which API a subcommand speaks to, and as whom.
type apiFlags struct {
	API   string     `name:"api" help:"Where the API is." default:"http://127.0.0.1:8080" placeholder:"URL"`
	Token secretText `help:"API token, or @FILE to read it from there. Default: admin.token of the data directory." placeholder:"TOKEN"`
	Data  string     `help:"Data directory whose admin.token to use." default:"./countersign-data" type:"path" placeholder:"DIR"`
}

// client makes a client, with a time-out for calls that do not wait on
// purpose.
func (f apiFlags) client() (*client.Service, context.Context, context.CancelFunc, error) {
	token, err := f.Token.reveal("token")
	if err != nil {
		return nil, nil, nil, err
	}
	if token == "" {
		path := filepath.Join(f.Data, tokenFile)
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil, nil, &hintedError{errors.New("no token"),
				[]string{fmt.Sprintf("give --token or COUNTERSIGN_TOKEN, or --data with the service's data directory; %s does not exist.", path)}}
		}
		if err != nil {
			return nil, nil, nil, err
		}
		token = strings.TrimSpace(string(b))
	}
	c, err := client.NewService(client.Config{URL: f.API, Token: client.Secret(token)})
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	return c, ctx, cancel, nil
}

// show makes one call and prints its answer as JSON.
func show[T any](std streams, f apiFlags, call func(context.Context, *client.Service) (T, error)) error {
	c, ctx, cancel, err := f.client()
	if err != nil {
		return err
	}
	defer cancel()
	v, err := call(ctx, c)
	if err != nil {
		return explainCall(err)
	}
	out := json.NewEncoder(std.out)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

// list prints a list as lines of JSON, at most limit of them.
func list[T any](std streams, f apiFlags, limit int, call func(context.Context, *client.Service) iter.Seq2[T, error]) error {
	c, ctx, cancel, err := f.client()
	if err != nil {
		return err
	}
	defer cancel()
	out := json.NewEncoder(std.out)
	out.SetEscapeHTML(false)
	n := 0
	for v, err := range call(ctx, c) {
		if err != nil {
			return explainCall(err)
		}
		if n == limit {
			fmt.Fprintf(std.err, "countersign: there are more; raise --limit\n")
			return nil
		}
		if err := out.Encode(v); err != nil {
			return err
		}
		n++
	}
	return nil
}

// explainCall adds what to try to the errors that new users meet.
func explainCall(err error) error {
	var p *client.Problem
	switch {
	case errors.As(err, &p) && p.Status == 401:
		return &hintedError{err, []string{"the token is of another service, or was revoked: give --token or --data."}}
	case errors.As(err, &p):
		return err
	}
	var op interface{ Timeout() bool }
	if errors.As(err, &op) {
		return &hintedError{err, []string{"is the service running, and is --api its address?"}}
	}
	return err
}

// readJSON reads one JSON object for a request from a file, - for standard
// input. The server checks its members.
func readJSON[T any](path string, std streams) (T, error) {
	var v T
	in := std.in
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return v, err
		}
		defer f.Close()
		in = f
	}
	b, err := readAll(in, 1<<20, "request")
	if err != nil {
		return v, err
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return v, fmt.Errorf("reading %s: %w", path, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return v, fmt.Errorf("reading %s: more follows the object", path)
	}
	return v, nil
}
