package audit_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	fnote "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/witness/persistence/inmemory"
	"github.com/transparency-dev/witness/witness"
	"golang.org/x/mod/sumdb/note"

	"countersign/client"
	"countersign/internal/audit"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/dbtest/ready"
)

// realWitness is a witness of transparency-dev that knows the log with this key.
type realWitness struct {
	*httptest.Server
	key   string
	away  atomic.Bool
	asked atomic.Int64
}

func newWitness(t *testing.T, key string) *realWitness {
	t.Helper()
	private, public, err := note.GenerateKey(rand.Reader, "witness.example/w1")
	if err != nil {
		t.Fatal(err)
	}
	signer := must(fnote.NewSignerForCosignatureV1(private))(t)
	of := must(note.NewVerifier(key))(t)
	w := must(witness.New(t.Context(), witness.Opts{Persistence: inmemory.New(), Signers: []note.Signer{signer},
		VerifierForLog: func(_ context.Context, origin string) (note.Verifier, bool, error) {
			return of, origin == of.Name(), nil
		}}))(t)
	out := &realWitness{key: public}
	handler := http.HandlerFunc(witness.NewHTTPHandler(w).AddCheckpoint)
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

// openWitnessed opens the log again with witnesses.
func openWitnessed(t *testing.T, d *db.DB, now func() time.Time, urls ...string) *audit.Log {
	t.Helper()
	return must(audit.Open(ctx, audit.Config{DB: d, End: "service", Now: now, Log: slog.New(slog.DiscardHandler), Witnesses: urls}))(t)
}

// TestWitness: every head is cosigned by a witness that checks that it continues the last one,
// and the file shows by whom and when.
func TestWitness(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		d, l := open(t, url)
		w, other := newWitness(t, l.Key()), newWitness(t, l.Key())
		l = openWitnessed(t, d, time.Now, w.URL+"/", other.URL)
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
			if said := audit.SaidCosigners(p); len(said) != 2 || said[0].Name != got[0].Name {
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
		if _, err := v.Cosigners([]string{w.key, stranger.key}); !errors.Is(err, audit.ErrWitness) {
			t.Errorf("a witness that has not cosigned: %v", err)
		}
		for i, line := range v.Cosigned { // nobody else can make one
			b := []byte(line)
			b[len(b)-10] ^= 1
			v.Cosigned[i] = string(b)
		}
		if got, err := v.Cosigners([]string{w.key}); !errors.Is(err, audit.ErrWitness) {
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
		l = openWitnessed(t, d, time.Now, w.URL)
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
		forged := openWitnessed(t, d, time.Now, w.URL)
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
	l = openWitnessed(t, d, func() time.Time { return now }, w.URL, nonsense.URL)
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
		if p := must(l.Checkpoint(ctx, 0))(t); len(p.Cosignatures) != 0 || must(audit.Size(p))(t) != int64(i+1) {
			t.Errorf("%+v", p)
		}
		if got, want := len(alarms()), map[bool]int{true: 2}[i == 2]; got != want {
			t.Errorf("after %d hours: %d alarms", 11*(i+1), got)
		}
	}
	if list := alarms(); len(list) == 2 && !strings.Contains(strings.Join(list, " "), w.URL) {
		t.Errorf("alarms about %q", list)
	}
	w.away.Store(false)
	l.Sign(ctx)
	if p := must(l.Checkpoint(ctx, 0))(t); len(p.Cosignatures) != 1 {
		t.Errorf("cosignatures %q", p.Cosignatures)
	}
	if list := must(d.StandingAlarms(ctx, client.AlarmWitnessSilent))(t); len(list) != 1 || list[0].Subject != nonsense.URL {
		t.Errorf("alarms %+v stand; want the one about %s", list, nonsense.URL)
	}
	for _, bad := range []string{"ftp://w.example", "w.example", "https://u:p@w.example", "https://w.example?x"} {
		if _, err := audit.Open(ctx, audit.Config{DB: d, End: "service", Now: time.Now, Log: slog.New(slog.DiscardHandler), Witnesses: []string{bad}}); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
