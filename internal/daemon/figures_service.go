package daemon

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"countersign"
	"countersign/client"
	"countersign/internal/dispatch"
	"countersign/internal/outbox"
)

// serviceFigures count what a service does.
type serviceFigures struct {
	attempts, claimed, settled, decisions, lostLeases, expired *prometheus.CounterVec
	exchange, rsa, settleTime                                  *prometheus.HistogramVec
	inFlight                                                   *prometheus.GaugeVec
}

var _ dispatch.Observer = (*serviceFigures)(nil)

func newServiceFigures(f *figures) *serviceFigures {
	m := &serviceFigures{
		attempts: f.counter("countersign_attempts_total", "Attempts by lane, callback type, result and reason.", "lane",
			"type", "result", "reason"),
		exchange: f.times("countersign_attempt_seconds", "Time of one attempt, sealing and opening included.", 0.001,
			15, "lane"),
		rsa:        f.times("countersign_rsa_seconds", "Time of sealing or opening one body.", 0.00005, 14, "operation"),
		claimed:    f.counter("countersign_claimed_total", "Callbacks claimed by this process.", "lane"),
		settled:    f.counter("countersign_settled_total", "Attempts settled by this process."),
		settleTime: f.times("countersign_settle_seconds", "Time of one settling transaction.", 0.0005, 13),
		decisions: f.counter("countersign_decisions_total", "Decisions on withdrawals taken by attempts of this process.",
			"decision"),
		lostLeases: f.counter("countersign_lost_leases_total", "Leases that ended before their attempt was settled."),
		expired:    f.counter("countersign_expired_withdrawals_total", "Withdrawals that reached their deadline undecided."),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "countersign_in_flight",
			Help: "Callbacks that this process holds."}, []string{"lane"}),
	}
	f.registry.MustRegister(m.inFlight)
	for _, d := range []countersign.Decision{countersign.DecisionConfirmed, countersign.DecisionDeclined,
		countersign.DecisionExpired, countersign.DecisionCancelled} {
		m.decisions.WithLabelValues(string(d)) // from 0, so that the first one is seen as a rise
	}
	m.settleTime.WithLabelValues()
	return m
}

func (m *serviceFigures) Attempt(lane countersign.Lane, t countersign.Type, result client.AttemptResult,
	reason client.Reason, took time.Duration) {
	m.attempts.WithLabelValues(lane.String(), t.String(), string(result), string(reason)).Inc()
	m.exchange.WithLabelValues(lane.String()).Observe(took.Seconds())
}

func (m *serviceFigures) RSA(operation string, took time.Duration) {
	m.rsa.WithLabelValues(operation).Observe(took.Seconds())
}

func (m *serviceFigures) Claimed(lane countersign.Lane, n int) {
	m.claimed.WithLabelValues(lane.String()).Add(float64(n))
}

func (m *serviceFigures) Settled(n int, took time.Duration) {
	m.settled.WithLabelValues().Add(float64(n))
	m.settleTime.WithLabelValues().Observe(took.Seconds())
}

func (m *serviceFigures) Decided(d countersign.Decision) {
	m.decisions.WithLabelValues(string(d)).Inc()
}

func (m *serviceFigures) Swept(s outbox.Swept) {
	m.lostLeases.WithLabelValues().Add(float64(len(s.Lost)))
	m.expired.WithLabelValues().Add(float64(len(s.Expired)))
}

func (m *serviceFigures) InFlight(lane countersign.Lane, n int) {
	m.inFlight.WithLabelValues(lane.String()).Set(float64(n))
}

// scrape reads the values of the outbox.
func (s *Service) scrape(ctx context.Context, c *scrape) error {
	numbers, err := s.outbox.Stats(ctx)
	if err != nil {
		return err
	}
	queue := c.figure("countersign_callbacks", "Callbacks by lane and state; final states since the database was made.",
		"lane", "state")
	oldest := c.figure("countersign_oldest_due_seconds",
		"Seconds since the oldest pending callback became due; 0 if none is due.", "lane")
	for _, l := range numbers.Lanes {
		queue(float64(l.Count), string(l.Lane), string(l.State))
		if l.State == client.CallbackPending {
			oldest(c.since(l.OldestDue), string(l.Lane))
		}
	}
	withdrawals := c.figure("countersign_withdrawals", "Withdrawals by state.", "state")
	for state, n := range numbers.Withdrawals {
		withdrawals(float64(n), string(state))
	}
	frozen, err := s.outbox.Frozen(ctx)
	if err != nil {
		return err
	}
	c.figure("countersign_frozen", "1 while a person has frozen the service: nothing is sent, decided or released.")(oneIf(
		frozen.At != 0))
	failing, err := s.outbox.FailingMerchants(ctx, true)
	if err != nil {
		return err
	}
	c.figure("countersign_merchants_failing",
		"Merchants that fail, as the alarm merchant_failing says.")(float64(len(failing)))
	return nil
}
