package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	// Digest is that of its records; see client.AuditExport.
	Digest string
	// Signed is the checkpoint as a note, and Cosigned are the lines of its cosignatures; see
	// Cosigners.
	Signed   string
	Cosigned []string
	// Records are those of a proof.
	Records []client.AuditRecord

	key string
}

// ErrFile means that a file is no export, proof or checkpoint, was changed, or was cut
// off.
var ErrFile = errors.New("the file is broken")

// readAhead bytes are read at once. A file may be a short checkpoint, so the buffer is small;
// longer lines are joined.
const readAhead = 32 << 10

// Verify reads an export, a proof or a bare checkpoint and checks it with the verifier
// key alone. earlier is a checkpoint, or a file that has one, that was held before; nil
// if there is none. Errors wrap ErrFile, ErrCheckpoint, ErrForeign or ErrEarlier.
func Verify(in io.Reader, verifierKey string, earlier io.Reader) (Verified, error) {
	v := Verified{key: verifierKey}
	if earlier != nil {
		c, err := heldCheckpoint(earlier, verifierKey)
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
		return fmt.Errorf("%w: it is of %d records, and the file proves %d: make the file with --from", ErrEarlier, v.Earlier.Size, size)
	case v.Earlier.Root != root:
		return fmt.Errorf("%w: its %d records have another root than those of the file. One of the two logs was forged", ErrEarlier, size)
	}
	return nil
}

const (
	mostCheckpoint = 16 << 10
	mostProof      = 256 << 20
)

// heldCheckpoint verifies the checkpoint of a bare note, of a proof or of an export.
func heldCheckpoint(in io.Reader, verifierKey string) (Checkpoint, error) {
	signed, err := heldNote(in)
	if err != nil {
		return Checkpoint{}, err
	}
	return openCheckpoint(signed, verifierKey)
}

// HeldSize is the number of records of such a checkpoint. It is not verified.
func HeldSize(in io.Reader) (int64, error) {
	signed, err := heldNote(in)
	if err != nil {
		return 0, err
	}
	text, _, _ := strings.Cut(signed, "\n\n")
	c, err := parseCheckpoint(text + "\n")
	return c.Size, err
}

func heldNote(in io.Reader) (string, error) {
	r := bufio.NewReaderSize(in, readAhead)
	first, err := r.Peek(1)
	if err != nil {
		return "", fmt.Errorf("%w: it is empty", ErrFile)
	}
	if first[0] != '{' {
		text, err := io.ReadAll(io.LimitReader(r, mostCheckpoint))
		return string(text), err
	}
	var long, last []byte
	for { // the last line of an export has it
		line, err := readLine(r, &long)
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return "", err
		}
		last = append(last[:0], line...)
	}
	var p client.AuditProof
	if err := json.Unmarshal(last, &p); err != nil || p.Checkpoint == "" {
		return "", fmt.Errorf("%w: it has no checkpoint", ErrFile)
	}
	return p.Checkpoint, nil
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
	for i, r := range p.Records {
		if i > 0 && r.Seq <= p.Records[i-1].Seq {
			return fmt.Errorf("%w: its records are not in order", ErrFile)
		}
		if err := v.record(r); err != nil {
			return err
		}
	}
	v.Records = p.Records
	return nil
}

// signed checks the checkpoint of a proof, and that it continues the earlier one.
func (v *Verified) signed(p client.AuditProof, verifierKey string) (err error) {
	if v.Checkpoint, err = openCheckpoint(p.Checkpoint, verifierKey); err != nil {
		return err
	}
	v.Signed, v.Cosigned = p.Checkpoint, p.Cosignatures
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
		return fmt.Errorf("%w: the file continues one of %d records: give that with --from", ErrEarlier, p.From)
	case between && held.Size == p.From:
		if tlog.CheckTree(proof, c.Size, c.Root, p.From, held.Root) != nil {
			return fmt.Errorf("%w: the log does not begin with its %d records. One of the two was forged", ErrEarlier, p.From)
		}
		return nil
	case between:
		return fmt.Errorf("%w: it is of %d records, and the file continues one of %d", ErrEarlier, held.Size, p.From)
	case held != nil && held.Size == 0:
		return nil // every log begins with nothing
	}
	return v.sameAs(c.Size, c.Root)
}

// record checks that a record, and its items, are in the log.
func (v *Verified) record(r client.AuditRecord) error {
	proof, ok := hashesOf(r.Proof)
	c, leaf := v.Checkpoint, leafOf(r.Record)
	if !ok || r.Seq < 1 || r.Seq > c.Size || tlog.CheckRecord(proof, c.Size, c.Root, r.Seq-1, leaf) != nil {
		return fmt.Errorf("%w: record %d is not in the log", ErrFile, r.Seq)
	}
	entry, strict, err := read(r.Record)
	if err != nil || !strict {
		return fmt.Errorf("%w: record %d is not written as records are", ErrFile, r.Seq)
	}
	if err := entry.signed(strict); err != nil {
		return fmt.Errorf("%w: record %d: %w", ErrFile, r.Seq, err)
	}
	if b := readBegun(r.Record); b != nil {
		c, err := openCheckpoint(b.Checkpoint, v.key)
		if err != nil || c.Size != r.Seq-1 || c.Size != b.Last {
			return fmt.Errorf("%w: record %d does not name the head of the log before it", ErrFile, r.Seq)
		}
	}
	for _, item := range r.Items {
		var of items
		proof, ok := hashesOf(item.Proof)
		if !ok || json.Unmarshal(entry.Data, &of) != nil || item.Index < 0 || item.Index >= int64(of.Items) ||
			tlog.CheckRecord(proof, int64(of.Items), of.Root, item.Index, leafOf(item.Item)) != nil {
			return fmt.Errorf("%w: an item of record %d is not in it", ErrFile, r.Seq)
		}
	}
	return nil
}
