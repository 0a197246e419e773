package console

import "net/url"

// bulk is an act on all that a filter selects: its page says on how many, and its form does it.
type bulk struct {
	Title  string
	What   string // one of what is counted
	Says   string // what the act does to them
	None   string // why there may be none
	Button string
	Note   string // what is asked for beside; empty: nothing is

	list, did string // the address of the list, and the notice
	// act counts what the members of an address or a form select, or does it.
	act func(v *visit, q url.Values, dry bool) (selected, error)
}

// selected is what a bulk would be done to, or was.
type selected struct {
	Filter url.Values
	Count  int64
	Tally  []stateCount // of the count
	UpTo   int64        // the newest that was counted; 0: the form counts anew
}

// bulkPage is what the page of a bulk shows.
type bulkPage struct {
	*bulk
	selected
	Back string // the list
}

func (b *bulk) ask(v *visit) error {
	s, err := b.act(v, v.r.URL.Query(), true)
	if err != nil {
		return err
	}
	return v.render("bulk", b.Title, bulkPage{b, s, b.list + "?" + s.Filter.Encode()})
}

func (b *bulk) do(v *visit) error {
	s, err := b.act(v, v.r.PostForm, false)
	if err != nil {
		return err
	}
	return v.done(b.list+"?"+s.Filter.Encode(), b.did)
}
