package api

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// newestAmounts is how many of the newest rows of a list a search for an amount looks at: no
// index has amounts, which are written in several ways.
const newestAmounts = 1000

// searchQuery is what people look for.
type searchQuery struct {
	Q string `query:"q" required:"true" minLength:"1" maxLength:"1024" doc:"a whole identifier, user, address, transaction, number or amount, 1 to 1,024 characters"`
}

// Search collects what a call of search finds.
type Search struct {
	Call *Call
	Ctx  context.Context
	Text string // without spaces around it; the databases can keep it

	found []client.Found
	seen  map[[2]string]bool // kind and id
}

// Add adds what was found, once. id is also the last part of the link, below the collection.
func (s *Search) Add(kind client.FoundKind, collection, id, merchant string, by client.MatchedBy, state string, at db.Millis) {
	s.AddAt("/v1/"+collection+"/"+url.PathEscape(id), client.Found{Kind: kind, ID: id, Merchant: merchant, Matched: by, State: state, At: TimeOf(at)})
}

// AddAt is Add with another link.
func (s *Search) AddAt(link string, f client.Found) {
	key := [2]string{string(f.Kind), f.ID}
	if s.seen[key] {
		return
	}
	s.seen[key] = true
	f.Link = link
	s.found = append(s.found, f)
}

// UnlessMissing returns err, and nil if it says that there is no such row, or none any more.
func UnlessMissing(err error) error {
	if errors.Is(err, db.ErrNotFound) || errors.Is(err, db.ErrPurged) {
		return nil
	}
	return err
}

// Number returns the text as a number of a list, which begins at 1. ok is false if it is none.
func (s *Search) Number() (n int64, ok bool) {
	n, err := strconv.ParseInt(s.Text, 10, 64)
	return n, err == nil && n > 0 && s.Text[0] != '+'
}

// Amount returns a function that says whether an amount is the one that is looked for, and how
// many of the newest rows to look at; nil if the text is no amount.
func (s *Search) Amount() (is func(countersign.Amount) bool, newest int) {
	want, err := countersign.ParseAmount(s.Text)
	if err != nil {
		return nil, 0
	}
	return func(a countersign.Amount) bool { return a.IsSet() && a.Cmp(want) == 0 }, newestAmounts
}

// search answers the route of both ends. It reads by indexes or a bounded number of rows.
func (o Common) search(c *Call, q searchQuery, _ None) (client.SearchResult, error) {
	s := &Search{Call: c, Ctx: c.R.Context(), Text: strings.TrimSpace(q.Q), seen: map[[2]string]bool{}}
	if s.Text == "" || db.CheckText("", s.Text) != nil {
		return client.SearchResult{Found: []client.Found{}}, nil
	}
	for _, find := range []func(*Search) error{o.Search, o.findShared} {
		if err := find(s); err != nil {
			return client.SearchResult{}, err
		}
	}
	slices.SortStableFunc(s.found, func(a, b client.Found) int {
		if exact := a.Matched == client.MatchedID; exact == (b.Matched == client.MatchedID) {
			return cmp.Compare(b.At, a.At)
		} else if exact {
			return -1
		}
		return 1
	})
	return client.SearchResult{Found: append([]client.Found{}, s.found[:min(len(s.found), client.MostFound)]...)}, nil
}

// findShared finds what both ends have, as far as the token sees it.
func (o Common) findShared(s *Search) error {
	c := s.Call
	if seq, ok := s.Number(); ok {
		switch a, err := o.Lists.Alarm(s.Ctx, seq); {
		case err == nil && c.Sees(a.Of):
			s.AddAt("/v1/alarms?limit=1&cursor="+strconv.FormatInt(seq+1, 10), client.Found{Kind: client.FoundAlarm, ID: s.Text, Merchant: a.Of, Matched: client.MatchedNumber,
				State: alarmState(a), At: TimeOf(a.At)})
		case err != nil && !errors.Is(err, db.ErrNotFound):
			return err
		}
	}
	if !idText.MatchString(s.Text) {
		return nil
	}
	switch change, err := o.Changes.find(s.Ctx, s.Text, c.Token); {
	case err == nil:
		s.Add(client.FoundChange, "changes", change.ID, change.Merchant, client.MatchedID, string(change.State), change.Proposed)
	case !errors.Is(err, db.ErrNotFound):
		return err
	}
	if !slices.Contains(Deciders, c.Token.Role) {
		return nil
	}
	switch t, err := o.Changes.tokens.ByID(s.Ctx, s.Text); {
	case err == nil && t.Within(c.Token):
		state := ""
		if p := t.ended(c.Now); p != nil {
			state = "ended"
		}
		s.AddAt("/v1/tokens", client.Found{Kind: client.FoundToken, ID: t.ID, Matched: client.MatchedID, State: state, At: TimeOf(t.Created)})
	case err != nil && !errors.Is(err, db.ErrNotFound):
		return err
	}
	return nil
}

func alarmState(a db.Alarm) string {
	switch {
	case a.Ended != 0:
		return string(client.AlarmEnded)
	case a.Acked != 0:
		return string(client.AlarmAcked)
	}
	return string(client.AlarmOpen)
}
