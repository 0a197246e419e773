package daemon

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/dispatch"
	"countersign/internal/outbox"
)

// serviceMetrics counts what a service does. Labels are words of fixed lists and not
// merchants, whose number is unbounded. Only those that fail are named, and not more than
// failingNamed of them.
type serviceMetrics struct {
	outbox   *outbox.Outbox
	log      *slog.Logger
	now      func() time.Time
	registry *prometheus.Registry
	keys     *api.Keys // set before the first scrape

	attempts    *prometheus.CounterVec
	exchange    *prometheus.HistogramVec
	rsa         *prometheus.HistogramVec
	claimed     *prometheus.CounterVec
	settled     prometheus.Counter
	settleTime  prometheus.Histogram
	decisions   *prometheus.CounterVec
	lostLeases  prometheus.Counter
	expired     prometheus.Counter
	inFlight    *prometheus.GaugeVec
	alarms      *prometheus.Desc
	openAlarms  *prometheus.Desc
	queue       *prometheus.Desc
	oldest      *prometheus.Desc
	withdrawals *prometheus.Desc
	oldestKey   *prometheus.Desc
	breakers    *prometheus.Desc
	failing     *prometheus.Desc
	failingFor  *prometheus.Desc
	frozen      *prometheus.Desc
	up          *prometheus.Desc
}

var _ dispatch.Observer = (*serviceMetrics)(nil)

func newServiceMetrics(o *outbox.Outbox, g ground, log *slog.Logger, now func() time.Time) *serviceMetrics {
	name := func(s string) string { return prometheus.BuildFQName("countersign", "", s) }
	m := &serviceMetrics{
		outbox: o, log: log, now: now, registry: prometheus.NewRegistry(),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("attempts_total"),
			Help: "Attempts by lane, callback type, result and reason."}, []string{"lane", "type", "result", "reason"}),
		exchange: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name("attempt_seconds"),
			Help: "Time of one attempt, sealing and opening included.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 15)}, []string{"lane"}),
		rsa: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name("rsa_seconds"),
			Help: "Time of sealing or opening one body.", Buckets: prometheus.ExponentialBuckets(0.00005, 2, 14)}, []string{"operation"}),
		claimed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("claimed_total"),
			Help: "Callbacks claimed by this process."}, []string{"lane"}),
		settled: prometheus.NewCounter(prometheus.CounterOpts{Name: name("settled_total"),
			Help: "Attempts settled by this process."}),
		settleTime: prometheus.NewHistogram(prometheus.HistogramOpts{Name: name("settle_seconds"),
			Help: "Time of one settling transaction.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 13)}),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("decisions_total"),
			Help: "Decisions on withdrawals taken by attempts of this process."}, []string{"decision"}),
		lostLeases: prometheus.NewCounter(prometheus.CounterOpts{Name: name("lost_leases_total"),
			Help: "Leases that ended before their attempt was settled."}),
		expired: prometheus.NewCounter(prometheus.CounterOpts{Name: name("expired_withdrawals_total"),
			Help: "Withdrawals that reached their deadline undecided."}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name("in_flight"),
			Help: "Callbacks that this process holds."}, []string{"lane"}),
		alarms:     prometheus.NewDesc(name("alarms_total"), "How often alarms of a kind were raised since the database was made.", []string{"kind"}, nil),
		openAlarms: prometheus.NewDesc(name("alarms_open"), "Alarms by kind that are open: one for each row that nobody has acknowledged and that has not ended.", []string{"kind"}, nil),
		queue: prometheus.NewDesc(name("callbacks"),
			"Callbacks by lane and state; final states since the database was made.", []string{"lane", "state"}, nil),
		oldest: prometheus.NewDesc(name("oldest_due_seconds"),
			"Seconds since the oldest pending callback became due; 0 if none is due.", []string{"lane"}, nil),
		oldestKey:   oldestKeyDesc(),
		withdrawals: prometheus.NewDesc(name("withdrawals"), "Withdrawals by state.", []string{"state"}, nil),
		breakers: prometheus.NewDesc(name("breakers"),
			"Merchants whose breaker is open or tries again, by lane.", []string{"lane", "state"}, nil),
		failing: prometheus.NewDesc(name("merchants_failing"), "Merchants that fail, as the alarm merchant_failing says.", nil, nil),
		failingFor: prometheus.NewDesc(name("merchant_failing_seconds"),
			"Seconds since a failing merchant last accepted something; 0 if too many attempts fail beside others. Of the merchants that fail for longest.", []string{"merchant"}, nil),
		frozen: prometheus.NewDesc(name("frozen"),
			"1 while a person has frozen the service: nothing is sent, decided or released.", nil, nil),
		up: prometheus.NewDesc(name("database_up"), "Whether the database answered this scrape.", nil, nil),
	}
	for _, d := range []countersign.Decision{countersign.DecisionConfirmed, countersign.DecisionDeclined, countersign.DecisionExpired, countersign.DecisionCancelled} {
		m.decisions.WithLabelValues(string(d)) // from 0, so that the first one is seen as a rise
	}
	m.registry.MustRegister(BuildInfo(), g, m.attempts, m.exchange, m.rsa, m.claimed, m.settled, m.settleTime, m.decisions, m.lostLeases,
		m.expired, m.inFlight, serviceScrape{m}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *serviceMetrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, ErrorLog: slog.NewLogLogger(m.log.Handler(), slog.LevelWarn)})
}

