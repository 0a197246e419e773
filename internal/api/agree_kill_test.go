package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	osexec "os/exec"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
	"countersign/internal/outbox"
)

// approvingChild makes the test binary approve all changes of a database until it is killed: the URL and
// two tokens, each on a line. It reads a byte before each step.
const approvingChild = "COUNTERSIGN_TEST_APPROVE"

func approveAll(given string) error {
	of := strings.Split(given, "\n")
	ctx := context.Background()
	d, err := db.Open(ctx, db.Config{URL: of[0], Keys: db.NewMasterKey([32]byte{7})}, outbox.End())
	if err != nil {
		return err
	}
	k, err := NewChanges(ChangesConfig{DB: d, Approvals: 2})
	if err != nil {
		return err
	}
	ids, err := db.List(ctx, d, `SELECT id FROM changes WHERE state = 'open' ORDER BY id`, nil, func(r db.Rows) (id string, err error) {
		err = r.Scan(&id)
		return id, err
	})
	step := func(done string) error {
		fmt.Println(done)
		_, err := os.Stdin.Read(make([]byte, 1))
		return err
	}
	if err == nil {
		err = step("begun")
	}
	if err != nil {
		return err
	}
	for _, id := range ids {
		for i, by := range of[1:] {
			token, unknown := FindToken(ctx, d, by)
			if _, err = k.Approve(ctx, id, token, "", db.Millis(1000+i)); unknown != nil || err != nil && !errors.Is(err, db.ErrConflict) {
				return errors.Join(err, unknown)
			}
			if err := step("approved"); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestKilledWhileApproving: whenever a node dies between the first approval of a change and its
// execution, the next one goes on: each person counts once, and each change is made once.
func TestKilledWhileApproving(t *testing.T) {
	kills := 3
	if dbtest.IsWhole() {
		kills = 12
	}
	for name, kind := range dbtest.Kinds {
		t.Run(name, func(t *testing.T) {
			url := kind(t)
			d, err := db.Open(t.Context(), db.Config{URL: url, Keys: db.NewMasterKey([32]byte{7})}, outbox.End())
			if err != nil {
				t.Fatal(err)
			}
			r := newQuorumRig(t, d, ChangesConfig{Approvals: 2})
			ann, bob := r.token("ann", client.RoleApprover, nil), r.token("bob", client.RoleApprover, nil)
			made := map[string]string{} // tokens by changes
			for i := range 60 {
				id, token := r.propose(db.Millis(100 + i))
				made[id] = token
			}
			if err := d.Close(); err != nil { // a database in a file has one process
				t.Fatal(err)
			}
			given := strings.Join([]string{url, ann.ID, bob.ID}, "\n")
			for i := range kills {
				killApproving(t, given, 1+i%2+2*(i%4), time.Duration(i*300)*time.Microsecond)
			}
			if d, err = db.Open(t.Context(), db.Config{URL: url, Keys: db.NewMasterKey([32]byte{7})}, outbox.End()); err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if r.k, err = NewChanges(ChangesConfig{DB: d, Approvals: 2}); err != nil {
				t.Fatal(err)
			}
			r.d = d
			states := map[client.TaskState]int{}
			for id := range made {
				c := must(findChange(t.Context(), d, id))(t)
				states[c.State]++
				list, err := r.k.kept(t.Context(), d, &c)
				if _, found := FindToken(t.Context(), d, made[id]); err != nil || (found == nil) != (c.State == client.TaskDone) || c.State == client.TaskOpen && len(list) > 1 || c.State != client.TaskOpen && len(list) != 2 {
					t.Errorf("%s is %s with %d approvals, and its token %v; %v", id, c.State, len(list), found, err)
				}
			}
			if t.Log(states); states[client.TaskOpen] == 0 || states[client.TaskDone] == 0 {
				t.Errorf("no kill came between: %v", states)
			}
			for id, token := range made {
				for i, by := range []Token{ann, ann, bob, bob} {
					if _, err := r.k.Approve(t.Context(), id, by, "", db.Millis(4000+i)); err != nil && !errors.Is(err, db.ErrConflict) {
						t.Fatal(err)
					}
				}
				checkOnce(t, d, id, token, ann, bob)
			}
		})
	}
}

// checkOnce looks at the approvals and at the records of a change that was applied.
func checkOnce(t *testing.T, d *db.DB, id, token string, ann, bob Token) {
	t.Helper()
	c, err := findChange(t.Context(), d, id)
	if err != nil || c.State != client.TaskDone {
		t.Fatalf("%s is %s, %v", id, c.State, err)
	}
	list, err := db.Votes(t.Context(), d, aboutChange(id), c.digest())
	if err != nil || len(list) != 2 || list[0].Token != ann.ID || list[1].Token != bob.ID {
		t.Errorf("%+v, %v", list, err)
	}
	kinds := map[string]int{}
	bodies, err := db.List(t.Context(), d, `SELECT r.body FROM audit_records r JOIN audit_subjects s ON s.seq = r.seq WHERE s.subject = $1`, []any{id}, func(r db.Rows) (b []byte, err error) {
		err = r.Scan(&b)
		return b, err
	})
	for _, b := range bodies {
		told, unread := journal.Read(b)
		err = errors.Join(err, unread)
		kinds[told.Kind]++
	}
	// The last approval is the record that it is done.
	if want := map[string]int{recordProposed: 1, recordApproved: 1, recordDone: 1}; err != nil || !maps.Equal(kinds, want) {
		t.Errorf("the log has %v of %s, want %v; %v", kinds, id, want, err)
	}
	if _, err := FindToken(t.Context(), d, token); err != nil {
		t.Error(err)
	}
}

// killApproving kills a process that approves, some time after it has made so many steps: in the
// next one, or behind it.
func killApproving(t *testing.T, given string, steps int, after time.Duration) {
	t.Helper()
	path := must(os.Executable())(t)
	cmd := osexec.Command(path)
	cmd.Env = append(os.Environ(), approvingChild+"="+given)
	cmd.Stderr = t.Output()
	out := must(cmd.StdoutPipe())(t)
	in, err := cmd.StdinPipe() // it stays open: the child waits until it is killed
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = in.Write(make([]byte, steps+1))
	}
	if err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	for range steps + 1 { // the first says that it has begun
		if !said.Scan() {
			t.Errorf("the child has ended: %v", said.Err())
		}
	}
	time.Sleep(after)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
