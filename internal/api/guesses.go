package api

import (
	"hash/maphash"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	guessesAtOnce   = 100 // requests without a valid token from one address before it is throttled
	guessRate       = 1   // from then on, requests a second from one address
	allGuessesBurst = 10 * guessesAtOnce
	allGuessRate    = 50 // of all addresses together
	// guessers is the number of limiters. An address has one limiter, which it may share with others.
	guessers = 1024
)

// errGuesses is the answer to an address that sent too many requests without a valid token, or whose sign-ins failed
// too often. Beginning a sign-in does not count: it stores nothing, and a limit by address would exclude everybody
// behind one proxy.
var errGuesses = func() error {
	p := NewProblem(http.StatusTooManyRequests,
		"too many requests without a valid token, or failed sign-ins, came from this address: repeat this later, or use a valid token")
	p.RetryAfter = time.Second / guessRate
	return p
}()

// endRate is how many ends of sign-ins that began here one address may send a second. They are counted beside
// guesses, so strangers cannot delay them.
const endRate = 10

// guesses counts requests without a valid token, by address and in total. If there are too many, the database is not
// asked about tokens that cannot be valid.
type guesses struct {
	seed maphash.Seed // so that nobody can choose whose limiter they share
	of   [guessers]*rate.Limiter
	all  *rate.Limiter

	validMu sync.Mutex      // held while they are read
	valid   map[string]bool // fingerprints of the tokens that were not revoked
	asked   time.Time       // when they were read
}

func newGuesses(each, all rate.Limit) *guesses {
	g := &guesses{seed: maphash.MakeSeed(), all: rate.NewLimiter(all, allGuessesBurst)}
	for i := range g.of {
		g.of[i] = rate.NewLimiter(each, guessesAtOnce)
	}
	return g
}

// limiter returns the limiter of an address.
func (g *guesses) limiter(a netip.Addr) *rate.Limiter {
	return g.of[maphash.Comparable(g.seed, a)%guessers]
}

// take counts a request of an address. It returns false if the address is throttled.
func (g *guesses) take(a netip.Addr, now time.Time) bool {
	return g.limiter(a).AllowN(now, 1) && g.all.AllowN(now, 1)
}

// throttled reports whether the address, or all addresses together, have made too many guesses.
func (g *guesses) throttled(a netip.Addr, now time.Time) bool {
	return g.limiter(a).TokensAt(now) < 1 || g.all.TokensAt(now) < 1
}

// guesser returns the address of the caller. For IPv6 it returns the network of a site (/48), because one machine can
// use all its addresses.
func guesser(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	a := at.Addr().Unmap().WithZone("")
	if a.Is6() {
		p, _ := a.Prefix(48)
		a = p.Addr()
	}
	return a
}
