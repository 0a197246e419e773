package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"countersign/client"
)

// Verified is what a file proves.
type Verified struct {
	Checkpoint Checkpoint
	// Earlier is the checkpoint that was held before; nil if none was given. The log begins with its records.
	Earlier *Checkpoint
	// Records is the number of records of an export.
	Records int64
	// Record is the record of a proof; nil: it has none.
	Record *client.AuditEntry
}

var (
	// ErrFile means that a file is no export, proof or checkpoint, was changed, or was cut off.
	ErrFile = errors.New("the file is broken")
	// ErrEarlier means that a file does not continue the log of an earlier checkpoint, or does not show that it does.
	ErrEarlier = errors.New("the earlier checkpoint is not proved")
)

const (
	// readAhead bytes are read at once. A file may be a short checkpoint, so the buffer is small; it grows for longer
	// lines.
	readAhead      = 32 << 10
	mostLine       = 256 << 20
	mostCheckpoint = 16 << 10

	exportStart = `{"export":`
	proofStart  = `{"checkpoint":`
)

// Verify reads an export, a proof or a bare checkpoint and checks it with nothing but the verifier key. since is an
// earlier checkpoint, a signed note; nil if there is none. Errors wrap ErrFile, ErrCheckpoint, ErrForeign or
// ErrEarlier.
func Verify(in io.Reader, verifierKey string, since []byte) (Verified, error) {
	var v Verified
	if since != nil {
		c, err := openCheckpoint(string(since), verifierKey)
		if err != nil {
			return v, fmt.Errorf("the earlier checkpoint: %w", err)
		}
		v.Earlier = &c
	}
	r := bufio.NewReaderSize(in, readAhead)
	if first, _ := r.Peek(1); string(first) != "{" {
		text, err := io.ReadAll(io.LimitReader(r, mostCheckpoint))
		if err == nil && len(text) == 0 {
			err = fmt.Errorf("%w: it is empty", ErrFile)
		}
		if err == nil {
			v.Checkpoint, err = openCheckpoint(string(text), verifierKey)
		}
		if err == nil {
			err = v.sameAs(v.Checkpoint.Size, v.Checkpoint.Root)
		}
		return v, err
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, mostLine)
	lines.Split(wholeLines)
	lines.Scan()
	var err error
	if bytes.HasPrefix(lines.Bytes(), []byte(exportStart)) {
		err = v.export(lines, verifierKey)
	} else if lines.Err() == nil {
		err = v.proof(lines.Bytes(), verifierKey)
	}
	switch {
	case lines.Err() != nil:
		err = lines.Err()
	case err == nil && lines.Scan():
		err = fmt.Errorf("%w: something follows its last line", ErrFile)
	}
	return v, err
}

// wholeLines splits a text into lines. The last one must end with a line feed too.
func wholeLines(text []byte, atEOF bool) (int, []byte, error) {
	end := bytes.IndexByte(text, '\n')
	if end < 0 && atEOF && len(text) > 0 {
		return 0, nil, fmt.Errorf("%w: it is cut off", ErrFile)
	}
	if end < 0 {
		return 0, nil, nil
	}
	return end + 1, text[:end], nil
}

// sameAs compares the tree of the first size records with the earlier checkpoint, if there is one.
func (v *Verified) sameAs(size int64, root tlog.Hash) error {
	switch {
	case v.Earlier == nil:
		return nil
	case v.Earlier.Size != size:
		return fmt.Errorf("%w: it is of %d records, and the file proves %d: ask the log itself, without a file", ErrEarlier,
			v.Earlier.Size, size)
	case v.Earlier.Root != root:
		return fmt.Errorf("%w: its %d records have another root than those of the file. The log was set back or rewritten, or the checkpoint is of another one", ErrEarlier, size)
	}
	return nil
}

