package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"countersign/client"
	"countersign/internal/cli"
	"countersign/internal/journal"
)

type auditExportCmd struct {
	cli.Either
	From int64 `help:"First record." default:"1" placeholder:"SEQ"`
}

func (c *auditExportCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	if c.From < 1 {
		return fmt.Errorf("--from %d: want the number of a record, 1 or more", c.From)
	}
	return journal.Export(ctx, std.out, api, c.From)
}

type auditCheckpointCmd struct{ cli.Either }

func (c *auditCheckpointCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	p, err := api.AuditCheckpoint(ctx, 0)
	if err != nil {
		return err
	}
	_, err = io.WriteString(std.out, p.Checkpoint)
	return err
}

type auditAboutCmd struct {
	cli.Either
	ID     string `arg:"" help:"Id of a withdrawal, or MERCHANT/CALLBACKID; of a callback, a merchant or a token; with --gateway, the callBackId of an order, or deposit: and its number."`
	Before int64  `help:"Records before this number. Default: the newest." placeholder:"SEQ"`
	Limit  int    `help:"Most records, 1 to 1,000." default:"100"`
}

func (c *auditAboutCmd) Run(ctx context.Context, std streams, api *client.Service) (err error) {
	id := c.ID
	if !c.Gateway && strings.Contains(id, "/") {
		if id, err = findWithdrawal(ctx, api, id); err != nil {
			return err
		}
	}
	list, err := api.AuditAbout(ctx, client.AuditAboutOptions{ID: id, Before: c.Before, Limit: c.Limit})
	if err != nil {
		return err
	}
	if len(list.Entries) == 0 {
		return fmt.Errorf("the log has nothing about %q", id)
	}
	slices.Reverse(list.Entries)
	return journal.Show(std.out, list.Entries...)
}

type auditProveCmd struct {
	cli.Either
	Seq int64 `arg:"" help:"Number of the record: audit about shows it."`
}

func (c *auditProveCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	p, err := api.AuditProve(ctx, c.Seq)
	if err != nil {
		return err
	}
	return journal.WriteProof(std.out, p)
}

type auditVerifyCmd struct {
	cli.Either
	File  string `arg:"" optional:"" help:"What audit export, prove or checkpoint wrote; - for standard input. Without it the end is asked for its newest checkpoint."`
	Key   string `required:"" help:"The log's key as audit key prints it, or @FILE with it. It must come from elsewhere than the file." placeholder:"KEY"`
	Since string `help:"File with an earlier checkpoint: what audit checkpoint wrote, a line of the program's log, a message about an alarm, an export. The log continues it, or it is an error." type:"path" placeholder:"FILE"`
}

func (c *auditVerifyCmd) Run(ctx context.Context, std streams) error {
	key, err := textOrFile("key", c.Key)
	if err != nil {
		return err
	}
	var since []byte
	if c.Since != "" {
		if since, err = journal.ReadCheckpoint(c.Since); err != nil {
			return fmt.Errorf("--since: %w", err)
		}
	}
	in, err := c.open(ctx, std, since)
	if err != nil {
		return err
	}
	defer in.Close()
	v, err := journal.Verify(in, strings.TrimSpace(key), since)
	if errors.Is(err, journal.ErrForeign) {
		err = &hintedError{err, []string{"give the key of the log that the file is of: audit key of that end prints it."}}
	}
	if err != nil {
		return err
	}
	s := v.Checkpoint
	fmt.Fprintf(std.out, "good: %s has %d records, signed at %s\n", s.Log, s.Size, s.At)
	if v.Earlier != nil {
		fmt.Fprintf(std.out, "      it begins with the %d records that were signed at %s\n", v.Earlier.Size, v.Earlier.At)
	}
	if v.Last > 0 {
		fmt.Fprintf(std.out, "      records %d to %d are in it, unchanged\n", v.First, v.Last)
	}
	if v.Record != nil {
		return journal.Show(std.out, *v.Record)
	}
	return nil
}

// open returns the file, or what the end says of its log now.
func (c *auditVerifyCmd) open(ctx context.Context, std streams, since []byte) (io.ReadCloser, error) {
	switch c.File {
	case "":
		var from int64
		if since != nil {
			var err error
			if from, err = journal.SizeOf(string(since)); err != nil {
				return nil, fmt.Errorf("--since: %w", err)
			}
		}
		api, err := cli.NewClient(c.Connection, client.NewService)
		if err != nil {
			return nil, err
		}
		p, err := api.AuditCheckpoint(ctx, from)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		return io.NopCloser(&b), journal.WriteProof(&b, p)
	case "-":
		return io.NopCloser(std.in), nil
	}
	return os.Open(c.File)
}
