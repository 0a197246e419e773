package journal

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"

	"countersign/client"
)

// An export is lines of JSON: a head, the records, and a proof. The head has the edge of
// the tree before the first record, so that a part of the log can be verified; the
// proof has a checkpoint and shows that the exported records are the beginning of its
// log.
type exportHead struct {
	Export string   `json:"export"` // exportForm
	Log    string   `json:"log"`
	First  int64    `json:"first"` // number of the first record
	Edge   [][]byte `json:"edge"`
}

const (
	exportForm  = "countersign audit log 1"
	exportStart = `{"export":`
)

// Exporter writes an export.
type Exporter struct{ w *bufio.Writer }

// NewExporter begins an export of the records after a number. first is the page that
// begins with them, signed a checkpoint of the log.
func NewExporter(w io.Writer, after int64, first client.AuditPage, signed client.AuditProof) (*Exporter, error) {
	c, err := openCheckpoint(signed.Checkpoint, signed.Key)
	if err != nil {
		return nil, err
	}
	e := &Exporter{bufio.NewWriterSize(w, 1<<20)}
	return e, e.line(exportHead{exportForm, c.Log, after + 1, first.Edge})
}

// Size is the number of records of a checkpoint.
func Size(signed client.AuditProof) (int64, error) {
	c, err := openCheckpoint(signed.Checkpoint, signed.Key)
	return c.Size, err
}

// Entry writes one record.
func (e *Exporter) Entry(r client.AuditEntry) error { return e.line(r) }

// End writes the checkpoint. Its proof is from the last record that was written.
func (e *Exporter) End(signed client.AuditProof) error {
	if err := e.line(signed); err != nil {
		return err
	}
	return e.w.Flush()
}

func (e *Exporter) line(v any) error {
	b, err := Marshal(v)
	if err != nil {
		return err
	}
	_, err = e.w.Write(append(b, '\n'))
	return err
}

// Source is where a log is read from: an end's API.
type Source interface {
	Audit(ctx context.Context, o client.FeedOptions) (client.AuditPage, error)
	AuditCheckpoint(ctx context.Context, from int64) (client.AuditProof, error)
}

// Export writes the records from first to last of a log; last 0: to the end.
func Export(ctx context.Context, w io.Writer, api Source, first, last int64) error {
	signed, err := api.AuditCheckpoint(ctx, 0)
	if err != nil {
		return err
	}
	size, err := Size(signed)
	if err != nil {
		return err
	}
	if last == 0 {
		last = size
	}
	if last > size || first > size {
		return fmt.Errorf("the log has %d records: no record %d", size, max(last, first))
	}
	var e *Exporter
	for after := first - 1; after < last; {
		page, err := api.Audit(ctx, client.FeedOptions{After: after, Limit: int(min(1000, last-after))})
		if err == nil && e == nil {
			e, err = NewExporter(w, after, page, signed)
		}
		if err != nil {
			return err
		}
		for _, r := range page.Entries {
			if err := e.Entry(r); err != nil {
				return err
			}
		}
		if page.Next == after {
			return fmt.Errorf("the log ended at record %d", after)
		}
		after = page.Next
	}
	if signed, err = api.AuditCheckpoint(ctx, last); err != nil {
		return err
	}
	return e.End(signed)
}

// readLine returns the next line without its end. It is valid until the next call.
func readLine(r *bufio.Reader, long *[]byte) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		*long = append((*long)[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) && len(*long) < mostProof {
			line, err = r.ReadSlice('\n')
			*long = append(*long, line...)
		}
		line = *long
	}
	if errors.Is(err, io.EOF) {
		if len(line) > 0 {
			return nil, fmt.Errorf("%w: it is cut off", ErrFile)
		}
		return nil, io.EOF
	}
	return bytes.TrimSuffix(line, []byte("\n")), err
}

// export checks an export line by line.
func (v *Verified) export(r *bufio.Reader, verifierKey string) error {
	var long []byte
	line, err := readLine(r, &long)
	if err != nil {
		return err
	}
	var head exportHead
	if err := strictly(line, &head); err != nil {
		return err
	}
	hashes, ok := hashesOf(head.Edge)
	e, err := edgeOf(head.First-1, hashes)
	if !ok || err != nil || head.Export != exportForm {
		return fmt.Errorf("%w: its first line is malformed", ErrFile)
	}
	v.First = head.First
	met := false
	for {
		if v.Earlier != nil && v.Earlier.Size == e.size {
			if met = v.Earlier.Root == e.root(); !met {
				return v.sameAs(e.size, e.root())
			}
		}
		line, err := readLine(r, &long)
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w: it ends after record %d without a checkpoint", ErrFile, e.size)
		case err != nil:
			return err
		}
		if !bytes.HasPrefix(line, []byte(entryStart)) {
			return v.exportEnd(r, line, verifierKey, head, e, met)
		}
		if err := entry(line, &e); err != nil {
			return err
		}
	}
}

const (
	entryStart  = `{"seq":`
	entryHashes = `,"hashes":"`
	entryRecord = `","record":`
)

// entry checks a line that Marshal has written of a client.AuditEntry, and appends its
// record. Every byte of it matters. It is not read as JSON, which would take most of the time.
func entry(line []byte, e *edge) error {
	wrong := func(what string) error { return fmt.Errorf("%w: record %d %s", ErrFile, e.size+1, what) }
	want := append(strconv.AppendInt([]byte(entryStart), e.size+1, 10), entryHashes...)
	rest, ok := bytes.CutPrefix(line, want)
	if !ok {
		return wrong("is missing or not in its place")
	}
	kept, record, ok := bytes.Cut(rest, []byte(entryRecord))
	if !ok || len(record) == 0 || record[len(record)-1] != '}' {
		return wrong("is not written as it was exported")
	}
	record = record[:len(record)-1]
	hashes := join(e.append(tlog.RecordHash(record)))
	if string(kept) != base64.StdEncoding.EncodeToString(hashes) {
		e.size--
		return wrong("was changed")
	}
	return nil
}

// exportEnd checks the last line.
func (v *Verified) exportEnd(r *bufio.Reader, line []byte, verifierKey string, head exportHead, e edge, met bool) error {
	var p client.AuditProof
	if err := strictly(line, &p); err != nil {
		return err
	}
	var err error
	if v.Checkpoint, err = openCheckpoint(p.Checkpoint, verifierKey); err != nil {
		return err
	}
	c, last := v.Checkpoint, e.size
	proof, ok := hashesOf(p.Consistency)
	switch {
	case p.Key != verifierKey:
		return fmt.Errorf("%w: it names another key", ErrForeign)
	case head.Log != c.Log:
		return fmt.Errorf("%w: its first line names another log", ErrFile)
	case !ok || p.From != last || p.Record != nil || last > c.Size:
		return fmt.Errorf("%w: its last line is malformed, or of other records", ErrFile)
	case last == 0 && len(proof) > 0, last == c.Size && (len(proof) > 0 || e.root() != c.Root),
		last > 0 && last < c.Size && tlog.CheckTree(proof, c.Size, c.Root, last, e.root()) != nil:
		return fmt.Errorf("%w: its records are not those of the signed log", ErrFile)
	}
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows its last line", ErrFile)
	}
	v.Last = last
	if v.Earlier == nil || met || v.Earlier.Size == 0 {
		return nil
	}
	if v.Earlier.Size == c.Size {
		return v.sameAs(c.Size, c.Root)
	}
	return fmt.Errorf("%w: it is of %d records, and the file has those from %d to %d: export from record %d or before",
		ErrEarlier, v.Earlier.Size, v.First, v.Last, v.Earlier.Size+1)
}
