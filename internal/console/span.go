package console

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"countersign/client"
)

// listSpan is the time range of a list, as typed and as understood.
type listSpan struct {
	Since, Until string
	Wrong        string // what is wrong with what was typed; the list is not read then
	since, until client.Time
}

// spanOf reads the fields since and until of a search.
func (v *visit) spanOf(q url.Values) *listSpan {
	s := &listSpan{Since: strings.TrimSpace(q.Get("since")), Until: strings.TrimSpace(q.Get("until"))}
	var err error
	if s.since, err = moment(s.Since, v.c.Now()); err == nil {
		s.until, err = moment(s.Until, v.c.Now())
	}
	if err != nil {
		s.Wrong = sentence(err.Error())
	} else if s.since != 0 && s.until != 0 && s.since >= s.until {
		s.Wrong = "The time begins after it ends: nothing can match."
	}
	return s
}

// moments are the accepted forms of a time. One without a zone is in UTC.
var moments = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05",
	"2006-01-02 15:04", "2006-01-02"}

// moment reads a time, or how long ago it was. An empty text is no time.
func moment(text string, now time.Time) (client.Time, error) {
	if text == "" {
		return 0, nil
	}
	for _, form := range moments {
		if at, err := time.Parse(form, text); err == nil && at.Year() >= 1970 {
			return client.TimeOf(at), nil
		}
	}
	ago, ok := client.Span(text)
	if !ok {
		return 0, fmt.Errorf("%q is not a time: type one such as 2027-01-31 or 2027-01-31 18:30 in UTC, or how long ago, such as 12h or 7d", text)
	}
	return client.TimeOf(now.Add(-ago)), nil
}
