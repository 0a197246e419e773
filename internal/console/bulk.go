package console

import (
	"net/url"
	"slices"
	"strconv"

	"countersign"
)

// bulkPage says how much an act by a filter would change, before it does.
type bulkPage struct {
	Title      string
	Filter     []bulkMember // as people read it
	Hidden     []bulkMember // of the form
	Post, Back string       // where the form and the list are
	Count      int64
	What       string // what is counted, as the beginning of a sentence
	Says       string // what the act does to them
	None       string // why there may be none
	Button     string
	Word       string // to type; empty: nothing is
	Reason     bool   // the act keeps one
	Values     map[string]string
}

type bulkMember struct{ Name, Value string }

// bulk fills in the filter of a page, and the fields that its form sends beside it.
func (v *visit) bulk(page bulkPage, filter url.Values, beside map[string]string) error {
	page.Values = v.values(nil)
	for name, values := range filter {
		page.Hidden = append(page.Hidden, bulkMember{name, values[0]})
		shown := values[0]
		if n, err := strconv.Atoi(shown); name == "type" && err == nil {
			shown = countersign.Type(n).Words()
		}
		page.Filter = append(page.Filter, bulkMember{name, shown})
	}
	for name, value := range beside {
		page.Hidden = append(page.Hidden, bulkMember{name, value})
	}
	for _, list := range [][]bulkMember{page.Filter, page.Hidden} {
		slices.SortFunc(list, func(a, b bulkMember) int {
			if a.Name < b.Name {
				return -1
			}
			return 1
		})
	}
	page.Back += "?" + filter.Encode()
	return v.render("bulk", page.Title, page)
}
