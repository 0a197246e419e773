package policy

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// The types of what a file gives a name: both are used with the operator in.
var (
	listType  = cel.OpaqueType("List").WithTraits(traits.ContainerType)
	hoursType = cel.OpaqueType("Hours").WithTraits(traits.ContainerType)
)

func namedLibrary() []cel.EnvOption {
	return []cel.EnvOption{cel.Function(operators.In,
		cel.Overload("in_list_address", []*cel.Type{addressType, listType}, cel.BoolType),
		cel.Overload("in_list_string", []*cel.Type{cel.StringType, listType}, cel.BoolType),
		cel.Overload("in_hours", []*cel.Type{cel.TimestampType, hoursType}, cel.BoolType),
	)}
}

// listValue is a named list: of addresses where an address is looked up, else
// of texts. A look-up costs the same however long the list is.
type listValue struct{ texts, addresses map[string]struct{} }

func newList(entries []string) listValue {
	l := listValue{make(map[string]struct{}, len(entries)), make(map[string]struct{}, len(entries))}
	for _, e := range entries {
		l.texts[e] = struct{}{}
		l.addresses[addressKey(e)] = struct{}{}
	}
	return l
}

// addressKey gives all spellings of an EVM address the same text: 0x, 0X, xdc (of the chain
// XDC) or nothing before 40 hexadecimal digits in any case. So no other spelling takes an
// address off a list. All other addresses count byte for byte.
func addressKey(address string) string {
	digits := strings.ToLower(address)
	for _, prefix := range []string{"0x", "xdc"} {
		if rest, ok := strings.CutPrefix(digits, prefix); ok {
			digits = rest
			break
		}
	}
	if len(digits) == 40 && strings.Trim(digits, "0123456789abcdef") == "" {
		return "0x" + digits
	}
	return address
}

// Contains implements traits.Container.
func (l listValue) Contains(v ref.Val) ref.Val {
	ok := false
	switch v := v.(type) {
	case addressValue:
		_, ok = l.addresses[addressKey(string(v))]
	case types.String:
		_, ok = l.texts[string(v)]
	default:
		return types.MaybeNoSuchOverloadErr(v)
	}
	return types.Bool(ok)
}

func (l listValue) Type() ref.Type                              { return listType }
func (l listValue) Value() any                                  { return l }
func (l listValue) Equal(ref.Val) ref.Val                       { return types.NewErr("lists do not compare") }
func (l listValue) ConvertToNative(t reflect.Type) (any, error) { return nil, noNative("List", t) }
func (l listValue) ConvertToType(t ref.Type) ref.Val            { return convertOwn(l, listType, t) }

// hoursValue is a named set of hours of the week.
type hoursValue struct {
	zone  *time.Location
	spans []span
}

// span is a time of day on some days of the week. Where to is not after from,
// it passes midnight and belongs to the day it begins on.
type span struct {
	days     [7]bool // by time.Weekday
	from, to int     // minutes since midnight; to may be 24:00
}

// Contains implements traits.Container. It goes by the clock on the wall of the
// zone: on days on which that is put forward or back, a span is shorter or
// longer.
func (h hoursValue) Contains(v ref.Val) ref.Val {
	ts, ok := v.(types.Timestamp)
	if !ok {
		return types.MaybeNoSuchOverloadErr(v)
	}
	return types.Bool(h.at(ts.Time))
}

func (h hoursValue) at(t time.Time) bool {
	t = t.In(h.zone)
	minute, today := t.Hour()*60+t.Minute(), t.Weekday()
	yesterday := (today + 6) % 7
	for _, s := range h.spans {
		switch {
		case s.from < s.to:
			if s.days[today] && minute >= s.from && minute < s.to {
				return true
			}
		case s.days[today] && minute >= s.from, s.days[yesterday] && minute < s.to:
			return true
		}
	}
	return false
}

func (h hoursValue) Type() ref.Type                              { return hoursType }
func (h hoursValue) Value() any                                  { return h }
func (h hoursValue) Equal(ref.Val) ref.Val                       { return types.NewErr("hours do not compare") }
func (h hoursValue) ConvertToNative(t reflect.Type) (any, error) { return nil, noNative("Hours", t) }
func (h hoursValue) ConvertToType(t ref.Type) ref.Val            { return convertOwn(h, hoursType, t) }

var errHours = errors.New(`is not written like "mon-fri 09:00-17:30"`)

// parseSpan reads days, a space, and a time of day from-to: "mon-fri
// 09:00-17:30", "sat,sun 10:00-24:00", "fri 22:00-06:00".
func parseSpan(s string) (span, error) {
	days, times, ok := strings.Cut(s, " ")
	if !ok {
		return span{}, errHours
	}
	var out span
	for part := range strings.SplitSeq(days, ",") {
		first, last, ranged := strings.Cut(part, "-")
		from, ok1 := parseDay(first)
		to, ok2 := from, true
		if ranged {
			to, ok2 = parseDay(last)
		}
		if !ok1 || !ok2 {
			return span{}, fmt.Errorf("%w: the days are mon tue wed thu fri sat sun", errHours)
		}
		for d := from; ; d = (d + 1) % 7 {
			out.days[d] = true
			if d == to {
				break
			}
		}
	}
	from, to, _ := strings.Cut(times, "-")
	var ok1, ok2 bool
	out.from, ok1 = parseMinute(from)
	out.to, ok2 = parseMinute(to)
	switch {
	case !ok1 || !ok2 || out.from == 24*60:
		return span{}, fmt.Errorf("%w: the times are 00:00 to 24:00", errHours)
	case out.from == out.to:
		return span{}, fmt.Errorf("%w: it begins when it ends", errHours)
	}
	return out, nil
}

func parseDay(s string) (time.Weekday, bool) {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if s == strings.ToLower(d.String()[:3]) {
			return d, true
		}
	}
	return 0, false
}

// parseMinute reads HH:MM.
func parseMinute(s string) (int, bool) {
	if len(s) != 5 || s[2] != ':' {
		return 0, false
	}
	for _, i := range [...]int{0, 1, 3, 4} {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	h, m := int(s[0]-'0')*10+int(s[1]-'0'), int(s[3]-'0')*10+int(s[4]-'0')
	return h*60 + m, m < 60 && (h < 24 || h == 24 && m == 0)
}
