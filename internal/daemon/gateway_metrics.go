package daemon

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/gateway"
	"countersign/internal/signed"
	"countersign/merchant"
)

// gatewayMetrics counts what a gateway does. Labels are words of fixed lists.
type gatewayMetrics struct {
	end *book.Book
	log *slog.Logger
	now func() time.Time

	keys                                                           *api.Keys // set before the first scrape
	registry                                                       *prometheus.Registry
	callbacks, forwards                                            *prometheus.CounterVec
	callbackTime                                                   *prometheus.HistogramVec
	forwardTime                                                    prometheus.Histogram
	orders, deposits, held, open, waiting, skipped, oldest, online *prometheus.Desc
	alarms, openAlarms, oldestKey                                  *prometheus.Desc
}

var _ gateway.Observer = (*gatewayMetrics)(nil)

func newGatewayMetrics(end *book.Book, g ground, log *slog.Logger, now func() time.Time) *gatewayMetrics {
	name := func(s string) string { return prometheus.BuildFQName("countersign", "gateway", s) }
	m := &gatewayMetrics{
		end: end, log: log, now: now, registry: prometheus.NewRegistry(),
		callbacks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("requests_total"),
			Help: "Requests to the public listener by callback type and reason."}, []string{"type", "reason"}),
		callbackTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name("request_seconds"),
			Help: "Time of one request, from its first look to the end of its response.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16)}, []string{"type"}),
		forwards: prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("forwards_total"),
			Help: "Attempts to tell the application by result."}, []string{"result"}),
		forwardTime: prometheus.NewHistogram(prometheus.HistogramOpts{Name: name("forward_seconds"),
			Help: "Time of one attempt to tell the application.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 15)}),
		orders:     prometheus.NewDesc(name("orders"), "Orders by state.", []string{"state"}, nil),
		deposits:   prometheus.NewDesc(name("deposits_total"), "Deposits taken since the database was made.", nil, nil),
		held:       prometheus.NewDesc(name("deposits_held"), "Possible duplicates that await a decision.", nil, nil),
		open:       prometheus.NewDesc(name("callbacks_open"), "Callbacks in the inbox without a final answer.", nil, nil),
		waiting:    prometheus.NewDesc(name("forwards_waiting"), "Entries that are still to be forwarded to the application.", nil, nil),
		skipped:    prometheus.NewDesc(name("forwards_skipped"), "Entries that a person gave up: they are not forwarded.", nil, nil),
		oldest:     prometheus.NewDesc(name("forward_oldest_seconds"), "Age in seconds of the oldest entry that is still to be forwarded to the application; 0 if there is none.", nil, nil),
		alarms:     prometheus.NewDesc(name("alarms_total"), "How often alarms of a kind were raised since the database was made.", []string{"kind"}, nil),
		openAlarms: prometheus.NewDesc(name("alarms_open"), "Alarms by kind that are open: one for each row that nobody has acknowledged and that has not ended.", []string{"kind"}, nil),
		oldestKey:  oldestKeyDesc(),
		online:     prometheus.NewDesc(prometheus.BuildFQName("countersign", "", "database_up"), "Whether the database answered this scrape.", nil, nil),
	}
	for _, r := range []signed.Result{signed.Done, signed.Status, signed.Timeout, signed.Failed} {
		m.forwards.WithLabelValues(string(r)) // from 0, so that the first one is seen as a rise
	}
	m.registry.MustRegister(BuildInfo(), g, m.callbacks, m.callbackTime, m.forwards, m.forwardTime, gatewayScrape{m}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *gatewayMetrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, ErrorLog: slog.NewLogLogger(m.log.Handler(), slog.LevelWarn)})
}

func (m *gatewayMetrics) Observe(o merchant.Observation) {
	m.callbacks.WithLabelValues(o.Type.String(), string(o.Reason)).Inc()
	m.callbackTime.WithLabelValues(o.Type.String()).Observe(o.Duration.Seconds())
}

func (m *gatewayMetrics) Forwarded(result signed.Result, took time.Duration) {
	m.forwards.WithLabelValues(string(result)).Inc()
	m.forwardTime.Observe(took.Seconds())
}

// gatewayScrape reads from the database the figures that all processes share.
type gatewayScrape struct{ *gatewayMetrics }

func (s gatewayScrape) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.orders, s.deposits, s.held, s.open, s.waiting, s.skipped, s.oldest, s.oldestKey, s.alarms, s.openAlarms, s.online} {
		ch <- d
	}
}

func (s gatewayScrape) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	stats, err := s.end.Stats(ctx)
	if err == nil {
		var ages map[client.KeyKind]db.Millis
		ages, err = s.keys.Oldest(ctx, db.MillisOf(s.now()))
		collectAges(ages, db.MillisOf(s.now()), s.oldestKey, ch)
	}
	if err == nil {
		err = collectAlarms(ctx, s.end.DB, client.AlarmKind("").AtGateway(), s.alarms, s.openAlarms, ch)
	}
	if err != nil {
		s.log.Warn("metrics without the database", "error", err)
		gauge(s.online, 0)
		return
	}
	gauge(s.online, 1)
	for state, n := range stats.Orders {
		gauge(s.orders, float64(n), string(state))
	}
	ch <- prometheus.MustNewConstMetric(s.deposits, prometheus.CounterValue, float64(stats.Deposits))
	gauge(s.held, float64(stats.DepositsHeld))
	gauge(s.open, float64(stats.InboxOpen))
	gauge(s.waiting, float64(stats.Forwards))
	gauge(s.skipped, float64(stats.Skipped))
	oldest := 0.0
	if stats.Forwards > 0 {
		oldest = max(0, float64(db.MillisOf(s.now())-stats.ForwardOldest)/1000)
	}
	gauge(s.oldest, oldest)
}
