package policy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"countersign"
)

// condition is one key of a rule or limit.
type condition struct {
	name   string // what it looks at, such as amount
	wanted string // such as above 1000
	// look reads from an order what name is about. An error means that the order does not say.
	look func(r *Request) (actual string, holds bool, err error)
}

// hold reports whether all conditions hold, and why: the first that does not, with both values, or all of them. One
// that does not hold decides, even if another cannot be evaluated.
func hold(list []condition, r *Request) (holds bool, why string, err error) {
	said := make([]string, len(list))
	for i, c := range list {
		actual, ok, e := c.look(r)
		switch {
		case e != nil:
			err = e
		case !ok:
			return false, fmt.Sprintf("%s is %s, not %s", c.name, cut(actual, 100), c.wanted), nil
		}
		said[i] = fmt.Sprintf("%s is %s (%s)", c.name, cut(actual, 100), c.wanted)
	}
	if err != nil {
		return false, "", err
	}
	return true, cut(strings.Join(said, ", "), maxReason), nil
}

// words returns conditions in words for people.
func words(list []condition) string {
	said := make([]string, len(list))
	for i, c := range list {
		said[i] = c.name + " is " + c.wanted
	}
	return strings.Join(said, ", and ")
}

// conditionKeys are the keys that rules and limits may have for conditions.
var conditionKeys = []string{"chain", "chain-not", "amount-above", "amount-max", "address-in", "address-not-in",
	"user-in", "user-not-in", "hours", "hours-not", "risk-min", "risk-max", "age-min", "age-below", "label", "label-not",
	"labels", "labels-not"}

// riskLabel is the label of risk-min and risk-max.
const riskLabel = "riskLevel"

// reader reads the conditions of one file.
type reader struct {
	lists  map[string][]string
	hours  map[string]hours
	doubts []string
}

