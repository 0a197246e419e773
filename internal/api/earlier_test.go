package api

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest/ready"
	"countersign/internal/outbox"
)

// nodes are two processes of one end, the same one where a database has one process at a time.
type nodes struct {
	all  [2]*db.DB
	open func() *db.DB // another process
}

// eachPair runs test with two nodes of each end, on each kind of database.
func eachPair(t *testing.T, test func(*testing.T, nodes)) {
	for _, end := range []db.End{outbox.End(), book.End()} {
		for name, url := range ready.Kinds(end) {
			t.Run(end.Name+"/"+name, func(t *testing.T) {
				url := url(t)
				n := nodes{open: func() *db.DB {
					d, err := db.Open(t.Context(), db.Config{URL: url, Keys: db.NewMasterKey([32]byte{7})}, end)
					if err != nil {
						t.Fatal(err)
					}
					return d
				}}
				n.all = [2]*db.DB{n.open()}
				t.Cleanup(func() { n.all[0].Close() })
				if n.all[1] = n.all[0]; n.all[0].Dialect().Shared {
					n.all[1] = n.open()
					t.Cleanup(func() { n.all[1].Close() })
				}
				test(t, n)
			})
		}
	}
}

// run runs a database until the test ends.
func run(t *testing.T, d *db.DB) {
	t.Helper()
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(running) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// until waits for something that comes within seconds.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not so: " + what)
		}
	}
}

