package gateway

import (
	"context"
	"sync"

	"golang.org/x/time/rate"

	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/db"
)

// The bounds on keeping refusals of one reason: a burst, and then a rate per second. Whoever can have requests refused,
// such as by joining blocks that he read, must neither fill the disk nor delay the deposits that share the database's
// one writer.
const (
	keepRows   = 20
	keepBytes  = 256 << 10
	keepWarned = 60_000 // milliseconds between two lines about what was not kept
)

// keeper keeps refused callbacks. It counts repetitions of what this process has kept and writes the counts each
// second.
type keeper struct {
	book  *book.Book
	c     *Config
	again func(client.AlarmKind, string) // counts an alarm of a repetition

	mu      sync.Mutex
	known   map[string]int64 // by digest: how often it came since that was written
	rooms   map[client.RefusalReason]room
	dropped int64 // not kept, since the last line about it
	warned  db.Millis
}

type room struct{ rows, bytes *rate.Limiter }

// keep keeps r, and raises an alarm if kind is not empty. It returns after the commit. facts is called only if r is
// new.
func (k *keeper) keep(ctx context.Context, r book.Refused, kind client.AlarmKind, facts func() []client.Fact) error {
	now, digest := db.MillisOf(k.c.Now()), r.Digest()
	k.mu.Lock()
	_, known := k.known[digest]
	switch {
	case known:
		k.known[digest]++
	case !k.takes(r):
		k.dropped++
		known = true
	}
	k.mu.Unlock()
	if known {
		if kind != "" {
			k.again(kind, string(r.Reason))
		}
		return nil
	}
	r.Facts = facts()
	var alarms []client.Alarm
	if kind != "" {
		alarms = []client.Alarm{{Kind: kind, Subject: string(r.Reason), First: now}}
	}
	if err := k.book.KeepRefused(ctx, r, alarms, now); err != nil {
		return err
	}
	k.remember(digest)
	return nil
}

// takes reports whether there is room for r. A deposit that the check holds has an entry in the inbox, so nobody can
// make many of one. k must be locked.
func (k *keeper) takes(r book.Refused) bool {
	if r.Due > 0 {
		return true
	}
	of, ok := k.rooms[r.Reason]
	if !ok {
		of = room{rate.NewLimiter(keepRows, book.MaxRefusedRows), rate.NewLimiter(keepBytes, book.MaxRefusedBytes)}
		k.rooms[r.Reason] = of
	}
	now := k.c.Now()
	return of.rows.AllowN(now, 1) && of.bytes.AllowN(now, len(r.Body))
}

// maxKnown bounds keeper.known.
const maxKnown = 4 * book.MaxRefusedRows

func (k *keeper) remember(digest string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.known) >= maxKnown {
		for known, n := range k.known {
			if n == 0 {
				delete(k.known, known) // the database knows it
			}
		}
	}
	if len(k.known) < maxKnown {
		k.known[digest] += 0
	}
}

// count writes how often kept callbacks were repeated.
func (k *keeper) count(ctx context.Context) error {
	now := db.MillisOf(k.c.Now())
	again := map[string]int64{}
	k.mu.Lock()
	for digest, n := range k.known {
		if n > 0 {
			again[digest], k.known[digest] = n, 0
		}
	}
	if k.dropped > 0 && now-k.warned >= keepWarned {
		k.c.Log.Warn("refused callbacks were not kept: too many came at once for the same reason", "number", k.dropped)
		k.dropped, k.warned = 0, now
	}
	k.mu.Unlock()
	if len(again) == 0 {
		return nil
	}
	gone, err := k.book.RepeatRefused(ctx, again, now)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		for digest, n := range again {
			k.known[digest] += n
		}
		return err
	}
	for _, digest := range gone { // others took its place: it may be kept anew
		delete(k.known, digest)
	}
	return nil
}
