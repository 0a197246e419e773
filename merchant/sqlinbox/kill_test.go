package sqlinbox_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"countersign/countersigntest"
	"countersign/merchant"
	"countersign/merchant/sqlinbox"
)

// childSettings, in the environment, makes the test binary a merchant's process.
const childSettings = "SQLINBOX_TEST_CHILD"

// settings of a child.
type settings struct {
	Dialect     sqlinbox.Dialect
	Driver, DSN string
	Deposits    int
	Dies        string // "written": after the function wrote; "committed": after the commit; "": not by itself
	At          int    // with which deposit
}

// child takes all deposits in an order of its own, and ends.
func child() int {
	if err := takeAll(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func takeAll() error {
	var c settings
	if err := json.Unmarshal([]byte(os.Getenv(childSettings)), &c); err != nil {
		return err
	}
	s := store{c.Dialect, c.Driver, c.DSN}
	db, err := open(s)
	if err != nil {
		return err
	}
	defer db.Close()
	die := func(n int, at string) {
		if c.Dies == at && n == c.At {
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Kill()
			}
			select {}
		}
	}
	number := map[string]int{}
	in, err := sqlinbox.New(sqlinbox.Config{DB: db, Dialect: c.Dialect, OnPossibleDuplicate: sqlinbox.KeepForReview,
		OnDeposit: func(ctx context.Context, tx *sql.Tx, d merchant.Deposit) error {
			if err := s.credit(ctx, tx, d); err != nil {
				return err
			}
			die(number[d.TrackingID], "written")
			return nil
		}})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for _, n := range rand.Perm(c.Deposits) {
		e := merchant.NewEntry(countersigntest.Deposit(n))
		number[e.ID] = n
		e.At = time.Now()
		claimed, err := in.Claim(ctx, e)
		switch {
		case err != nil:
			return err
		case claimed.State != merchant.StateTaken && claimed.State != merchant.StateSettled:
			return fmt.Errorf("deposit %d is %v", n, claimed.State)
		}
		die(n, "committed")
	}
	return nil
}

// process starts a child and returns when it is about to take deposits.
func process(t *testing.T, s store, c settings) *exec.Cmd {
	t.Helper()
	c.Dialect, c.Driver, c.DSN = s.dialect, s.driver, s.dsn
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childSettings+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) || line != "ready\n" {
		t.Fatalf("the child said %q, %v", line, err)
	}
	return cmd
}

func killed(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// TestKilled: a process that dies between the credit and the commit has done
// neither; one that dies after the commit, both.
func TestKilled(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		db := s.open(t)
		const deposits = 6
		for at, dies := range []string{"written", "committed"} { // a deposit of its own for each
			if err := process(t, s, settings{Deposits: deposits, Dies: dies, At: at}).Wait(); !killed(err) {
				t.Fatalf("the child ended with %v", err)
			}
			want := 0
			if dies == "committed" {
				want = 1
			}
			id := countersigntest.Deposit(at).TrackingID
			waitFor(t, func() bool { // until the server has noticed
				return count(t, db, s.text(`SELECT COUNT(*) FROM credits WHERE tracking_id = ?`), id) == want
			})
			if n := count(t, db, s.text(`SELECT COUNT(*) FROM countersign_inbox WHERE content = ?`), contentOf(countersigntest.Deposit(at))); n != want {
				t.Errorf("%s: %d entries are recorded, want %d", dies, n, want)
			}
		}
		if err := process(t, s, settings{Deposits: deposits}).Wait(); err != nil {
			t.Fatal(err)
		}
		booked(t, db, deposits)
	})
}

// TestKilledAtRandom: pairs of processes take the same deposits at once and are killed at
// any moment. What is left credits every deposit once.
func TestKilledAtRandom(t *testing.T) {
	const deposits = 60
	eachStore(t, func(t *testing.T, s store) {
		db := s.open(t)
		for round := range 4 {
			pair := []*exec.Cmd{process(t, s, settings{Deposits: deposits}), process(t, s, settings{Deposits: deposits})}
			for _, cmd := range pair {
				if round < 3 {
					time.Sleep(rand.N(10 * time.Millisecond))
					_ = cmd.Process.Kill()
				}
			}
			for _, cmd := range pair {
				if err := cmd.Wait(); err != nil && (round == 3 || !killed(err)) {
					t.Errorf("round %d: a child ended with %v", round, err)
				}
			}
			credits, entries := count(t, db, `SELECT COUNT(*) FROM credits`), count(t, db, `SELECT COUNT(*) FROM countersign_inbox`)
			t.Logf("round %d: %d credits, %d entries", round, credits, entries)
		}
		booked(t, db, deposits)
	})
}
