package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"countersign/client"
	"countersign/internal/journal"
)

//lint:file-ignore SA5008 kong takes each of several tags named set: one sets one variable of the help.

type auditCmd struct {
	Key        plainCmd[atEither] `cmd:"" help:"Print the key that verifies the log. Give it to whoever may have to check the log, before there is a dispute." set:"op=auditCheckpoint" member:"key"`
	Export     auditExportCmd     `cmd:"" help:"Write the log as lines of JSON that audit verify checks; with --prove, one record and its proof."`
	Checkpoint plainCmd[atEither] `cmd:"" help:"Write a signed checkpoint. Whoever keeps it can tell later whether anything before it was changed." set:"op=auditCheckpoint" member:"checkpoint"`
	About      auditAboutCmd      `cmd:"" help:"List the newest records about something." set:"op=auditAbout" is:"id" set:"what=Id of a withdrawal, or MERCHANT/CALLBACKID; of a callback, a merchant or a token; with --gateway, the callBackId of an order, or deposit: and its number." columns:"SEQ|AT=record.at|KIND=record.kind|BY=record.by|NODE=record.node|DATA=record.data"`
	Verify     auditVerifyCmd     `cmd:"" help:"Check an export, a proof or a checkpoint with nothing but the key, or ask the end itself; --since says whether the log continues an earlier checkpoint."`
}

type auditExportCmd struct {
	atEither
	Prove int64 `help:"Write only the record with this number, and the proof that it is in the log. audit about shows the numbers." placeholder:"SEQ" env:"-"`
}

func (c *auditExportCmd) Run(ctx context.Context, std streams) error {
	api, _, err := c.api(std)
	if err != nil {
		return err
	}
	if c.Prove != 0 {
		p, err := client.Get[client.AuditProof](ctx, api, client.Path("audit", "records", c.Prove))
		if err != nil {
			return err
		}
		return journal.WriteProof(std.out, p)
	}
	return journal.Export(ctx, std.out, api)
}

type auditAboutCmd struct{ listOfCmd[atEither] }

func (c *auditAboutCmd) Run(ctx context.Context, k *kong.Context, std streams) error {
	api, e, err := c.At.api(std)
	if err == nil && e == serviceEnd && strings.Contains(c.What, "/") {
		var w client.Withdrawal
		w, err = api.Withdrawal(ctx, c.What)
		c.What = w.ID
	}
	if err != nil {
		return err
	}
	return c.listOfCmd.Run(ctx, k, std)
}

type auditVerifyCmd struct {
	atEither
	File  string `arg:"" optional:"" help:"What audit export or checkpoint wrote; - for standard input. Without it the end is asked for its newest checkpoint."`
	Key   string `required:"" help:"The log's key as audit key prints it, or @FILE with it. It must come from elsewhere than the file." placeholder:"KEY"`
	Since string `help:"File with an earlier checkpoint: what audit checkpoint wrote, a line of the program's log, a message about an alarm, an export. It is an error if the log does not continue it." type:"path" placeholder:"FILE"`
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
	if v.Records > 0 {
		fmt.Fprintf(std.out, "      records 1 to %d are in it, unchanged\n", v.Records)
	}
	if v.Record != nil {
		fmt.Fprintf(std.out, "      record %d is in it:\n", v.Record.Seq)
		return printJSON(std.out, v.Record.Record, "  ")
	}
	return nil
}

// open returns the file, or the end's present statement about its log.
func (c *auditVerifyCmd) open(ctx context.Context, std streams, since []byte) (io.ReadCloser, error) {
	switch c.File {
	case "":
		api, _, err := c.api(std)
		if err != nil {
			return nil, err
		}
		from := int64(0)
		if since != nil {
			from, _ = journal.SizeOf(string(since)) // it is read again with its signature
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
