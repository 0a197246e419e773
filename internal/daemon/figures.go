package daemon

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"countersign/client"
	"countersign/internal/db"
)

// scrapeTimeout bounds a scrape's reading of the database. Otherwise scrapes would accumulate while the database hangs.
const scrapeTimeout = 5 * time.Second

// figures are what an end shows at /metrics: counts of this process, and values of the database, which all its
// processes share, read at each scrape. Labels are words of fixed lists, never merchants: their number is unbounded.
type figures struct {
	end      *end
	registry *prometheus.Registry
	// read reads the values that only this end has.
	read func(context.Context, *scrape) error
	// alarms is the prefix of the names of the alarm figures, which are of these kinds.
	alarms string
	kinds  []client.AlarmKind
}

func newFigures(e *end, alarms string, kinds []client.AlarmKind, read func(context.Context, *scrape) error) *figures {
	f := &figures{end: e, registry: prometheus.NewRegistry(), read: read, alarms: alarms, kinds: kinds}
	f.registry.MustRegister(BuildInfo(), f, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return f
}

// BuildInfo returns the metric of this build.
func BuildInfo() prometheus.Collector {
	b := ThisBuild()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "countersign_build_info",
		Help:        "1, with the build in the labels: rsa is the library that does the RSA, revision the commit, date the commit's; empty where the build recorded none.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Commit, "date": b.Date, "go": b.Go, "rsa": b.RSA},
	}, func() float64 { return 1 })
}

func (f *figures) handler() http.Handler {
	return promhttp.HandlerFor(f.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2,
		ErrorLog: slog.NewLogLogger(f.end.c.Log.Handler(), slog.LevelWarn)})
}

// counter returns a figure that this process counts. Without labels it starts at 0.
func (f *figures) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	f.registry.MustRegister(v)
	if len(labels) == 0 {
		v.WithLabelValues()
	}
	return v
}

// times returns a histogram of durations in seconds. Its buckets double from least on.
func (f *figures) times(name, help string, least float64, doublings int, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help,
		Buckets: prometheus.ExponentialBuckets(least, 2, doublings)}, labels)
	f.registry.MustRegister(v)
	return v
}

// scrape sends the figures of one scrape.
type scrape struct {
	now db.Millis
	ch  chan<- prometheus.Metric
}

// figure returns a function that sends a figure with values for its labels.
func (s *scrape) figure(name, help string, labels ...string) func(v float64, values ...string) {
	desc, kind := prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue
	if strings.HasSuffix(name, "_total") {
		kind = prometheus.CounterValue
	}
	return func(v float64, values ...string) { s.ch <- prometheus.MustNewConstMetric(desc, kind, v, values...) }
}

// since returns the seconds since a moment, or 0 if there is none.
func (s *scrape) since(m db.Millis) float64 {
	if m == 0 {
		return 0
	}
	return max(0, float64(s.now-m)/1000)
}

// Describe implements prometheus.Collector. It describes nothing: figures are made when they are read.
func (f *figures) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (f *figures) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	s := &scrape{db.MillisOf(f.end.clock.Now()), ch}
	s.figure("countersign_database_writable",
		"Whether the database takes writes and its pages are whole, as /readyz says.")(oneIf(f.end.db.Ready(ctx) == nil))
	if free, err := diskFree(f.end.c.Dir); err == nil {
		s.figure("countersign_disk_free_bytes",
			"Bytes that this process may still write on the volume of the data directory.")(free)
	}
	if f.end.c.TLS.Cert != "" {
		f.end.c.TLS.collect(s)
	}
	err := f.shared(ctx, s)
	if err != nil {
		f.end.c.Log.Warn("metrics lack what the database counts", "error", err)
	}
	s.figure("countersign_database_up", "Whether the database answered this scrape.")(oneIf(err == nil))
}

// collect sends the figures of the certificate. It reads the files as a reload does, so that a reload's error shows
// even while nobody connects.
func (t TLS) collect(s *scrape) {
	c, err := t.certificates(slog.New(slog.DiscardHandler))
	s.figure("countersign_certificate_readable",
		"Whether the files of --tls-cert, --tls-key and --client-ca can be read as they are now; while they cannot, those before stay in use.")(oneIf(err == nil))
	if err != nil {
		return
	}
	if leaf, err := x509.ParseCertificate(c.config.Certificates[0].Certificate[0]); err == nil {
		s.figure("countersign_certificate_end_timestamp_seconds",
			"When the certificate of --tls-cert ends, in seconds since 1970 UTC; absent where it cannot be read.")(float64(leaf.NotAfter.Unix()))
	}
}

// shared reads the values of the database.
func (f *figures) shared(ctx context.Context, s *scrape) error {
	counts, err := f.end.db.AlarmCounts(ctx)
	if err != nil {
		return err
	}
	raised := s.figure(f.alarms+"alarms_total",
		"How often alarms of a kind were raised since the database was made.", "kind")
	open := s.figure(f.alarms+"alarms_open",
		"Alarms by kind that are open: one for each row that nobody has acknowledged and that has not ended.", "kind")
	for _, k := range f.kinds { // those that were never raised too, so that the first one is seen as a rise
		raised(float64(counts[k].Raised), string(k))
		open(float64(counts[k].Open), string(k))
	}
	return f.read(ctx, s)
}

// oneIf returns a yes or no as the value of a gauge.
func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
