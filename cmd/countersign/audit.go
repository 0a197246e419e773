package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/cli"
	"countersign/internal/journal"
)

type auditExportCmd struct {
	cli.Either
	From int64 `help:"First record. Default: the first there is." placeholder:"SEQ"`
	To   int64 `help:"Last record. Default: the last there is." placeholder:"SEQ"`
	New  bool  `help:"Begin after the exports that were acknowledged, instead of --from."`
}

func (c *auditExportCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	if c.New || c.From == 0 {
		page, err := api.Audit(ctx, client.FeedOptions{After: math.MaxInt64})
		if err != nil {
			return err
		}
		if c.From = page.First; c.New {
			c.From = page.Exported + 1
		}
	}
	if c.From < 1 || c.To != 0 && c.To < c.From {
		return fmt.Errorf("--from %d --to %d: want 1 <= from <= to", c.From, c.To)
	}
	return journal.Export(ctx, std.out, api, c.From, c.To)
}

// heldFlag names a checkpoint that was held before.
type heldFlag struct {
	From string `help:"File with an earlier checkpoint, or with a proof or an export that ends with one: the new one continues it, or it is an error." type:"path" placeholder:"FILE"`
}

// size is the number of records of the checkpoint; 0 if there is none.
func (f heldFlag) size() (int64, error) {
	if f.From == "" {
		return 0, nil
	}
	held, err := os.Open(f.From)
	if err != nil {
		return 0, err
	}
	defer held.Close()
	size, err := journal.HeldSize(held)
	if err != nil {
		return 0, fmt.Errorf("--from: %w", err)
	}
	return size, nil
}

type auditCheckpointCmd struct {
	cli.Either
	heldFlag
}

func (c *auditCheckpointCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	from, err := c.size()
	if err != nil {
		return err
	}
	p, err := api.AuditCheckpoint(ctx, from)
	if err != nil {
		return err
	}
	return writeProof(std.out, p)
}

// writeProof writes p as journal.Verify reads it.
func writeProof(w io.Writer, p client.AuditProof) error {
	text, err := journal.Marshal(p)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

type auditPeersCmd struct {
	cli.Either
	Peer     string `arg:"" optional:"" help:"Write the checkpoint that is held of this one's log, for audit verify --from: a merchant's id, or with --gateway: service. Without it the command lists all."`
	Conflict bool   `help:"Write the checkpoint that does not continue it (alarm peer_log_broken) instead."`
}

func (c *auditPeersCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	list, err := api.AuditPeers(ctx)
	switch {
	case err != nil:
		return err
	case c.Peer == "" && c.Conflict:
		return errors.New("--conflict needs the name of a peer, such as a merchant's id")
	case c.Peer == "":
		for _, p := range list.Peers {
			fmt.Fprintf(std.out, "%s: %s has %d records, signed at %s, heard at %s; it holds %d of this end\n", p.Peer, p.Log, p.Size, p.Signed, p.Heard, p.Holds)
			if p.Broken != "" {
				fmt.Fprintf(std.out, "  since %s it does not continue that: %s\n", p.Since, p.Broken)
			}
		}
		return nil
	}
	i := slices.IndexFunc(list.Peers, func(p client.AuditPeer) bool { return p.Peer == c.Peer })
	if i < 0 {
		return fmt.Errorf("%q was not heard; audit peers lists who was", c.Peer)
	}
	text := list.Peers[i].Checkpoint
	if c.Conflict {
		if text = list.Peers[i].Conflict; text == "" {
			return fmt.Errorf("the log of %s continues what is held of it", c.Peer)
		}
	}
	_, err = io.WriteString(std.out, text)
	return err
}

// auditAbout asks for the evidence about one thing.
type auditAbout struct {
	cli.Either
	Withdrawal string `xor:"about" required:"" help:"Id of a withdrawal, or MERCHANT/CALLBACKID; with --gateway, the callBackId of an order." placeholder:"ID"`
	Callback   string `xor:"about" required:"" help:"Id of a callback, such as a deposit's; with --gateway, its number in the inbox." placeholder:"ID"`
	heldFlag
}

func (c *auditAbout) ask(ctx context.Context, api *client.Service, outsider bool) (p client.AuditProof, err error) {
	from, err := c.size()
	if err != nil {
		return p, err
	}
	o := client.AuditOptions{Withdrawal: c.Withdrawal, Callback: c.Callback, From: from, Outsider: outsider}
	if !c.Gateway && o.Withdrawal != "" {
		if o.Withdrawal, err = showWithdrawal(ctx, api, c.Withdrawal); err != nil {
			return p, err
		}
	}
	return api.AuditEvidence(ctx, o)
}

type auditProveCmd struct {
	auditAbout
	Whole bool `env:"-" help:"Also with who acted and from where, notes, reasons that people gave, and what was set then: the merchant, tokens, freezes, starts. Without it the file has nothing of that, and holds all the same."`
}

func (c *auditProveCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	p, err := c.ask(ctx, api, !c.Whole)
	if err != nil {
		return err
	}
	return writeProof(std.out, p)
}

type auditEvidenceCmd struct{ auditAbout }

func (c *auditEvidenceCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	p, err := c.ask(ctx, api, false)
	if err != nil {
		return err
	}
	for _, w := range journal.SaidCosigners(p.Cosignatures) {
		fmt.Fprintf(std.out, "cosigned by %q at %s, if audit verify --witness-key says so\n", w.Name, w.At)
	}
	return journal.Show(std.out, p.Records)
}

type auditVerifyCmd struct {
	auditFile
	MerchantKey []string `name:"merchant-key" sep:"none" help:"Public part of the merchant's signing key, or @FILE with it: says which answers that key confirmed, and fails if it confirmed none. It must come from the merchant, not with the file. May be given twice." placeholder:"KEY"`
}

// auditFile is a file to verify.
type auditFile struct {
	heldFlag
	File       string   `arg:"" help:"What audit export, prove or checkpoint wrote; - for standard input."`
	WitnessKey []string `name:"witness-key" sep:"none" help:"Verifier key of a witness, which must have cosigned the checkpoint. May be repeated." placeholder:"KEY"`
	Key        string   `required:"" help:"The log's key as audit key prints it, or @FILE with it. It must come from elsewhere than the file." placeholder:"KEY"`
}

func (c *auditFile) verify(std streams) (v journal.Verified, err error) {
	key, err := textOrFile("key", c.Key)
	if err != nil {
		return v, err
	}
	in := std.in
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return v, err
		}
		defer f.Close()
		in = f
	}
	var earlier io.Reader
	if c.From != "" {
		f, err := os.Open(c.From)
		if err != nil {
			return v, err
		}
		defer f.Close()
		earlier = f
	}
	v, err = journal.Verify(in, strings.TrimSpace(key), earlier)
	if errors.Is(err, journal.ErrForeign) {
		err = &hintedError{err, []string{"give the key of the log that the file is of: audit key of that end prints it."}}
	}
	return v, err
}