// conditions reads the conditions of s. A match that makes a ruling milder (a rule that allows, or an exception from
// one that does not) compares texts as written and addresses by their bytes. Any other match covers all spellings of
// what may be meant, so that no spelling gets past it.
func (f *reader) conditions(s section, effect Effect) (list []condition) {
	add := func(name, wanted string, look func(r *Request) (string, bool, error)) {
		list = append(list, condition{name, wanted, look})
	}
	mild := func(not bool) bool { return (effect == Allow) != not }
	// oneOf adds a condition on a text of the order. It compares with exact where a match is mild, otherwise with fold.
	oneOf := func(name, wanted string, not bool, entries []string, read func(*Request) (string, error), exact,
		fold func(string) string) {
		key := fold
		if mild(not) {
			key = exact
		}
		set := make(map[string]bool, len(entries))
		for _, e := range entries {
			set[key(e)] = true
		}
		add(name, wanted, func(r *Request) (string, bool, error) {
			text, err := read(r)
			return text, set[key(text)] != not, err
		})
	}
	same := func(s string) string { return s }
	for _, not := range []bool{false, true} {
		suffix, other := "", ""
		if not {
			suffix, other = "-not", "other than "
		}
		for _, of := range []struct {
			key  string
			read func(*Request) (string, error)
			fold func(string) string
		}{
			{"symbol", func(r *Request) (string, error) { return r.Order.Symbol, nil }, countersign.FoldSymbol},
			{"chain", func(r *Request) (string, error) { return r.Order.ChainName, nil }, countersign.FoldChain},
		} {
			if key := of.key + suffix; s.has(key) && (of.key != "symbol" || s.head == "[[rule]]") {
				entries := s.some(key)
				s.visible(key, entries...)
				oneOf(of.key, other+strings.Join(entries, " or "), not, entries, of.read, same, of.fold)
			}
		}
		in, within := "-in", "in "
		if not {
			in, within = "-not-in", "outside "
		}
		if key := "address" + in; s.has(key) {
			name, entries := f.list(s, key)
			for _, e := range entries {
				if !countersign.Legible(e) {
					s.fail(key, "the list %s has %q, which has an invisible character", name, cut(e, 60))
				}
				if doubt := fmt.Sprintf("%s: %s has %q, which is not an address of a known form: it matches only in exactly this spelling", s.where, name, cut(e, 60)); !countersign.KnownAddress(e) {
					f.doubts = append(f.doubts, doubt)
				}
			}
			oneOf("address", within+name, not, entries, func(r *Request) (string, error) { return r.Order.Address, nil },
				countersign.AddressKey, countersign.FoldAddress)
		}
		if key := "user" + in; s.has(key) {
			name, entries := f.list(s, key)
			oneOf("user", within+name, not, entries, func(r *Request) (string, error) { return r.Order.TenantUserID, nil },
				same, same)
		}
		if key := "hours" + suffix; s.has(key) {
			name := s.text(key)
			h, known := f.hours[name]
			if !known {
				s.fail(key, "there is no %q under [hours]", cut(name, 40))
			}
			add("time", within+name, func(r *Request) (string, bool, error) {
				return r.Now.In(h.zone).Format("Mon 15:04"), h.at(r.Now) != not, nil
			})
		}
		labels := section{s.where, value[map[string]any](s, "label"+suffix, "is not written label%s.NAME = [\"value\"]",
			suffix), s.head}
		for _, name := range labels.keys() {
			entries := labels.some(name)
			oneOf("label "+name, other+strings.Join(entries, " or "), not, entries,
				func(r *Request) (string, error) { return label(r, name) }, same, same)
		}
		for _, name := range s.some("labels" + suffix) {
			is := map[bool]string{true: "present", false: "absent"}
			add("label "+name, is[!not], func(r *Request) (string, bool, error) {
				_, has := r.Order.Labels[name]
				return is[has], has != not, nil
			})
		}
	}
	amount := func(key, wanted string, holds func(order, bound countersign.Amount) bool) {
		if s.has(key) {
			bound := s.amount(key)
			add("amount", wanted+bound.String(), func(r *Request) (string, bool, error) {
				return r.Order.Amount.String(), holds(r.Order.Amount, bound), nil
			})
		}
	}
	amount("amount-above", "above ", func(order, bound countersign.Amount) bool { return order.Cmp(bound) > 0 })
	amount("amount-max", "at most ", func(order, bound countersign.Amount) bool { return order.Cmp(bound) <= 0 })
	risk := func(key, wanted string, holds func(order, bound int) bool) {
		if s.has(key) {
			bound := s.number(key, 0, 100, 0)
			add("risk", fmt.Sprint(wanted, bound), func(r *Request) (string, bool, error) {
				n, err := riskOf(r)
				return strconv.Itoa(n), err == nil && holds(n, bound), err
			})
		}
	}
	risk("risk-min", "at least ", func(order, bound int) bool { return order >= bound })
	risk("risk-max", "at most ", func(order, bound int) bool { return order <= bound })
	age := func(key, wanted string, holds func(order, bound time.Duration) bool) {
		if s.has(key) {
			bound := s.span(key)
			add("age", wanted+short(bound), func(r *Request) (string, bool, error) {
				order := r.Now.Sub(r.Order.Created.Time())
				return short(order.Round(time.Millisecond)), holds(order, bound), nil
			})
		}
	}
	age("age-min", "at least ", func(order, bound time.Duration) bool { return order >= bound })
	age("age-below", "below ", func(order, bound time.Duration) bool { return order < bound })
	return list
}

// list returns the list that key names.
func (f *reader) list(s section, key string) (name string, entries []string) {
	name = s.text(key)
	entries, known := f.lists[name]
	if !known {
		s.fail(key, "there is no %q under [lists]", cut(name, 40))
	}
	return name, entries
}

// some reads a list of at least one text. It returns nil if the key is absent.
func (s section) some(key string) []string {
	list := s.texts(key)
	if s.has(key) && (len(list) == 0 || slices.Contains(list, "")) {
		s.fail(key, "is an empty list, or has an empty entry")
	}
	return list
}

func label(r *Request, name string) (string, error) {
	text, has := r.Order.Labels[name]
	if !has {
		return "", fmt.Errorf("the order has no label %s", cut(name, 40))
	}
	return text, nil
}

// riskOf returns an error if the order has no risk: an invented number must not decide.
func riskOf(r *Request) (int, error) {
	text, err := label(r, riskLabel)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil || n > 100 {
		return 0, errors.New("label " + riskLabel + " is not a number from 0 to 100")
	}
	return int(n), nil
}

// short returns d without trailing zero units: 24h, not 24h0m0s.
func short(d time.Duration) string {
	text := d.String()
	if s, cut := strings.CutSuffix(text, "m0s"); cut {
		text = s + "m"
	}
	if s, cut := strings.CutSuffix(text, "h0m"); cut {
		text = s + "h"
	}
	return text
}
