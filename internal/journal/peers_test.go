package journal_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/dbtest/ready"
	"countersign/internal/outbox"
)

// wallClock is the clock of both ends.
type wallClock struct {
	mu sync.Mutex
	at time.Time
}

func (c *wallClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *wallClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// linked is an end of a signed link.
type linked struct {
	d     *db.DB
	l     *journal.Log
	peers *journal.Peers
	clock *wallClock
	end   string // "service" or "merchant"
	n     int    // records that were added
}

func newLinked(t *testing.T, c *wallClock, end, url string) *linked {
	t.Helper()
	return openLinked(t, c, end, db.Config{URL: url, Keys: testKeys})
}

func openLinked(t *testing.T, c *wallClock, end string, of db.Config) *linked {
	t.Helper()
	d := must(db.Open(ctx, of, outbox.End()))(t)
	t.Cleanup(func() { d.Close() })
	l := must(journal.Open(ctx, journal.Config{DB: d, End: end, Now: c.now, Log: slog.New(slog.DiscardHandler)}))(t)
	return &linked{d, l, l.Peers(end == "service"), c, end, 0}
}

// grow adds records to the log and signs it.
func (e *linked) grow(t *testing.T, n int) {
	t.Helper()
	add(t, e.d, e.n, n)
	e.n += n
	e.l.Sign(ctx)
}

// kept is what e holds of the other end; the zero AuditPeer: nothing.
func (e *linked) kept(t *testing.T) client.AuditPeer {
	t.Helper()
	list := must(e.l.Held(ctx))(t)
	if len(list.Peers) == 0 {
		return client.AuditPeer{}
	}
	return list.Peers[0]
}

func (e *linked) alarms(t *testing.T, kind client.AlarmKind) []db.Alarm {
	t.Helper()
	return must(e.d.StandingAlarms(ctx, kind))(t)
}

// talk makes one exchange, at least a minute after the one before.
func talk(t *testing.T, service, merchant *linked) {
	t.Helper()
	service.clock.pass(61 * time.Second)
	said := service.peers.Say(ctx, "shop")
	if said == "" {
		t.Fatal("the service says nothing")
	}
	answer := merchant.peers.Answer(ctx, "service", said)
	if answer == "" {
		t.Fatal("the merchant answers nothing")
	}
	service.peers.Hear(ctx, "shop", answer)
}

func both(t *testing.T, url func(testing.TB) string) (c *wallClock, service, merchant *linked) {
	t.Helper()
	c = &wallClock{at: at}
	service = newLinked(t, c, "service", url(t))
	merchant = newLinked(t, c, "merchant", url(t))
	return c, service, merchant
}

func eachKind(t *testing.T, f func(t *testing.T, url func(testing.TB) string)) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) { f(t, d.url) })
	}
}

// TestPeers: each end keeps the newest checkpoint of the other, which serves as an earlier one of
// audit verify, and no more than one statement a minute is made.
func TestPeers(t *testing.T) {
	eachKind(t, func(t *testing.T, url func(testing.TB) string) {
		_, service, merchant := both(t, url)
		if said := service.peers.Say(ctx, "shop"); said != "" {
			t.Errorf("without a checkpoint the service says %s", said)
		}
		for i := range 5 {
			service.grow(t, 1+3*i)
			merchant.grow(t, 2)
			talk(t, service, merchant)
			if again := service.peers.Say(ctx, "shop"); again != "" {
				t.Error("the service speaks twice in a minute")
			}
			ofService, ofMerchant := merchant.kept(t), service.kept(t)
			if ofService.Size != int64(service.n) || ofMerchant.Size != int64(merchant.n) || ofService.Key != service.l.Key() || ofMerchant.Peer != "shop" {
				t.Fatalf("round %d: kept %+v and %+v, of %d and %d records", i, ofService, ofMerchant, service.n, merchant.n)
			}
			if ofMerchant.Holds != ofService.Size {
				t.Errorf("round %d: the merchant says that it holds %d records of the service's log, and it holds %d", i, ofMerchant.Holds, ofService.Size)
			}
			service.grow(t, 1)
			p := must(service.l.Checkpoint(ctx, ofService.Size))(t)
			must(verify(file(t, p), service.l.Key(), []byte(ofService.Checkpoint)))(t)
		}
		talk(t, service, merchant) // nothing new at the merchant
		for _, e := range []*linked{service, merchant} {
			if list := must(ready.Alarms(ctx, e.d))(t); len(list) != 0 {
				t.Errorf("alarms %+v", list)
			}
		}
	})
}

