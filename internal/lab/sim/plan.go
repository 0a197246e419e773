package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"countersign"
	"countersign/client"
)

// kind is a kind of fault.
type kind int

const (
	weather        kind = iota // a link delays, cuts, loses, repeats
	partition                  // a link is down
	kill                       // a process is gone at a moment; what is not in its files is lost
	killAt                     // and between two statements
	restart                    // a process stops in order and starts again
	full                       // a disk takes nothing
	locked                     // a disk is read-only
	sleep                      // a machine's clock jumps forward
	drift                      // and runs too fast or too slow
	freeze                     // an operator freezes the service
	pause                      // and pauses the merchant
	rotate                     // and replaces its keys
	restore                    // and puts a backup in the place of the service's database
	restoreGateway             // of the gateway's
	restoreBoth                // and of both at once
	kinds
)

func (k kind) String() string {
	return [...]string{"weather", "partition", "kill", "kill at a statement", "restart", "full disk", "read-only disk", "clock jump", "clock drift", "freeze", "pause", "rotation", "restored service", "restored gateway", "both restored"}[k]
}

// fault is one fault of a plan.
type fault struct {
	kind  kind
	at    time.Duration // since the beginning
	span  time.Duration // how long it lasts
	link  link          // of weather and partition
	who   string        // the process of the others
	n     int64         // of killAt: how many statements it survives, in the mean
	jump  time.Duration // of sleep
	rate  float64       // of drift: how much faster than the true time
	rates rates
}

func (f fault) String() string {
	switch f.kind {
	case weather:
		return fmt.Sprintf("%v on %s for %v: %v", f.kind, f.link, f.span, f.rates)
	case partition:
		return fmt.Sprintf("%v of %s for %v", f.kind, f.link, f.span)
	case killAt:
		return fmt.Sprintf("%v of %s, one of %d, away for %v", f.kind, f.who, f.n, f.span)
	case freeze, pause, rotate, restore, restoreGateway, restoreBoth:
		return fmt.Sprintf("%v for %v", f.kind, f.span)
	case sleep:
		return fmt.Sprintf("%v of %s by %v", f.kind, f.who, f.jump)
	case drift:
		return fmt.Sprintf("%v of %s by %.3f for %v", f.kind, f.who, f.rate, f.span)
	}
	return fmt.Sprintf("%v of %s for %v", f.kind, f.who, f.span)
}

// deposit is a deposit of a plan.
type deposit struct {
	id     string
	at     time.Duration
	amount countersign.Amount
	again  bool // it is told twice
	other  bool // and then with another amount
}

// withdrawal is a withdrawal of a plan.
type withdrawal struct {
	id      string
	details client.Details
	orderAt time.Duration // when the merchant orders it
	askAt   time.Duration // when the core asks for it
	within  time.Duration // how long the service waits for the confirmation

	unordered        bool          // the merchant does not order it
	told             bool          // the core tells the details
	differs          bool          // and they are others
	ignored          bool          // the core does not release it
	expires          time.Duration // after which the order does; zero: it does not
	cancelAfter      time.Duration // after which the core cancels it; zero: it does not
	orderCancelAfter time.Duration // after which the merchant cancels the order; zero: it does not
}

// The tenant's user of everything.
const user = "65515"

// ofRogue reports whether a deposit or a withdrawal belongs to the rogue.
func ofRogue(id string) bool { return strings.HasPrefix(id, "R") }

// merchantOf returns the merchant of a deposit or a withdrawal.
func merchantOf(id string) string {
	if ofRogue(id) {
		return "rogue"
	}
	return "shop"
}

func amount(id string) countersign.Amount {
	var n int
	_, _ = fmt.Sscanf(strings.TrimLeft(id, "DRW"), "%d", &n)
	a, err := countersign.ParseAmount(fmt.Sprintf("%d.%06d", n+1, (n*7919+1)%1_000_000))
	if err != nil {
		panic(err)
	}
	return a
}

// last is how many deposits and withdrawals come when all is well again and the last fault over, at
// times counted from then: each lane of each merchant is used once more, since a breaker closes with
// an exchange.
const last = 3

// plan is what a seed draws.
type plan struct {
	deposits    []deposit
	withdrawals []withdrawal
	faults      []fault
}

// draw draws a plan.
func draw(c Config) plan {
	r := rand.New(rand.NewPCG(c.Seed, 1))
	within := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
	var p plan
	when := func(i, most int) time.Duration {
		if i < most {
			return within(c.Span)
		}
		return within(time.Hour)
	}
	for i := range c.Deposits + last {
		id := fmt.Sprint([]string{"D", "D", "RD"}[i%3], i)
		p.deposits = append(p.deposits, deposit{id: id, at: when(i, c.Deposits), amount: amount(id), again: r.IntN(10) == 0, other: r.IntN(20) == 0})
	}
	for i := range c.Withdrawals + last {
		id := fmt.Sprint([]string{"W", "W", "RW"}[i%3], i)
		x := withdrawal{id: id, details: client.Details{Address: "T" + id, ChainName: "TRON", Symbol: "USDT", Amount: amount(id)}, within: 30*time.Minute + within(4*time.Hour)}
		x.orderAt = when(i, c.Withdrawals)
		x.askAt = x.orderAt + within(time.Minute)
		x.told = r.IntN(2) == 0
		switch r.IntN(16) {
		case 0:
			x.unordered = true
		case 1:
			x.told, x.differs = true, true
		case 2:
			x.ignored = true
		case 3:
			x.orderAt, x.askAt = x.askAt, x.orderAt // the service asks first
		case 4:
			x.expires = time.Minute + within(time.Hour)
			x.askAt = x.orderAt + within(x.expires)
		case 5:
			x.cancelAfter = 1 + within(10*time.Minute)
		case 6:
			x.orderCancelAfter = 1 + within(10*time.Minute)
		}
		p.withdrawals = append(p.withdrawals, x)
	}
	// Some runs have few faults of many kinds, others many of one.
	var weights [kinds]int
	for k := range weights {
		weights[k] = 1 + r.IntN(4)
	}
	if r.IntN(3) == 0 {
		weights[r.IntN(int(kinds))] = 30
	}
	// A third has no restores: what is told again after them hides that it was lost.
	if r.IntN(3) == 0 {
		clear(weights[restore:])
	}
	sum := 0
	for _, n := range weights {
		sum += n
	}
	for range c.Faults {
		at, k := r.IntN(sum), kind(0)
		for at >= weights[k] {
			at -= weights[k]
			k++
		}
		f := fault{kind: k, at: within(c.Span), who: []string{"service", "gateway"}[r.IntN(2)], link: links[r.IntN(len(links))]}
		long := []time.Duration{time.Second, time.Minute, time.Hour}[r.IntN(3)]
		f.span = long + within(long)
		switch k {
		case weather:
			f.span += within(6 * time.Hour)
			part := func(most float64) float64 { return []float64{0, r.Float64() * most}[r.IntN(2)] }
			f.rates = rates{cut: part(0.2), half: part(0.2), lose: part(0.1), repeat: part(0.5), delay: time.Duration(part(float64(5*time.Second))) + time.Millisecond}
		case killAt:
			f.n = 1 + r.Int64N(60)
		case sleep:
			f.jump = long + within(long)
		case drift:
			f.rate = r.Float64() - 0.4
		}
		p.faults = append(p.faults, f)
	}
	slices.SortFunc(p.faults, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
	return p
}
