package sim

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var mutate = flag.Int("mutants", 0, "how many seeds look for each of the planted faults; 0: none does")

// mutant is a fault that the simulation must find: its name, a file, and texts of it, each followed
// by what stands in its place.
type mutant []string

var mutants = []mutant{
	{"a permit is given to a second holder", "internal/outbox/release.go",
		"	case p.Permit != \"\" && !w.heldBy(r.Holder):\n", "	case p.Permit != \"\" && !w.heldBy(r.Holder) && now < 0:\n"},
	{"a known deposit takes effect again", "internal/book/claim.go",
		"	case r.settled:\n", "	case r.settled && e.Lease != 0:\n"},
	{"an expired withdrawal is not told", "internal/outbox/ends.go",
		"	if attempts > 0 && to != client.WithdrawalConfirmed {", "	if attempts > 0 && to == client.WithdrawalCancelled {"},
	{"a retry is lost after the third attempt", "internal/outbox/settle.go",
		"		s := db.Statement{SQL: settleAcceptedSQL,", "		if b.state == client.CallbackPending && b.Attempt.Number == 3 {\n			b.state = client.CallbackAccepted\n		}\n		s := db.Statement{SQL: settleAcceptedSQL,"},
	{"the feed of decisions has a gap", "internal/outbox/decisions.go",
		"		seq++\n", "		if seq++; seq%7 == 0 {\n			seq++\n		}\n"},
	{"a freeze and a pause are not looked at", "internal/outbox/release.go",
		"	AND NOT EXISTS (SELECT 1 FROM frozen WHERE id = 'service' AND at <> 0)\n	AND EXISTS (SELECT 1 FROM merchants m WHERE m.id = $1 AND m.state = 'active')`", "`",
		"	case l.frozen.At != 0:\n", "	case l.frozen.At < 0:\n", "	case m.State != client.MerchantActive:\n", "	case m.State == \"\":\n"},
	{"one person approves for two", "internal/api/agree.go",
		"	q.Needed = max(q.Needed, 1)\n", "	q.Needed = min(q.Needed, 1)\n"},
	{"what was booked before a restore counts again", "internal/book/restore.go",
		"same(d *countersign.Deposit) bool {\n", "same(d *countersign.Deposit) bool {\n	if d != nil {\n		return false\n	}\n",
		"maybe(e *merchant.Entry) bool {\n", "maybe(e *merchant.Entry) bool {\n	if e != nil {\n		return false\n	}\n"},
	{"an outcome is not told", "internal/outbox/outcome.go",
		"o.insert(ctx, t, tell, make([]client.Accepted, len(tell)), now)", "error(nil)"},
	{"a confirmed order is cancelled", "internal/book/order_change.go",
		"WhyNotDecided(now); why != \"\" {", "WhyNotDecided(now); why != \"\" && (o.State != client.OrderConfirmed || c.To != client.OrderCancelled) {"},
	{"a released withdrawal is cancelled", "internal/outbox/ends.go",
		"WHERE merchant = $1 AND id = $2 AND state = 'awaiting' AND ` + guard", "WHERE merchant = $1 AND id = $2 AND state IN ('awaiting', 'confirmed', 'released') AND ` + guard"},
	{"a deposit is acknowledged that was not kept", "internal/outbox/ingest.go",
		"		return quota.spend(ctx, t, done, now)\n	})\n	if err != nil {", "		return quota.spend(ctx, t, done, now)\n	})\n	if err != nil && done[0].ID == \"\" {"},
	{"a write is acknowledged before it is committed", "internal/db/sqlite.go",
		"	if err == nil {\n		err = db.conn.control(ctx, \"COMMIT\")\n", "	if err == nil {\n		for i, r := range group {\n			r.done <- errs[i]\n		}\n		time.Sleep(20 * time.Millisecond)\n		err = db.conn.control(ctx, \"COMMIT\")\n"},
	{"what the application did not take is not sent again", "internal/gateway/forwarding.go",
		"	if result == web.Posted {", "	if result == web.Posted || f.Attempts > 1 {"},
	{"a recorded deposit is not forwarded", "internal/book/forwards.go",
		"FROM deposits\nWHERE seq > $1 AND", "FROM deposits\nWHERE seq > $1 + 1 AND"},
	{"what the application refused is never due again", "internal/gateway/forwarding.go",
		"web.RetryDelay(f.Attempts, s.c.Random())", "web.RetryDelay(f.Attempts, s.c.Random())+100*365*24*time.Hour"},
	{"another deposit under a known id is taken", "internal/outbox/ingest.go",
		"		same := inserted[i] || bytes.Equal(kept[i], n.Payload)", "		same := inserted[i] || bytes.Equal(kept[i], n.Payload) || len(kept[i]) > 0"},
	{"leases of a process that died are not given back", "internal/outbox/sweep.go",
		"lostLeasesSQL, int64(until), sweepMost)\n	if err != nil", "lostLeasesSQL, int64(until), sweepMost)\n	if found = nil; err != nil"},
	{"an end before its order is forgotten", "internal/book/order_move.go",
		"countersign.EffectEnded && !in.restored:\n", "countersign.EffectEnded && !in.restored && id == \"\":\n"},
	{"a lapsed withdrawal is not told", "internal/outbox/ends.go",
		"	payload, err := (&countersign.WithdrawalEnded{", "	if w.State == client.WithdrawalLapsed {\n		return nil\n	}\n	payload, err := (&countersign.WithdrawalEnded{"},
	{"a first transaction is a second one", "internal/book/executed.go",
		"case o.State == client.OrderExecuted && o.TxID == \"\":", "case o.State == client.OrderExecuted && o.TxID == \"\" && c.TxID == \"\":"},
	{"when an answer was signed is not looked at", "internal/dispatch/link.go",
		"	case s.Old(r.Done.Time()):\n", "	case s.Old(r.Done.Time()) && r.Status == 0:\n"},
	{"that a stop ends raises no alarm", "internal/outbox/stop.go",
		"Subject: subject, First: now}})", "Subject: subject, First: now}}[:0])"},
	{"a lapse raises no alarm", "internal/outbox/sweep.go",
		"Subject: f.callback(), First: now}})", "Subject: f.callback(), First: now}}[:0])"},
	{"an end does not end what was confirmed", "internal/book/order_move.go",
		"	case !o.State.Undecided() && o.State != client.OrderConfirmed:\n		return o, false, \"\" // final", "	case !o.State.Undecided():\n		return o, false, \"\" // final"},
	{"a copy under another index is another transfer", "internal/book/claim.go",
		"e.TxIndex, keyOf(e.Payment): -1}", "e.TxIndex}"},
	{"characters that nobody sees tell transfers apart", "fold.go",
		"	s = visibleOnly(s)\n	for {", "	for {"},
	{"a second payment raises no alarm", "internal/book/executed.go",
		"		return o, secondTransaction\n", "		return o, \"\"\n"},
	{"a payment after the end raises no alarm", "internal/book/executed.go",
		"		return o, executedAfterEnd\n", "		return o, \"\"\n"},
	{"an alarm does not end", "internal/outbox/alarms.go",
		"			ends = h == nil || !h.Failing\n", "			ends = h == nil && now < 0\n"},
}