// export checks the lines of an export, the first of which was read.
func (v *Verified) export(lines *bufio.Scanner, verifierKey string) error {
	var head exportHead
	if err := strictly(lines.Bytes(), &head); err != nil {
		return err
	}
	if head.Export != exportForm {
		return fmt.Errorf("%w: its first line is malformed", ErrFile)
	}
	var e edge
	for {
		if v.Earlier != nil && v.Earlier.Size == e.size {
			if err := v.sameAs(e.size, e.root()); err != nil {
				return err
			}
		}
		if !lines.Scan() {
			return fmt.Errorf("%w: it ends after record %d without a checkpoint", ErrFile, e.size)
		}
		if bytes.HasPrefix(lines.Bytes(), []byte(proofStart)) {
			break
		}
		e.append(tlog.RecordHash(lines.Bytes()))
	}
	var p client.AuditProof
	if err := v.signed(lines.Bytes(), &p, verifierKey); err != nil {
		return err
	}
	v.Records = e.size
	switch c := v.Checkpoint; {
	case p.From != 0 || p.Consistency != nil || p.Record != nil, c.Size != e.size, c.Root != e.root():
		return fmt.Errorf("%w: its records are not those of the signed log", ErrFile)
	case v.Earlier != nil && v.Earlier.Size > e.size:
		return fmt.Errorf("%w: it is of %d records, and the file has %d", ErrEarlier, v.Earlier.Size, e.size)
	}
	return nil
}

// strictly reads one line of JSON that Marshal wrote. No byte of it may differ.
func strictly(line []byte, v any) error {
	if err := json.Unmarshal(line, v); err != nil {
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	again, err := Marshal(v)
	if err != nil || !bytes.Equal(again, line) {
		return fmt.Errorf("%w: it is not written as it was exported", ErrFile)
	}
	return nil
}

// signed reads a proof and checks its checkpoint.
func (v *Verified) signed(line []byte, p *client.AuditProof, verifierKey string) (err error) {
	if err = strictly(line, p); err != nil {
		return err
	}
	if v.Checkpoint, err = openCheckpoint(p.Checkpoint, verifierKey); err == nil && p.Key != verifierKey {
		err = fmt.Errorf("%w: it names another key", ErrForeign)
	}
	return err
}

// proof checks a proof: that the log continues the earlier checkpoint, and that a record is in it.
func (v *Verified) proof(line []byte, verifierKey string) error {
	var p client.AuditProof
	if err := v.signed(line, &p, verifierKey); err != nil {
		return err
	}
	c, held := v.Checkpoint, v.Earlier
	consistency, ok := split(p.Consistency)
	between := 0 < p.From && p.From < c.Size // else there is nothing to prove
	switch {
	case !ok || p.From < 0 || p.From > c.Size || between != (len(consistency) > 0):
		return fmt.Errorf("%w: its proof from an earlier checkpoint is malformed", ErrFile)
	case between && held == nil:
		return fmt.Errorf("%w: the file continues one of %d records: give that with --since", ErrEarlier, p.From)
	case between && held.Size != p.From:
		return fmt.Errorf("%w: it is of %d records, and the file continues one of %d", ErrEarlier, held.Size, p.From)
	case between && tlog.CheckTree(consistency, c.Size, c.Root, p.From, held.Root) != nil:
		return fmt.Errorf("%w: the log does not begin with its %d records. The log was set back or rewritten, or the checkpoint is of another one", ErrEarlier, p.From)
	case !between && held != nil && held.Size > 0:
		if err := v.sameAs(c.Size, c.Root); err != nil {
			return err
		}
	}
	if v.Record = p.Record; p.Record == nil {
		return nil
	}
	r := *p.Record
	inclusion, ok := split(r.Proof)
	if !ok || r.Seq < 1 || r.Seq > c.Size || tlog.CheckRecord(inclusion, c.Size, c.Root, r.Seq-1,
		tlog.RecordHash(r.Record)) != nil {
		return fmt.Errorf("%w: record %d is not in the log", ErrFile, r.Seq)
	}
	return nil
}

// SizeOf returns the number of records of a checkpoint, a signed note. It does not verify it.
func SizeOf(signed string) (int64, error) {
	text, _, _ := strings.Cut(signed, "\n\n")
	c, err := parseCheckpoint(text + "\n")
	return c.Size, err
}

// ReadCheckpoint returns the checkpoint in a file. The file is a bare signed note, or JSON whose last line has one as
// the member checkpoint: a proof, an export, a line of the program's log, a message about an alarm, or the file of a
// data directory.
func ReadCheckpoint(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, readAhead)
	if first, _ := r.Peek(1); string(first) != "{" {
		return io.ReadAll(io.LimitReader(r, mostCheckpoint))
	}
	var last []byte
	for err == nil {
		var line []byte
		if line, err = r.ReadBytes('\n'); len(bytes.TrimSpace(line)) > 0 {
			last = line
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	var p struct{ Checkpoint string }
	if err := json.Unmarshal(last, &p); err != nil || p.Checkpoint == "" {
		return nil, fmt.Errorf("%w: it has no checkpoint", ErrFile)
	}
	return []byte(p.Checkpoint), nil
}
