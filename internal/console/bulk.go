package console

import (
	"maps"
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
	Tally      []stateCount // of the count
	What       string       // one of what is counted
	Says       string       // what the act does to them
	None       string       // why there may be none
	Button     string
	Note       string // what is asked for beside; empty: nothing is
}

type bulkMember struct{ Name, Value string }

// bulk fills in the filter of a page, and the fields that its form sends beside it.
func (v *visit) bulk(page bulkPage, filter url.Values, beside map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(filter)) {
		value := filter.Get(name)
		page.Hidden = append(page.Hidden, bulkMember{name, value})
		if n, err := strconv.Atoi(value); name == "type" && err == nil {
			value = countersign.Type(n).Words()
		}
		page.Filter = append(page.Filter, bulkMember{name, value})
	}
	for name, value := range beside {
		page.Hidden = append(page.Hidden, bulkMember{name, value})
	}
	page.Back += "?" + filter.Encode()
	return v.render("bulk", page.Title, page)
}
