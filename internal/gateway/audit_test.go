package gateway

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/journal"
	"countersign/internal/policy"
)

// TestAuditOfAnOrder: the log has an order, its approval with the token,
// and the answer with its ciphertexts, which is kept before it is sent.
func TestAuditOfAnOrder(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), func(c *Config) { (&wordPolicy{effect: policy.Ask}).use(c) })
			r.order(1)
			id := newOrder(1).CallBackID
			if _, err := r.client.ApproveOrder(t.Context(), id, "looked at"); err != nil {
				t.Fatal(err)
			}
			r.confirmed(1)
			r.confirmed(1) // a repetition gets an answer of its own
			entries := r.about(id)
			var kinds []string
			for _, one := range entries {
				kinds = append(kinds, one.Kind)
			}
			want := []string{"order.added", "order.approved", "order.confirmed", "withdrawal.answered", "withdrawal.answered"}
			if !slices.Equal(kinds, want) {
				t.Fatalf("evidence of %q, want %q", kinds, want)
			}
			if by := entries[1].By; by == nil || by.Role == "" || by.Address != "127.0.0.1" {
				t.Errorf("approved by %+v", by)
			}
			var answer struct{ Request, RequestOpened, Response, ResponseOpened, CallBackID string }
			if err := json.Unmarshal(entries[3].Data, &answer); err != nil || answer.CallBackID != id || len(answer.Request) < 100 || len(answer.Response) < 100 ||
				!strings.Contains(answer.RequestOpened, id) || !strings.Contains(answer.ResponseOpened, countersigntest.Order(1).Address) {
				t.Errorf("the answer is entries as %s, %v", entries[3].Data, err)
			}
		})
	}
}

// about reads the records about an id, in order.
func (r *rig) about(id string) (list []journal.Entry) {
	r.t.Helper()
	about, err := r.client.AuditAbout(r.t.Context(), client.AuditAboutOptions{ID: id})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, one := range slices.Backward(about.Entries) {
		read, err := journal.Read(one.Record)
		if err != nil {
			r.t.Fatal(err)
		}
		list = append(list, read)
	}
	return list
}
