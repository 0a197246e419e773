package relay

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the numbers of a relay. Labels are words of fixed lists, never merchants.
type metrics struct {
	r        *Relay
	registry *prometheus.Registry
	carried  *prometheus.CounterVec
	refusals *prometheus.CounterVec
	calls    *prometheus.CounterVec
	lag      prometheus.Histogram
	decided  prometheus.Counter
	permits  prometheus.Counter
	active   prometheus.Gauge
	stopped  prometheus.Gauge
	waiting  *prometheus.Desc
	oldest   *prometheus.Desc
	kept     *prometheus.Desc
	heldBack *prometheus.Desc
	heldEach *prometheus.Desc
	up       *prometheus.Desc
}

func newMetrics(r *Relay) *metrics {
	name := func(s string) string { return prometheus.BuildFQName("countersign", "relay", s) }
	m := &metrics{
		r: r, registry: prometheus.NewRegistry(),
		carried:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("carried_total"), Help: "Rows that the service has acknowledged, by kind."}, []string{"kind"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("refusals_total"), Help: "Rows that the service has refused, by kind."}, []string{"kind"}),
		calls:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("calls_total"), Help: "Calls of the service that carry rows, by result."}, []string{"result"}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: name("lag_seconds"),
			Help: "Seconds from a row's insertion to the service's acknowledgement.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 20)}),
		decided:  prometheus.NewCounter(prometheus.CounterOpts{Name: name("decisions_total"), Help: "Decisions written into the core's database by this process."}),
		permits:  prometheus.NewCounter(prometheus.CounterOpts{Name: name("permits_total"), Help: "Permits written into the core's database by this process."}),
		active:   prometheus.NewGauge(prometheus.GaugeOpts{Name: name("active"), Help: "1 if this process works on the table; 0 while another one does."}),
		stopped:  prometheus.NewGauge(prometheus.GaugeOpts{Name: name("decisions_stopped"), Help: "1 if decisions are stopped, because the feed is not the one that was read before."}),
		waiting:  prometheus.NewDesc(name("waiting_rows"), "Rows that wait to be carried.", nil, nil),
		oldest:   prometheus.NewDesc(name("oldest_waiting_seconds"), "Seconds since the oldest waiting row was inserted; 0 if none waits.", nil, nil),
		kept:     prometheus.NewDesc(name("refused_rows"), "Rows that the service has refused and that are kept.", nil, nil),
		heldBack: prometheus.NewDesc(name("held_merchants"), "Merchants whose rows wait for another try of this process, while it carries those of others.", nil, nil),
		heldEach: prometheus.NewDesc(name("held_withdrawals"), "Withdrawals whose rows wait for another try of this process, such as a release while the service is frozen.", nil, nil),
		up:       prometheus.NewDesc(name("database_up"), "1 if the core's database could be read for these numbers.", nil, nil),
	}
	for _, k := range kinds {
		m.carried.WithLabelValues(k)
		m.refusals.WithLabelValues(k)
	}
	m.registry.MustRegister(m.carried, m.refusals, m.calls, m.lag, m.decided, m.permits, m.active, m.stopped, scrape{m},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if r.c.Build != nil {
		m.registry.MustRegister(r.c.Build)
	}
	return m
}

// kindLabel keeps what a core wrote out of labels and logs.
func kindLabel(kind string) string {
	if slices.Contains(kinds, kind) {
		return kind
	}
	return "other"
}

// works notes whether this process may work on the table.
func (m *metrics) works(is bool) {
	working := 0.0
	if is {
		working = 1
	}
	m.active.Set(working) // once: a scrape must not meet another value between
}

func (m *metrics) called(v verdict) {
	m.calls.WithLabelValues([...]string{down: "down", hold: "hold", refused: "refused", taken: "taken"}[v.result]).Inc()
}

// scrape reads from the database what several relays share.
type scrape struct{ *metrics }

func (s scrape) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.waiting, s.oldest, s.kept, s.heldBack, s.heldEach, s.up} {
		ch <- d
	}
}

func (s scrape) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	held, _ := s.r.held.now(time.Now())
	each := 0
	for _, key := range held {
		if strings.Contains(key, "/") {
			each++
		}
	}
	gauge(s.heldBack, float64(len(held)-each))
	gauge(s.heldEach, float64(each))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	n, err := count(ctx, s.r.pool)
	if err != nil {
		gauge(s.up, 0)
		return
	}
	gauge(s.up, 1)
	gauge(s.waiting, float64(n.Waiting))
	gauge(s.oldest, n.Oldest)
	gauge(s.kept, float64(n.Refused))
}

// Handler answers /metrics, /healthz (the process runs) and /readyz (503 while a row
// could not be carried, because either end does not work).
func (r *Relay) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { health(w, "") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		health(w, r.state.why(partCore, partService))
	})
	return mux
}

// health answers with 200, or with 503 and why.
func health(w http.ResponseWriter, why string) {
	out := struct {
		Status string `json:"status"`
		Why    string `json:"why,omitempty"`
	}{"ok", why}
	w.Header().Set("Content-Type", "application/json")
	if why != "" {
		out.Status = "failing"
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(out)
}
