package book

import (
	"testing"

	"countersign/countersigntest"
	"countersign/merchant"
)

// TestInbox holds the inbox to the rules of merchant.Inbox, with two processes
// where the database allows for two.
func TestInbox(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			countersigntest.CheckInbox(t, func() (one, other merchant.Inbox) {
				url := d.url(t)
				s := openAt(t, url)
				s2 := s
				if d.name == "postgres" {
					s2 = openAt(t, url)
				}
				return New(s, Config{}), New(s2, Config{})
			})
		})
	}
}
