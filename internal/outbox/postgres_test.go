package outbox

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// lossyServer leads to the PostgreSQL at dbURL through a socket of its own, and
// misspells what is to be unknown to it. It gives the URL to use.
func lossyServer(t *testing.T, dbURL string, unknown ...string) string {
	t.Helper()
	u, err := url.Parse(dbURL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	behind := filepath.Join(q.Get("host"), ".s.PGSQL."+q.Get("port"))
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL."+q.Get("port")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("unix", behind)
			if err != nil {
				in.Close()
				return
			}
			go func() { io.Copy(in, out); in.Close() }()
			go func() {
				defer out.Close()
				buf := make([]byte, 1<<16)
				for {
					n, err := in.Read(buf)
					if err != nil {
						return
					}
					b := buf[:n]
					for _, word := range unknown {
						b = bytes.ReplaceAll(b, []byte(word), []byte(strings.Repeat("q", len(word))))
					}
					if _, err := out.Write(b); err != nil {
						return
					}
				}
			}()
		}
	}()
	q.Set("host", dir)
	u.RawQuery = q.Encode()
	return u.String()
}

// An engine that speaks PostgreSQL's protocol without its notifications, its
// planner's settings and its views of itself does all the rest. That nodes then
// find each other's work by polling is said once.
func TestOtherEngine(t *testing.T) {
	dbURL := lossyServer(t, dbtest.Postgres(t), "LISTEN", "pg_notify", "pg_control_system", "plan_cache_mode", "enable_")
	var log lockedLog
	d, err := db.Open(ctx, db.Config{URL: dbURL, Keys: testKeys, Log: slog.New(slog.NewTextHandler(&log, nil))}, End())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s := New(d)
	addMerchants(t, s, 1, nil)
	for i := range 5 {
		must(s.Ingest(ctx, []NewCallback{deposit("m0", fmt.Sprint(i), 1)}, 1))(t)
		time.Sleep(5 * time.Millisecond) // a notification each, if it still tried
	}
	claimed := must(s.Claim(ctx, ClaimRequest{Lane: countersign.LaneNotify, Node: "n", Now: 10, LeaseUntil: 1000, Max: 10}))(t)
	if len(claimed) != 5 {
		t.Errorf("claimed %d of 5", len(claimed))
	}
	if text := log.String(); strings.Count(text, "no LISTEN and NOTIFY") != 1 || strings.Count(text, "\n") != 1 {
		t.Errorf("want one line about it, got:\n%s", text)
	}
}

// lockedLog collects what is logged.
type lockedLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Where every transaction is serializable, as it is in engines that know
// nothing less, conflicts come up as late as the commit. Callers see none.
func TestSerializable(t *testing.T) {
	dbURL := dbtest.Postgres(t) + "&default_transaction_isolation=serializable"
	nodes := []*Outbox{openAt(t, dbURL), openAt(t, dbURL)}
	addMerchants(t, nodes[0], 2, nil)
	var work sync.WaitGroup
	for w := range 8 {
		s := nodes[w%2]
		work.Go(func() {
			for i := range 15 {
				id := fmt.Sprintf("%d-%d", w/2, i) // each from two callers
				_, err := s.Ingest(ctx, []NewCallback{deposit("m0", id, 1), deposit("m1", id, 1)}, 1)
				if err != nil {
					t.Errorf("ingest: %v", err)
				}
				claimed, err := s.Claim(ctx, ClaimRequest{Lane: countersign.LaneNotify, Node: "n", Now: 10, LeaseUntil: 1 << 40, Max: 4})
				if err != nil {
					t.Errorf("claim: %v", err)
				}
				var ends []Settlement
				for _, c := range claimed {
					ends = append(ends, Settlement{Merchant: c.Merchant, CallbackID: c.ID, State: CallbackAccepted, Reached: true,
						Attempt: Attempt{Number: c.Attempts, RequestUUID: c.ID, Started: 10, Result: "accepted", Node: "n"}})
				}
				done, err := s.Settle(ctx, ends, 20)
				if err != nil {
					t.Errorf("settle: %v", err)
				}
				for _, d := range done {
					if !d.Applied {
						t.Error("an attempt of ours was not ours to settle")
					}
				}
			}
		})
	}
	work.Wait()
}
