package daemon

import (
	"context"
	"crypto/x509"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"countersign/internal/db"
)

// BuildInfo is the metric of this build.
func BuildInfo() prometheus.Collector {
	b := ThisBuild()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "countersign_build_info",
		Help:        "1, with the build in the labels: rsa is the library that does the RSA, revision the commit, date the commit's, sum the module's; empty where the build recorded none.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Commit, "date": b.Date, "go": b.Go, "rsa": b.RSA, "sum": b.Sum},
	}, func() float64 { return 1 })
}

var (
	writableDesc = prometheus.NewDesc("countersign_database_writable",
		"Whether the database takes writes and its pages are whole, as /readyz says.", nil, nil)
	diskFreeDesc = prometheus.NewDesc("countersign_disk_free_bytes",
		"Bytes that this process may still write on the volume of the data directory.", nil, nil)
	certificateEndDesc = prometheus.NewDesc("countersign_certificate_end_timestamp_seconds",
		"When the certificate of --tls-cert ends, in seconds since 1970 UTC; absent where it cannot be read.", nil, nil)
	certificateReadDesc = prometheus.NewDesc("countersign_certificate_readable",
		"Whether the files of --tls-cert, --tls-key and --client-ca can be read as they are now; while they cannot, those before stay in use.", nil, nil)
)

// ground is what both ends measure of what they stand on: database, disk and certificate.
type ground struct {
	db  *db.DB
	dir string
	tls TLS
}

func (g ground) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{writableDesc, diskFreeDesc, certificateEndDesc, certificateReadDesc} {
		ch <- d
	}
}

func (g ground) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	gauge(writableDesc, oneIf(g.db.Ready(ctx) == nil))
	if free, err := diskFree(g.dir); err == nil {
		gauge(diskFreeDesc, free)
	}
	if g.tls.Cert == "" {
		return
	}
	// The files are read as a reload reads them, so what it would fail for shows here, also
	// while nobody connects.
	c, err := g.tls.certificates(slog.New(slog.DiscardHandler))
	gauge(certificateReadDesc, oneIf(err == nil))
	if err != nil {
		return
	}
	if leaf, err := x509.ParseCertificate(c.config.Certificates[0].Certificate[0]); err == nil {
		gauge(certificateEndDesc, float64(leaf.NotAfter.Unix()))
	}
}

// oneIf is the value of a gauge that says yes or no.
func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