func (m *serviceMetrics) Attempt(lane countersign.Lane, t countersign.Type, result client.AttemptResult, reason client.Reason, took time.Duration) {
	m.attempts.WithLabelValues(lane.String(), t.String(), string(result), string(reason)).Inc()
	m.exchange.WithLabelValues(lane.String()).Observe(took.Seconds())
}

func (m *serviceMetrics) RSA(operation string, took time.Duration) {
	m.rsa.WithLabelValues(operation).Observe(took.Seconds())
}

func (m *serviceMetrics) Claimed(lane countersign.Lane, n int) {
	m.claimed.WithLabelValues(lane.String()).Add(float64(n))
}

func (m *serviceMetrics) Settled(n int, took time.Duration) {
	m.settled.Add(float64(n))
	m.settleTime.Observe(took.Seconds())
}

func (m *serviceMetrics) Decided(d countersign.Decision) {
	m.decisions.WithLabelValues(string(d)).Inc()
}

func (m *serviceMetrics) Swept(s outbox.Swept) {
	m.lostLeases.Add(float64(len(s.Lost)))
	m.expired.Add(float64(len(s.Expired)))
}

func (m *serviceMetrics) InFlight(lane countersign.Lane, n int) {
	m.inFlight.WithLabelValues(lane.String()).Set(float64(n))
}

// serviceScrape reads from the database the figures that all processes share.
type serviceScrape struct{ *serviceMetrics }

// failingNamed bounds how many failing merchants are series of their own: when the network
// of this end is away, all of them fail.
const failingNamed = 50

// scrapeTimeout bounds the reading of the database, or scrapes would accumulate
// while the database hangs.
const scrapeTimeout = 5 * time.Second

func (s serviceScrape) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.queue, s.oldest, s.oldestKey, s.withdrawals, s.breakers, s.failing, s.failingFor, s.frozen, s.alarms, s.openAlarms, s.up} {
		ch <- d
	}
}

func (s serviceScrape) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	err := s.collect(ctx, ch)
	if err != nil {
		s.log.Warn("metrics without the database", "error", err)
	}
	ch <- prometheus.MustNewConstMetric(s.up, prometheus.GaugeValue, oneIf(err == nil))
}

func (s serviceScrape) collect(ctx context.Context, ch chan<- prometheus.Metric) error {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	now := db.MillisOf(s.now())
	numbers, err := s.outbox.Stats(ctx)
	if err != nil {
		return err
	}
	for _, l := range numbers.Lanes {
		gauge(s.queue, float64(l.Count), l.Lane.String(), string(l.State))
		if l.State == outbox.CallbackPending {
			gauge(s.oldest, max(0, float64(now-l.OldestDue)/1000), l.Lane.String())
		}
	}
	for state, n := range numbers.Withdrawals {
		gauge(s.withdrawals, float64(n), string(state))
	}
	keys, err := s.outbox.OldestKeys(ctx)
	if err != nil {
		return err
	}
	ages, err := s.keys.Oldest(ctx, now)
	if err != nil {
		return err
	}
	ages[client.KeyRequest], ages[client.KeyResponse], ages[client.KeyAPI], ages[client.KeyCallbackAPI] = keys.Key, keys.ResponseKey, keys.APIKey, keys.CallbackAPIKey
	collectAges(ages, now, s.oldestKey, ch)
	frozen, err := s.outbox.Frozen(ctx)
	if err != nil {
		return err
	}
	gauge(s.frozen, oneIf(frozen.At != 0))
	if err := collectAlarms(ctx, s.outbox.DB, client.AlarmKind("").AtService(), s.alarms, s.openAlarms, ch); err != nil {
		return err
	}
	breakers, err := s.outbox.Breakers(ctx)
	if err != nil {
		return err
	}
	type key struct{ lane, state string }
	open := map[key]float64{}
	for _, lane := range []countersign.Lane{countersign.LaneNotify, countersign.LaneWithdraw} {
		open[key{lane.String(), "open"}], open[key{lane.String(), "half-open"}] = 0, 0
	}
	for _, b := range breakers {
		switch {
		case b.Failures < outbox.BreakerThreshold: // still closed
		case b.OpenUntil > now:
			open[key{b.Lane.String(), "open"}]++
		default:
			open[key{b.Lane.String(), "half-open"}]++
		}
	}
	for k, n := range open {
		gauge(s.breakers, n, k.lane, k.state)
	}
	failing, err := s.outbox.FailingMerchants(ctx)
	if err != nil {
		return err
	}
	gauge(s.failing, float64(len(failing)))
	for _, f := range failing[:min(len(failing), failingNamed)] {
		seconds := 0.0
		if f.Since > 0 {
			seconds = max(0, float64(now-f.Since)/1000)
		}
		gauge(s.failingFor, seconds, f.Merchant)
	}
	return nil
}

// collectAlarms returns the numbers of alarms by kind, those of kinds that were never
// raised too, so that the first one is seen as a rise.
func collectAlarms(ctx context.Context, d *db.DB, kinds []client.AlarmKind, raised, open *prometheus.Desc, ch chan<- prometheus.Metric) error {
	counts, err := d.AlarmCounts(ctx)
	if err != nil {
		return err
	}
	for _, k := range kinds {
		n := counts[k]
		ch <- prometheus.MustNewConstMetric(raised, prometheus.CounterValue, float64(n.Raised), string(k))
		ch <- prometheus.MustNewConstMetric(open, prometheus.GaugeValue, float64(n.Open), string(k))
	}
	return nil
}
