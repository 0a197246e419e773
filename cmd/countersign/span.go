package main

import (
	"fmt"
	"time"

	"countersign/client"
)

// spanFlags keep a list to a time.
type spanFlags struct {
	Since moment `help:"Only from this time on: a time such as 2027-01-31T00:00:00Z, or how long ago, such as 12h or 7d." placeholder:"TIME"`
	Until moment `help:"Only before this time, written likewise." placeholder:"TIME"`
}

// moment is a time of a flag, 0 without one.
type moment client.Time

// UnmarshalText reads a time, or how long ago it was.
func (m *moment) UnmarshalText(b []byte) error {
	text := string(b)
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		*m = moment(client.TimeOf(at))
		return nil
	}
	ago, ok := client.Span(text)
	if !ok {
		return fmt.Errorf("%q is neither a time such as 2027-01-31T00:00:00Z nor how long ago, such as 12h or 7d", text)
	}
	*m = moment(client.TimeOf(time.Now().Add(-ago)))
	return nil
}
