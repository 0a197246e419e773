package gateway

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/lab/dbtest"
)

// TestFeedPage: the programs of docs/merchant that read feeds book each deposit once through a kill, a held one when a
// person has credited it, and stop where only a person can say what to do.
func TestFeedPage(t *testing.T) {
	for language, c := range map[string]struct {
		program []string
		books   func(dir string) []string // seq and amount of each row
	}{
		"python": {[]string{"/usr/bin/python3", "feed.py"}, func(dir string) (rows []string) {
			books := must(sql.Open("sqlite", filepath.Join(dir, "books.db")))(t)
			defer books.Close()
			list, err := books.Query("SELECT seq || ' ' || amount FROM credits")
			for err == nil && list.Next() { // there may be no table yet
				rows = append(rows, "")
				err = list.Scan(&rows[len(rows)-1])
			}
			return rows
		}},
		"js": {[]string{"node", "feed.js"}, func(dir string) (rows []string) {
			b, _ := os.ReadFile(filepath.Join(dir, "books.jsonl"))
			for line := range strings.Lines(string(b)) {
				var r client.DepositEntry
				if json.Unmarshal([]byte(line), &r) == nil {
					rows = append(rows, fmt.Sprint(r.Seq, " ", r.Amount))
				}
			}
			return rows
		}},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if language != "python" {
				dbtest.Whole(t, "one program stands for both")
			}
			if _, err := exec.LookPath(c.program[0]); err != nil {
				if os.Getenv("CI") != "" {
					t.Fatal(err)
				}
				t.Skip("skipped: ", err)
			}
			program := must(filepath.Abs("../../docs/merchant/" + c.program[1]))(t)
			r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), nil)
			app := r.withRole(r.client.url, client.RoleApp)
			dir := t.TempDir()
			ok(t, os.WriteFile(filepath.Join(dir, "app.token"), []byte(app.token.Reveal()+"\n"), 0o600))
			var said bytes.Buffer
			start := func() (kill func(), ended chan error) {
				ctx, kill := context.WithCancel(t.Context())
				p := exec.CommandContext(ctx, c.program[0], program)
				p.Dir, p.Env, p.Stdout, p.Stderr = dir, append(os.Environ(), "GATEWAY_URL="+r.client.url), &said, &said
				ok(t, p.Start())
				ended = make(chan error, 1)
				go func() { ended <- p.Wait() }()
				return kill, ended
			}
			var credited []string // held deposits
			booked := func(what string) {
				t.Helper()
				want := credited
				for _, d := range r.allDeposits() {
					if d.State == client.DepositTaken {
						want = append(want, fmt.Sprint(d.Seq, " ", d.Amount))
					}
				}
				slices.Sort(want)
				r.until(what, func() bool { return slices.Equal(slices.Sorted(slices.Values(c.books(dir))), want) })
			}
			deliver := func(from, to int) {
				for n := from; n < to; n++ {
					r.deliver(countersigntest.Deposit(n))
				}
			}
			deliver(1, 30)
			kill, ended := start()
			booked("the first are booked")
			kill()
			<-ended
			deliver(30, 60)
			kill, ended = start()
			booked("all are booked, each once")

			twin := countersigntest.Deposit(1)
			twin.TrackingID = "the same again"
			r.deliver(twin)
			deliver(60, 61)
			booked("what came after the held one is booked, and that is not")
			held, err := r.client.SearchDeposits(t.Context(), client.DepositSearch{State: client.DepositHeld}, client.PageOptions{})
			if err != nil || len(held.Items) != 1 {
				t.Fatalf("%+v, %v", held, err)
			}
			must(r.client.CreditDeposit(t.Context(), held.Items[0].Seq, "two transfers"))(t)
			credited = []string{fmt.Sprint(held.Items[0].Seq, " ", twin.Amount)}
			deliver(61, 62) // ends the wait for deposits
			booked("the held one is booked when a person has credited it")
			kill()
			<-ended

			r.exec(`UPDATE cursors SET deposits = 100000`) // of a database that was restored since
			_, ended = start()
			if err := <-ended; err == nil || !strings.Contains(said.String(), "a person must look: 409") || !strings.Contains(said.String(), "beyond the end") {
				t.Errorf("after a restore it ends with %v and says %s", err, &said)
			}
		})
	}
}
