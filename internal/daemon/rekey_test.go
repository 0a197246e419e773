package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	d, err := s.open(t.Context(), nil, outbox.End())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	pair, _ := newPair(t)
	m := outbox.Merchant{KeySet: outbox.KeySet{MerchantKeys: outbox.MerchantKeys{APIKey: "the key of the shop", Key: pair}}, ID: "shop", Scheme: client.SchemeService,
		MerchantSettings: client.MerchantSettings{Name: "m", NotifyURL: "https://m.example/n", WithdrawURL: "https://m.example/w", Concurrency: 1, ConfirmWithin: client.Duration(3600e9)}}
	if _, err := outbox.New(d).CreateMerchant(t.Context(), m, 1); err != nil {
		t.Fatal(err)
	}
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

// TestRekeyKilled: rekey is killed at each of its steps. The database opens with exactly one of the
// two keys, a start says so, and the same command goes on.
func TestRekeyKilled(t *testing.T) {
	for name, url := range map[string]func(testing.TB) string{"sqlite": func(testing.TB) string { return "" }, "postgres": dbtest.Postgres} {
		t.Run(name+"/in the directory", func(t *testing.T) {
			s := Storage{Dir: filepath.Join(t.TempDir(), "data"), DB: url(t)}
			sealOne(t, s)
			first, err := s.masterKey()
			if err != nil {
				t.Fatal(err)
			}
			kept := map[string]bool{}
			for _, step := range []string{"making", "sealing", "committing", "keeping", "replacing", "reporting"} {
				before, err := s.masterKey()
				if err != nil {
					t.Fatal(err)
				}
				run := rekeyRun{Dir: s.Dir, DB: s.DB, Step: step}
				run.killed(t)
				next, nextErr := s.readKey(nextKeyFile)
				err = opensOne(t, s)
				switch step {
				case "making":
					if err != nil || !errors.Is(nextErr, os.ErrNotExist) {
						t.Errorf("%s: %v, %v", step, err, nextErr)
					}
				case "sealing", "committing":
					if err != nil || nextErr != nil {
						t.Errorf("%s: %v, %v", step, err, nextErr)
					}
				case "keeping", "replacing":
					if !errors.Is(err, db.ErrMasterKey) || !strings.Contains(err.Error(), "run rekey again") || nextErr != nil {
						t.Fatalf("%s: %v, %v", step, err, nextErr)
					}
					if err := opensOne(t, Storage{Dir: s.Dir, DB: s.DB, Keys: next}); err != nil {
						t.Errorf("%s: the next key: %v", step, err)
					}
				case "reporting":
					if is, keyErr := s.masterKey(); err != nil || keyErr != nil || is.Fingerprint() == before.Fingerprint() {
						t.Errorf("%s: %v, %v", step, err, keyErr)
					}
					kept[before.Fingerprint()] = true
					continue
				}
				again, _ := run.place()
				r, err := again.Rekey(t.Context(), nil)
				if err != nil || r.Old != before.Fingerprint() || r.OldFile != s.oldKeyFile(r.Old) || (r.Values == 0) != (step == "keeping" || step == "replacing") {
					t.Fatalf("%s: again: %+v, %v", step, r, err)
				}
				if err := opensOne(t, s); err != nil {
					t.Errorf("%s: in the end: %v", step, err)
				}
				if is, err := s.masterKey(); err != nil || is.Fingerprint() != r.Key || nextErr == nil && r.Key != next.Fingerprint() {
					t.Errorf("%s: in the end the key is not %s: %v", step, r.Key, err)
				}
				kept[r.Old] = true
			}
			files, err := filepath.Glob(s.file(MasterKeyFile) + "*")
			if err != nil || len(files) != len(kept)+1 || !kept[first.Fingerprint()] {
				t.Errorf("%v, want the key and %d old ones: %v", files, len(kept), err)
			}
			for f := range kept {
				text, err := readSecret(s.oldKeyFile(f))
				if k, err2 := ParseMasterKey(text); err != nil || err2 != nil || k.Fingerprint() != f {
					t.Errorf("%s: %v, %v", f, err, err2)
				}
			}
		})
		t.Run(name+"/given", func(t *testing.T) {
			keys := [2]string{strings.Repeat("a1", 32), strings.Repeat("b2", 32)}
			run := rekeyRun{Dir: filepath.Join(t.TempDir(), "data"), DB: url(t), Old: keys[0], New: keys[1]}
			c, fresh := run.place()
			sealOne(t, c.Storage)
			for _, run.Step = range []string{"sealing", "committing"} {
				run.killed(t)
				if err := opensOne(t, c.Storage); err != nil {
					t.Errorf("%s: %v", run.Step, err)
				}
			}
			run.Step = "reporting"
			run.killed(t)
			again, err := c.Rekey(t.Context(), fresh)
			if err != nil || again.Values != 0 || again.Key != fresh.Fingerprint() || again.OldFile != "" {
				t.Errorf("again: %+v, %v", again, err)
			}
			if err := opensOne(t, c.Storage); !errors.Is(err, db.ErrMasterKey) || !strings.Contains(err.Error(), fresh.Fingerprint()) {
				t.Errorf("the old key: %v", err)
			}
			if err := opensOne(t, Storage{Dir: c.Dir, DB: c.DB, Keys: fresh}); err != nil {
				t.Errorf("the new key: %v", err)
			}
			stranger, _ := ParseMasterKey(strings.Repeat("c3", 32))
			if _, err := c.Rekey(t.Context(), stranger); !errors.Is(err, db.ErrMasterKey) || !strings.Contains(err.Error(), "sealed under "+fresh.Fingerprint()) {
				t.Errorf("two other keys: %v", err)
			}
		})
	}
}

// killed runs Rekey until it is killed.
func (r rekeyRun) killed(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
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
	d, err := c.open(t.Context(), nil, outbox.End())
	if err != nil {
		t.Fatal(err)
	}
	refused("stop that process")
	d.Close()
	fresh, _ = c.masterKey()
	refused("make another")
	fresh, c.Keys = nil, fresh
	refused("new master key is missing")
}

// TestRestoreBeforeRekey: a backup from before a rekey needs the key of then, which has a name of
// its own; the error says which, and a rekey after it goes on from there.
func TestRestoreBeforeRekey(t *testing.T) {
	s, backup := Storage{Dir: filepath.Join(t.TempDir(), "data")}, filepath.Join(t.TempDir(), "backup")
	sealOne(t, s)
	if _, err := Backup(t.Context(), s.Dir, backup); err != nil {
		t.Fatal(err)
	}
	p := serviceIn(s.Dir)
	r, err := p.Rekey(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Restore(t.Context(), backup, true); !errors.Is(err, db.ErrMasterKey) || !strings.Contains(err.Error(), r.OldFile+" has that key") {
		t.Errorf("with the new key: %v", err)
	}
	if err := opensOne(t, s); err != nil {
		t.Errorf("the database that was there: %v", err)
	}
	for _, move := range [][2]string{{s.file(MasterKeyFile), s.oldKeyFile(r.Key)}, {r.OldFile, s.file(MasterKeyFile)}} {
		if err := os.Rename(move[0], move[1]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Restore(t.Context(), backup, true); err != nil {
		t.Fatal(err)
	}
	if err := opensOne(t, s); err != nil {
		t.Error(err)
	}
	again, err := p.Rekey(t.Context(), nil)
	if err != nil || again.Old != r.Old || again.OldFile != r.OldFile {
		t.Errorf("%+v, %v", again, err)
	}
	if err := opensOne(t, s); err != nil {
		t.Error(err)
	}
}