// confirmations says what the merchant's own key signed.
func (c *auditVerifyCmd) confirmations(std streams, v journal.Verified) error {
	if len(c.MerchantKey) == 0 {
		return nil
	}
	var keys []*envelope.SigningKey
	for _, text := range c.MerchantKey {
		text, err := textOrFile("merchant-key", text)
		if err != nil {
			return err
		}
		k, err := envelope.ParseSigningKey([]byte(text))
		if err != nil {
			return fmt.Errorf("--merchant-key: %w", err)
		}
		keys = append(keys, k)
	}
	list, others, err := v.Confirmations(keys...)
	if err != nil {
		return err
	}
	for i, one := range list {
		if i == 0 {
			fmt.Fprintln(std.out)
		}
		fmt.Fprintln(std.out, one)
	}
	if len(list) == 0 {
		return fmt.Errorf("the merchant's key confirmed nothing of this file; %d answers that confirm are not signed, or by another key", others)
	}
	return nil
}

type auditAcknowledgeCmd struct {
	cli.Either
	auditFile
}

func (c *auditAcknowledgeCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	v, err := c.verify(std)
	switch {
	case err != nil:
		return err
	case v.Last == 0:
		return fmt.Errorf("%s is no export: audit export writes one", c.File)
	}
	e, err := api.AuditExported(ctx, client.AuditExport{First: v.First, Last: v.Last, Checkpoint: v.Signed, Digest: v.Digest})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "records up to %d are exported\n", e.Last)
	return err
}

func (c *auditVerifyCmd) Run(std streams) error {
	v, err := c.verify(std)
	if err != nil {
		return err
	}
	s := v.Checkpoint
	fmt.Fprintf(std.out, "good: %s has %d records, signed at %s\n", s.Log, s.Size, s.At)
	if v.Earlier != nil {
		fmt.Fprintf(std.out, "      it begins with the %d records that were signed at %s\n", v.Earlier.Size, v.Earlier.At)
	}
	cosigners, err := v.Cosigners(c.WitnessKey)
	if err != nil {
		return err
	}
	for _, w := range cosigners {
		fmt.Fprintf(std.out, "      cosigned by %s at %s\n", w.Name, w.At)
	}
	for _, w := range journal.SaidCosigners(v.Cosigned) {
		if !slices.Contains(cosigners, w) {
			fmt.Fprintf(std.out, "      not verified: cosigned by %q at %s; give the key of that witness with --witness-key\n", w.Name, w.At)
		}
	}
	if v.Last > 0 {
		fmt.Fprintf(std.out, "      records %d to %d are in it, unchanged\n", v.First, v.Last)
	}
	if err := journal.Show(std.out, v.Records); err != nil {
		return err
	}
	if err := c.confirmations(std, v); err != nil {
		return err
	}
	missing, doubts, err := journal.Lacking(v.Records)
	if err != nil {
		return err
	}
	for i, text := range append(slices.Clone(missing), doubts...) {
		if i == 0 {
			fmt.Fprintln(std.out)
		}
		fmt.Fprintln(std.out, "lacking: "+text)
	}
	if len(missing) > 0 {
		return errors.New("what the file has is in the log, and more must be there: records were left out of the file, or their year's log was dropped; ask for an export")
	}
	return nil
}
