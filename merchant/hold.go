package merchant

import (
	"context"
	"sync"
	"time"

	"countersign"
)

// askAgain is how often OnWithdrawal is asked again while an exchange is kept
// open, if there is no OnHeld.
const askAgain = time.Second

// askPause is the shortest time between two calls of OnWithdrawal for an exchange.
const askPause = 20 * time.Millisecond

// holds are the exchanges that are kept open.
type holds struct {
	most    int
	stopped context.Context // ended by stop
	stop    context.CancelFunc

	mu      sync.Mutex
	waiting int
	by      map[string]int // by callBackId
}

// maxHeldEach is how many exchanges about one withdrawal are kept open: the service
// may have given up an earlier one, and a recorded question that is posted again and
// again must not take all places.
const maxHeldEach = 4

func newHolds(most int) *holds {
	stopped, stop := context.WithCancel(context.Background())
	return &holds{most: most, stopped: stopped, stop: stop, by: map[string]int{}}
}

// enter reports whether an exchange about id may be kept open. If so, leave ends it.
func (h *holds) enter(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting >= h.most || h.by[id] >= maxHeldEach {
		return false
	}
	h.waiting++
	h.by[id]++
	return true
}

func (h *holds) leave(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting--
	if h.by[id]--; h.by[id] == 0 {
		delete(h.by, id)
	}
}

// held keeps the exchange of a held withdrawal open, if the Profile says so, and calls
// again until the answer is not Hold, the time is over, or the service closes the
// connection. Meanwhile it has no lease, so other deliveries do not wait for it.
func (h *Handler) held(ctx context.Context, rep reply, again func() reply) reply {
	w, ok := rep.callback.(*countersign.WithdrawalRequest)
	if !ok || rep.reason != ReasonHold || h.c.Profile.Hold != HoldWait {
		return rep
	}
	if !h.holds.enter(w.CallBackID) {
		return rep
	}
	defer h.holds.leave(w.CallBackID)
	ctx, cancel := context.WithTimeout(ctx, h.c.Profile.Wait)
	defer cancel()
	defer context.AfterFunc(h.holds.stopped, cancel)()
	for rep.reason == ReasonHold {
		pause := time.After(askPause)
		h.awaitChange(ctx, *w)
		select {
		case <-pause:
		case <-ctx.Done():
			return rep
		}
		rep = again()
	}
	return rep
}

// awaitChange blocks until OnWithdrawal may have another answer, or ctx ends.
func (h *Handler) awaitChange(ctx context.Context, w countersign.WithdrawalRequest) {
	if h.c.OnHeld != nil {
		h.c.OnHeld(ctx, w)
		return
	}
	sleep(ctx, askAgain)
}

// sleep waits for d. It returns false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Stop makes exchanges that HoldWait keeps open answer at once, now and from now on.
// Call it before http.Server.Shutdown, which would otherwise wait for them.
func (h *Handler) Stop() { h.holds.stop() }
