package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/outbox"
)

// rekeyRun is a run of Rekey by a process of its own, which kills itself at a step.
type rekeyRun struct {
	Dir, DB, Old, New string // New empty: the key is in Dir
	Step              string
}

const rekeyRunEnv = "COUNTERSIGN_TEST_REKEY"

// rekeyChild is the child: TestMain calls it.
func rekeyChild(text string) int {
	var r rekeyRun
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		panic(err)
	}
	c, fresh := r.place()
	c.step = func(step string) {
		if step == r.Step {
			p, _ := os.FindProcess(os.Getpid())
			p.Kill()
			select {}
		}
	}
	_, err := c.Rekey(context.Background(), fresh)
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// place returns the database and the new key, if one is given.
func (r rekeyRun) place() (p Place, fresh *db.MasterKey) {
	p = serviceIn(r.Dir)
	p.DB = r.DB
	for text, into := range map[string]**db.MasterKey{r.Old: &p.Keys, r.New: &fresh} {
		if text != "" {
			*into, _ = ParseMasterKey(text)
		}
	}
	return p, fresh
}

// sealOne makes a service with a merchant, and opensOne opens what is sealed of it.
func sealOne(t *testing.T, s Storage) {
	t.Helper()
	d := must(s.open(t.Context(), nil, outbox.End()))
	defer d.Close()
	pair, _ := newPair(t)
	m := outbox.Merchant{KeySet: outbox.KeySet{MerchantKeys: outbox.MerchantKeys{APIKey: "the key of the shop", Key: pair}}, ID: "shop", Scheme: client.SchemeService,
		MerchantSettings: client.MerchantSettings{Name: "m", NotifyURL: "https://m.example/n", WithdrawURL: "https://m.example/w", Concurrency: 1, ConfirmWithin: client.Duration(3600e9)}}
	must(outbox.New(d).CreateMerchant(t.Context(), m, 1))
}

func opensOne(t *testing.T, s Storage) error {
	t.Helper()
	d, err := s.open(t.Context(), nil, outbox.End())
	if err != nil {
		return err
	}
	m, err := outbox.New(d).Merchant(t.Context(), "shop")
	if err == nil && m.APIKey.Reveal() != "the key of the shop" {
		t.Errorf("the API key came back as %q", m.APIKey.Reveal())
	}
	return errors.Join(err, d.Close())
}

// TestRekeyKilled: rekey is killed at each of its steps. Before the commit the database opens with the old key and
// afterwards with the new one, whichever file has it, and the same command does it again.
func TestRekeyKilled(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(testing.TB) string{"sqlite": func(testing.TB) string { return "" }, "postgres": dbtest.Postgres} {
		t.Run(name+"/in the directory", func(t *testing.T) {
			t.Parallel()
			s := Storage{Dir: filepath.Join(t.TempDir(), "data"), DB: url(t)}
			sealOne(t, s)
			files := 1
			for _, step := range []string{"making", "sealing", "committing", "reporting"} {
				before := presentKey(t, s)
				rekeyRun{Dir: s.Dir, DB: s.DB, Step: step}.killed(t)
				if step != "making" {
					files++
				}
				ok(t, opensOne(t, s))
				if after := presentKey(t, s); len(s.masterKeys()) != files || (after == before) != (step != "reporting") {
					t.Errorf("%s: %v; the key was %s and is %s", step, s.masterKeys(), before, after)
				}
			}
			again, _ := rekeyRun{Dir: s.Dir, DB: s.DB}.place()
			before := presentKey(t, s)
			r, err := again.Rekey(t.Context(), nil)
			if err != nil || r.Old != before || r.Key != presentKey(t, s) || r.KeyFile != s.file(MasterKeyFile)+"."+r.Key || r.Values == 0 {
				t.Errorf("again: %+v, %v", r, err)
			}
			ok(t, opensOne(t, s))
		})
		t.Run(name+"/given", func(t *testing.T) {
			t.Parallel()
			keys := [2]string{strings.Repeat("a1", 32), strings.Repeat("b2", 32)}
			run := rekeyRun{Dir: filepath.Join(t.TempDir(), "data"), DB: url(t), Old: keys[0], New: keys[1]}
			c, fresh := run.place()
			sealOne(t, c.Storage)
			for _, run.Step = range []string{"sealing", "committing"} {
				run.killed(t)
				ok(t, opensOne(t, c.Storage))
			}
			run.Step = "reporting"
			run.killed(t)
			again, err := c.Rekey(t.Context(), fresh)
			if err != nil || again != (Rekeyed{Key: fresh.Fingerprint()}) {
				t.Errorf("again: %+v, %v", again, err)
			}
			if err := opensOne(t, c.Storage); !errors.Is(err, db.ErrMasterKey) || !strings.Contains(err.Error(), fresh.Fingerprint()) {
				t.Errorf("the old key: %v", err)
			}
			ok(t, opensOne(t, Storage{Dir: c.Dir, DB: c.DB, Keys: fresh}))
			stranger, _ := ParseMasterKey(strings.Repeat("c3", 32))
			if _, err := c.Rekey(t.Context(), stranger); !errors.Is(err, db.ErrMasterKey) || !strings.Contains(err.Error(), "the key of the database "+fresh.Fingerprint()) {
				t.Errorf("two other keys: %v", err)
			}
		})
	}
}

