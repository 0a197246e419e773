package relay

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"countersign/client"
)

// nodes are the nodes of the service. One is asked until it does not answer, and then the next.
type nodes struct {
	list []*client.Service
	at   atomic.Int64
	// probe is how often a node that lets a call wait is asked whether it is there, and how long
	// it may take to answer.
	probe time.Duration
}

// defaultProbe: a node that stands still is left after twice this time.
const defaultProbe = 3 * time.Second

// ask makes a call of the service. Where a node cannot be reached, or cannot work, the next is
// asked: repeating a call changes nothing.
func (r *Relay) ask(ctx context.Context, call func(context.Context, *client.Service) error) (err error) {
	n := &r.nodes
	for range n.list {
		at := n.at.Load()
		if err = n.watched(ctx, n.list[int(at)%len(n.list)], call); err == nil || ctx.Err() != nil || !isAway(err) {
			return err
		}
		if n.at.CompareAndSwap(at, at+1) && len(n.list) > 1 {
			r.c.Log.Warn("a node of the service does not answer; the next is asked", "node", int(at)%len(n.list)+1, "error", err.Error())
		}
	}
	return err
}

// isAway says whether an error is of a node that does not work, which others may.
func isAway(err error) bool {
	p := problemOf(err)
	if p == nil {
		return true
	}
	return p.Status == http.StatusBadGateway || p.Status == http.StatusServiceUnavailable || p.Status == http.StatusGatewayTimeout
}

// watched makes a call of a node. If there is another node and this one does not answer anything
// else either meanwhile, the call ends.
func (n *nodes) watched(ctx context.Context, api *client.Service, call func(context.Context, *client.Service) error) error {
	if len(n.list) == 1 {
		return call(ctx, api)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for sleep(ctx, n.probe) {
			look, end := context.WithTimeout(ctx, n.probe)
			err := api.Healthz(look)
			end()
			if err != nil {
				cancel()
			}
		}
	}()
	return call(ctx, api)
}
