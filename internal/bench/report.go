package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"countersign/envelope"
	"countersign/internal/daemon"
)

// Report is what a run found.
type Report struct {
	Version  string    `json:"version"`
	Go       string    `json:"go"`
	RSA      string    `json:"rsa"` // the library that does it
	System   string    `json:"system"`
	Cores    int       `json:"cores"`
	Bits     int       `json:"bits"`
	Database string    `json:"database"`
	Inbox    string    `json:"inbox"`
	Quick    bool      `json:"quick"`
	LeftOut  string    `json:"leftOut,omitempty"` // a suite, and why
	Moved    float64   `json:"moved,omitempty"`   // how much the RSA bound varied between rounds, as a part of its median, if other work disturbed it
	Started  time.Time `json:"started"`
	Took     float64   `json:"tookSeconds"`
	Figures  []Figure  `json:"figures"`
	Needs    *Needs    `json:"needs,omitempty"` // if the suite system ran on a service in this process
}

// Needs is what a number of deposits a second takes, computed from what was measured.
type Needs struct {
	PerSecond float64 `json:"perSecond"`
	Cores     float64 `json:"cores"`    // for both ends, without PostgreSQL's processes
	GBADay    float64 `json:"gbPerDay"` // that the service's database grows by
}

// Figure is one measured number.
type Figure struct {
	// Key is what a program looks for: the suite and the name in small letters, digits
	// and underscores, such as system.deposits_api_to_settled. A released key stays.
	Key   string  `json:"key"`
	Suite string  `json:"suite"`
	Name  string  `json:"name"` // no other figure of the suite has it
	Unit  string  `json:"unit"`
	Value float64 `json:"value"` // the median, where there were rounds
	Low   float64 `json:"low,omitempty"`
	High  float64 `json:"high,omitempty"`
	// Bound is what the value is compared with, Against says what that is, and
	// Ratio is value / bound, or where both were measured in rounds the median of the
	// rounds' ratios; RatioLow and RatioHigh are then their quartiles.
	Bound     float64 `json:"bound,omitempty"`
	Against   string  `json:"against,omitempty"`
	Ratio     float64 `json:"ratio,omitempty"`
	RatioLow  float64 `json:"ratioLow,omitempty"`
	RatioHigh float64 `json:"ratioHigh,omitempty"`
	Note      string  `json:"note,omitempty"`
}

func newReport(c Config) *Report {
	r := &Report{
		Version: daemon.Version, Go: runtime.Version(), RSA: envelope.Library(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Cores: runtime.GOMAXPROCS(0), Bits: c.Bits, Database: "SQLite, synchronous=FULL", Inbox: c.Inbox, Quick: c.Quick,
		Started: time.Now().UTC().Truncate(time.Second),
	}
	switch {
	case c.DB != "":
		r.Database = "PostgreSQL"
	case c.Service != nil:
		r.Database = "of the service elsewhere"
	}
	return r
}

// add keeps a figure.
func (r *Report) add(suite, name, unit string, value float64) *Figure {
	r.Figures = append(r.Figures, Figure{Key: keyOf(suite, name), Suite: suite, Name: name, Unit: unit, Value: value})
	return &r.Figures[len(r.Figures)-1]
}

var notOfKey = regexp.MustCompile(`[^a-z0-9]+`)

// keyOf is the Key of a figure.
func keyOf(suite, name string) string {
	return suite + "." + strings.Trim(notOfKey.ReplaceAllString(strings.ToLower(name), "_"), "_")
}

// Find gives the figure with that key.
func (r *Report) Find(key string) (Figure, bool) {
	i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Key == key })
	if i < 0 {
		return Figure{}, false
	}
	return r.Figures[i], true
}

// addRounds keeps the median, the least and the most of rounds.
func (r *Report) addRounds(suite, name, unit string, rounds []float64) *Figure {
	f := r.add(suite, name, unit, medianOf(rounds))
	f.Low, f.High = slices.Min(rounds), slices.Max(rounds)
	return f
}

// against compares f with a bound.
func (f *Figure) against(what string, bound float64) *Figure {
	f.Against, f.Bound = what, bound
	if bound != 0 {
		f.Ratio = f.Value / bound
	}
	return f
}

func (f *Figure) note(format string, args ...any) { f.Note = fmt.Sprintf(format, args...) }

// Noise says that other work ran on this machine.
func (r *Report) Noise() string {
	return fmt.Sprintf("the machine was not quiet: the speed of RSA alone varied by %.0f %% between rounds; trust the ratios more than the rates and times", 100*r.Moved)
}

func medianOf(x []float64) float64 { return quantile(x, 0.5) }

// quantile gives the value below which the part q, from 0 to 1, of the values lies. It
// interpolates between two values.
func quantile(x []float64, q float64) float64 {
	x = slices.Sorted(slices.Values(x))
	at := q * float64(len(x)-1)
	below := int(at)
	if below+1 == len(x) {
		return x[below]
	}
	return x[below] + (at-float64(below))*(x[below+1]-x[below])
}

// number writes v with three significant digits, or with all digits before the
// point.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 100 || v <= -100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

func (f Figure) spread() string {
	if f.Low == 0 && f.High == 0 {
		return ""
	}
	return number(f.Low) + "–" + number(f.High)
}

func (f Figure) compared() string {
	if f.Against == "" {
		return ""
	}
	ratio := fmt.Sprintf("%.0f %%", 100*f.Ratio)
	if f.RatioHigh != 0 {
		ratio = fmt.Sprintf("%.0f (%.0f–%.0f) %%", 100*f.Ratio, 100*f.RatioLow, 100*f.RatioHigh)
	}
	return fmt.Sprintf("%s of %s %s", ratio, number(f.Bound), f.Against)
}

// title says what was measured, and on what.
func (r *Report) title() string {
	return fmt.Sprintf("countersign %s, %s, RSA %d bit by %s, %s, %d cores, database: %s, inbox: %s",
		r.Version, r.Go, r.Bits, r.RSA, r.System, r.Cores, r.Database, r.Inbox)
}

func (r *Report) suites() []string {
	var names []string
	for _, f := range r.Figures {
		if !slices.Contains(names, f.Suite) {
			names = append(names, f.Suite)
		}
	}
	return names
}

func (r *Report) of(suite string) []Figure {
	var list []Figure
	for _, f := range r.Figures {
		if f.Suite == suite {
			list = append(list, f)
		}
	}
	return list
}

// Print writes the report as tables of text.
func (r *Report) Print(w io.Writer) error {
	fmt.Fprintln(w, r.title())
	if r.Quick {
		fmt.Fprintln(w, "--quick: the sizes are too small for the figures to mean much")
	}
	if r.LeftOut != "" {
		fmt.Fprintln(w, "left out:", r.LeftOut)
	}
	if r.Moved > 0 {
		fmt.Fprintln(w, r.Noise())
	}
	for _, suite := range r.suites() {
		fmt.Fprintf(w, "\n%s\n", suite)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, f := range r.of(suite) {
			line := []string{"  " + f.Name, number(f.Value) + " " + f.Unit, f.spread(), f.compared(), f.Note}
			fmt.Fprintln(t, strings.TrimRight(strings.Join(line, "\t"), "\t"))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if n := r.Needs; n != nil {
		fmt.Fprintf(w, "\nfor %s deposits a second of %d bits you need about %s cores and %s GB a day\n", number(n.PerSecond), r.Bits, number(n.Cores), number(n.GBADay))
	}
	return nil
}

// JSON writes the report as one JSON object.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