// presentKey returns the fingerprint of the key that the database names.
func presentKey(t *testing.T, s Storage) string {
	t.Helper()
	is, err := Place{Storage: s, Log: slog.New(slog.DiscardHandler)}.present(t.Context())
	ok(t, err)
	return is
}

// killed runs Rekey until it is killed.
func (r rekeyRun) killed(t *testing.T) {
	t.Helper()
	text := must(json.Marshal(r))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), rekeyRunEnv+"="+string(text))
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != -1 && cmd.ProcessState.ExitCode() != 1 || len(out) > 0 {
		t.Fatalf("%s: it was not killed: %v\n%s", r.Step, cmd.ProcessState, out)
	}
}

// TestRekeyRefuses: rekey leaves nothing behind where it cannot work.
func TestRekeyRefuses(t *testing.T) {
	dir := t.TempDir()
	c := serviceIn(dir)
	var fresh *db.MasterKey
	refused := func(want string) {
		t.Helper()
		if _, err := c.Rekey(t.Context(), fresh); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if left, _ := filepath.Glob(c.file(MasterKeyFile) + ".*"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
	refused("start it first")
	sealOne(t, c.Storage)
	d := must(c.open(t.Context(), nil, outbox.End()))
	refused("stop that process")
	d.Close()
	fresh, _ = c.masterKey("")
	refused("make another")
	fresh, c.Keys = nil, fresh
	refused("new master key is missing")
}

// TestRestoreBeforeRekey: a backup from before a rekey opens with the key of then, whose file is still there.
func TestRestoreBeforeRekey(t *testing.T) {
	s, backup := Storage{Dir: filepath.Join(t.TempDir(), "data")}, filepath.Join(t.TempDir(), "backup")
	sealOne(t, s)
	must(Backup(t.Context(), s.Dir, backup))
	p := serviceIn(s.Dir)
	r := must(p.Rekey(t.Context(), nil))
	must(p.Restore(t.Context(), backup, true))
	ok(t, opensOne(t, s))
	if is := presentKey(t, s); is != r.Old {
		t.Errorf("the key is %s, not that of the backup, %s", is, r.Old)
	}
	ok(t, os.Remove(s.file(MasterKeyFile)))
	if _, err := p.Restore(t.Context(), backup, true); !errors.Is(err, db.ErrMasterKey) || !strings.Contains(err.Error(), r.Old) {
		t.Errorf("without the old key: %v", err)
	}
}
