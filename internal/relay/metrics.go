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
	registry          *prometheus.Registry
	carried, refusals *prometheus.CounterVec
	lag               prometheus.Histogram
	decided           prometheus.Counter
	held              prometheus.Gauge
	active, stopped   prometheus.Gauge
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
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: nameOf("lag_seconds"),
			Help:    "Seconds from a row's insertion to the service's acknowledgement.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 20)}),
		decided: prometheus.NewCounter(prometheus.CounterOpts{Name: nameOf("decisions_total"),
			Help: "Decisions written into the core's database by this process."}),
		held:    gauge("held_merchants", "Merchants whose rows wait for another try of this process, while it carries those of others."),
		active:  gauge("active", "1 if this process works on the table; 0 while another one does."),
		stopped: gauge("decisions_stopped", "1 if decisions are stopped, because the feed is not the one that was read before."),
	}
	for _, k := range kinds {
		m.carried.WithLabelValues(k)
		m.refusals.WithLabelValues(k)
	}
	m.registry.MustRegister(m.carried, m.refusals, m.lag, m.decided, m.held, m.active, m.stopped, scrape{r},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if r.c.Build != nil {
		m.registry.MustRegister(r.c.Build)
	}
	return m
}

// noteHeld sets how many merchants are held, of keys that are withdrawals' as well.
func (m *metrics) noteHeld(keys []string) {
	n := 0
	for _, key := range keys {
		if !strings.Contains(key, "/") {
			n++
		}
	}
	m.held.Set(float64(n))
}

func nameOf(name string) string { return prometheus.BuildFQName("countersign", "relay", name) }

// kindLabel keeps texts that a core wrote out of labels and logs.
func kindLabel(kind string) string {
	if slices.Contains(kinds, kind) {
		return kind
	}
	return "other"
}

// countSQL returns how many rows wait, for how many seconds the oldest does, and how many were refused.
const countSQL = `
SELECT (SELECT count(*) FROM countersign_outbox WHERE refused IS NULL)::float8,
	GREATEST((SELECT extract(epoch FROM clock_timestamp() - min(created)) FROM countersign_outbox WHERE refused IS NULL), 0)::float8,
	(SELECT count(*) FROM countersign_outbox WHERE refused IS NOT NULL)::float8`

// scrape reads from the database what several relays share.
type scrape struct{ *Relay }

// Describe describes nothing, so that the collector is not checked.
func (scrape) Describe(chan<- *prometheus.Desc) {}

func (s scrape) Collect(ch chan<- prometheus.Metric) {
	gauge := func(name, help string, v float64) {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(nameOf(name), help, nil, nil), prometheus.GaugeValue, v)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var up, waiting, oldest, refused float64
	if s.pool.QueryRow(ctx, countSQL).Scan(&waiting, &oldest, &refused) == nil {
		up = 1
		gauge("waiting_rows", "Rows that wait to be carried.", waiting)
		gauge("oldest_waiting_seconds", "Seconds since the oldest waiting row was inserted; 0 if none waits.", oldest)
		gauge("refused_rows", "Rows that the service has refused and that are kept.", refused)
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
