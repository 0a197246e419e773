package relay

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"

	"countersign/client"
	"countersign/internal/db"
)

// nodes are Config.Nodes and the one that is asked.
type nodes struct {
	list []*client.Service
	at   atomic.Int64
	// probe is how often a node is tested while a call to it waits, and how long the test may take.
	probe time.Duration
}

// defaultProbe is the default of probe: a node that stands still is left after twice this time.
const defaultProbe = 3 * time.Second

// ask makes a call of the service. If a node cannot be reached, cannot work, or may be behind, it asks the others:
// repeating a call changes nothing.
func ask[T any](ctx context.Context, r *Relay, call func(context.Context, *client.Service) (T,
	error)) (out T, err error) {
	n := &r.nodes
	at := n.at.Load()
	for i := range int64(len(n.list)) {
		got, said := watched(ctx, n, n.list[(at+i)%int64(len(n.list))], call)
		switch {
		case said == nil || ctx.Err() != nil || !isAway(said) && !mayBeBehind(said):
			if i > 0 && ctx.Err() == nil && n.at.CompareAndSwap(at, at+i) {
				r.c.Log.Warn("a node of the service does not answer or is behind; the next is asked", "node",
					at%int64(len(n.list))+1, "error", err.Error())
			}
			return got, said
		case err == nil || mayBeBehind(said): // an answer counts for more than none
			err = said
		}
	}
	return out, err
}

// post is ask for a call whose body is written already.
func (r *Relay) post(ctx context.Context, path string, body []byte) (json.RawMessage, error) {
	return ask(ctx, r, func(ctx context.Context, api *client.Service) (json.RawMessage, error) {
		return api.Call(ctx, http.MethodPost, path, body)
	})
}

// isAway reports whether an error means that this node does not work; others may.
func isAway(err error) bool {
	p := problemOf(err)
	if p == nil {
		return true
	}
	return p.Status == http.StatusBadGateway || p.Status == http.StatusServiceUnavailable ||
		p.Status == http.StatusGatewayTimeout
}

// mayBeBehind reports whether the error may come from a node that reads from a replaced database server, and so does
// not know what another node does.
func mayBeBehind(err error) bool {
	p := problemOf(err)
	return p == missing || p != nil && len(p.Faults) == 0 &&
		(p.Status == http.StatusNotFound || p.Status == http.StatusConflict)
}

// watched makes a call of a node. If there is another node, the call ends once this one also fails the test (see
// probe).
func watched[T any](ctx context.Context, n *nodes, api *client.Service, call func(context.Context, *client.Service) (T,
	error)) (T, error) {
	if len(n.list) == 1 {
		return call(ctx, api)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for db.Sleep(ctx, n.probe) {
			look, end := context.WithTimeout(ctx, n.probe)
			_, err := api.Call(look, http.MethodGet, "/healthz", nil)
			end()
			if err != nil {
				cancel()
			}
		}
	}()
	return call(ctx, api)
}
