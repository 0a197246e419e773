package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/journal"
	"countersign/internal/lab/passkeytest"
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

// TestSignedApproval: the record of an approval says what was signed, and its proof is good.
func TestSignedApproval(t *testing.T) {
	r, ctx := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), nil), t.Context()
	o := newOrder(1)
	o.Labels, o.ExpiresAt = map[string]string{"to": "<a & b>"}, client.TimeOf(r.clock.now().Add(time.Hour))
	if _, err := r.app.AddOrder(ctx, o); err != nil {
		t.Fatal(err)
	}
	begun, err := r.client.PasskeyChallenge(ctx, "https://console.example")
	if err != nil {
		t.Fatal(err)
	}
	device := passkeytest.New(t, "https://console.example", begun.Host)
	if _, err := r.client.AddPasskey(ctx, client.NewPasskey{Name: "laptop", State: begun.State, Credential: device.Create(begun.Challenge)}); err != nil {
		t.Fatal(err)
	}
	s, err := r.client.OrderApproval(ctx, o.CallBackID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.ApproveOrderSigned(ctx, o.CallBackID, "seen", &client.Assertion{Text: s.Text, Credential: device.Sign(s.Challenge)}); err != nil {
		t.Fatal(err)
	}
	p, err := r.client.AuditEvidence(ctx, client.AuditOptions{Withdrawal: o.CallBackID})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(r.entries(p), func(one journal.Entry) bool { return one.Kind == recordApproved && one.Passkey != nil }) {
		t.Error("the record of the approval has no signature")
	}
}

// TestSignedCredit: where passkeys are required of a role it credits a held deposit with one alone,
// and the record has the signature.
func TestSignedCredit(t *testing.T) {
	ctx := t.Context()
	r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), func(c *Config) { c.RequirePasskey = []client.Role{client.RoleAdmin} })
	d := countersigntest.Deposit(0)
	r.deliver(d)
	for _, again := range []string{"again-1", "again-2"} {
		d.TrackingID = again
		r.deliver(d)
	}
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, client.ErrForbidden) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := r.client.CreditDeposit(ctx, 2, "")
	refused("without a passkey", err)
	begun, err := r.client.PasskeyChallenge(ctx, "https://console.example")
	if err != nil {
		t.Fatal(err)
	}
	device := passkeytest.New(t, "https://console.example", begun.Host)
	if _, err := r.client.AddPasskey(ctx, client.NewPasskey{Name: "laptop", State: begun.State, Credential: device.Create(begun.Challenge)}); err != nil {
		t.Fatal(err)
	}
	statement := func(seq int64) client.Statement {
		t.Helper()
		s, err := r.client.CreditApproval(ctx, seq)
		if err != nil || len(s.Credentials) != 1 {
			t.Fatalf("%+v, %v", s, err)
		}
		return s
	}
	_, err = r.client.CreditDeposit(ctx, 2, "")
	refused("with the token alone", err)
	for _, dry := range []bool{true, false} {
		_, err = r.client.CreditDeposits(ctx, client.DecideDeposits{Filter: client.DepositSearch{State: client.DepositHeld}, DryRun: dry})
		refused("all at once", err)
	}
	s := statement(3)
	_, err = r.client.CreditDepositSigned(ctx, 2, "", &client.Assertion{Text: s.Text, Credential: device.Sign(s.Challenge)})
	refused("signed of another", err)
	if n, err := r.client.Stats(ctx); err != nil || n.DepositsHeld != 2 {
		t.Fatalf("%+v, %v", n, err)
	}
	s = statement(2)
	if got, err := r.client.CreditDepositSigned(ctx, 2, "seen", &client.Assertion{Text: s.Text, Credential: device.Sign(s.Challenge)}); err != nil || got.State != client.DepositCredited {
		t.Fatalf("%+v, %v", got, err)
	}
	if s := statement(2); s.MayNot == "" {
		t.Error("a deposit that was credited may be credited")
	}
	if _, err := r.client.RejectDeposit(ctx, 3, ""); err != nil { // it moves nothing
		t.Error(err)
	}
	page, err := r.client.Audit(ctx, client.FeedOptions{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(page.Entries, func(e client.AuditEntry) bool {
		told, err := journal.Read(e.Record)
		return err == nil && told.Kind == journal.DepositCredited && told.Passkey != nil
	}) {
		t.Error("no record of the credit has a signature")
	}
	var b bytes.Buffer
	if err := journal.Export(ctx, &b, r.client, 1, 0); err != nil {
		t.Fatal(err)
	}
	p, err := r.client.AuditCheckpoint(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Verify(&b, p.Key, nil); err != nil {
		t.Error(err)
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