// with returns the text of m's file with the fault.
func (m mutant) with(t *testing.T) (path string, text []byte) {
	path, err := filepath.Abs(filepath.Join("../../..", m[1]))
	if err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	for i := 2; i < len(m); i += 2 {
		if n := bytes.Count(text, []byte(m[i])); n != 1 {
			t.Fatalf("%s has the text %d times in whose place the fault is planted:\n%s", m[1], n, m[i])
		}
		text = bytes.Replace(text, []byte(m[i]), []byte(m[i+1]), 1)
	}
	return path, text
}

// TestMutants plants each fault, which must still fit, and with -mutants N has N seeds look for
// it: one of them must find it.
func TestMutants(t *testing.T) {
	found := regexp.MustCompile(`seed (\d+): (.*)`)
	for _, m := range mutants {
		t.Run(m[0], func(t *testing.T) {
			path, text := m.with(t)
			if *mutate == 0 {
				return
			}
			dir := t.TempDir()
			planted, overlay := filepath.Join(dir, "planted.go"), filepath.Join(dir, "overlay.json")
			list, err := json.Marshal(map[string]map[string]string{"Replace": {path: planted}})
			if err != nil {
				t.Fatal(err)
			}
			for name, b := range map[string][]byte{planted: text, overlay: list} {
				if err := os.WriteFile(name, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out, err := exec.Command("go", "test", "-vet=off", "-timeout=10m", "-overlay", overlay, ".", "-run=TestSim$", "-hunt", "-seeds="+strconv.Itoa(*mutate), "-span="+span.String()).CombinedOutput()
			hit := found.FindSubmatch(out)
			if err == nil || hit == nil {
				t.Fatalf("%d seeds do not find it: %v\n%s", *mutate, err, out[max(0, len(out)-2000):])
			}
			t.Logf("seed %s: %s", hit[1], strings.TrimSpace(string(hit[2])))
		})
	}
}
