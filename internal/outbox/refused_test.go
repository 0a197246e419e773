package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// testRefused: a call with something that cannot be, or that contradicts what is known, changes nothing. Its error names
// the item of several.
func testRefused(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	good := settlementOf(claimOne(t, s, "there", 1))
	merchant := func(change func(*Merchant)) error {
		m := newMerchant("fine")
		change(&m)
		_, err := s.CreateMerchant(ctx, m, 1)
		return err
	}
	ingest := func(items ...NewCallback) error { _, err := s.Ingest(ctx, items, 5); return err }
	second := func(change func(*NewCallback)) error {
		n := deposit("m0", "t", 1)
		change(&n)
		return ingest(deposit("m0", "fine", 1), n)
	}
	withdrawal := func(change func(*NewWithdrawal)) error {
		n := newWithdrawal("cb", 5000, someDetails(t, "1"))
		change(&n)
		_, _, err := s.CreateWithdrawal(ctx, n, 1)
		return err
	}
	settle := func(change func(*Settlement)) error {
		bad := good
		change(&bad)
		_, err := s.Settle(ctx, []Settlement{good, bad}, 110)
		return err
	}
	fresh, also, other := deposit("m0", "z", 1), deposit("m0", "a", 1), deposit("m0", "there", 1)
	other.Payload = []byte("other")
	for name, c := range map[string]struct {
		err, is error
		at      string // the number of the item, and its member; empty: no item is named
	}{
		"merchant, taken":            {merchant(func(m *Merchant) { m.ID = "m0" }), db.ErrConflict, "0 id"},
		"merchant, dot":              {merchant(func(m *Merchant) { m.ID = "a.b" }), db.ErrInvalid, ""},
		"merchant, empty":            {merchant(func(m *Merchant) { m.ID = "" }), db.ErrInvalid, ""},
		"merchant, capital":          {merchant(func(m *Merchant) { m.ID = "A" }), db.ErrInvalid, ""},
		"merchant, too long":         {merchant(func(m *Merchant) { m.ID = strings.Repeat("a", 65) }), db.ErrInvalid, ""},
		"merchant, no key":           {merchant(func(m *Merchant) { m.Key = nil }), db.ErrInvalid, ""},
		"merchant, no concurrency":   {merchant(func(m *Merchant) { m.Concurrency = -1 }), db.ErrInvalid, ""},
		"merchant, rate below 0":     {merchant(func(m *Merchant) { m.RatePerSecond = -1 }), db.ErrInvalid, ""},
		"merchant, unknown state":    {merchant(func(m *Merchant) { m.State = "asleep" }), db.ErrInvalid, ""},
		"merchant, NUL in the name":  {merchant(func(m *Merchant) { m.Name = "a\x00b" }), db.ErrInvalid, ""},
		"merchant, name not in UTF8": {merchant(func(m *Merchant) { m.Name = "a\xff" }), db.ErrInvalid, ""},

		"other content":           {ingest(fresh, also, other), db.ErrConflict, "2 trackingId"},
		"other content, twice":    {ingest(fresh, other, also, other), db.ErrConflict, "1 trackingId"},
		"unknown merchant":        {ingest(fresh, deposit("nobody", "a", 1)), db.ErrNotFound, "1 merchant"},
		"merchant that can't be":  {ingest(deposit("m.0", "z", 1)), db.ErrNotFound, "0 merchant"},
		"twice with other inside": {ingest(fresh, NewCallback{Merchant: "m0", Type: 1, EventID: "z", Payload: []byte("x")}), db.ErrConflict, "1 trackingId"},
		"NUL in trackingId":       {second(func(n *NewCallback) { n.TrackingID = "a\x00" }), db.ErrInvalid, "1 "},
		"NUL in event":            {second(func(n *NewCallback) { n.EventID = "\x00" }), db.ErrInvalid, "1 "},
		"txId not in UTF-8":       {second(func(n *NewCallback) { n.TxID = "\xff" }), db.ErrInvalid, "1 "},
		"callBackId too long":     {second(func(n *NewCallback) { n.CallBackID = strings.Repeat("é", 513) }), db.ErrInvalid, "1 "},
		"type 2":                  {second(func(n *NewCallback) { n.Type = countersign.TypeRequestWithdraw }), db.ErrInvalid, "1 "},
		"type 0":                  {second(func(n *NewCallback) { n.Type = 0 }), db.ErrInvalid, "1 "},
		"type 8":                  {second(func(n *NewCallback) { n.Type = 8 }), db.ErrInvalid, "1 "},
		"no payload":              {second(func(n *NewCallback) { n.Payload = nil }), db.ErrInvalid, "1 "},

		"withdrawal, unknown merchant":    {withdrawal(func(n *NewWithdrawal) { n.Merchant = "nobody" }), db.ErrNotFound, ""},
		"withdrawal, no callBackId":       {withdrawal(func(n *NewWithdrawal) { n.CallBackID = "" }), db.ErrInvalid, ""},
		"withdrawal, NUL in callBackId":   {withdrawal(func(n *NewWithdrawal) { n.CallBackID = "\x00" }), db.ErrInvalid, ""},
		"withdrawal, NUL in tenantUserId": {withdrawal(func(n *NewWithdrawal) { n.TenantUserID = "\x00" }), db.ErrInvalid, ""},
		"withdrawal, no payload":          {withdrawal(func(n *NewWithdrawal) { n.Payload = nil }), db.ErrInvalid, ""},
		"withdrawal, no deadline":         {withdrawal(func(n *NewWithdrawal) { n.Deadline = 0 }), db.ErrInvalid, ""},
		"withdrawal, never a deadline":    {withdrawal(func(n *NewWithdrawal) { n.Deadline = db.Never }), db.ErrInvalid, ""},
		"withdrawal, empty details":       {withdrawal(func(n *NewWithdrawal) { n.Details = &client.Details{} }), countersign.ErrMalformed, ""},

		"settled, no state":                  {settle(func(n *Settlement) { n.State = "" }), db.ErrInvalid, "1 "},
		"settled, sending":                   {settle(func(n *Settlement) { n.State = client.CallbackSending }), db.ErrInvalid, "1 "},
		"settled, cancelled":                 {settle(func(n *Settlement) { n.State = client.CallbackCancelled }), db.ErrInvalid, "1 "},
		"settled, another merchant":          {settle(func(n *Settlement) { n.Merchant = "m1" }), db.ErrInvalid, "1 "},
		"settled, no id":                     {settle(func(n *Settlement) { n.CallbackID = "m0" }), db.ErrInvalid, "1 "},
		"settled, decided and pending":       {settle(func(n *Settlement) { n.State, n.Decision = client.CallbackPending, countersign.DecisionDeclined }), db.ErrInvalid, "1 "},
		"settled, cancelled by an answer":    {settle(func(n *Settlement) { n.Decision = countersign.DecisionCancelled }), db.ErrInvalid, "1 "},
		"settled, confirmed without details": {settle(func(n *Settlement) { n.Decision = countersign.DecisionConfirmed }), db.ErrInvalid, "1 "},
	} {
		at := ""
		var conflict *db.ConflictError
		var item *db.ItemError
		if errors.As(c.err, &conflict) {
			at = fmt.Sprint(conflict.Item, " ", conflict.Member)
		} else if errors.As(c.err, &item) {
			at = fmt.Sprint(item.Item, " ", item.Member)
		}
		if !errors.Is(c.err, c.is) || !strings.HasPrefix(at, c.at) {
			t.Errorf("%s: %v names %q, want %q", name, c.err, at, c.at)
		}
	}
	list, _, err := s.Callbacks(ctx, nil, client.CallbackFilter{}, 10, "")
	if err != nil || len(list) != 1 || list[0].State != client.CallbackSending {
		t.Errorf("callbacks %+v, %v", list, err)
	}
	if list, _, err := s.Withdrawals(ctx, nil, client.WithdrawalFilter{}, 10, ""); err != nil || len(list) != 0 {
		t.Errorf("%d withdrawals are there, %v", len(list), err)
	}
	if list := must(s.Merchants(ctx, nil, "", 10))(t); len(list) != 1 {
		t.Errorf("%d merchants are there", len(list))
	}
	for _, id := range []string{"", "nobody", "a.b", "a\x00"} {
		dbtest.Fails(s.Merchant(ctx, id))(t, db.ErrNotFound, "")
	}
	for _, id := range []string{"", "m0", "m0.", "m0." + strings.Repeat("0", 26), "m0." + strings.Repeat("U", 26), "m0.\x00"} {
		dbtest.Fails(s.Callback(ctx, id))(t, db.ErrNotFound, "")
	}

	twice := must(s.Ingest(ctx, []NewCallback{fresh, fresh}, 5))(t)
	if twice[0].Duplicate || !twice[1].Duplicate || twice[0].ID != twice[1].ID {
		t.Errorf("the same twice in one batch gives %+v", twice)
	}
	long := deposit("m0", strings.Repeat("ü", 512), 1)
	long.TxID, long.Payload = strings.Repeat("x", 1024), bytes.Repeat([]byte{0, 255}, 32<<10)
	got := must(s.Ingest(ctx, []NewCallback{long}, 1))(t)
	if c := must(s.Callback(ctx, got[0].ID))(t); c.EventID != long.EventID || !bytes.Equal(c.Payload, long.Payload) {
		t.Error("long identifiers and payload came back changed")
	}
}
