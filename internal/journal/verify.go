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
	// Earlier is the checkpoint that was held before; nil if none was given. The log
	// begins with its records.
	Earlier *Checkpoint
	// First and Last are the numbers of the records of an export.
	First, Last int64
	// Record is that of a proof; nil: it has none.
	Record *client.AuditRecord
}

// ErrFile means that a file is no export, proof or checkpoint, was changed, or was cut
// off.
var ErrFile = errors.New("the file is broken")

// readAhead bytes are read at once. A file may be a short checkpoint, so the buffer is small;
// longer lines are joined.
const readAhead = 32 << 10

// Verify reads an export, a proof or a bare checkpoint and checks it with the verifier
// key alone. since is an earlier checkpoint, a signed note; nil if there is none. Errors wrap
// ErrFile, ErrCheckpoint, ErrForeign or ErrEarlier.
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
	first, err := r.Peek(len(exportStart))
	switch {
	case err == nil && string(first) == exportStart:
		err = v.export(r, verifierKey)
	case len(first) > 0 && first[0] == '{':
		err = v.proof(r, verifierKey)
	case len(first) > 0:
		var text []byte
		if text, err = io.ReadAll(io.LimitReader(r, mostCheckpoint)); err == nil {
			v.Checkpoint, err = openCheckpoint(string(text), verifierKey)
		}
		if err == nil {
			err = v.sameAs(v.Checkpoint.Size, v.Checkpoint.Root)
		}
	default:
		err = fmt.Errorf("%w: it is empty", ErrFile)
	}
	return v, err
}

// ErrEarlier means that a file does not continue the log of an earlier checkpoint, or
// does not show that it does.
var ErrEarlier = errors.New("the earlier checkpoint is not proved")

// sameAs compares the tree of the first size records with the earlier checkpoint, if
// that is of as many.
func (v *Verified) sameAs(size int64, root tlog.Hash) error {
	switch {
	case v.Earlier == nil:
		return nil
	case v.Earlier.Size != size:
		return fmt.Errorf("%w: it is of %d records, and the file proves %d: ask the log itself, without a file", ErrEarlier, v.Earlier.Size, size)
	case v.Earlier.Root != root:
		return fmt.Errorf("%w: its %d records have another root than those of the file. The log was set back or rewritten, or the checkpoint is of another one", ErrEarlier, size)
	}
	return nil
}

const (
	mostCheckpoint = 16 << 10
	mostProof      = 256 << 20
)

// HeldSize is the number of records of a checkpoint. It is not verified.
func HeldSize(signed []byte) (int64, error) {
	text, _, _ := strings.Cut(string(signed), "\n\n")
	c, err := parseCheckpoint(text + "\n")
	return c.Size, err
}

// ReadCheckpoint reads the checkpoint of a file: a bare signed note, or JSON whose last line has one as the
// member checkpoint, such as a proof, an export, a line of the program's log, a message about an alarm, or the
// file of a data directory.
func ReadCheckpoint(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, readAhead)
	first, err := r.Peek(1)
	if err != nil {
		return nil, fmt.Errorf("%w: it is empty", ErrFile)
	}
	if first[0] != '{' {
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

// strictly reads one line of JSON that was written by Marshal, of which every byte
// matters.
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

// proof checks a proof file.
func (v *Verified) proof(in io.Reader, verifierKey string) error {
	text, err := io.ReadAll(io.LimitReader(in, mostProof))
	if err != nil {
		return err
	}
	line, whole := bytes.CutSuffix(text, []byte("\n"))
	if !whole {
		return fmt.Errorf("%w: it is cut off", ErrFile)
	}
	var p client.AuditProof
	if err := strictly(line, &p); err != nil {
		return err
	}
	if err := v.signed(p, verifierKey); err != nil {
		return err
	}
	if v.Record = p.Record; v.Record != nil {
		return v.record(*p.Record)
	}
	return nil
}

// signed checks the checkpoint of a proof, and that it continues the earlier one.
func (v *Verified) signed(p client.AuditProof, verifierKey string) (err error) {
	if v.Checkpoint, err = openCheckpoint(p.Checkpoint, verifierKey); err != nil {
		return err
	}
	if p.Key != verifierKey {
		return fmt.Errorf("%w: it names another key", ErrForeign)
	}
	c, held := v.Checkpoint, v.Earlier
	proof, ok := hashesOf(p.Consistency)
	between := 0 < p.From && p.From < c.Size // else there is nothing to prove
	switch {
	case !ok || p.From < 0 || p.From > c.Size || between != (len(proof) > 0):
		return fmt.Errorf("%w: its proof from an earlier checkpoint is malformed", ErrFile)
	case between && held == nil:
		return fmt.Errorf("%w: the file continues one of %d records: give that with --since", ErrEarlier, p.From)
	case between && held.Size == p.From:
		if tlog.CheckTree(proof, c.Size, c.Root, p.From, held.Root) != nil {
			return fmt.Errorf("%w: the log does not begin with its %d records. The log was set back or rewritten, or the checkpoint is of another one", ErrEarlier, p.From)
		}
		return nil
	case between:
		return fmt.Errorf("%w: it is of %d records, and the file continues one of %d", ErrEarlier, held.Size, p.From)
	case held != nil && held.Size == 0:
		return nil // every log begins with nothing
	}
	return v.sameAs(c.Size, c.Root)
}

// record checks that a record is in the log.
func (v *Verified) record(r client.AuditRecord) error {
	proof, ok := hashesOf(r.Proof)
	c := v.Checkpoint
	if !ok || r.Seq < 1 || r.Seq > c.Size || tlog.CheckRecord(proof, c.Size, c.Root, r.Seq-1, tlog.RecordHash(r.Record)) != nil {
		return fmt.Errorf("%w: record %d is not in the log", ErrFile, r.Seq)
	}
	return nil
}
