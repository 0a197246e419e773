package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/merchant"
)

// suites are the measurements, in the order in which they run.
var suites = []struct {
	name string
	run  func(*Bench, context.Context) error
}{{"system", onRig((*rig).system)}, {"latency", onRig((*rig).latency)}, {"withdrawals", onRig((*rig).withdrawals)},
	{"gateway", (*Bench).gateway}}

// Run measures. Its errors about c name the flags of the subcommand. It fails if a callback is lost, never because a
// machine is slow. If it fails late, the report has the earlier figures.
func Run(ctx context.Context, c Config) (_ *Report, err error) {
	if c.Quick {
		c.Rounds, c.For = 2, time.Second
	}
	switch {
	case c.Bits != 1024 && c.Bits != 2048:
		return nil, errors.New("--bits must be 1024 or 2048")
	case c.Rounds < 1 || c.For <= 0 || !(c.SizeFor > 0):
		return nil, errors.New("--rounds, --for and --size-for must be above 0")
	case !(c.Rate >= 0.1 && c.Rate <= 1000): // the API takes 2000 requests a second
		return nil, errors.New("--rate must be 0.1 to 1000 a second")
	}
	// The ends format a line for each attempt: without a log they would seem faster than they are.
	b := &Bench{Config: c, log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	b.next.Store(time.Now().UnixMicro())
	if b.dir, err = os.MkdirTemp(b.Dir, "countersign-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if b.pair, err = envelope.GenerateKey(b.Bits); err != nil {
		return nil, err
	}
	if b.keys, err = countersigntest.MakeService(countersigntest.ServiceConfig{Key: b.pair}); err != nil {
		return nil, err
	}
	database := map[bool]string{true: "PostgreSQL", false: "SQLite, synchronous=FULL"}[b.DB != ""]
	b.report.About = fmt.Sprintf("countersign %s, %s, RSA %d bit by %s, %s/%s, %d cores, database: %s",
		daemon.Version, runtime.Version(), b.Bits, envelope.Library(), runtime.GOOS, runtime.GOARCH,
		runtime.GOMAXPROCS(0), database)
	for _, s := range suites {
		if len(b.Only) > 0 && !slices.Contains(b.Only, s.name) {
			continue
		}
		if err := errors.Join(s.run(b, ctx), ctx.Err()); err != nil {
			return &b.report, fmt.Errorf("suite %s: %w", s.name, err)
		}
		runtime.GC() // the garbage of one suite must not cost the next one time
	}
	return &b.report, nil
}

const (
	// roundTime is about how long a round takes; rsaTime is how long RSA alone is measured between two rounds. Both are
	// short, because the speed of a shared machine changes from second to second: a round is compared with RSA right
	// before and after it.
	roundTime      = 1500 * time.Millisecond
	rsaTime        = 400 * time.Millisecond
	withdrawalRate = 20  // a second
	answerSize     = 400 // bytes of the answer to a deposit, about
)

// rsaAlone returns how many callbacks a second the RSA of both ends allows on all cores, and the processor time of one:
// the service seals the request, the merchant opens it and seals the answer, and the service opens that. Two operations
// run at once on each core. Where RSA is written in C, as in the fast build, one alone would leave the core idle for
// moments, because Go takes the processor from a goroutine whose call into C takes long.
func (b *Bench) rsaAlone(ctx context.Context) (perSecond float64, cpu time.Duration, err error) {
	deposit, public, answer := b.deposit(), b.pair.Public(), make([]byte, answerSize)
	callback := func() error {
		request, _, err1 := b.keys.Body(deposit)
		_, err2 := envelope.Open(public, envelope.PKCS1v15, request)
		sealed, err3 := envelope.Seal(public, envelope.PKCS1v15, answer)
		_, err4 := envelope.Open(b.pair, envelope.PKCS1v15, sealed)
		return errors.Join(err1, err2, err3, err4, ctx.Err())
	}
	start, used, callers := time.Now(), processorTime(), 2*runtime.GOMAXPROCS(0)
	var n atomic.Int64
	err = inParallel(callers, callers, func(int) error {
		for n.Add(1); ; n.Add(1) {
			if err := callback(); err != nil || b.Quick || time.Since(start) >= rsaTime {
				return err
			}
		}
	})
	return float64(n.Load()) / time.Since(start).Seconds(), (processorTime() - used) / time.Duration(n.Load()), err
}

// system measures how many deposits go through the whole system, what RSA alone allows, and what a deposit costs.
func (r *rig) system(ctx context.Context) error {
	rsa, rsaCPU, err := r.rsaAlone(ctx)
	if err != nil {
		return err
	}
	n := max(200, int(rsa*roundTime.Seconds()))
	if r.Quick {
		n = 60
	}
	before, err1 := r.size(ctx)
	request, _, err2 := r.keys.Body(r.deposit())
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	var rates, bounds, shares, cpus, inRSA []float64
	for i := range r.Rounds {
		r.progress("system: round %d of %d, %d deposits", i+1, r.Rounds, n)
		used := processorTime()
		took, err := r.round(ctx, n)
		if err != nil {
			return err
		}
		cpu := ms(processorTime()-used) / float64(n)
		if sent := r.body.Load(); sent != int64(len(request)) {
			return fmt.Errorf("the service sends bodies of %d bytes, and RSA alone was measured with %d", sent, len(request))
		}
		next, nextCPU, err := r.rsaAlone(ctx)
		if err != nil {
			return err
		}
		rate, bound := float64(n)/took.Seconds(), (rsa+next)/2
		rates, bounds, shares = append(rates, rate), append(bounds, bound), append(shares, 100*rate/bound)
		cpus, inRSA = append(cpus, cpu), append(inRSA, 100*ms(rsaCPU+nextCPU)/2/max(cpu, 0.001))
		rsa, rsaCPU = next, nextCPU
	}
	after, err := r.size(ctx)
	if err != nil {
		return err
	}
	kept := (after - before) / 1000 / float64(n*r.Rounds)
	r.report.Figures = append(r.report.Figures,
		Figure{"system", "deposits, API to settled", "a second", rates, false},
		Figure{"system", "RSA of both ends alone, all cores", "a second", bounds, false},
		Figure{"system", "of what RSA alone allows", "%", shares, false},
		// by rounds: the medians of rates and bounds are of different times
		Figure{"system", "processor, both ends and the load", "ms a deposit", cpus, false},
		Figure{"system", "of that in RSA", "%", inRSA, false},
		Figure{"system", "kept in the service's database", "KB a deposit", []float64{kept}, false})
	r.report.Needs = fmt.Sprintf("for %s deposits a second of %d bits you need about %s cores and %s GB a day",
		number(r.SizeFor), r.Bits, number(r.SizeFor*quantile(cpus, 0.5)/1000), number(r.SizeFor*kept*86_400/1e6))
	return nil
}

// atRate calls f at a fixed rate a second, without waiting for earlier calls to end, and reports the times that f
// returns, one for each name. The total counts from when a call was due, not from when it began: a stalled system would
// delay the beginning too and hide the stall.
func (r *rig) atRate(ctx context.Context, suite string, rate float64, names []string,
	f func(due time.Time) ([]time.Duration, error)) error {
	n := max(1, int(rate*r.For.Seconds()))
	figures := make([]Figure, len(names))
	for k, name := range names {
		figures[k] = Figure{suite, name, "ms", make([]float64, n), true}
	}
	start := time.Now().Add(10 * time.Millisecond)
	r.progress("%s: %d at %s/s", suite, n, number(rate))
	err := inParallel(n, n, func(i int) error {
		due := start.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		select {
		case <-time.After(time.Until(due)):
		case <-ctx.Done():
			return ctx.Err()
		}
		took, err := f(due)
		for k := range took {
			figures[k].Values[i] = ms(took[k])
		}
		return err
	})
	if err == nil {
		r.report.Figures = append(r.report.Figures, figures...)
	}
	return err
}

// latency measures single deposits at a fixed rate.
func (r *rig) latency(ctx context.Context) error {
	name := fmt.Sprintf("deposits at %s/s, due to settled", number(r.Rate))
	return r.atRate(ctx, "latency", r.Rate, []string{name}, func(due time.Time) ([]time.Duration, error) {
		d := r.newDeposit(r.id)
		if _, err := r.api.AddDeposits(ctx, d); err != nil {
			return nil, err
		}
		at, err := r.settled.of(ctx, countersign.TypeDeposited, d.TrackingID)
		return []time.Duration{at.Sub(due)}, err
	})
}

// withdrawals measures each step of withdrawals at a fixed rate.
func (r *rig) withdrawals(ctx context.Context) error {
	steps := []string{"order", "confirmation", "release", "outcome", "notice", "whole"}
	details := countersigntest.Order(0)
	return r.atRate(ctx, "withdrawals", withdrawalRate, steps, func(due time.Time) (took []time.Duration, err error) {
		id, last := fmt.Sprint("withdrawal-", r.next.Add(1)), time.Now()
		step := func(until time.Time) { // it may have ended before a call returned
			took, last = append(took, max(0, until.Sub(last))), time.Now()
		}
		w, err := r.api.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: r.id, CallBackID: id, TenantUserID: id,
			Details: &details})
		if err != nil {
			return nil, err
		}
		step(time.Now())
		confirmed, err := r.settled.of(ctx, countersign.TypeRequestWithdraw, id)
		if err != nil {
			return nil, err
		}
		step(confirmed)
		permit, err := r.api.ReleaseWithdrawal(ctx, w.ID, id)
		if err != nil {
			return nil, err
		}
		step(time.Now())
		if _, err = r.api.ReportOutcome(ctx, w.ID,
			client.Outcome{Permit: permit.Permit, Executed: &client.Executed{TxID: "0x" + id}}); err != nil {
			return nil, err
		}
		step(time.Now())
		end, err := r.settled.of(ctx, countersign.TypeWithdraw, id)
		step(end)
		return append(took, end.Sub(due)), err
	})
}

