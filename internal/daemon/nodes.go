package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"countersign/internal/db"
)

// beatEvery is how often a node reports that it runs. It counts as silent after db.NodeSilent.
const beatEvery = 10 * time.Second

// heart maintains the row of this process among the nodes of its database.
type heart struct {
	d    *db.DB
	now  func() time.Time
	node db.Node
}

func newHeart(d *db.DB, name string, now func() time.Time) *heart {
	return &heart{d, now, db.Node{ID: rand.Text(), Name: name, Version: ThisBuild().String(), Started: db.MillisOf(now())}}
}

// beat returns an error only if the master key was replaced. An unreachable database is reported by other parts.
func (h *heart) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	n := h.node
	n.Seen = db.MillisOf(h.now())
	if err := h.d.Beat(ctx, n); errors.Is(err, db.ErrMasterKey) {
		return err
	}
	return nil
}

// stop deletes the row after everything else has ended.
func (h *heart) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = h.d.LeaveNode(ctx, h.node.ID) // else it is silent, and forgotten after a day
}
