package outbox

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"sync"

	"countersign/internal/db"
)

// PermitKey names a withdrawal that gets no permit any more, in one epoch.
type PermitKey [16]byte

func permitKey(merchant, callBackID string, epoch int64) (k PermitKey) {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(merchant)))
	b = append(append(b, merchant...), callBackID...)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(b, uint64(epoch)))
	copy(k[:], sum[:])
	return k
}

// GivenPermit is a withdrawal that gets no other permit: one was given, or a person ended it.
type GivenPermit struct {
	Key   PermitKey
	Until db.Millis // no other permit could be given after this time
}

// givenPermits are those that this process knows. Rows of an earlier time have their MAC, so the
// database alone cannot show that no permit was given. One takes about 40 bytes.
type givenPermits struct {
	mu    sync.RWMutex
	until map[PermitKey]db.Millis
	fresh []GivenPermit // since NewPermits was called
	seen  db.Millis     // the newest that learn has read
	swept db.Millis
}

func (g *givenPermits) has(k PermitKey) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	_, ok := g.until[k]
	return ok
}

func (g *givenPermits) add(list ...GivenPermit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.until == nil {
		g.until = map[PermitKey]db.Millis{}
	}
	for _, p := range list {
		if p.Until > g.until[p.Key] {
			g.until[p.Key] = p.Until
			g.fresh = append(g.fresh, p)
		}
	}
}

// ExpectPermits has this process remember permits that it, or another one, gave before.
func (o *Outbox) ExpectPermits(list []GivenPermit) {
	o.given.add(list...)
	o.given.mu.Lock()
	o.given.fresh = nil
	o.given.mu.Unlock()
}

// NewPermits gives those that this process has learned of since the last call.
func (o *Outbox) NewPermits() []GivenPermit {
	o.given.mu.Lock()
	defer o.given.mu.Unlock()
	list := o.given.fresh
	o.given.fresh = nil
	return list
}

const (
	// learnAtStart is how far back a process looks that has just started.
	learnAtStart db.Millis = 72 * 3_600_000
	// learnAgain covers clocks of nodes that differ, and transactions that were open.
	learnAgain db.Millis = 10_000
)

// learnMost is how many permits one statement reads.
const learnMost = 5000

const learnPermitsSQL = `
SELECT merchant, id, given, given_at, given_mac FROM evidence WHERE given_at > 0 AND given_at >= $1 ORDER BY given_at LIMIT CAST($2 AS BIGINT)`

// LearnPermits reads the permits that were given lately, also by other processes, and forgets
// those that are over. It is to be called at the start and, beside other processes, each second.
func (o *Outbox) LearnPermits(ctx context.Context, now db.Millis) error {
	g := &o.given
	g.mu.Lock()
	from := max(g.seen-learnAgain, now-learnAtStart, 1)
	if now-g.swept > 3_600_000 {
		g.swept = now
		for k, until := range g.until {
			if until <= now {
				delete(g.until, k)
			}
		}
	}
	g.mu.Unlock()
	for {
		n, last := 0, from
		err := db.Each(ctx, o, learnPermitsSQL, []any{int64(from), learnMost}, func(r db.Rows) error {
			var merchant, id, text string
			var mac []byte
			n++
			if err := r.Scan(&merchant, &id, &text, &last, &mac); err != nil {
				return err
			}
			var p given
			if !hmac.Equal(mac, givenRows.MAC(o.DB, merchant, id, text)) || json.Unmarshal([]byte(text), &p) != nil || p.Until <= now {
				return nil
			}
			g.add(GivenPermit{permitKey(merchant, p.CallBackID, p.Epoch), p.Until})
			return nil
		})
		if err != nil {
			return err
		}
		g.mu.Lock()
		g.seen = max(g.seen, min(last, now))
		g.mu.Unlock()
		if n < learnMost {
			return nil
		}
		from = max(last, from+1)
	}
}

// spend remembers that a person ended w: an earlier row of it gets no permit.
func (o *Outbox) spend(ctx context.Context, w *Withdrawal, now db.Millis) {
	if e, err := db.LastEpoch(ctx, o); err == nil {
		o.given.add(GivenPermit{permitKey(w.Merchant, w.CallBackID, e.Number), inUse(w, now)})
	}
}
