package journal_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	fnote "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/witness/persistence/inmemory"
	"github.com/transparency-dev/witness/witness"
	"golang.org/x/mod/sumdb/note"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/dbtest/ready"
	"countersign/internal/outbox"
)

// realWitness is a witness of transparency-dev that knows the log with this key.
type realWitness struct {
	*httptest.Server
	key     string
	forgets func() // the head that it has cosigned
	away    atomic.Bool
	asked   atomic.Int64
}

func newWitness(t *testing.T, key string) *realWitness {
	t.Helper()
	private, public, err := note.GenerateKey(rand.Reader, "witness.example/w1")
	if err != nil {
		t.Fatal(err)
	}
	signer := must(fnote.NewSignerForCosignatureV1(private))(t)
	of := must(note.NewVerifier(key))(t)
	out := &realWitness{key: public}
	var handler http.HandlerFunc
	out.forgets = func() {
		w := must(witness.New(t.Context(), witness.Opts{Persistence: inmemory.New(), Signers: []note.Signer{signer},
			VerifierForLog: func(_ context.Context, origin string) (note.Verifier, bool, error) {
				return of, origin == of.Name(), nil
			}}))(t)
		handler = witness.NewHTTPHandler(w).AddCheckpoint
	}
	out.forgets()
	out.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		out.asked.Add(1)
		if out.away.Load() {
			http.Error(rw, "away", http.StatusServiceUnavailable)
			return
		}
		if r.Method != http.MethodPost || r.URL.Path != "/add-checkpoint" {
			http.NotFound(rw, r)
			return
		}
		handler(rw, r)
	}))
	t.Cleanup(out.Close)
	return out
}

// flag names the witness as --witness does.
func (w *realWitness) flag() string { return w.URL + " " + w.key }

// openWitnessed opens the log again with witnesses.
func openWitnessed(t *testing.T, d *db.DB, now func() time.Time, witnesses ...string) *journal.Log {
	t.Helper()
	return must(journal.Open(ctx, journal.Config{DB: d, End: "service", Now: now, Log: slog.New(slog.DiscardHandler), Witnesses: witnesses}))(t)
}

// TestWitness: every head is cosigned by a witness that checks that it continues the last one,
// and the file shows by whom and when.
func TestWitness(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		d, l := open(t, url)
		w, other := newWitness(t, l.Key()), newWitness(t, l.Key())
		l = openWitnessed(t, d, time.Now, w.URL+"/ "+w.key, other.flag())
		before := time.Now().Truncate(time.Second)
		var held []byte
		for i := range 5 {
			add(t, d, 3*i, 3)
			if i == 2 {
				l.Sign(ctx) // as each minute
			}
			p := must(l.Checkpoint(ctx, int64(3*i)))(t)
			if len(p.Cosignatures) != 2 {
				t.Fatalf("cosignatures %q", p.Cosignatures)
			}
			v := must(verify(file(t, p), l.Key(), held))(t)
			got := must(v.Cosigners([]string{w.key, other.key}))(t)
			if len(got) != 2 || got[0].Name != "witness.example/w1" || got[0].At.Time().Before(before) || got[0].At.Time().After(time.Now()) {
				t.Errorf("cosigned by %+v", got)
			}
			if said := journal.SaidCosigners(p.Cosignatures); len(said) != 2 || said[0].Name != got[0].Name {
				t.Errorf("said to be cosigned by %+v", said)
			}
			held = []byte(p.Checkpoint)
		}
		asked := w.asked.Load()
		l.Sign(ctx)
		if w.asked.Load() != asked {
			t.Error("a head that is cosigned was submitted again")
		}
		v := must(verify(export(t, l, 1, 15), l.Key(), nil))(t)
		must(v.Cosigners([]string{w.key}))(t)
		stranger := newWitness(t, l.Key())
		if _, err := v.Cosigners([]string{w.key, stranger.key}); !errors.Is(err, journal.ErrWitness) {
			t.Errorf("a witness that has not cosigned: %v", err)
		}
		for i, line := range v.Cosigned { // nobody else can make one
			b := []byte(line)
			b[len(b)-10] ^= 1
			v.Cosigned[i] = string(b)
		}
		if got, err := v.Cosigners([]string{w.key}); !errors.Is(err, journal.ErrWitness) {
			t.Errorf("cosignatures that were changed: %+v, %v", got, err)
		}
		if open := must(ready.Alarms(ctx, d))(t); len(open) != 0 {
			t.Errorf("alarms %+v", open)
		}
	})
}

