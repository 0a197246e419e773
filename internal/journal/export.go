package journal

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"countersign/client"
)

// An export consists of lines: a head, the records as they are kept, and a checkpoint of as many records.
type exportHead struct {
	Export string `json:"export"` // exportForm
}

const exportForm = "countersign audit log"

// Source is where a log is read from: an end's API.
type Source interface {
	Audit(ctx context.Context, o client.FeedOptions) (client.AuditPage, error)
	AuditCheckpoint(ctx context.Context, from int64) (client.AuditProof, error)
}

// Export writes the records of a log.
func Export(ctx context.Context, to io.Writer, api Source) error {
	signed, err := api.AuditCheckpoint(ctx, 0)
	if err != nil {
		return err
	}
	c, err := openCheckpoint(signed.Checkpoint, signed.Key)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(to, 1<<20)
	if err := writeLine(w, exportHead{exportForm}); err != nil {
		return err
	}
	for after := int64(0); after < c.Size; { // it may grow meanwhile
		page, err := api.Audit(ctx, client.FeedOptions{After: after, Limit: int(min(1000, c.Size-after))})
		if err != nil {
			return err
		}
		if len(page.Entries) == 0 {
			return fmt.Errorf("the log ended at record %d", after)
		}
		for _, r := range page.Entries {
			if _, err := w.Write(append(r.Record, '\n')); err != nil {
				return err
			}
			after = r.Seq
		}
	}
	if err := writeLine(w, signed); err != nil {
		return err
	}
	return w.Flush()
}

// WriteProof writes p in the form that Verify reads.
func WriteProof(w io.Writer, p client.AuditProof) error { return writeLine(w, p) }

func writeLine(w io.Writer, v any) error {
	line, err := Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}
