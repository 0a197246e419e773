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
	registry                 *prometheus.Registry
	carried, refusals, calls *prometheus.CounterVec
	lag                      prometheus.Histogram
	decided, permits         prometheus.Counter
	active, stopped          prometheus.Gauge
}

func newMetrics(r *Relay) *metrics {
	counters := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: nameOf(name), Help: help}, []string{label})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: nameOf(name), Help: help})
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		carried:  counters("carried_total", "Rows that the service has acknowledged, by kind.", "kind"),
		refusals: counters("refusals_total", "Rows that the service has refused, by kind.", "kind"),
		calls:    counters("calls_total", "Calls of the service that carry rows, by result.", "result"),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: nameOf("lag_seconds"),
			Help: "Seconds from a row's insertion to the service's acknowledgement.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 20)}),
		decided: prometheus.NewCounter(prometheus.CounterOpts{Name: nameOf("decisions_total"), Help: "Decisions written into the core's database by this process."}),
		permits: prometheus.NewCounter(prometheus.CounterOpts{Name: nameOf("permits_total"), Help: "Permits written into the core's database by this process."}),
		active:  gauge("active", "1 if this process works on the table; 0 while another one does."),
		stopped: gauge("decisions_stopped", "1 if decisions are stopped, because the feed is not the one that was read before."),
	}
	for _, k := range kinds {
		m.carried.WithLabelValues(k)
		m.refusals.WithLabelValues(k)
	}
	m.registry.MustRegister(m.carried, m.refusals, m.calls, m.lag, m.decided, m.permits, m.active, m.stopped, scrape{r},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if r.c.Build != nil {
		m.registry.MustRegister(r.c.Build)
	}
	return m
}

func nameOf(name string) string { return prometheus.BuildFQName("countersign", "relay", name) }

// kindLabel keeps texts that a core wrote out of labels and logs.
func kindLabel(kind string) string {
	if slices.Contains(kinds, kind) {
		return kind
	}
	return "other"
}

func (m *metrics) called(v verdict) {
	m.calls.WithLabelValues([...]string{down: "down", hold: "hold", refused: "refused", taken: "taken"}[v.result]).Inc()
}

// scrape reads what is held, and from the database what several relays share.
type scrape struct{ *Relay }

// Describe describes nothing, so that the collector is not checked.
func (scrape) Describe(chan<- *prometheus.Desc) {}

func (s scrape) Collect(ch chan<- prometheus.Metric) {
	gauge := func(name, help string, v float64) {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(nameOf(name), help, nil, nil), prometheus.GaugeValue, v)
	}
	held, _ := s.held.now(time.Now())
	each := 0.0
	for _, key := range held {
		if strings.Contains(key, "/") {
			each++
		}
	}
	gauge("held_merchants", "Merchants whose rows wait for another try of this process, while it carries those of others.", float64(len(held))-each)
	gauge("held_withdrawals", "Withdrawals whose rows wait for another try of this process, such as a release while the service is frozen.", each)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	n, err := count(ctx, s.pool)
	up := 0.0
	if err == nil {
		up = 1
		gauge("waiting_rows", "Rows that wait to be carried.", float64(n.Waiting))
		gauge("oldest_waiting_seconds", "Seconds since the oldest waiting row was inserted; 0 if none waits.", n.Oldest)
		gauge("refused_rows", "Rows that the service has refused and that are kept.", float64(n.Refused))
	}
	gauge("database_up", "1 if the core's database could be read for these numbers.", up)
}

// Handler serves /metrics, /healthz (the process runs) and /readyz (503 while a row could not be carried, because
// either end does not work).
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
