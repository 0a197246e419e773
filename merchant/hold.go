package merchant

import (
	"context"
	"time"

	"countersign"
)

// askAgain is how often OnWithdrawal is asked again while an exchange is kept
// open, if there is no OnHeld.
const askAgain = time.Second

// askPause is the shortest time between two calls of OnWithdrawal for it.
const askPause = 20 * time.Millisecond

// holds are the exchanges that are kept open.
type holds struct {
	slots   chan struct{}   // holds a value for each
	stopped context.Context // ended by stop
	stop    context.CancelFunc
}

func newHolds(most int) holds {
	stopped, stop := context.WithCancel(context.Background())
	return holds{make(chan struct{}, most), stopped, stop}
}

// held keeps the exchange of a withdrawal open that OnWithdrawal holds, if the
// Profile says so, and calls again until the answer is another or the time is over.
// While it waits it holds no lease, so other deliveries are not kept waiting. If the
// service closes the connection, it ends.
func (h *Handler) held(ctx context.Context, rep reply, again func() reply) reply {
	w, ok := rep.callback.(*countersign.WithdrawalRequest)
	if !ok || rep.reason != ReasonHold || h.c.Profile.Hold != HoldWait {
		return rep
	}
	select {
	case h.holds.slots <- struct{}{}:
		defer func() { <-h.holds.slots }()
	default: // too many wait
		return rep
	}
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

// awaitChange returns when OnWithdrawal may answer otherwise, or ctx ends.
func (h *Handler) awaitChange(ctx context.Context, w countersign.WithdrawalRequest) {
	if h.c.OnHeld != nil {
		h.c.OnHeld(ctx, w)
		return
	}
	timer := time.NewTimer(askAgain)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Stop makes exchanges that HoldWait keeps open answer at once, now and from now on.
// Call it before http.Server.Shutdown, which would otherwise wait for them.
func (h *Handler) Stop() { h.holds.stop() }
