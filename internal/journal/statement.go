package journal

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"
)

// statement is what an end says of its log to the other end of a signed link (PROTOCOL.md,
// L15), and of how much it holds of the other end's log.
type statement struct {
	at     time.Time // before the checkpoint was read, in whole seconds
	known  int64     // records of the other end's newest checkpoint that is kept; 0: none is
	epoch  int64     // of the database that has the log; 0: it was never restored
	key    string    // verifies signed
	signed string    // the newest checkpoint
	old    int64     // records from which proof leads to it; 0: there is none
	proof  []tlog.Hash

	checkpoint Checkpoint // of signed
}

// mostStatement bounds a statement in bytes. A usual one has some 1,000.
const mostStatement = 4096

// mostProved bounds the hashes of a consistency proof: a tree of 2^62 records needs no more.
const mostProved = 64

// members inverts readStatement.
func (s statement) members() string {
	text := fmt.Sprintf("at=%d, known=%d, epoch=%d, log=%q, checkpoint=:%s:", s.at.Unix(), s.known, s.epoch, s.key, base64.StdEncoding.EncodeToString([]byte(s.signed)))
	if s.old > 0 {
		text += fmt.Sprintf(", old=%d, proof=:%s:", s.old, base64.StdEncoding.EncodeToString(join(s.proof)))
	}
	return text
}

// readStatement reads the members of a statement, which have one form, and verifies its
// checkpoint with the key that it names.
func readStatement(members string) (s statement, err error) {
	wrong := func(member string) (statement, error) {
		return statement{}, fmt.Errorf("%s of the statement is missing or malformed", member)
	}
	if len(members) > mostStatement {
		return statement{}, fmt.Errorf("the statement is longer than %d bytes", mostStatement)
	}
	rest := members
	next := func(name string) string {
		value, after, _ := strings.Cut(rest, ", ")
		value, ok := strings.CutPrefix(value, name+"=")
		if !ok {
			return ""
		}
		rest = after
		return value
	}
	number := func(name string, to *int64) bool {
		n, err := strconv.ParseInt(next(name), 10, 64)
		*to = n
		return err == nil && n >= 0 && n < 1<<53
	}
	octets := func(name string) (b []byte, ok bool) {
		text := next(name)
		if len(text) < 2 || text[0] != ':' || text[len(text)-1] != ':' {
			return nil, false
		}
		b, err := base64.StdEncoding.Strict().DecodeString(text[1 : len(text)-1])
		return b, err == nil
	}
	var at int64
	if !number("at", &at) {
		return wrong("at")
	}
	s.at = time.Unix(at, 0)
	if !number("known", &s.known) {
		return wrong("known")
	}
	if !number("epoch", &s.epoch) {
		return wrong("epoch")
	}
	if s.key, err = strconv.Unquote(next("log")); err != nil {
		return wrong("log")
	}
	signed, ok := octets("checkpoint")
	if !ok {
		return wrong("checkpoint")
	}
	s.signed = string(signed)
	if rest != "" {
		if !number("old", &s.old) || s.old == 0 {
			return wrong("old")
		}
		proof, ok := octets("proof")
		if s.proof, ok = splitIf(proof, ok); !ok || len(s.proof) > mostProved {
			return wrong("proof")
		}
	}
	if s.members() != members {
		return statement{}, errors.New("the statement is not in the one form")
	}
	if s.checkpoint, err = openCheckpoint(s.signed, s.key); err != nil {
		return statement{}, err
	}
	if s.checkpoint.Size < 1 || s.old > s.checkpoint.Size {
		return wrong("checkpoint")
	}
	return s, nil
}

func splitIf(b []byte, ok bool) ([]tlog.Hash, bool) {
	if !ok {
		return nil, false
	}
	return split(b)
}

// standing is what a statement is, beside the checkpoint that is kept of the log.
type standing string

const (
	standsFirst    standing = "first"    // nothing was kept
	standsOlder    standing = "older"    // an earlier one, which came late
	standsSame     standing = "same"     // the kept one
	standsGrown    standing = "grown"    // it continues the kept one
	standsUnproved standing = "unproved" // it has more records, without the proof from the kept one
	standsRestored standing = "restored" // the end declares a restore since the kept one
	standsBroken   standing = "broken"   // it does not continue the kept one
)

const (
	// reordered is how much later a statement of fewer records may have been made than the
	// newest that was taken: nodes of one end say so at once, and their clocks differ a little.
	reordered = time.Minute
	// A statement without the proof may have been made before the other end knew what is kept
	// here: it does not know as long as its responses, or those of this end, are lost. It is not
	// waited for the proof any more when mostUnproved came, over unprovedFor at least.
	mostUnproved = 10
	unprovedFor  = time.Hour
)

// judge compares a statement with what is kept. It is pure. why says what is wrong where it
// is broken. now is by this end's clock.
func (p peer) judge(s statement, now time.Time) (of standing, why string) {
	c := s.checkpoint
	switch {
	case p.note == "":
		return standsFirst, ""
	case s.epoch < p.epoch:
		return standsOlder, ""
	case s.key != p.key:
		return standsBroken, fmt.Sprintf("another log: it names the key of %s, and %s is kept", c.Log, p.checkpoint.Log)
	case c.Size == p.checkpoint.Size && c.Root == p.checkpoint.Root:
		return standsSame, ""
	case c.Size > p.checkpoint.Size && s.old == p.checkpoint.Size && tlog.CheckTree(s.proof, c.Size, c.Root, s.old, p.checkpoint.Root) == nil:
		return standsGrown, ""
	case s.epoch > p.epoch:
		return standsRestored, ""
	case c.Size == p.checkpoint.Size:
		return standsBroken, fmt.Sprintf("forked: it signed its first %d records twice, with two roots", c.Size)
	case c.Size < p.checkpoint.Size && s.at.Sub(p.at) <= reordered:
		return standsOlder, ""
	case c.Size < p.checkpoint.Size:
		return standsBroken, fmt.Sprintf("set back: it has %d records, and had %d", c.Size, p.checkpoint.Size)
	case s.old == p.checkpoint.Size:
		return standsBroken, fmt.Sprintf("forked: its first %d records have another root than it signed", s.old)
	case p.broken != "" || p.unproved+1 >= mostUnproved && now.Sub(p.since.Time()) >= unprovedFor:
		return standsBroken, fmt.Sprintf("not proved: it has %d records, and does not show that the %d before are their beginning", c.Size, p.checkpoint.Size)
	}
	return standsUnproved, ""
}
