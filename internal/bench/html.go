package bench

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
)

//go:embed report.html.tmpl
var pageText string

var pageTemplate = template.Must(template.New("report").Parse(pageText))

// HTML writes the report as one page that needs nothing else.
func (r *Report) HTML(w io.Writer) error {
	type section struct {
		Name    string
		Figures []Figure
		Bars    template.HTML
		Curves  template.HTML
	}
	page := struct {
		Title    string
		Report   *Report
		Sections []section
	}{Title: r.title(), Report: r}
	for _, suite := range r.suites() {
		s := section{Name: suite, Figures: r.of(suite)}
		s.Bars = ratioBars(s.Figures)
		var curves []Curve
		for _, c := range r.Curves {
			if c.Suite == suite {
				curves = append(curves, c)
			}
		}
		s.Curves = curveChart(curves)
		page.Sections = append(page.Sections, s)
	}
	return pageTemplate.Execute(w, page)
}

// Number is the value in the page's table.
func (f Figure) Number() string { return number(f.Value) }

// Spread is the range of the rounds in the page's table.
func (f Figure) Spread() string { return f.spread() }

// Compared is the comparison in the page's table.
func (f Figure) Compared() string { return f.compared() }

// svg builds a drawing. All text goes through text, which escapes.
type svg struct{ strings.Builder }

func (s *svg) text(x, y float64, anchor, words string) {
	fmt.Fprintf(s, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y, anchor, template.HTMLEscapeString(words))
}

func (s *svg) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(s, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, class, x1, y1, x2, y2)
}

// ratioBars draws a bar for each figure that is compared with a bound, as long as
// its share of the bound.
func ratioBars(figures []Figure) template.HTML {
	const left, wide, high = 300.0, 380.0, 24.0
	var bars svg
	n, most := 0, 1.0
	for _, f := range figures {
		most = max(most, f.Ratio)
	}
	for _, f := range figures {
		if f.Against == "" {
			continue
		}
		y := high * float64(n)
		n++
		fmt.Fprintf(&bars, `<rect class="bar" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, left, y+4, wide*f.Ratio/most, high-8)
		bars.text(left-8, y+high*0.68, "end", f.Name)
		bars.text(left+wide*f.Ratio/most+6, y+high*0.68, "start", fmt.Sprintf("%.0f %%", 100*f.Ratio))
	}
	if n == 0 {
		return ""
	}
	full := left + wide/most
	bars.line("bound", full, 0, full, high*float64(n))
	return drawing(left+wide+70, high*float64(n), &bars)
}

// curveChart draws latencies over percentiles, on a logarithmic scale: p90, p99
// and p99.9 are equally far apart.
func curveChart(curves []Curve) template.HTML {
	if len(curves) == 0 {
		return ""
	}
	const left, top, wide, high, decades = 60.0, 14.0, 560.0, 220.0, 4.0
	most := 0.0
	for _, c := range curves {
		for _, p := range c.Points {
			most = max(most, p.Ms)
		}
	}
	most = max(most, 1)
	var s svg
	x := func(percentile float64) float64 {
		return left + wide*min(decades, -math.Log10(max(1-percentile/100, 1e-9)))/decades
	}
	y := func(ms float64) float64 { return top + high*(1-ms/most) }
	for _, p := range []float64{0, 90, 99, 99.9, 99.99} {
		s.line("grid", x(p), top, x(p), top+high)
		s.text(x(p), top+high+16, "middle", fmt.Sprintf("p%v", p))
	}
	for i := range 5 {
		ms := most * float64(i) / 4
		s.line("grid", left, y(ms), left+wide, y(ms))
		s.text(left-6, y(ms)+4, "end", number(ms)+" ms")
	}
	for i, c := range curves {
		var points strings.Builder
		for _, p := range c.Points {
			fmt.Fprintf(&points, "%.1f,%.1f ", x(p.Percentile), y(p.Ms))
		}
		fmt.Fprintf(&s, `<polyline class="curve c%d" points="%s"/>`, i%4, points.String())
		fmt.Fprintf(&s, `<rect class="key c%d" x="%.1f" y="%.1f" width="12" height="12"/>`, i%4, left, top+high+26+18*float64(i))
		s.text(left+18, top+high+36+18*float64(i), "start", fmt.Sprintf("%s (%d)", c.Name, c.Count))
	}
	return drawing(left+wide+20, top+high+30+18*float64(len(curves)), &s)
}

func drawing(wide, high float64, s *svg) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img">%s</svg>`, wide, high, wide, high, s.String()))
}