// gateway measures how many deposits a gateway takes and what one costs it. The callers run on the same cores and are
// part of that cost.
func (b *Bench) gateway(ctx context.Context) error {
	g, err := daemon.NewGateway(daemon.GatewayConfig{
		Common: daemon.Common{Storage: daemon.Storage{Dir: filepath.Join(b.dir, "gateway"), Keys: masterKey()}, Log: b.log},
		Listen: "127.0.0.1:0", APIListen: "127.0.0.1:0", Callbacks: b.keys.MerchantConfig(),
	})
	if err == nil {
		err = g.Open(ctx)
	}
	if err != nil {
		return err
	}
	measure := func(ctx context.Context) error {
		url, callers, n := g.CallbackURL()+merchant.DefaultNotifyPath, 64, 4000
		if b.Quick {
			n = 200
		}
		to := countersigntest.ToURLs(url, "", &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}})
		var rates, cpus []float64
		for i := range min(5, b.Rounds) {
			b.progress("gateway: round %d, %d deposits", i+1, n)
			sealed := make([][]byte, n)
			if err := inParallel(runtime.GOMAXPROCS(0), n, func(i int) (err error) {
				sealed[i], _, err = b.keys.Body(b.deposit())
				return errors.Join(err, ctx.Err())
			}); err != nil {
				return err
			}
			start, used := time.Now(), processorTime()
			if err := inParallel(callers, n, func(i int) error {
				got := b.keys.Post(ctx, to, url, sealed[i])
				answer, err := countersign.ParseResponse(got.Raw)
				if err == nil && answer.ErrCode != countersign.CodeAccepted {
					err = fmt.Errorf("a deposit got errCode %d", answer.ErrCode)
				}
				return errors.Join(got.Err, err)
			}); err != nil {
				return err
			}
			rates = append(rates, float64(n)/time.Since(start).Seconds())
			cpus = append(cpus, 1000*ms(processorTime()-used)/float64(n))
		}
		b.report.Figures = append(b.report.Figures,
			Figure{"gateway", "deposits taken with SQLite, 64 callers on the same cores", "a second", rates, false},
			Figure{"gateway", "processor, callers included", "µs a deposit", cpus, false})
		return nil
	}
	return daemon.RunParts(ctx, daemon.Part{Name: "gateway", Run: g.Run}, daemon.Part{Name: "measuring", Run: measure})
}
