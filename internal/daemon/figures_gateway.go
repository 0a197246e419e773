package daemon

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"countersign/internal/gateway"
	"countersign/internal/web"
	"countersign/merchant"
)

// gatewayFigures count what a gateway does.
type gatewayFigures struct {
	callbacks, forwards *prometheus.CounterVec
	took, forwardTook   *prometheus.HistogramVec
}

var _ gateway.Observer = (*gatewayFigures)(nil)

func newGatewayFigures(f *figures) *gatewayFigures {
	m := &gatewayFigures{
		callbacks: f.counter("countersign_gateway_requests_total",
			"Requests to the public listener by callback type and reason.", "type", "reason"),
		took: f.times("countersign_gateway_request_seconds",
			"Time of one request, from its first look to the end of its response.", 0.0005, 16, "type"),
		forwards: f.counter("countersign_gateway_forwards_total", "Attempts to tell the application by result.", "result"),
		forwardTook: f.times("countersign_gateway_forward_seconds", "Time of one attempt to tell the application.",
			0.001, 15),
	}
	for _, r := range []web.PostResult{web.Posted, web.PostStatus, web.PostTimeout, web.PostFailed} {
		m.forwards.WithLabelValues(string(r)) // from 0, so that the first one is seen as a rise
	}
	m.forwardTook.WithLabelValues()
	return m
}

func (m *gatewayFigures) Observe(o merchant.Observation) {
	m.callbacks.WithLabelValues(o.Type.String(), string(o.Reason)).Inc()
	m.took.WithLabelValues(o.Type.String()).Observe(o.Duration.Seconds())
}

func (m *gatewayFigures) Forwarded(result web.PostResult, took time.Duration) {
	m.forwards.WithLabelValues(string(result)).Inc()
	m.forwardTook.WithLabelValues().Observe(took.Seconds())
}

// scrape reads the values of the book.
func (g *Gateway) scrape(ctx context.Context, c *scrape) error {
	stats, err := g.book.Stats(ctx)
	if err != nil {
		return err
	}
	orders := c.figure("countersign_gateway_orders", "Orders by state.", "state")
	for state, n := range stats.Orders {
		orders(float64(n), string(state))
	}
	c.figure("countersign_gateway_deposits_total", "Deposits taken since the database was made.")(float64(stats.Deposits))
	c.figure("countersign_gateway_deposits_held",
		"Possible duplicates that await a decision.")(float64(stats.DepositsHeld))
	c.figure("countersign_gateway_callbacks_open",
		"Callbacks in the inbox without a final answer.")(float64(stats.CallbacksOpen))
	c.figure("countersign_gateway_forwards_waiting",
		"Entries that are still to be forwarded to the application.")(float64(stats.Forwards))
	c.figure("countersign_gateway_forward_oldest_seconds",
		"Age in seconds of the oldest entry that is still to be forwarded to the application; 0 if there is none.")(c.since(stats.ForwardOldest))
	return nil
}
