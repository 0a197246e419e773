package sim

import (
	"cmp"
	"flag"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"countersign/envelope"
	"countersign/internal/lab/dbtest"
)

var (
	seed  = flag.Uint64("seed", 0, "run this seed alone, and print its story with -v")
	seeds = flag.Int("seeds", 0, "run so many seeds; 0: a few")
	first = flag.Uint64("first", 1, "the first of the seeds")
	long  = flag.Duration("for", 0, "real time: begin with the next seed until so much has passed")
	span  = flag.Duration("span", 6*time.Hour, "virtual time of a run in which the world is bad")
	each  = flag.Duration("each", 20*time.Minute, "a deposit and a withdrawal come so often")
	bad   = flag.Duration("fault", 30*time.Minute, "a fault comes so often")
	left  = flag.String("without", "", "numbers of faults that do not happen, with commas")
	only  = flag.String("only", "", "numbers of the faults that happen, with commas; empty: all")
	small = flag.Bool("shrink", false, "with -seed: look for few faults with which it still fails")
	hunt  = flag.Bool("hunt", false, "end with the first seed that fails")
	again = flag.Int("again", 0, "live so often through each of the first five seeds, or that of -seed, and count the different stories")
	logTo = flag.String("log", "", "a file for what the daemons log")
)

// keys are the merchants', the same for all seeds: making one takes longer than a virtual day.
var keys = sync.OnceValues(func() (list [3]*envelope.Key, err error) {
	for i := range list {
		if list[i], err = envelope.GenerateKey(1024); err != nil {
			break
		}
	}
	return list, err
})

// TestSim lives through some bad hours, in the whole check through ten bad weeks with 2,000 faults.
// One seed gives one plan of faults; see the flags.
func TestSim(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of simulation")
	}
	asked := *seed != 0 || *seeds > 0 || *long > 0
	if dbtest.Race && !asked {
		t.Skip("-race: the daemons' goroutines meet in their own tests; -seeds N runs it")
	}
	if dbtest.IsWhole() && !asked {
		*seeds, *span, *each, *bad = 5, 7*24*time.Hour, time.Hour, 50*time.Minute
		// A process lives on one core, so the other five weeks are another process's.
		var out strings.Builder
		other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSim$", "-first=6", "-seeds=5",
			"-span="+span.String(), "-each="+each.String(), "-fault="+bad.String())
		other.Stdout, other.Stderr = &out, &out
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := other.Wait(); err != nil {
				t.Errorf("seeds 6 to 10: %v\n%s", err, out.String())
			}
		}()
	}
	sum, faults, lived, began := map[string]int{}, 0, 0, time.Now()
	var virtual time.Duration
	for one := range chosen(3) {
		lived++
		r := lives(t, config(t, one))
		for k, n := range r.Counts {
			sum[k] += n
		}
		if *small && len(r.Wrong) > 0 {
			r = smallest(t, one, r)
		}
		virtual += r.Took
		faults += r.Faults
		if *seed != 0 || len(r.Wrong) > 0 && *seeds == 0 {
			t.Log("\n" + strings.Join(r.Story, "\n"))
		}
		for _, text := range r.Wrong {
			t.Errorf("seed %d: %s", one, text)
		}
		if *hunt && t.Failed() {
			break
		}
	}
	var counts []string
	for _, k := range slices.Sorted(maps.Keys(sum)) {
		counts = append(counts, fmt.Sprintf("%s %d", k, sum[k]))
	}
	t.Logf("%d seeds, %d faults, %v of virtual time in %v; %s", lived, faults, virtual.Round(time.Hour), time.Since(began).Round(time.Millisecond), strings.Join(counts, ", "))
}

// TestAgain counts how often two runs of a seed differ. Go's scheduler does not belong to the
// seed: which of two goroutines is first where both may go on.
func TestAgain(t *testing.T) {
	if *again == 0 {
		t.Skip("-again N runs it")
	}
	lived, other, wanting := 0, 0, 0
	for one := range chosen(5) {
		lived++
		stories, ends := map[string]int{}, map[string]int{}
		var before []string
		most, mostEnd := 0, 0
		for range *again {
			r := lives(t, config(t, one))
			text, end := strings.Join(r.Story, "\n"), fmt.Sprint(r.Counts, r.Wrong)
			if stories[text]++; stories[text] == 1 && before != nil {
				t.Log(parting(before, r.Story))
			}
			ends[end]++
			before, most, mostEnd = r.Story, max(most, stories[text]), max(mostEnd, ends[end])
		}
		other, wanting = other+*again-most, wanting+*again-mostEnd
		t.Logf("seed %d: %d runs, %d stories, %d results", one, *again, len(stories), len(ends))
	}
	t.Logf("of %d runs %d have another story than most of their seed, and %d another result", lived**again, other, wanting)
}

// chosen are the seeds that the flags say; a few if they say nothing.
func chosen(few int) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		if *seed != 0 {
			yield(*seed)
			return
		}
		began := time.Now()
		goesOn := func(n int) bool {
			if *long > 0 {
				return time.Since(began) < *long
			}
			return n < cmp.Or(*seeds, few)
		}
		for n := 0; goesOn(n) && yield(*first+uint64(n)); n++ {
		}
	}
}

// parting says where two stories begin to differ.
func parting(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d:\n%s\n%s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("one of %d lines, one of %d", len(a), len(b))
}

// config is the run of a seed.
func config(t *testing.T, one uint64) Config {
	k, err := keys()
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Seed: one, Keys: [2]*envelope.Key(k[:2]), RogueKey: k[2], Span: *span, Idle: int(*each / (4 * time.Second)), Pace: *each / 20,
		Deposits: int(*span / *each), Withdrawals: int(*span / *each), Faults: int(*span / *bad)}
	without, with := numbers(*left), numbers(*only)
	c.Skip = func(n int) bool { return slices.Contains(without, n) || len(with) > 0 && !slices.Contains(with, n) }
	if *logTo != "" {
		f, err := os.Create(*logTo)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		c.Log = slog.New(slog.NewTextHandler(f, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return c
}

// lives runs a seed in a bubble, in a directory of its own, in memory where there is such: no
// power is lost here, and a disk that is asked to keep what it has takes most of the time. With
// one processor fewer runs of a seed differ, and packages run beside one another anyway.
func lives(t *testing.T, c Config) (r Result) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var err error
	if c.Dir, err = os.MkdirTemp("/dev/shm", "sim"); err != nil {
		c.Dir = t.TempDir()
	}
	defer os.RemoveAll(c.Dir)
	cryptotest.SetGlobalRandom(t, c.Seed)
	synctest.Test(t, func(t *testing.T) { r = Run(t.Context(), c) })
	return r
}

// smallest leaves out faults of a seed that fails, as long as it does.
func smallest(t *testing.T, seed uint64, r Result) Result {
	var all []int
	c := config(t, seed)
	for i := range r.Faults {
		if !c.Skip(i) {
			all = append(all, i)
		}
	}
	list := shrink(all, func(list []int) bool {
		c.Skip = func(i int) bool { return !slices.Contains(list, i) }
		now := lives(t, c)
		if len(now.Wrong) > 0 {
			r = now
		}
		return len(now.Wrong) > 0
	})
	if len(list) == 0 {
		t.Log("it fails without any fault")
		return r
	}
	t.Logf("%d of %d faults suffice: -only %s", len(list), len(all), strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]"))
	return r
}

func numbers(list string) (out []int) {
	for _, text := range strings.Split(list, ",") {
		if n, err := strconv.Atoi(text); err == nil {
			out = append(out, n)
		}
	}
	return out
}