// exec runs a statement past the program.
func exec(t *testing.T, d *db.DB, text string, args ...any) {
	t.Helper()
	err := d.Write(t.Context(), func(ctx context.Context, x *db.Tx) error {
		n, err := x.Exec(ctx, text, args...)
		if err == nil && n == 0 {
			err = fmt.Errorf("%s changes nothing", text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEarlierToken: a token's row of before it was revoked, which has its MAC, is no token's at
// any node that has seen the revocation, nor at a process that begins later and knows the numbers
// from its directory; and an approver's row that is removed ends no rule.
func TestEarlierToken(t *testing.T) { eachPair(t, testEarlierToken) }

func testEarlierToken(t *testing.T, n nodes) {
	ctx, a, b := t.Context(), NewTokens(n.all[0]), NewTokens(n.all[1])
	run(t, n.all[0])
	if n.all[1] != n.all[0] {
		run(t, n.all[1])
	}
	token, approver, other := NewStoreToken("core", client.RoleOperator, 1), NewStoreToken("approver", client.RoleApprover, 1), NewStoreToken("other", client.RoleViewer, 1)
	hash := [32]byte{1}
	for i, token := range []Token{other, token, approver} {
		if err := a.Create(ctx, token, [32]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, n.all[0], `CREATE TABLE kept AS SELECT * FROM tokens`)
	if err := a.Revoke(ctx, token.ID, 5, nil); err != nil {
		t.Fatal(err)
	}
	number := func(d *db.DB, id string) int64 {
		numbers, _ := d.RowNumbers()
		return numbers["tokens"][id]
	}
	until(t, "the other node knows of the revocation", func() bool { return number(n.all[1], token.ID) == 2 })

	back := func(id string) {
		exec(t, n.all[0], `INSERT INTO tokens SELECT * FROM kept WHERE id = $1`, id)
	}
	exec(t, n.all[0], `DELETE FROM tokens WHERE id = $1`, token.ID)
	back(token.ID)
	for i, s := range []*Tokens{a, b} {
		if got, err := s.ByHash(ctx, hash); !errors.Is(err, db.ErrNotFound) {
			t.Errorf("node %d: a revoked token's earlier row is %+v, %v", i, got, err)
		}
		if err := s.Revoke(ctx, token.ID, 6, nil); !errors.Is(err, db.ErrForged) {
			t.Errorf("node %d: it was changed, which makes it genuine: %v", i, err)
		}
		if _, err := s.ByHash(ctx, [32]byte{0}); err != nil {
			t.Errorf("node %d: the other token: %v", i, err)
		}
	}
	told := func(row string) func() bool {
		return func() bool {
			list, err := ready.Alarms(ctx, n.all[1])
			for _, a := range list {
				if a.Kind == client.AlarmRowForged && a.Subject == row {
					return true
				}
			}
			return err != nil
		}
	}
	until(t, "an alarm about the token", told("tokens "+token.ID))

	// A process that has seen nothing yet, but whose directory has the numbers.
	numbers, _ := n.all[1].RowNumbers()
	if n.all[1] != n.all[0] {
		d := n.open()
		defer d.Close()
		d.ExpectRows(numbers)
		if got, err := NewTokens(d).ByHash(ctx, hash); !errors.Is(err, db.ErrNotFound) {
			t.Errorf("in a new process it is %+v, %v", got, err)
		}
	}

	// An approver that is removed.
	exec(t, n.all[0], `DELETE FROM tokens WHERE id IN ($1, $2)`, approver.ID, token.ID)
	for i, d := range n.all {
		if waits, err := ChangesWait(ctx, d, ""); err != nil || !waits {
			t.Errorf("node %d: changes wait for nobody when the approver's row was removed: %v", i, err)
		}
	}
	until(t, "an alarm about the approver", told("tokens "+approver.ID))
	if err := a.Create(ctx, approver, [32]byte{9}); !errors.Is(err, db.ErrForged) {
		t.Errorf("it was made again: %v", err)
	}
	back(approver.ID)
	if got, err := b.ByID(ctx, approver.ID); err != nil || got.Role != client.RoleApprover {
		t.Errorf("put back as it was: %+v, %v", got, err)
	}
}

// TestEarlierChange: an approval of before the change was rejected applies nothing.
func TestEarlierChange(t *testing.T) { eachPair(t, testEarlierChange) }

func testEarlierChange(t *testing.T, n nodes) {
	ctx, s := t.Context(), NewTokens(n.all[0])
	var ends [2]*Changes
	for i, d := range n.all {
		var err error
		if ends[i], err = NewChanges(ChangesConfig{DB: d, Delay: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	if n.all[1] != n.all[0] {
		run(t, n.all[1])
	}
	admin, approver := NewStoreToken("admin", client.RoleAdmin, 1), NewStoreToken("approver", client.RoleApprover, 1)
	for i, token := range []Token{admin, approver} {
		if err := s.Create(ctx, token, [32]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	c := &Change{Kind: client.ChangeToken, Token: "tok_made", Before: map[string]string{}, After: map[string]string{"role": "viewer"}, ProposedBy: admin.ID, Proposed: 100}
	if err := ends[0].Propose(ctx, c, fmt.Appendf(nil, `{"Token":{"ID":"tok_made","Role":"viewer"},"Hash":%q}`, hashText(77))); err != nil || c.State != client.ChangeWaiting {
		t.Fatalf("%+v, %v", c, err)
	}
	if _, err := ends[0].Approve(ctx, c.ID, approver, 200); err != nil {
		t.Fatal(err)
	}
	exec(t, n.all[0], `CREATE TABLE kept AS SELECT * FROM changes`)
	if _, err := ends[0].Reject(ctx, c.ID, approver, "no", 300); err != nil {
		t.Fatal(err)
	}
	until(t, "the other node knows of the rejection", func() bool {
		numbers, _ := n.all[1].RowNumbers()
		return numbers["changes"][c.ID] == 3
	})
	exec(t, n.all[0], `DELETE FROM changes`)
	exec(t, n.all[0], `INSERT INTO changes SELECT * FROM kept`)
	for i, k := range ends {
		if err := k.ApplyDue(ctx, 200+3_600_000); err != nil {
			t.Error(err)
		}
		if got, err := s.ByID(ctx, "tok_made"); !errors.Is(err, db.ErrNotFound) {
			t.Fatalf("node %d: a rejected change was applied: %+v, %v", i, got, err)
		}
	}
}