// copyOf closes a log, copies its database, and opens it again.
func (e *linked) copyOf(t *testing.T, url string) (copied string, again *linked) {
	t.Helper()
	if err := e.d.Close(); err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(url, "postgres") {
		copied = dbtest.Copy(t, url)
	} else {
		text, err := os.ReadFile(url)
		if err != nil {
			t.Fatal(err)
		}
		copied = filepath.Join(t.TempDir(), "copy.db")
		if err := os.WriteFile(copied, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again = newLinked(t, e.clock, e.end, url)
	again.n = e.n
	return copied, again
}

// TestPeerSetBack: a database of before is put in the place of the later one, and nobody declares
// it. The other end notices, whether the log is shorter, as long or longer, on either side. It raises one
// alarm until a person acknowledges it, and then takes the log as it is.
func TestPeerSetBack(t *testing.T) {
	eachKind(t, func(t *testing.T, url func(testing.TB) string) {
		for name, c := range map[string]struct {
			more int
			why  string
		}{"shorter": {0, "set back: it has 3 records, and had 7"}, "as long": {4, "forked: it signed its first 7 records twice"}, "longer": {9, "forked: its first 7 records have another root"}} {
			for _, bad := range []string{"service", "merchant"} {
				t.Run(name+" "+bad, func(t *testing.T) {
					clock := &wallClock{at: at}
					path := url(t)
					faulty := newLinked(t, clock, bad, path)
					good := newLinked(t, clock, map[string]string{"service": "merchant", "merchant": "service"}[bad], url(t))
					exchange := func() {
						if bad == "service" {
							talk(t, faulty, good)
						} else {
							talk(t, good, faulty)
						}
					}
					faulty.grow(t, 3)
					good.grow(t, 3)
					exchange()
					copied, later := faulty.copyOf(t, path)
					faulty = later
					faulty.grow(t, 4)
					exchange()
					exchange()
					held := good.kept(t)
					if held.Size != 7 || held.Broken != "" {
						t.Fatalf("kept %+v", held)
					}

					faulty = newLinked(t, clock, bad, copied)
					faulty.n = 100
					faulty.grow(t, c.more)
					for range 4 {
						exchange()
					}
					broken := good.kept(t)
					if !strings.HasPrefix(broken.Broken, c.why) || broken.Checkpoint != held.Checkpoint || broken.Conflict == "" {
						t.Errorf("kept %+v, want %s", broken, c.why)
					}
					list := good.alarms(t, client.AlarmPeerLogBroken)
					if len(list) != 1 || list[0].Number != 1 || !strings.HasPrefix(list[0].Subject, c.why) || (list[0].Of == "shop") != (bad == "merchant") {
						t.Fatalf("alarms %+v", list)
					}
					if all := must(ready.Alarms(ctx, faulty.d))(t); len(all) != 0 {
						t.Errorf("alarms at the end itself %+v", all)
					}

					must(good.d.AckAlarm(ctx, list[0].Seq, db.AlarmAck{By: "tok_a", Name: "ann", At: db.MillisOf(clock.now())}))(t)
					exchange()
					exchange()
					if now := good.kept(t); now.Broken != "" || now.Conflict != "" || now.Size != int64(3+c.more) {
						t.Errorf("after it was acknowledged: %+v", now)
					}
					if list := good.alarms(t, client.AlarmPeerLogBroken); len(list) != 0 {
						t.Errorf("after it was acknowledged: alarms %+v", list)
					}
					faulty.grow(t, 2)
					exchange()
					exchange()
					if now := good.kept(t); now.Broken != "" || now.Size != int64(5+c.more) {
						t.Errorf("it goes on: %+v", now)
					}
				})
			}
		}
	})
}

// TestPeerOther: another database with the same key of the link is another log; one that shows no
// proof is not believed for ever; and a row that somebody wrote is not believed.
func TestPeerOther(t *testing.T) {
	eachKind(t, func(t *testing.T, url func(testing.TB) string) {
		clock, service, merchant := both(t, url)
		service.grow(t, 3)
		merchant.grow(t, 3)
		talk(t, service, merchant)
		other := newLinked(t, clock, "merchant", url(t))
		other.grow(t, 8)
		talk(t, service, other)
		if held := service.kept(t); !strings.HasPrefix(held.Broken, "another log: ") || held.Size != 3 {
			t.Errorf("kept %+v", held)
		}
		talk(t, service, merchant) // the right one again
		list := service.alarms(t, client.AlarmPeerLogBroken)
		if len(list) != 1 || service.kept(t).Broken == "" {
			t.Fatalf("alarms %+v", list)
		}
		must(service.d.AckAlarm(ctx, list[0].Seq, db.AlarmAck{By: "tok_a", At: db.MillisOf(clock.now())}))(t)
		talk(t, service, merchant)
		if held := service.kept(t); held.Broken != "" || held.Key != merchant.l.Key() {
			t.Errorf("the right one goes on: %+v", held)
		}

		unproved := func() string {
			merchant.grow(t, 1)
			p := must(merchant.l.Checkpoint(ctx, 0))(t)
			clock.pass(61 * time.Second)
			return members(clock.now(), p)
		}
		for i := range 70 { // one a minute
			service.peers.Hear(ctx, "shop", unproved())
			if broken := service.kept(t).Broken; (broken != "") != (i >= 60) || broken != "" && !strings.HasPrefix(broken, "not proved: ") {
				t.Fatalf("%d statements without a proof: %q", i+1, broken)
			}
		}

		exec := func(text string) {
			if err := service.d.Write(ctx, func(ctx context.Context, t *db.Tx) error { _, err := t.Exec(ctx, text); return err }); err != nil {
				t.Fatal(err)
			}
		}
		exec(`UPDATE audit_peers SET broken = ''`)
		if held := service.kept(t); held.Peer != "" {
			t.Errorf("a row that somebody wrote is believed: %+v", held)
		}
	})
}

// members are those of a statement without a proof.
func members(at time.Time, p client.AuditProof) string {
	return fmt.Sprintf("at=%d, known=0, epoch=0, log=%q, checkpoint=:%s:", at.Unix(), p.Key, base64.StdEncoding.EncodeToString([]byte(p.Checkpoint)))
}

// TestPeerRestored: a restore that was declared raises no alarm at the other end, and ends the one that
// was raised before it was declared.
func TestPeerRestored(t *testing.T) {
	eachKind(t, func(t *testing.T, url func(testing.TB) string) {
		for _, late := range []bool{false, true} {
			clock := &wallClock{at: at}
			path := url(t)
			service := newLinked(t, clock, "service", path)
			merchant := newLinked(t, clock, "merchant", url(t))
			service.grow(t, 3)
			merchant.grow(t, 3)
			talk(t, service, merchant)
			copied, again := service.copyOf(t, path)
			again.grow(t, 5)
			talk(t, again, merchant)
			if late { // somebody starts the backup without saying so
				service = newLinked(t, clock, "service", copied)
				for range 2 {
					talk(t, service, merchant)
				}
				if list := merchant.alarms(t, client.AlarmPeerLogBroken); len(list) != 1 {
					t.Fatalf("alarms %+v", list)
				}
				if err := service.d.Close(); err != nil {
					t.Fatal(err)
				}
			}
			service = openLinked(t, clock, "service", db.Config{URL: copied, Keys: testKeys, Restoring: true})
			must(journal.BeginEpoch(ctx, service.d, journal.Restore{Kind: journal.ServiceRestored, Alarm: client.AlarmRestored, Feeds: outbox.Feeds, At: db.MillisOf(clock.now())}))(t)
			service.l.Sign(ctx)
			for range 3 {
				talk(t, service, merchant)
			}
			held := merchant.kept(t)
			if held.Broken != "" || held.Epoch == 0 || held.Size != 4 {
				t.Errorf("late %v: kept %+v", late, held)
			}
			if list := merchant.alarms(t, client.AlarmPeerLogBroken); len(list) != 0 {
				t.Errorf("late %v: alarms %+v", late, list)
			}
			// The log before the restore does not come back unnoticed.
			talk(t, again, merchant)
			if held := merchant.kept(t); held.Size != 4 || held.Broken != "" {
				t.Errorf("late %v: the log before the restore: %+v", late, held)
			}
		}
	})
}

// TestPeersReordered: statements that come late or again are no break, and change nothing.
func TestPeersReordered(t *testing.T) {
	eachKind(t, func(t *testing.T, url func(testing.TB) string) {
		clock, service, merchant := both(t, url)
		merchant.grow(t, 1)
		hears := func(said string) {
			clock.pass(3 * time.Second)
			merchant.peers.Answer(ctx, "service", said)
		}
		var said []string
		for range 4 {
			service.grow(t, 2)
			said = append(said, service.peers.Say(ctx, "shop"))
			clock.pass(61 * time.Second)
		}
		if said[3] == "" {
			t.Fatal("nothing was said")
		}
		for _, i := range []int{1, 0, 1, 0} {
			hears(said[i])
		}
		if held := merchant.kept(t); held.Size != 4 || held.Broken != "" {
			t.Errorf("kept %+v", held)
		}
		talk(t, service, merchant)
		talk(t, service, merchant)
		for _, i := range []int{3, 2, 1, 0, 3} {
			hears(said[i])
		}
		if held := merchant.kept(t); held.Size != 8 || held.Broken != "" {
			t.Errorf("kept %+v", held)
		}
		if list := must(ready.Alarms(ctx, merchant.d))(t); len(list) != 0 {
			t.Errorf("alarms %+v", list)
		}
		stranger := newLinked(t, clock, "merchant", url(t))
		clock.pass(10 * time.Minute)
		stranger.peers.Answer(ctx, "service", said[3])
		if held := stranger.kept(t); held.Peer != "" {
			t.Errorf("a statement of before is taken: %+v", held)
		}
	})
}

// TestPeerSilent: an end that answers nothing is told again each minute, and that is all. One that does not
// hear answers for long hears no alarm, when it hears them again.
func TestPeerSilent(t *testing.T) {
	clock, service, merchant := both(t, dialects[0].url)
	service.grow(t, 2)
	merchant.grow(t, 2)
	talk(t, service, merchant)
	for range 40 {
		service.grow(t, 1)
		clock.pass(61 * time.Second)
		said := service.peers.Say(ctx, "shop")
		if said == "" || merchant.peers.Answer(ctx, "service", said) == "" { // which is lost
			t.Fatalf("the service says %q", said)
		}
	}
	for range 2 {
		talk(t, service, merchant)
	}
	for _, e := range []*linked{service, merchant} {
		if held := e.kept(t); held.Broken != "" || e == merchant && held.Size != int64(service.n) || len(must(ready.Alarms(ctx, e.d))(t)) != 0 {
			t.Errorf("kept %+v", held)
		}
	}
}

// TestHostileStatements: nothing but a statement in the one form, with a checkpoint that its log signed, is
// taken; and none raises an alarm. Who signed the message is checked before.
func TestHostileStatements(t *testing.T) {
	clock, service, merchant := both(t, dialects[0].url)
	service.grow(t, 20)
	merchant.grow(t, 1)
	p := must(service.l.Checkpoint(ctx, 7))(t)
	right := members(clock.now(), p)
	var proof []byte
	for _, h := range p.Consistency {
		proof = append(proof, h...)
	}
	octets := base64.StdEncoding.EncodeToString
	whole := right + ", old=7, proof=:" + octets(proof) + ":"
	said := map[string]string{
		"empty":              "",
		"garbage":            "%%%\x00\xff",
		"twice":              whole + ", " + whole,
		"huge":               strings.Repeat("a", 1<<20),
		"too long":           right + ", old=7, proof=:" + octets(make([]byte, 96*32)) + ":",
		"more behind":        whole + ", more=1",
		"space":              " " + whole,
		"no checkpoint":      strings.Split(right, ", checkpoint")[0],
		"a proof alone":      right + ", proof=:" + octets(proof) + ":",
		"old alone":          right + ", old=7",
		"old of nothing":     right + ", old=0, proof=::",
		"old below":          right + ", old=-7, proof=:" + octets(proof) + ":",
		"old beyond":         right + ", old=21, proof=:" + octets(proof) + ":",
		"half a hash":        right + ", old=7, proof=:" + octets(proof[:40]) + ":",
		"many hashes":        right + ", old=7, proof=:" + octets(make([]byte, 65*32)) + ":",
		"a leading zero":     strings.Replace(right, "known=0", "known=00", 1),
		"known below":        strings.Replace(right, "known=0", "known=-1", 1),
		"known beyond":       strings.Replace(right, "known=0", "known=99999999999999999999", 1),
		"another order":      strings.Replace(right, "known=0, epoch=0", "epoch=0, known=0", 1),
		"another log's note": members(clock.now(), client.AuditProof{Key: merchant.l.Key(), Checkpoint: p.Checkpoint}),
		"no key":             members(clock.now(), client.AuditProof{Key: "x", Checkpoint: p.Checkpoint}),
		"a changed note":     members(clock.now(), client.AuditProof{Key: p.Key, Checkpoint: strings.Replace(p.Checkpoint, "\n20\n", "\n21\n", 1)}),
		"no note":            members(clock.now(), client.AuditProof{Key: p.Key, Checkpoint: "\x1b[2J"}),
		"from long ago":      members(clock.now().Add(-time.Hour), p),
		"from the future":    members(clock.now().Add(time.Hour), p),
	}
	hears := func(said string) string { // as if it had heard nothing for a while
		return merchant.l.Peers(false).Answer(ctx, "service", said)
	}
	for name, said := range said {
		if answer := hears(said); answer != "" || merchant.kept(t).Peer != "" {
			t.Fatalf("%s is taken: %q is answered %q", name, said, answer)
		}
	}
	if list := must(ready.Alarms(ctx, merchant.d))(t); len(list) != 0 {
		t.Errorf("alarms %+v", list)
	}
	if answer := hears(whole); answer == "" || merchant.kept(t).Size != 20 {
		t.Errorf("the right one is not taken: %q", answer)
	}
	if len(whole) > 2048 {
		t.Errorf("a statement has %d bytes", len(whole))
	}
	// The longest that an honest end can have to say is read.
	longest := right + ", old=20, proof=:" + octets(make([]byte, 64*32)) + ":"
	if answer := hears(longest); answer == "" {
		t.Errorf("%d bytes are not read", len(longest))
	}
}

// TestPeersOfNodes: many nodes of one end hear the same at once. One keeps it and one raises the
// alarm, and they speak once a minute together.
func TestPeersOfNodes(t *testing.T) {
	clock := &wallClock{at: at}
	url := dbtest.Postgres(t)
	service := newLinked(t, clock, "service", url)
	service.grow(t, 3)
	nodes := []*linked{service}
	for range 4 {
		nodes = append(nodes, newLinked(t, clock, "service", url))
	}
	path := ready.SQLite(outbox.End())(t)
	merchant := newLinked(t, clock, "merchant", path)
	merchant.grow(t, 3)
	copied, merchant := merchant.copyOf(t, path)
	merchant.grow(t, 4)
	all := func(said string) {
		var work sync.WaitGroup
		for _, n := range nodes {
			work.Go(func() { n.peers.Hear(ctx, "shop", said) })
		}
		work.Wait()
	}
	answer := func(merchant *linked) string {
		clock.pass(61 * time.Second)
		said := service.peers.Say(ctx, "shop")
		answer := merchant.peers.Answer(ctx, "service", said)
		if said == "" || answer == "" {
			t.Fatalf("said %q, answered %q", said, answer)
		}
		return answer
	}
	for range 2 {
		all(answer(merchant))
		if held := nodes[3].kept(t); held.Size != 7 || held.Broken != "" {
			t.Errorf("kept %+v", held)
		}
	}
	clock.pass(30 * time.Second)
	for i, n := range nodes[1:] {
		if said := n.peers.Say(ctx, "shop"); said != "" {
			t.Errorf("node %d speaks in the same minute", i+1)
		}
	}
	set := newLinked(t, clock, "merchant", copied)
	for range 3 {
		all(answer(set))
	}
	list := service.alarms(t, client.AlarmPeerLogBroken)
	if len(list) != 1 || list[0].Number != 1 || list[0].Of != "shop" {
		t.Errorf("alarms %+v", list)
	}
	broken := 0
	page := must(service.l.Page(ctx, 0, 1000))(t)
	for _, r := range page.Entries {
		if e := must(journal.Read(r.Record))(t); e.Kind == "peer.broken" {
			broken++
		}
	}
	if broken != 1 {
		t.Errorf("%d records of it", broken)
	}
}

// BenchmarkPeers: what an exchange costs that has no statement, and one whose two ends say and hear one.
func BenchmarkPeers(b *testing.B) {
	clock := &wallClock{at: at}
	ends := map[string]*linked{}
	for _, name := range []string{"service", "merchant"} {
		d, err := db.Open(ctx, db.Config{URL: ready.SQLite(outbox.End())(b), Keys: testKeys}, outbox.End())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { d.Close() })
		l, err := journal.Open(ctx, journal.Config{DB: d, End: name, Now: clock.now, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		add(b, d, 0, 1000)
		l.Sign(ctx)
		ends[name] = &linked{d: d, l: l, peers: l.Peers(name == "service"), clock: clock}
	}
	service, merchant := ends["service"].peers, ends["merchant"].peers
	service.Say(ctx, "shop")
	b.Run("none is due", func(b *testing.B) {
		for b.Loop() {
			service.Say(ctx, "shop")
		}
	})
	b.Run("both ends", func(b *testing.B) {
		for b.Loop() {
			clock.pass(61 * time.Second)
			service.Hear(ctx, "shop", merchant.Answer(ctx, "service", service.Say(ctx, "shop")))
		}
	})
}
