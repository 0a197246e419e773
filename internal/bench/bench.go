// Package bench measures a service, a merchant and a gateway on this machine, and how fast its RSA alone is.
package bench

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/envelope"
)

// Config is what Run needs. Its tags define the flags of the subcommand and their defaults.
type Config struct {
	Only  []string `help:"Measure only the named suites, of: system, latency, withdrawals, gateway." enum:"system,latency,withdrawals,gateway" placeholder:"SUITE"`
	Quick bool     `help:"Two rounds of few deposits, and times for one second: shows that everything works, measures little."`
	Bits  int      `help:"Size of the merchant's RSA pair: 1024 or 2048." default:"2048" placeholder:"BITS"`

	Dir string `help:"Where the databases are made and removed again, on the disk that is to be measured." type:"path" placeholder:"DIR"`
	DB  string `name:"db" env:"-" help:"PostgreSQL in place of SQLite for the service. It must be empty or from an earlier bench." placeholder:"URL"`

	Rounds  int           `help:"Rounds for each rate." default:"15" placeholder:"N"`
	Rate    float64       `help:"Deposits a second where times are measured; withdrawals are 20." default:"50" placeholder:"N"`
	For     time.Duration `help:"How long times are measured." default:"30s" placeholder:"TIME"`
	SizeFor float64       `help:"Deposits a second. The last line says what they need." default:"100" placeholder:"N"`

	Progress func(line string) `kong:"-"` // gets what is being done. Required
}

// Bench is one run.
type Bench struct {
	Config
	dir    string // for databases; removed at the end
	log    *slog.Logger
	pair   *envelope.Key
	keys   *countersigntest.Service // seals with pair, and has the API keys
	next   atomic.Int64             // number of a deposit or withdrawal; no earlier bench had it
	report Report
}

func (b *Bench) progress(format string, args ...any) { b.Progress(fmt.Sprintf(format, args...)) }

// deposit returns a deposit on TRON of about 450 bytes, as real ones are, that no bench had before.
func (b *Bench) deposit() *countersign.Deposit {
	d := countersigntest.Deposit(int(b.next.Add(1)))
	d.TenantUserID, d.Amount, d.ChainName, d.TxID = "61234", countersigntest.Order(11).Amount, "TRON", d.TxID[2:]
	d.FromAddress, d.ToAddress = "TF"+d.FromAddress[10:], "TX"+d.ToAddress[10:]
	d.NewAddress = d.ToAddress
	return d
}

// newDeposit returns what the API takes for one more deposit.
func (b *Bench) newDeposit(merchant string) client.NewDeposit {
	d := b.deposit()
	return client.NewDeposit{Merchant: merchant, TrackingID: d.TrackingID, TenantUserID: d.TenantUserID, TxID: d.TxID,
		ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount, FromAddress: d.FromAddress, ToAddress: d.ToAddress,
		RiskLevelFrom: d.RiskLevelFrom, RiskLevelTo: d.RiskLevelTo, TxIndex: d.TxIndex}
}

// inParallel calls f with each of 0 to n-1 from several goroutines and returns their errors. A goroutine stops at its
// first error.
func inParallel(callers, n int, f func(int) error) error {
	var next atomic.Int64
	errs := make([]error, callers)
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[c] == nil; i = int(next.Add(1)) - 1 {
				errs[c] = f(i)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Report is the result of a run.
type Report struct {
	About   string // what was measured, and on what
	Figures []Figure
	Needs   string // how many cores and GB a day a rate of deposits needs, if the suite system ran
}

// Figure is what was measured under one name.
type Figure struct {
	Suite, Name, Unit string
	Values            []float64 // one for each round, or for each deposit or withdrawal
	times             bool      // the p99 says more of them than the quartiles
}

func (f Figure) String() string {
	spread := ""
	switch {
	case f.times:
		spread = fmt.Sprintf("p99 %s, of %d", number(quantile(f.Values, 0.99)), len(f.Values))
	case len(f.Values) > 1:
		spread = fmt.Sprintf("(%s–%s)", number(quantile(f.Values, 0.25)), number(quantile(f.Values, 0.75)))
	}
	return fmt.Sprintf("%s\t%s %s\t%s", f.Name, number(quantile(f.Values, 0.5)), f.Unit, spread)
}

// quantile returns the value below which the part q, from 0 to 1, of the values lies, between two of them if need be.
func quantile(x []float64, q float64) float64 {
	x = slices.Sorted(slices.Values(x))
	below, part := math.Modf(q * float64(len(x)-1))
	return x[int(below)]*(1-part) + x[min(int(below)+1, len(x)-1)]*part
}

// number returns v with three significant digits, or with all digits before the point.
func number(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Print writes the report as a table of medians, with Needs as its last line.
func (r *Report) Print(w io.Writer) error {
	fmt.Fprintln(w, r.About)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, f := range r.Figures {
		if i == 0 || f.Suite != r.Figures[i-1].Suite {
			fmt.Fprintf(t, "\n%s\n", f.Suite)
		}
		fmt.Fprintf(t, "  %v\n", f)
	}
	if r.Needs != "" {
		fmt.Fprintf(t, "\n%s\n", r.Needs)
	}
	return t.Flush()
}
