package journal

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
)

var updateWitness = flag.Bool("update-witness", false, "write testdata/vectors/witness.jsonl anew")

// witnessVector is one line of testdata/vectors/witness.jsonl (PROTOCOL.md, Vectors).
type witnessVector struct {
	Name      string `json:"name"`
	Kept      string `json:"kept,omitempty"` // the checkpoint
	KeptLog   string `json:"keptLog,omitempty"`
	KeptAt    string `json:"keptAt,omitempty"` // at of its statement
	KeptEpoch string `json:"keptEpoch,omitempty"`
	Unproved  string `json:"unproved,omitempty"` // statements since then that lacked the proof
	Since     string `json:"since,omitempty"`    // when the first of them came
	Statement string `json:"statement"`
	Now       string `json:"now"`
	Result    string `json:"result"`
}

// testLog is a log of hashes, whose key comes from a seed.
type testLog struct {
	t        *testing.T
	signer   note.Signer
	verifier string
	records  []tlog.Hash
	stored   []tlog.Hash
}

func newTestLog(t *testing.T, name string, seed byte) *testLog {
	t.Helper()
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	verifier, err := note.NewEd25519VerifierKey(name, private.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner("PRIVATE+KEY+" + name + "+" + strings.Split(verifier, "+")[1] + "+" + base64.StdEncoding.EncodeToString(append([]byte{1}, private.Seed()...)))
	if err != nil {
		t.Fatal(err)
	}
	return &testLog{t: t, signer: signer, verifier: verifier}
}

func (l *testLog) hashes(at []int64) (list []tlog.Hash, err error) {
	for _, i := range at {
		list = append(list, l.stored[i])
	}
	return list, nil
}

// grow adds records that say text.
func (l *testLog) grow(n int, text string) *testLog {
	out := *l
	for range n {
		at := int64(len(out.records))
		h := tlog.RecordHash([]byte(fmt.Sprint(text, at)))
		more, err := tlog.StoredHashesForRecordHash(at, h, tlog.HashReaderFunc(out.hashes))
		if err != nil {
			l.t.Fatal(err)
		}
		out.records, out.stored = append(out.records[:at:at], h), append(out.stored[:len(out.stored):len(out.stored)], more...)
	}
	return &out
}

func (l *testLog) checkpoint() (Checkpoint, string) {
	l.t.Helper()
	n := int64(len(l.records))
	c := Checkpoint{Log: l.signer.Name(), Size: n, At: client.TimeOf(time.Unix(witnessAt, 0))}
	var err error
	if c.Root, err = tlog.TreeHash(n, tlog.HashReaderFunc(l.hashes)); err != nil {
		l.t.Fatal(err)
	}
	signed, err := note.Sign(&note.Note{Text: c.text()}, l.signer)
	if err != nil {
		l.t.Fatal(err)
	}
	return c, string(signed)
}

// says gives a statement with the proof from old, none if that is 0.
func (l *testLog) says(old int64) statement {
	l.t.Helper()
	s := statement{at: time.Unix(witnessAt, 0), known: 5, key: l.verifier, old: old}
	s.checkpoint, s.signed = l.checkpoint()
	if old > 0 && old <= s.checkpoint.Size {
		var err error
		if s.proof, err = tlog.ProveTree(s.checkpoint.Size, old, tlog.HashReaderFunc(l.hashes)); err != nil {
			l.t.Fatal(err)
		}
	}
	return s
}

const witnessAt = 1_780_000_000

func makeWitnessVectors(t *testing.T) (list []witnessVector) {
	l := newTestLog(t, "countersign-merchant-test", 3).grow(7, "record ")
	other := newTestLog(t, "countersign-merchant-other", 4).grow(9, "record ")
	forked := newTestLog(t, "countersign-merchant-test", 3).grow(3, "record ").grow(9, "another ")
	_, kept := l.checkpoint()
	add := func(name, result, said string, change func(*witnessVector)) {
		v := witnessVector{Name: name, Kept: kept, KeptLog: l.verifier, KeptAt: fmt.Sprint(witnessAt - 120), KeptEpoch: "0", Unproved: "0", Statement: said, Now: fmt.Sprint(witnessAt), Result: result}
		if change != nil {
			change(&v)
		}
		list = append(list, v)
	}
	none := func(v *witnessVector) { v.Kept, v.KeptLog, v.KeptAt, v.KeptEpoch, v.Unproved = "", "", "", "", "" }
	later := func(seconds int64) func(*witnessVector) {
		return func(v *witnessVector) { v.Now = fmt.Sprint(witnessAt + seconds) }
	}
	grown := l.grow(5, "record ")
	good := grown.says(7).members()
	add("nothing is kept", "first", good, none)
	add("the same again", "same", l.says(0).members(), nil)
	add("it continues", "grown", good, nil)
	add("it continues after a restore", "grown", func() string { s := grown.says(7); s.epoch = 5; return s.members() }(), nil)
	add("more, without a proof", "unproved", grown.says(0).members(), nil)
	add("more, with a proof from another number", "unproved", grown.says(6).members(), nil)
	waits := func(n, since int64) func(*witnessVector) {
		return func(v *witnessVector) { v.Unproved, v.Since = fmt.Sprint(n), fmt.Sprint(witnessAt-since) }
	}
	add("the tenth without a proof, in an hour", "broken", grown.says(0).members(), waits(9, 3600))
	add("the tenth without a proof, sooner", "unproved", grown.says(0).members(), waits(9, 3599))
	add("the ninth without a proof, in a day", "unproved", grown.says(0).members(), waits(8, 86400))
	short := newTestLog(t, "countersign-merchant-test", 3).grow(4, "record ")
	add("fewer records", "broken", short.says(0).members(), nil)
	add("fewer records, which came late", "older", short.says(0).members(), func(v *witnessVector) { v.KeptAt = fmt.Sprint(witnessAt - 60) })
	add("as many records with another root", "broken", newTestLog(t, "countersign-merchant-test", 3).grow(3, "record ").grow(4, "another ").says(0).members(), nil)
	add("more records, whose beginning is another", "broken", forked.says(7).members(), nil)
	add("another log", "broken", other.says(0).members(), nil)
	restored := func(l *testLog, old int64) string { s := l.says(old); s.epoch = 5; return s.members() }
	add("fewer records after a declared restore", "restored", restored(short, 0), nil)
	add("another beginning after a declared restore", "restored", restored(forked, 7), nil)
	add("fewer records, of the same epoch", "broken", restored(short, 0), func(v *witnessVector) { v.KeptEpoch = "5" })
	add("from before the restore that was declared", "older", good, func(v *witnessVector) { v.KeptEpoch = "5" })
	add("another log, that declares a restore", "broken", restored(other, 0), nil)

	ignored := func(name, said string) { add(name, "ignored", said, nil) }
	add("five minutes old", "grown", good, later(300))
	add("a second older", "ignored", good, later(301))
	add("a second more ahead", "ignored", good, later(-301))
	replace := func(name, old, by string) { ignored(name, strings.Replace(good, old, by, 1)) }
	ignored("empty", "")
	ignored("no dictionary", "%%%")
	replace("a leading zero", "known=5", "known=05")
	replace("a number below 0", "known=5", "known=-5")
	replace("a number that is too large", "known=5", "known=9007199254740992")
	replace("another order", "known=5, epoch=0", "epoch=0, known=5")
	replace("without epoch", ", epoch=0", "")
	replace("a space less", ", known", ",known")
	replace("a member more", ", old=", ", more=1, old=")
	replace("a proof alone", ", old=7", "")
	replace("old beyond the checkpoint", "old=7", "old=13")
	ignored("old alone", good[:strings.Index(good, ", proof")])
	ignored("half a hash", good[:strings.Index(good, "proof=:")]+"proof=:AAAA:")
	ignored("twice", good+", "+good)
	ignored("too long", good[:strings.Index(good, "proof=:")]+"proof=:"+strings.Repeat("AAAA", 1024)+":")
	s := grown.says(7)
	s.key = other.verifier
	ignored("the checkpoint of another key", s.members())
	s = grown.says(7)
	s.signed = strings.Replace(s.signed, "\n12\n", "\n13\n", 1)
	ignored("a checkpoint that was changed", s.members())
	return list
}

func TestWitnessVectors(t *testing.T) {
	const path = "../../testdata/vectors/witness.jsonl"
	var want bytes.Buffer
	e := json.NewEncoder(&want)
	e.SetEscapeHTML(false)
	list := makeWitnessVectors(t)
	for _, v := range list {
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	if *updateWitness {
		if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if file, err := os.ReadFile(path); err != nil || !bytes.Equal(file, want.Bytes()) {
		t.Errorf("%s is not what this test makes (%v); see -update-witness", path, err)
	}
	for _, v := range list {
		if got, why := v.judge(t); got != v.Result {
			t.Errorf("%s: %s (%s), want %s", v.Name, got, why, v.Result)
		}
	}
}

func (v *witnessVector) judge(t *testing.T) (result, why string) {
	t.Helper()
	number := func(text string) int64 {
		if text == "" {
			return 0
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	now := time.Unix(number(v.Now), 0)
	s, err := readStatement(v.Statement)
	if err == nil && now.Sub(s.at).Abs() > envelope.LinkTolerance {
		err = errOldStatement
	}
	if err != nil {
		return "ignored", err.Error()
	}
	p := peer{key: v.KeptLog, note: v.Kept, at: time.Unix(number(v.KeptAt), 0), epoch: number(v.KeptEpoch), unproved: number(v.Unproved),
		since: db.MillisOf(time.Unix(number(v.Since), 0))}
	if v.Kept != "" {
		if p.checkpoint, err = openCheckpoint(v.Kept, v.KeptLog); err != nil {
			t.Fatal(err)
		}
	}
	of, why := p.judge(s, now)
	return string(of), why
}

// FuzzStatement: no text makes the reader panic, and what it reads it writes again as it was.
func FuzzStatement(f *testing.F) {
	f.Add(`at=1, known=2, epoch=3, log="x", checkpoint=:AAAA:, old=1, proof=::`)
	file, err := os.ReadFile("../../testdata/vectors/witness.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(file) {
		var v witnessVector
		if err := json.Unmarshal(line, &v); err != nil {
			f.Fatal(err)
		}
		f.Add(v.Statement)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := readStatement(text); err == nil && s.members() != text {
			t.Errorf("%q is read as %q", text, s.members())
		}
	})
}
