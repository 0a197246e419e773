package journal

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"countersign/client"
)

// Checkpoint is what a signed note states about the log.
type Checkpoint struct {
	Log  string // name, which the key has too
	Size int64  // number of records
	Root tlog.Hash
	At   client.Time
}

const timeLine = "time "

// text returns the signed part: the lines of a checkpoint of transparency logs (name, size, root), and the time as an
// extension.
func (c Checkpoint) text() string {
	return fmt.Sprintf("%s\n%d\n%s\n%s%s\n", c.Log, c.Size, base64.StdEncoding.EncodeToString(c.Root[:]), timeLine, c.At)
}

// The errors of a checkpoint.
var (
	// ErrForeign means that a checkpoint is not signed by the key given: it is another log's, or the key is wrong.
	ErrForeign = errors.New("the checkpoint is not signed by this key")
	// ErrCheckpoint means that a text is no checkpoint, or was changed.
	ErrCheckpoint = errors.New("the checkpoint is broken")
)

// openCheckpoint verifies a signed checkpoint. No byte of it may differ.
func openCheckpoint(signed, verifierKey string) (Checkpoint, error) {
	verifier, err := note.NewVerifier(verifierKey)
	if err != nil {
		return Checkpoint{}, errors.New("the key is not a verifier key: give NAME+HASH+KEY, as audit key prints it")
	}
	n, err := note.Open([]byte(signed), note.VerifierList(verifier))
	var unverified *note.UnverifiedNoteError
	var invalid *note.InvalidSignatureError
	switch {
	case errors.As(err, &unverified) && len(unverified.Note.UnverifiedSigs) > 0:
		return Checkpoint{}, fmt.Errorf("%w %s: it is signed by %s", ErrForeign, verifier.Name(),
			unverified.Note.UnverifiedSigs[0].Name)
	case errors.As(err, &invalid):
		return Checkpoint{}, fmt.Errorf("%w: its signature is wrong", ErrCheckpoint)
	case err != nil:
		return Checkpoint{}, fmt.Errorf("%w: it is not a signed note", ErrCheckpoint)
	}
	if len(n.Sigs) != 1 || len(n.UnverifiedSigs) != 0 || signed != n.Text+"\n— "+n.Sigs[0].Name+" "+n.Sigs[0].Base64+"\n" {
		return Checkpoint{}, fmt.Errorf("%w: it has another form than was signed", ErrCheckpoint)
	}
	if _, err := base64.StdEncoding.Strict().DecodeString(n.Sigs[0].Base64); err != nil {
		return Checkpoint{}, fmt.Errorf("%w: its signature is not canonical Base64", ErrCheckpoint)
	}
	c, err := parseCheckpoint(n.Text)
	if err == nil && c.Log != verifier.Name() {
		err = fmt.Errorf("%w: it names the log %s", ErrForeign, c.Log)
	}
	return c, err
}

func parseCheckpoint(text string) (c Checkpoint, err error) {
	wrong := fmt.Errorf("%w: it does not have the lines name, size, root and time", ErrCheckpoint)
	lines := strings.Split(text, "\n")
	if len(lines) != 5 {
		return c, wrong
	}
	c.Log = lines[0]
	if c.Size, err = strconv.ParseInt(lines[1], 10, 64); err != nil {
		return c, wrong
	}
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(root) != tlog.HashSize {
		return c, wrong
	}
	c.Root = tlog.Hash(root)
	at, err := time.Parse(time.RFC3339, strings.TrimPrefix(lines[3], timeLine))
	if err != nil {
		return c, wrong
	}
	c.At = client.TimeOf(at)
	if c.text() != text {
		return c, wrong
	}
	return c, nil
}
