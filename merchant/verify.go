package merchant

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"countersign"
)

const (
	// maxProofs bounds the calls of Verify that run at once.
	maxProofs = 64
	// maxKeptProofs bounds the results that no exchange has taken yet, and keepProof
	// how long they are kept: longer than the service takes to ask again.
	maxKeptProofs = 10_000
	keepProof     = 2 * time.Hour
)

// completeVerify checks what Verify needs and fills in the defaults.
func (c *Config) completeVerify() error {
	if c.VerifyWait < 0 || c.VerifyTimeout < 0 || c.VerifyFor < 0 {
		return configError("VerifyWait, VerifyTimeout or VerifyFor is negative")
	}
	setDefault(&c.VerifyWait, min(1500*time.Millisecond, c.Timeout))
	setDefault(&c.VerifyTimeout, time.Minute)
	setDefault(&c.VerifyFor, 24*time.Hour)
	if c.VerifyWait > c.Timeout {
		return configError("VerifyWait is longer than Timeout")
	}
	return nil
}

// proofs are the calls of Verify: those that run, and results of calls that ended
// after their exchange.
type proofs struct {
	ended context.Context // ends the calls
	end   context.CancelFunc

	mu      sync.Mutex
	running int
	by      map[entryKey]*proof
}

// proof is one call of Verify.
type proof struct {
	asked Digest // what Verify was asked
	done  chan struct{}
	// Read these after done is closed.
	verdict Verdict
	err     error
	at      time.Time
}

func newProofs() *proofs {
	p := &proofs{by: map[entryKey]*proof{}}
	p.ended, p.end = context.WithCancel(context.Background())
	return p
}

var errManyProofs = fmt.Errorf("%d calls of Verify are running already", maxProofs)

// find returns the call of Verify for a deposit, and starts one if there is none.
func (h *Handler) find(key entryKey, e *Entry, d *countersign.Deposit) (*proof, error) {
	p := h.proofs
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.by[key]; known != nil && known.asked == e.Question() && !known.old() {
		return known, nil
	}
	if p.running >= maxProofs {
		return nil, errManyProofs
	}
	if len(p.by) >= maxKeptProofs {
		p.forgetOld()
	}
	call := &proof{asked: e.Question(), done: make(chan struct{})}
	p.by[key] = call
	p.running++
	go h.call(key, call, *d)
	return call, nil
}

// Question returns the digest of what Verify is asked about: the deposit's identifier, its content and its TxIndex. A
// verdict counts for the same Question only.
func (e *Entry) Question() Digest {
	q := digestOf("countersign inbox question 1")
	q.text(e.ID, string(e.Content[:]), strconv.FormatInt(e.TxIndex, 10))
	return q.sum()
}

// forgetOld makes room. p is locked.
func (p *proofs) forgetOld() {
	for key, call := range p.by {
		if call.old() || call.ended() && len(p.by) >= maxKeptProofs {
			delete(p.by, key)
		}
	}
}

func (c *proof) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// old reports whether the result of c no longer counts.
func (c *proof) old() bool { return c.ended() && time.Since(c.at) > keepProof }

// call runs Verify in a goroutine of its own. If it ends after the exchange, the next
// attempt gets its result.
func (h *Handler) call(key entryKey, c *proof, d countersign.Deposit) {
	ctx, cancel := context.WithTimeout(h.proofs.ended, h.c.VerifyTimeout)
	defer cancel()
	c.err = errors.New("the check ended its goroutine")
	defer func() {
		if p := recover(); p != nil {
			c.verdict, c.err = VerdictNotYet, fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		c.at = time.Now()
		h.proofs.mu.Lock()
		defer h.proofs.mu.Unlock()
		h.proofs.running--
		if c.verdict == VerdictNotYet && h.proofs.by[key] == c {
			delete(h.proofs.by, key) // the next attempt asks anew
		}
		close(c.done)
	}()
	v, err := h.c.Verify(ctx, d)
	if err != nil || v != VerdictYes && v != VerdictNo {
		v = VerdictNotYet
	}
	c.verdict, c.err = v, err
}

// forget drops the result for a deposit that is settled or refused.
func (p *proofs) forget(key entryKey) {
	p.mu.Lock()
	delete(p.by, key)
	p.mu.Unlock()
}

// The messages to the service.
var (
	unverified = Reply{Code: countersign.CodeNotKnownYet, Message: "the deposit is not verified yet"}
	disproved  = Reply{Code: countersign.CodeRefusedPolicy, Message: "the deposit cannot be verified"}
)

var errSlowProof = errors.New("the check has not answered yet; it goes on, and its result is for the next attempt")

// proves reports whether Verify is asked about callbacks of that type. Each is claimed first, so that only one delivery
// asks and a repetition does not. No transaction is open meanwhile.
func (h *Handler) proves(t countersign.Type) bool {
	return t == countersign.TypeDeposited && h.c.Verify != nil
}

// prove asks Verify about a deposit that this delivery has claimed. It returns the zero
// verdict if the deposit may count.
func (h *Handler) prove(ctx context.Context, key entryKey, e *Entry, c Claimed) verdict {
	if c.PossibleDuplicate || c.Suspect {
		return verdict{} // a person decides on it
	}
	answer, err := VerdictNotYet, error(nil)
	call, err := h.find(key, e, e.Callback.(*countersign.Deposit))
	if err == nil {
		timer := time.NewTimer(h.c.VerifyWait)
		defer timer.Stop()
		select {
		case <-call.done:
			answer, err = call.verdict, call.err
		case <-timer.C:
			err = errSlowProof
		case <-ctx.Done():
			err = errSlowProof
		}
	}
	switch answer {
	case VerdictYes:
		return verdict{}
	case VerdictNo:
		h.proofs.forget(key)
		return verdict{Reply: disproved, reason: ReasonDisproved, cause: errors.Join(errDisproved, err)}
	}
	if !c.Recorded.IsZero() && e.At.Sub(c.Recorded) >= h.c.VerifyFor {
		return verdict{Reply: disproved, reason: ReasonUnverified,
			cause: errors.Join(fmt.Errorf("the check did not say yes within %v", h.c.VerifyFor), err)}
	}
	return verdict{Reply: unverified, reason: ReasonHold, cause: errors.Join(errors.New("the check says not yet"), err)}
}

var errDisproved = errors.New("the check says that there is no such deposit; it is refused and not credited")
