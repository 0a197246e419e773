package bench

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/pprof"
	"strings"

	"github.com/google/pprof/profile"
)

// part is what processor time or memory went into, and for which end.
type part struct{ end, what string }

// Whose work it is. Collecting garbage and choosing the next goroutine is nobody's.
const (
	endService  = "service"
	endMerchant = "merchant"
	endLoad     = "load"
	endRuntime  = "Go's runtime"
)

// rule gives a name to the functions whose names begin so.
type rule struct{ begins, is string }

// whatRules say what the innermost function that has a rule does. Those of net, bufio
// and the runtime have none: they work for whoever called them.
var whatRules = []rule{
	{"countersign/envelope.", "RSA"}, {"filippo.io/bigmod.", "RSA"}, {"crypto/rsa.", "RSA"},
	{"modernc.org/", "SQL"}, {"database/sql.", "SQL"}, {"github.com/jackc/pgx/", "SQL"},
	{"countersign/internal/db.", "SQL"}, {"countersign/internal/outbox.", "SQL"}, {"countersign/internal/book.", "SQL"},
	{"log/slog.", "log"},
	{"encoding/json", "JSON"}, {"countersign/internal/strictjson.", "JSON"}, {"countersign.", "JSON"},
	{"github.com/danielgtaylor/huma/", "JSON"}, {"countersign/internal/api.", "JSON"},
	{"net/http", "HTTP"}, {"countersign/internal/dispatch.(*transport)", "HTTP"}, {"countersign/internal/dispatch.(*fencedConn)", "HTTP"}, {"countersign/internal/bodies.", "HTTP"},
	{"countersign/", "rest"},
}

// endRules say for whom a stack works that has such a function; the first rule counts.
// The bench posts a hundred deposits in one call of the API, so what serves HTTP is
// the merchant, and what sends is the service.
var endRules = []rule{
	{"countersign/client.", endLoad}, {"countersign/internal/bench.(*rig)", endLoad}, {"countersign/internal/bench.(*tracker)", endLoad},
	{"countersign/internal/admin.", endService}, {"countersign/internal/dispatch.", endService}, {"countersign/internal/outbox.", endService},
	{"countersign/merchant.", endMerchant}, {"countersign/internal/book.", endMerchant}, {"net/http.(*conn).serve", endMerchant},
	{"countersign/", endService}, {"net/http.", endService}, {"modernc.org/", endService}, {"github.com/jackc/pgx/", endService},
}

// partOf says what a stack, its innermost function first, belongs to.
func partOf(stack []string) part {
	p := part{endRuntime, "rest"}
	for _, function := range stack {
		if what := find(whatRules, function); what != "" {
			p.what = what
			break
		}
	}
	for _, r := range endRules {
		for _, function := range stack {
			if strings.HasPrefix(function, r.begins) {
				p.end = r.is
				return p
			}
		}
	}
	return p
}

func find(rules []rule, function string) string {
	for _, r := range rules {
		if strings.HasPrefix(function, r.begins) {
			return r.is
		}
	}
	return ""
}

// partsOf adds up the values of one kind in a profile.
func partsOf(p *profile.Profile, kind string) (map[part]float64, error) {
	at := -1
	for i, t := range p.SampleType {
		if t.Type == kind {
			at = i
		}
	}
	if at < 0 {
		return nil, fmt.Errorf("the profile has no %s", kind)
	}
	sums := map[part]float64{}
	for _, s := range p.Sample {
		var stack []string
		for _, l := range s.Location {
			for _, line := range l.Line {
				stack = append(stack, line.Function.Name)
			}
		}
		sums[partOf(stack)] += float64(s.Value[at])
	}
	return sums, nil
}

// allocated is the profile of everything allocated so far.
func allocated() (*profile.Profile, error) {
	runtime.GC() // the profile has what was allocated before the last collection
	var b bytes.Buffer
	if err := pprof.Lookup("allocs").WriteTo(&b, 0); err != nil {
		return nil, err
	}
	return profile.Parse(&b)
}
