package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/db"
)

// TestFeedPage: the programs of docs/merchant that read feeds book each deposit once through a kill, a held one when a
// person has credited it, and stop where only a person can say what to do.
func TestFeedPage(t *testing.T) {
	for language, c := range map[string]struct {
		program []string
		books   func(dir string) []byte // lines of JSON or the printed rows, which name a seq each
	}{
		"python": {[]string{"/usr/bin/python3", "feed.py"}, func(dir string) []byte {
			c := exec.Command("/usr/bin/python3", "-c", `import sqlite3
for row in sqlite3.connect("books.db").execute("SELECT seq, amount FROM credits ORDER BY seq"): print(*row)`)
			c.Dir = dir
			out, _ := c.Output() // there may be no table yet
			return out
		}},
		"js": {[]string{"node", "feed.js"}, func(dir string) []byte {
			b, _ := os.ReadFile(filepath.Join(dir, "books.jsonl"))
			var rows []string
			for line := range strings.Lines(string(b)) {
				var r struct {
					Seq    int64
					Amount string
				}
				if json.Unmarshal([]byte(line), &r) == nil {
					rows = append(rows, fmt.Sprintf("%d %s\n", r.Seq, r.Amount))
				}
			}
			slices.Sort(rows)
			return []byte(strings.Join(rows, ""))
		}},
	} {
		t.Run(language, func(t *testing.T) {
			if _, err := exec.LookPath(c.program[0]); err != nil {
				if os.Getenv("CI") != "" {
					t.Fatal(err)
				}
				t.Skip("skipped: ", err)
			}
			program, err := filepath.Abs("../../docs/merchant/" + c.program[1])
			if err != nil {
				t.Fatal(err)
			}
			r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), nil)
			app := r.withRole(r.client.url, client.RoleApp)
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "app.token"), []byte(app.token.Reveal()+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			var said bytes.Buffer
			start := func() (kill func(), ended chan error) {
				ctx, kill := context.WithCancel(t.Context())
				p := exec.CommandContext(ctx, c.program[0], program)
				p.Dir, p.Env, p.Stdout, p.Stderr = dir, append(os.Environ(), "GATEWAY_URL="+r.client.url), &said, &said
				if err := p.Start(); err != nil {
					t.Fatal(err)
				}
				ended = make(chan error, 1)
				go func() { ended <- p.Wait() }()
				return kill, ended
			}
			want := map[int64]string{}
			deliver := func(from, to int) {
				for n := from; n < to; n++ {
					d := countersigntest.Deposit(n)
					r.deliver(d)
				}
				clear(want)
				for _, d := range r.allDeposits() {
					if d.State == client.DepositTaken {
						want[d.Seq] = d.Amount.String()
					}
				}
			}
			booked := func() bool {
				var rows []string
				for seq, amount := range want {
					rows = append(rows, fmt.Sprintf("%d %s\n", seq, amount))
				}
				got := strings.SplitAfter(string(c.books(dir)), "\n")
				got = slices.DeleteFunc(got, func(s string) bool { return s == "" })
				slices.Sort(rows)
				slices.Sort(got)
				return slices.Equal(rows, got)
			}
			deliver(1, 30)
			kill, ended := start()
			r.until("the first are booked", booked)
			kill()
			<-ended
			deliver(30, 60)
			kill, ended = start()
			r.until("all are booked, each once", booked)

			twin := countersigntest.Deposit(1)
			twin.TrackingID = "the same again"
			r.deliver(twin)
			deliver(60, 61)
			r.until("what came after the held one is booked, and that is not", booked)
			held, err := r.client.SearchDeposits(t.Context(), client.DepositSearch{State: client.DepositHeld}, client.PageOptions{})
			if err != nil || len(held.Deposits) != 1 {
				t.Fatalf("%+v, %v", held, err)
			}
			if _, err := r.client.ApproveTask(t.Context(), client.DepositTask(held.Deposits[0].Seq), "two transfers"); err != nil {
				t.Fatal(err)
			}
			want[held.Deposits[0].Seq] = twin.Amount.String()
			r.until("the held one is booked when a person has credited it", booked)
			kill()
			<-ended

			err = r.db.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := tx.Exec(ctx, `UPDATE cursors SET deposits = 100000`) // of a database that was restored since
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			_, ended = start()
			if err := <-ended; err == nil || !strings.Contains(said.String(), "a person must look: 409") || !strings.Contains(said.String(), "beyond the end") {
				t.Errorf("after a restore it ends with %v and says %s", err, &said)
			}
		})
	}
}
