package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/journal"
)

// TestAuditOfAnOrder: the evidence about an order has it, its approval with the token,
// and the answer with its ciphertexts, which is kept before it is sent.
func TestAuditOfAnOrder(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), nil)
			r.order(1)
			id := newOrder(1).CallBackID
			if _, err := r.client.ApproveOrder(t.Context(), id, "looked at"); err != nil {
				t.Fatal(err)
			}
			r.confirmed(1)
			r.confirmed(1) // a repetition gets an answer of its own
			p, err := r.client.AuditEvidence(t.Context(), client.AuditOptions{Withdrawal: id})
			if err != nil {
				t.Fatal(err)
			}
			entries := r.entries(p)
			var kinds []string
			for _, one := range entries {
				kinds = append(kinds, one.Kind)
			}
			want := []string{"token.created", "token.created", "order.added", "order.approved", "order.confirmed", "withdrawal.answered", "withdrawal.answered"}
			if !slices.Equal(kinds, want) {
				t.Fatalf("evidence of %q, want %q", kinds, want)
			}
			if by := entries[3].By; by == nil || by.Role == "" || by.Address != "127.0.0.1" {
				t.Errorf("approved by %+v", by)
			}
			var answer struct{ Request, RequestOpened, Response, ResponseOpened, CallBackID string }
			if err := json.Unmarshal(entries[5].Data, &answer); err != nil || answer.CallBackID != id || len(answer.Request) < 100 || len(answer.Response) < 100 ||
				!strings.Contains(answer.RequestOpened, id) || !strings.Contains(answer.ResponseOpened, countersigntest.Order(1).Address) {
				t.Errorf("the answer is entries as %s, %v", entries[5].Data, err)
			}
			if _, err := r.client.AuditEvidence(t.Context(), client.AuditOptions{Withdrawal: "nothing"}); !errors.Is(err, client.ErrInvalid) {
				t.Errorf("evidence of an order that is not known: %v", err)
			}
		})
	}
}

// entries verifies a proof and reads its records.
func (r *rig) entries(p client.AuditProof) (list []journal.Entry) {
	r.t.Helper()
	text, err := journal.Marshal(p)
	if err != nil {
		r.t.Fatal(err)
	}
	v, err := journal.Verify(bytes.NewReader(append(text, '\n')), p.Key, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, one := range v.Records {
		read, err := journal.Read(one.Record)
		if err != nil {
			r.t.Fatal(err)
		}
		list = append(list, read)
	}
	return list
}

// TestAuditProvesTakenDeposits: a deposit of a batch is proved.
func TestAuditProvesTakenDeposits(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), nil)
			for n := range 3 {
				r.deliver(countersigntest.Deposit(n))
			}
			p, err := r.client.AuditEvidence(t.Context(), client.AuditOptions{Callback: "2"})
			if err != nil {
				t.Fatal(err)
			}
			r.entries(p)
			last := p.Records[len(p.Records)-1]
			if len(last.Items) != 1 || !strings.Contains(string(last.Items[0].Item), countersigntest.Deposit(1).TrackingID) {
				t.Errorf("evidence %+v", p.Records)
			}
			page, err := r.client.Audit(t.Context(), client.FeedOptions{})
			if err != nil || len(page.Entries) < 3 {
				t.Errorf("%d records, %v", len(page.Entries), err)
			}
			if _, err := r.client.AuditCheckpoint(t.Context(), page.Next); err != nil {
				t.Error(err)
			}
			for _, id := range []string{"99", "x"} {
				if _, err := r.client.AuditEvidence(t.Context(), client.AuditOptions{Callback: id}); !errors.Is(err, client.ErrInvalid) {
					t.Errorf("evidence of callback %s: %v", id, err)
				}
			}
		})
	}
}