// TestWitnessHoldsAnotherLog: somebody with the database and the master key writes the log
// anew, and signs it. The witness does not cosign it, and that is an alarm.
func TestWitnessHoldsAnotherLog(t *testing.T) {
	for name, again := range map[string]int{"shorter": 3, "as long": 5, "longer": 9} {
		d, l := open(t, dbtest.SQLite(t))
		w := newWitness(t, l.Key())
		l = openWitnessed(t, d, time.Now, w.flag())
		add(t, d, 0, 5)
		must(l.Checkpoint(ctx, 0))(t)
		err := d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
			for _, table := range []string{"records", "subjects", "checkpoints", "cosigned"} {
				if _, err := t.Exec(ctx, "DELETE FROM audit_"+table); err != nil {
					return err
				}
			}
			_, err := t.Exec(ctx, `UPDATE audit_head SET size = 0, edge = x''`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		add(t, d, 50, again)
		forged := openWitnessed(t, d, time.Now, w.flag())
		p := must(forged.Checkpoint(ctx, 0))(t) // it knows of no other head
		list := must(ready.Alarms(ctx, d))(t)
		if len(p.Cosignatures) != 0 || len(list) == 0 || list[0].Kind != client.AlarmAuditBroken {
			t.Errorf("%s: cosigned %q, alarms %+v", name, p.Cosignatures, list)
		}
	}
}

// TestWitnessIsAway: a witness that does not answer, or answers nonsense, stops nothing. After a day that is an
// alarm, and what it missed is cosigned together.
func TestWitnessIsAway(t *testing.T) {
	d, l := open(t, dbtest.SQLite(t))
	w, now := newWitness(t, l.Key()), time.Now()
	nonsense := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, "— x AAAA\n\nyes\n")
	}))
	defer nonsense.Close()
	stranger := newWitness(t, l.Key())
	l = openWitnessed(t, d, func() time.Time { return now }, w.flag(), nonsense.URL+" "+w.key, stranger.URL+" "+w.key)
	w.away.Store(true)
	alarms := func() (subjects []string) {
		for _, a := range must(ready.Alarms(ctx, d))(t) {
			if a.Kind != client.AlarmWitnessSilent {
				t.Errorf("alarm %+v", a)
			}
			subjects = append(subjects, a.Subject)
		}
		return subjects
	}
	for i := range 3 {
		add(t, d, i, 1)
		now = now.Add(11 * time.Hour)
		l.Sign(ctx)
		if p := must(l.Checkpoint(ctx, 0))(t); len(p.Cosignatures) != 0 || must(journal.Size(p))(t) != int64(i+1) {
			t.Errorf("%+v", p)
		}
		if got, want := len(alarms()), map[bool]int{true: 3}[i == 2]; got != want {
			t.Errorf("after %d hours: %d alarms", 11*(i+1), got)
		}
	}
	if list := alarms(); len(list) == 3 && !strings.Contains(strings.Join(list, " "), w.URL) {
		t.Errorf("alarms about %q", list)
	}
	w.away.Store(false)
	l.Sign(ctx)
	if p := must(l.Checkpoint(ctx, 0))(t); len(p.Cosignatures) != 1 {
		t.Errorf("cosignatures %q", p.Cosignatures)
	}
	if list := must(d.StandingAlarms(ctx, client.AlarmWitnessSilent))(t); len(list) != 2 || slices.ContainsFunc(list, func(a db.Alarm) bool { return a.Subject == w.URL }) {
		t.Errorf("alarms %+v stand; want those about %s and %s", list, nonsense.URL, stranger.URL)
	}
	for _, bad := range []string{"ftp://w.example " + w.key, "w.example " + w.key, "https://u:p@w.example " + w.key, "https://w.example?x " + w.key,
		"https://w.example", "https://w.example w+1+AA", w.key, ""} {
		if _, err := journal.Open(ctx, journal.Config{DB: d, End: "service", Now: time.Now, Log: slog.New(slog.DiscardHandler), Witnesses: []string{bad}}); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// TestWitnessAfterRestore: a witness has cosigned what came after a backup. It refuses the log of
// the restored backup, which is told as what it is, until whoever runs it lets it forget.
func TestWitnessAfterRestore(t *testing.T) {
	for name, more := range map[string]int{"shorter": 0, "longer": 9} {
		url := dbtest.SQLite(t)
		d, l := open(t, url)
		w := newWitness(t, l.Key())
		lost := openWitnessed(t, d, time.Now, w.flag())
		add(t, d, 0, 3)
		must(lost.Checkpoint(ctx, 0))(t)
		backup := filepath.Join(t.TempDir(), "backup")
		must(db.Backup(ctx, url, backup))(t)
		add(t, d, 3, 4)
		must(lost.Checkpoint(ctx, 0))(t)

		d = must(db.Open(ctx, db.Config{URL: backup, Keys: testKeys, Restoring: true}, outbox.End()))(t)
		defer d.Close()
		must(journal.BeginEpoch(ctx, d, journal.Restore{Kind: journal.ServiceRestored, Alarm: client.AlarmRestored, Feeds: outbox.Feeds, At: db.MillisOf(at)}))(t)
		add(t, d, 50, more)
		l = openWitnessed(t, d, time.Now, w.flag())
		for range 2 {
			l.Sign(ctx)
		}
		standing := func(kind client.AlarmKind) int { return len(must(d.StandingAlarms(ctx, kind))(t)) }
		if standing(client.AlarmWitnessRefuses) != 1 || standing(client.AlarmAuditBroken) != 0 {
			t.Errorf("%s: alarms %+v", name, must(ready.Alarms(ctx, d))(t))
		}
		w.forgets()
		l.Sign(ctx)
		if p := must(l.Checkpoint(ctx, 0))(t); len(p.Cosignatures) != 1 || standing(client.AlarmWitnessRefuses) != 0 {
			t.Errorf("%s: it has forgotten: cosigned %q, alarms %+v", name, p.Cosignatures, must(ready.Alarms(ctx, d))(t))
		}
	}
}

// TestForgedCosignature: who writes the database has a witness say what it did not: that it has
// cosigned what is still to come, so that it is asked no more, or the present head.
func TestForgedCosignature(t *testing.T) {
	for name, forge := range map[string]string{
		"to come":    `INSERT INTO audit_cosigned (witness, size, lines) SELECT witness, 1000, lines FROM audit_cosigned`,
		"other head": `UPDATE audit_cosigned SET size = 2`,
		"other line": `UPDATE audit_cosigned SET lines = SUBSTR(lines, 1, LENGTH(lines) - 8) || 'AAAAAA==' || SUBSTR(lines, -1)`,
		"no line":    `UPDATE audit_cosigned SET lines = ''`,
	} {
		d, l := open(t, dbtest.SQLite(t))
		w := newWitness(t, l.Key())
		l = openWitnessed(t, d, time.Now, w.flag())
		add(t, d, 0, 1)
		must(l.Checkpoint(ctx, 0))(t)
		add(t, d, 1, 1)
		w.away.Store(true)
		must(l.Checkpoint(ctx, 0))(t)
		w.away.Store(false)
		if err := d.Write(ctx, func(ctx context.Context, t *db.Tx) error { _, err := t.Exec(ctx, forge); return err }); err != nil {
			t.Fatal(err)
		}
		if p := must(openWitnessed(t, d, time.Now, w.flag()).Checkpoint(ctx, 0))(t); len(p.Cosignatures) != 1 {
			t.Errorf("%s: cosigned %q", name, p.Cosignatures)
		}
		if list := must(d.StandingAlarms(ctx, client.AlarmAuditBroken))(t); len(list) != 1 && name != "no line" {
			t.Errorf("%s: alarms %+v", name, must(ready.Alarms(ctx, d))(t))
		}
	}
}
