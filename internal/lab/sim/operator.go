package sim

import (
	"time"

	"countersign/client"
)

// stop is a time in which no permit may be given: from when an operator knew of it until the
// operator began to end it.
type stop struct{ from, to time.Duration }

// operate stops everything, or the merchant, for a while.
func (w *world) operate(f fault) {
	w.operating <- struct{}{}
	defer func() { <-w.operating }()
	begin := func() error { _, err := w.operator.Freeze(w.ctx, "a fault"); return err }
	end := func() error { _, err := w.operator.Thaw(w.ctx); return err }
	if f.kind == pause {
		begin = func() error { _, err := w.operator.PauseMerchant(w.ctx, "shop", "a fault"); return err }
		end = func() error { _, err := w.operator.ResumeMerchant(w.ctx, "shop", client.Resume{}); return err }
	}
	w.persist(f.kind.String(), begin)
	from := time.Since(w.begun)
	time.Sleep(f.span)
	to := time.Since(w.begun)
	w.persist("ending a "+f.kind.String(), end)
	w.core.mu.Lock()
	defer w.core.mu.Unlock()
	w.core.stops = append(w.core.stops, stop{from, to})
}
