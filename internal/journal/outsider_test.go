package journal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// outsiders makes the log of a withdrawal that was asked about three times, approved, released and
// executed, beside others, and gives the proof for an outsider and the whole one.
func outsiders(t *testing.T, url string) (l *journal.Log, public, whole client.AuditProof) {
	t.Helper()
	d, l := open(t, url)
	w, id := journal.WithdrawalOf("shop", "w-1"), "shop.w-1"
	attempt := func(n int) journal.Attempt {
		return journal.Attempt{Merchant: "shop", Callback: id, Type: 2, Attempt: n, AddedBy: "tok_core", Node: "node-a", RequestUUID: "u", Result: "r"}
	}
	other := attempt(1)
	other.Callback = "shop.w-9"
	acting := journal.At(journal.By(ctx, journal.Actor{Token: "tok_ann", Name: "Ann Smith", Role: "operator", Address: "192.0.2.1"}), "node-a")
	steps := []journal.Record{
		{Kind: "service.started", About: []string{journal.AboutStarts}, Data: map[string]string{"listen": "x"}},
		{Kind: "token.created", About: []string{"tok_ann"}, Data: map[string]string{"name": "Ann Smith"}},
		{Kind: journal.WithdrawalCreated, About: []string{id}, Data: journal.Created{Withdrawal: w, TenantUserID: "u-1"}},
		{Kind: journal.AttemptsSettled},
		{Kind: journal.ServiceFrozen, About: []string{journal.AboutFreezes}, Data: journal.Stopped{Reason: "Ann said so"}},
		{Kind: journal.WithdrawalAnswered, About: []string{id}, Data: journal.Exchange{Attempt: attempt(2), URL: "https://shop.example/w", Request: "sealed"}},
		{Kind: journal.WithdrawalDecided, About: []string{id}, Data: journal.Decided{Merchant: "shop", Decision: "confirmed", Attempt: 2}},
		{Kind: journal.WithdrawalAnswered, About: []string{id}, Data: journal.Exchange{Attempt: attempt(3), Differs: true}},
		{Kind: journal.WithdrawalNoted, About: []string{id}, Data: journal.Note{Text: "ask Ann"}},
		{Kind: "callbacks.resent", About: []string{"shop.w-7", id}},
		{Kind: journal.WithdrawalReleased, About: []string{id}, Data: journal.Released{Withdrawal: w, Holder: journal.HolderOf("wallet-7", "tok_core"), Permit: "p"}},
		{Kind: "order.approved", About: []string{id}, Data: journal.Event{CallBackID: "w-1", State: "approved", Reason: "Ann knows him", DecidedBy: "tok_ann"}},
		{Kind: journal.WithdrawalEnded, About: []string{id}, Data: journal.Ended{Withdrawal: w, State: "executed", Permit: "p", TxID: "0xabc"}},
	}
	for i, r := range steps {
		r.At = db.Millis(1000 + i)
		err := d.Write(acting, func(ctx context.Context, t *db.Tx) error {
			if r.Kind == journal.AttemptsSettled {
				return journal.AddItems(ctx, t, r, []journal.Item{{At: r.At, Item: other}, {At: r.At, Item: attempt(1)}})
			}
			return journal.Add(ctx, t, r)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err := d.Write(ctx, func(ctx context.Context, t *db.Tx) error { // nobody makes it, and it keeps the reason
		return journal.AddAbout(ctx, t, "order.confirmed", id, 1020, journal.Event{CallBackID: "w-1", State: "confirmed", Reason: "Ann knows him", DecidedBy: "tok_ann"})
	})
	if err != nil {
		t.Fatal(err)
	}
	s := journal.Subject{IDs: []string{id}, Context: []string{journal.AboutStarts, journal.AboutFreezes}, Items: []journal.Item{{At: 1003, Item: attempt(1)}}}
	whole = must(l.Evidence(ctx, s, 0))(t)
	s.Outsider = true
	return l, must(l.Evidence(ctx, s, 0))(t), whole
}

// TestOutsider: the file for an outsider verifies, has the whole of what decided, and nothing of who
// acted, of notes, of other withdrawals, and of what was set.
func TestOutsider(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		l, public, whole := outsiders(t, url)
		var shown strings.Builder
		v := must(verify(file(t, public), l.Key(), nil))(t)
		if err := journal.Show(&shown, v.Records); err != nil {
			t.Fatal(err)
		}
		text := shown.String() + string(file(t, public))
		// With a space, since Base64 of a hash or a signature may have the three letters.
		for _, no := range []string{"Ann Smith", "Ann said", "ask Ann", "Ann knows", "tok_", "192.0.2.1", "node-a", "w-7", "w-9", "service.started", "token.created", "frozen", journal.Fingerprint("wallet-7"), "operator"} {
			if strings.Contains(text, no) {
				t.Errorf("an outsider sees %s", no)
			}
		}
		for _, want := range []string{"https://shop.example/w", `"request":"sealed"`, `"differs":true`, `"decision":"confirmed"`, "0xabc", `"tenantUserId":"u-1"`, "withheld", `"attempt":1`, "withdrawal.noted", "callbacks.resent"} {
			if !strings.Contains(text, want) {
				t.Errorf("an outsider does not see %s", want)
			}
		}
		if missing, doubts, err := journal.Lacking(v.Records); err != nil || missing != nil || doubts != nil {
			t.Errorf("the file lacks %q, %q, %v", missing, doubts, err)
		}
		v = must(verify(file(t, whole), l.Key(), nil))(t)
		shown.Reset()
		if err := journal.Show(&shown, v.Records); err != nil || len(v.Records) != 14 {
			t.Fatalf("%d records, %v", len(v.Records), err)
		}
		for _, want := range []string{`by tok_ann "Ann Smith" (operator) from 192.0.2.1  on node-a`, "ask Ann", "Ann knows him", `"shop.w-7" "shop.w-1"`, journal.Fingerprint("wallet-7"), "addedBy: tok_core"} {
			if !strings.Contains(shown.String(), want) {
				t.Errorf("the whole file does not show %s:\n%s", want, shown.String())
			}
		}
	})
}

// TestOutsiderIsNotDeceived: what somebody writes into the file of an outsider is refused, and what
// must be there is missed.
func TestOutsiderIsNotDeceived(t *testing.T) {
	l, public, whole := outsiders(t, dialects[0].url(t))
	at := func(p client.AuditProof, kind string) int {
		i := slices.IndexFunc(p.Records, func(r client.AuditRecord) bool { return bytes.Contains(r.Record, []byte(`"kind":"`+kind+`"`)) })
		if i < 0 {
			t.Fatalf("no %s", kind)
		}
		return i
	}
	clone := func(p client.AuditProof) (c client.AuditProof) {
		if err := json.Unmarshal(file(t, p), &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	released := at(public, journal.WithdrawalReleased)
	hash := string(public.Records[released].Record[len(public.Records[released].Record)-47:])
	for name, change := range map[string]func(*client.AuditProof){
		"an actor beside the hash": func(p *client.AuditProof) {
			p.Records[released].Record = bytes.Replace(p.Records[released].Record, []byte(`,"private"`), []byte(`,"by":{"token":"tok_x"},"private"`), 1)
		},
		"an actor behind the hash": func(p *client.AuditProof) {
			p.Records[released].Record = append(bytes.TrimSuffix(p.Records[released].Record, []byte("}")), `,"by":{"token":"tok_x"}}`...)
		},
		"another private part": func(p *client.AuditProof) {
			r := p.Records[released].Record
			p.Records[released].Record = append(r[:len(r)-47:len(r)-47], `{"salt":"AAAAAAAAAAAAAAAAAAAAAA==","by":{"token":"tok_x"}}}`...)
		},
		"another's private part": func(p *client.AuditProof) {
			r, of := p.Records[released].Record, whole.Records[at(whole, journal.WithdrawalEnded)].Record
			p.Records[released].Record = append(r[:len(r)-47:len(r)-47], of[bytes.Index(of, []byte(`{"salt"`)):]...)
		},
		"another hash": func(p *client.AuditProof) {
			i := at(*p, journal.WithdrawalEnded)
			r := p.Records[i].Record
			p.Records[i].Record = append(r[:len(r)-47:len(r)-47], hash...)
		},
		"no hash": func(p *client.AuditProof) {
			r := p.Records[released].Record
			p.Records[released].Record = append(r[:len(r)-47-len(`,"private":`):len(r)-47], '}')
		},
		"another transaction": func(p *client.AuditProof) {
			i := at(*p, journal.WithdrawalEnded)
			p.Records[i].Record = bytes.Replace(p.Records[i].Record, []byte("0xabc"), []byte("0xabd"), 1)
		},
		"another attempt's item": func(p *client.AuditProof) {
			i := at(*p, journal.AttemptsSettled)
			p.Records[i].Items[0].Item = bytes.Replace(p.Records[i].Items[0].Item, []byte(`"attempt":1`), []byte(`"attempt":9`), 1)
		},
	} {
		p := clone(public)
		change(&p)
		if _, err := verify(file(t, p), l.Key(), nil); !errors.Is(err, journal.ErrFile) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, of := range []struct {
		kind, says string
		missed     bool
	}{
		{journal.WithdrawalCreated, "withdrawal.created", true},
		{journal.WithdrawalAnswered, "attempt 2, which decided", true},
		{journal.WithdrawalDecided, "withdrawal.decided", true},
		{journal.WithdrawalReleased, "withdrawal.released", true},
		{journal.AttemptsSettled, "attempt 1 ", false},
	} {
		p := clone(public)
		i := at(p, of.kind)
		p.Records = slices.Delete(p.Records, i, i+1)
		v := must(verify(file(t, p), l.Key(), nil))(t)
		missing, doubts, err := journal.Lacking(v.Records)
		if err != nil || of.missed != (len(missing) > 0) || !strings.Contains(strings.Join(append(missing, doubts...), "\n"), of.says) {
			t.Errorf("without %s: %q, %q, %v", of.kind, missing, doubts, err)
		}
	}
}

// TestMerchantLacksNothing: the merchant's end has its answer, and no record of what the service did.
func TestMerchantLacksNothing(t *testing.T) {
	d, l := open(t, dialects[0].url(t))
	err := d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		return errors.Join(journal.AddAbout(ctx, t, journal.OrderAdded, "w-1", 1, journal.Order{CallBackID: "w-1"}),
			journal.AddAbout(ctx, t, journal.WithdrawalAnswered, "w-1", 2, journal.Answer{CallBackID: "w-1", Request: "sealed"}))
	})
	if err != nil {
		t.Fatal(err)
	}
	p := must(l.Evidence(ctx, journal.Subject{IDs: []string{"w-1"}, Outsider: true}, 0))(t)
	if missing, doubts, err := journal.Lacking(p.Records); err != nil || missing != nil || doubts != nil || len(p.Records) != 2 {
		t.Errorf("%q, %q, %v", missing, doubts, err)
	}
}

// TestSalts: no two records and no two items have the same hash, whatever they say.
func TestSalts(t *testing.T) {
	d, l := open(t, dialects[0].url(t))
	for range 2 {
		err := d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
			if err := journal.Add(ctx, t, journal.Record{Kind: "test.done", At: 1}); err != nil {
				return err
			}
			return journal.AddItems(ctx, t, journal.Record{Kind: "test.many", At: 1}, []journal.Item{{At: 1, Item: item{"a", 1}}})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	for _, e := range must(l.Page(ctx, 0, 10))(t).Entries {
		seen[string(e.Hashes[:32])] = true
	}
	err := db.Each(ctx, d, `SELECT leaves FROM audit_records WHERE seq IN (2, 4)`, nil, func(r db.Rows) error {
		var leaves []byte
		err := r.Scan(&leaves)
		seen[string(leaves)] = true
		return err
	})
	if err != nil || len(seen) != 6 {
		t.Errorf("%d hashes of 6, %v", len(seen), err)
	}
}
