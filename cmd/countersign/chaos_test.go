//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/proof"
)

var (
	chaosFor  = flag.Duration("chaos", 0, "how long TestChaos breaks things, over all kinds of chains")
	chaosSeed = flag.Uint64("chaos-seed", 0, "what chooses the faults of TestChaos and their order; 0: any, which is told")
)

// TestChaos breaks the whole chain at random for as long as -chaos says, in each kind of
// chain for its part: kills, processes that stand still, lines that are cut or silent, a
// full disk, no descriptors, peers that send nonsense or nothing, and databases that are
// put back to a backup and reconciled. In the end the ledgers are compared as by TestProof.
func TestChaos(t *testing.T) {
	if *chaosFor <= 0 {
		t.Skip("skipped: without -chaos TIME nothing is broken")
	}
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	for i, k := range chains {
		t.Run(fmt.Sprintf("service on %s, %s on %s", k.service, k.merchant, k.store), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), wholeRun(t))
			defer cancel()
			t.Logf("-chaos-seed %d", seed)
			chosen := rand.New(rand.NewPCG(seed, uint64(i)))
			var lines []*tcpProxy
			disk := dbtest.SmallDisk(t, 512<<20)
			ch := startChain(t, ctx, k.service, k.merchant, k.store, func(c *proof.Config) {
				c.Dir, c.Pace, c.Rand = disk, 150*time.Millisecond, chosen
				c.Copies = proof.Copies{Dir: t.TempDir(), Dump: dbtest.Dump, Load: dbtest.Load}
				c.Line = func(addr string) string {
					line := newProxy(t, "tcp", addr)
					lines = append(lines, line)
					return line.addr
				}
			})
			testChaos(t, ctx, ch, chosen, lines, disk, *chaosFor/time.Duration(len(chains)))
		})
	}
}

func testChaos(t *testing.T, ctx context.Context, ch *proof.Chain, chosen *rand.Rand, lines []*tcpProxy, disk string, most time.Duration) {
	victim := func() string { return ch.Victims()[chosen.IntN(len(ch.Victims()))] }
	end := func() string { return ch.Ends()[chosen.IntN(len(ch.Ends()))] }
	long := func() time.Duration { return time.Duration(chosen.Int64N(int64(5 * time.Second))) }
	cutLine := func(m proxyMode) func() error {
		return func() error {
			line := lines[chosen.IntN(len(lines))]
			line.set(m)
			time.Sleep(long())
			line.set(pass)
			return nil
		}
	}
	faults := map[string]func() error{
		"killed":         func() error { return ch.Kill(ctx, victim()) },
		"killed at step": func() error { return ch.KillAt(ctx, ch.StepNames()[chosen.IntN(len(ch.StepNames()))], victim()) },
		"stopped":        func() error { return ch.Stop(victim(), long()) },
		"stopped beyond its leases": func() error {
			if chosen.IntN(4) > 0 {
				return ch.Stop(victim(), 100*time.Millisecond)
			}
			return ch.Stop(victim(), 12*time.Second)
		},
		"without descriptors": func() error { return ch.Starve(victim(), long()) },
		"cut":                 cutLine(cut),
		"silent":              cutLine(silent),
		"full disk":           func() error { return fillDisk(disk, long()) },
		"hostile peers":       func() error { return hostilePeers(ch.Addrs(), long()) },
		"backed up":           func() error { return ch.Backup(ctx, end()) },
		"restored":            func() error { return ch.Restore(ctx, end()) },
		"all ends restored":   func() error { return ch.RestoreAll(ctx) },
	}
	faults["ended"] = func() error { return ch.End(ctx) }
	faults["decided"] = func() error { return ch.Decide(ctx, false) }
	names := append(slices.Sorted(maps.Keys(faults)), "restored", "all ends restored", "backed up", "ended", "ended", "decided", "decided") // these more often
	done := map[string]int{}
	for end := time.Now().Add(most); time.Now().Before(end); {
		name := names[chosen.IntN(len(names))]
		if err := faults[name](); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatalf("%s: %v", name, err)
		}
		done[name]++
		ended, err := ch.Revive(ctx)
		if err != nil {
			t.Fatalf("after %s: %v", name, err)
		}
		for _, who := range ended {
			done["ended by itself: "+who+", "+name]++
		}
		_ = ch.Order(ctx)      // what it cannot order now it orders later
		time.Sleep(long() / 5) // work goes on meanwhile
	}
	r, err := ch.Finish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range r.Wrong {
		t.Error(wrong)
	}
	if r.Deposits == 0 || r.Executed == 0 {
		t.Errorf("too little happened: %+v", r)
	}
	t.Logf("%v: faults %v; kills %v; ended %v; people decided %v; restored %v, which named %v; %d deposits committed, %d credited, %s in both ledgers; %d withdrawals, %d confirmed, %d executed, %d refused for good; %d wrong",
		most, done, ch.Kills, ch.Ended, ch.Decided, ch.Restores, ch.Found, r.Deposits, r.Credited, r.Sum, r.Withdrawals, r.Confirmed, r.Executed, r.Refused, len(r.Wrong))
}

// fillDisk takes what is left of a disk for a while.
func fillDisk(disk string, while time.Duration) error {
	path := filepath.Join(disk, "ballast")
	f, err := os.Create(path)
	if err != nil {
		return nil // it is full already
	}
	block := make([]byte, 1<<20)
	for err == nil {
		_, err = f.Write(block)
	}
	for err = nil; err == nil; { // to the last page
		_, err = f.Write(block[:4096])
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	time.Sleep(while)
	return errors.Join(f.Close(), os.Remove(path))
}

// hostilePeers open many connections and send nonsense, a part of a request, or nothing.
func hostilePeers(addrs []string, while time.Duration) error {
	var work sync.WaitGroup
	for i := range 200 {
		work.Go(func() {
			c, err := net.DialTimeout("tcp", addrs[i%len(addrs)], time.Second)
			if err != nil {
				return
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(while))
			text := []string{"", "\x16\x03\x01\x02\x00", "POST /callbacks/notify HTTP/1.1\r\nHost: a\r\nContent-Length: 700\r\n\r\nAAAA",
				"POST /callbacks/withdraw HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n????????", "GET /v1/decisions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n\r\n"}[rand.IntN(5)]
			_, _ = io.WriteString(c, text)
			_, _ = io.Copy(io.Discard, c) // until it is closed, or to the deadline
		})
	}
	work.Wait()
	return nil
}
