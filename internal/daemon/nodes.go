package daemon

import (
	"context"
	"errors"
	"time"

	"countersign/internal/db"
)

// beatEvery is how often a node reports that it runs. It counts as silent after db.NodeSilent.
const beatEvery = 10 * time.Second

// beat writes the row of this process among the nodes of its database. It returns an error only if the master key was
// replaced. An unreachable database is reported by other parts.
func (e *end) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	n := e.self
	n.Seen = db.MillisOf(e.clock.Now())
	if err := e.db.Beat(ctx, n); errors.Is(err, db.ErrMasterKey) {
		return err
	}
	return nil
}

// leaveNodes deletes the row after everything else has ended.
func (e *end) leaveNodes(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = e.db.LeaveNode(ctx, e.self.ID) // else it is silent, and forgotten after a day
}
