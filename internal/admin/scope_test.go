package admin

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
)

// bound returns a client whose token is bound to merchants.
func (h *harness) bound(role client.Role, merchants string) *client.Service {
	h.t.Helper()
	return h.person(role, merchants).Service
}

// A bound token finds in the feed, in alarms and by a callBackId what is its merchants' and nothing else, page by
// page, and the feed keeps its numbers. TestAccess has the lists.
func TestBoundTokenReadsItsPart(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx, core := t.Context(), h.client(client.RoleCore)
		owners := []string{"a", "b", "c"}
		for _, m := range owners {
			h.merchant(m)
		}
		for i := range 9 {
			m := owners[i%3]
			addDeposit(h, newDeposit(m, i))
			w := must(core.CreateWithdrawal(ctx, newWithdrawal(m, i)))(t)
			h.decide(w.ID, countersign.DecisionConfirmed)
			ok(t, h.store.RaiseAlarm(ctx, client.Alarm{Merchant: m, Kind: client.AlarmWalletDiffers, Subject: w.ID, First: 1}))
			h.pass(time.Second)
		}
		some, other := h.bound(client.RoleViewer, "a c"), h.bound(client.RoleViewer, "none")
		// In parts of two: 1 3, 4 6, 7 9, and then nothing is left.
		var seqs []int64
		for after := int64(0); ; {
			p := must(some.Decisions(ctx, client.FeedOptions{After: after, Limit: 2}))(t)
			if after = p.Next; len(p.Items) == 0 {
				break
			}
			for _, d := range p.Items {
				seqs = append(seqs, d.Seq)
			}
		}
		if !slices.Equal(seqs, []int64{1, 3, 4, 6, 7, 9}) {
			t.Errorf("decisions %v", seqs)
		}
		if p, err := other.Decisions(ctx, client.FeedOptions{}); err != nil || len(p.Items) != 0 || p.Next != 9 {
			t.Errorf("of others: %+v, %v; want to read on after 9", p, err)
		}
		for _, c := range []struct {
			by   *client.Service
			f    client.AlarmFilter
			want []int64
		}{
			{some, client.AlarmFilter{}, []int64{9, 7, 6, 4, 3, 1}},
			{some, client.AlarmFilter{State: client.AlarmOpen, Merchant: "c"}, []int64{9, 6, 3}},
			{some, client.AlarmFilter{Merchant: "b"}, nil},
			{other, client.AlarmFilter{}, nil},
		} {
			var seqs []int64
			for _, a := range pages(t, func(o client.PageOptions) ([]client.Alarm, *string, error) {
				p, err := c.by.Alarms(ctx, c.f, o)
				return p.Items, p.Next, err
			}) {
				seqs = append(seqs, a.Seq)
			}
			if !slices.Equal(seqs, c.want) {
				t.Errorf("alarms of %+v: %v, want %v", c.f, seqs, c.want)
			}
		}
		if test, err := client.Post[client.AlarmTest](ctx, h.client(client.RoleOperator), "/v1/alarms/test", nil); err != nil || !test.Taken || test.Status != 204 {
			t.Errorf("a test of --alarm-url: %+v, %v", test, err)
		}
		bound := h.bound(client.RoleOperator, "a c")
		dbtest.Fails(some.AckAlarm(ctx, 1, client.Ack{}))(t, client.ErrForbidden, "")
		dbtest.Fails(bound.AckAlarm(ctx, 2, client.Ack{}))(t, client.ErrNotFound, "")
		if a, err := bound.AckAlarm(ctx, 1, client.Ack{}); err != nil || a.Acked == 0 {
			t.Errorf("%+v, %v", a, err)
		}
		// Of a callBackId that several merchants have, the token's are found without naming a merchant.
		first, again := newWithdrawal("a", 0).CallBackID, acceptWithdrawal(h, newWithdrawal("c", 0))
		for by, want := range map[*client.Service]int{some: 2, h.bound(client.RoleViewer, "b c"): 1, other: 0} {
			p, err := by.Withdrawals(ctx, client.WithdrawalFilter{CallBackID: first}, client.PageOptions{Limit: 2})
			if err != nil || len(p.Items) != want || p.Next != nil || want > 0 && !slices.ContainsFunc(p.Items, func(w client.Withdrawal) bool { return w.ID == again.ID }) {
				t.Errorf("%+v, %v; want %d", p, err, want)
			}
		}
	})
}

// Whoever is bound makes no token that is bound to more or to nothing, and an unknown
// merchant, a repeated one and a time that has passed are named.
func TestBadTokensAreNotMade(t *testing.T) {
	h := sqlite(t)
	ctx := t.Context()
	h.merchant("a")
	h.merchant("b")
	admin, bound := h.client(client.RoleAdmin), h.bound(client.RoleAdmin, "a")
	before := h.counts()
	soon := client.TimeOf(h.now().Add(30 * time.Second))
	for _, c := range []struct {
		by   *client.Service
		in   client.NewToken
		is   error
		says string
	}{
		{admin, client.NewToken{Name: "n", Role: "core", Merchants: []string{"a", "gone"}}, client.ErrInvalid, "body.merchants[1] is not known"},
		{admin, client.NewToken{Name: "n", Role: "core", Merchants: []string{"a", "a"}}, client.ErrInvalid, "body.merchants[1] occurs twice"},
		{admin, client.NewToken{Name: "n", Role: "core", Expires: soon}, client.ErrInvalid, "body.expires is not at least a minute from now"},
		{admin, client.NewToken{Name: "n", Role: "app"}, client.ErrInvalid, "body.role"},
		{admin, client.NewToken{Name: "bob", Role: "approver", Merchants: []string{"a"}}, client.ErrInvalid, "body.merchants binds the first approver"},
		{bound, client.NewToken{Name: "n", Role: "core"}, client.ErrForbidden, "for these only"},
		{bound, client.NewToken{Name: "n", Role: "core", Merchants: []string{"a", "b"}}, client.ErrForbidden, "for these only"},
	} {
		dbtest.Fails(c.by.CreateToken(ctx, c.in))(t, c.is, c.says)
	}
	if after := h.counts(); after != before {
		t.Errorf("%+v, was %+v", after, before)
	}
	made := must(bound.CreateToken(ctx, client.NewToken{Name: "n", Role: "core", Merchants: []string{"a"}, Expires: client.TimeOf(h.now().Add(time.Hour))}))(t)
	list, err := client.Get[client.List[client.Token]](ctx, bound, "/v1/tokens")
	if err != nil || len(list.Items) != 2 || list.Items[1].ID != made.ID && list.Items[0].ID != made.ID {
		t.Errorf("it lists %+v, %v", list.Items, err)
	}
	h.pass(59 * time.Minute)
	if a := h.as(made.Secret.Reveal(), get, "/v1/withdrawals", "", nil); a.Status != 200 {
		t.Errorf("before its end: %d", a.Status)
	}
	h.pass(time.Minute)
	if a := h.as(made.Secret.Reveal(), get, "/v1/withdrawals", "", nil); a.Status != 401 || a.Problem().Detail != "the token has expired" {
		t.Errorf("at its end, from the cache: %d %s", a.Status, a.Body)
	}
}

// TestPathsTakeMerchantAndName: a path takes MERCHANT/CALLBACKID, with an escaped slash, where it
// takes the id; to a token of another merchant there is nothing of that name.
func TestPathsTakeMerchantAndName(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx, admin := t.Context(), h.client(client.RoleAdmin)
		h.merchant("a")
		h.merchant("b")
		made := must(admin.CreateWithdrawal(ctx, newWithdrawal("a", 1)))(t)
		addDeposit(h, newDeposit("a", 1))
		deposit := newDeposit("a", 1).TrackingID
		both := newDeposit("a", 2)
		both.TrackingID = made.TrackingID
		name := "a/" + made.CallBackID
		for _, c := range []struct {
			what string
			id   func(by *client.Service) (string, error)
			want string
		}{
			{"withdrawal", func(by *client.Service) (string, error) { w, err := by.Withdrawal(ctx, name); return w.ID, err }, made.ID},
			{"callback", func(by *client.Service) (string, error) { cb, err := by.Callback(ctx, name); return cb.ID, err }, made.ID},
			{"deposit", func(by *client.Service) (string, error) {
				cb, err := by.Callback(ctx, "a/"+deposit)
				return cb.TrackingID, err
			}, deposit},
			{"task", func(by *client.Service) (string, error) {
				task, err := by.Task(ctx, "release."+name)
				return task.About, err
			}, made.ID},
		} {
			for _, by := range []*client.Service{admin, h.bound(client.RoleAdmin, "a b")} {
				if id, err := c.id(by); err != nil || id != c.want {
					t.Errorf("%s of %s: %q, %v; want %q", c.what, name, id, err, c.want)
				}
			}
			if id, err := c.id(h.bound(client.RoleAdmin, "b")); !errors.Is(err, client.ErrNotFound) {
				t.Errorf("%s of %s, for b: %q, %v; want that there is none", c.what, name, id, err)
			}
		}
		for _, other := range []string{"a/none", "b/" + made.CallBackID, "none/" + made.CallBackID, "/" + made.CallBackID, "a/", "a.b/" + made.CallBackID, "a/\x00"} {
			if w, err := admin.CancelWithdrawal(ctx, other); !errors.Is(err, client.ErrNotFound) {
				t.Errorf("%q: %+v, %v; want that there is none", other, w, err)
			}
		}
		addDeposit(h, both)
		if _, err := admin.Callback(ctx, name); err == nil || !strings.Contains(err.Error(), "names several callbacks") {
			t.Errorf("a name of two callbacks: %v", err)
		}
		if w, err := admin.CancelWithdrawal(ctx, name); err != nil || w.ID != made.ID || w.State != client.WithdrawalCancelled {
			t.Errorf("cancelling %s: %+v, %v", name, w, err)
		}
	})
}

// TestMerchantsOwnToken: a merchant with a token of its own sends itself a test deposit, sees what
// became of it, and has it sent again. What it sends cannot be taken for money, and no other
// merchant gets any of it.
func TestMerchantsOwnToken(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx, admin := t.Context(), h.client(client.RoleAdmin)
		h.merchant("mine")
		h.merchant("theirs")
		var p *client.Problem
		if _, err := admin.CreateToken(ctx, client.NewToken{Name: "all", Role: client.RoleMerchant}); !errors.As(err, &p) || len(p.Faults) != 1 || p.Faults[0].Location != "body.merchants" {
			t.Errorf("a merchant's token for all merchants: %v", err)
		}
		made := must(admin.CreateToken(ctx, client.NewToken{Name: "mine", Role: client.RoleMerchant, Merchants: []string{"mine"}}))(t)
		own := must(client.NewService(client.Config{URL: h.url, Token: made.Secret}))(t)
		sent := must(client.Post[client.Accepted](ctx, own, client.Path("merchants", "mine", "test"), nil))(t)
		cb, err := own.Callback(ctx, sent.ID)
		if err != nil || cb.Merchant != "mine" || cb.State != client.CallbackPending {
			t.Fatalf("%+v, %v", cb, err)
		}
		for _, member := range []string{`"amount":"0"`, `"symbol":"TEST"`, `"chainName":"TEST"`, `"tenantUserId":"test"`, `"toAddress":"test"`, `"txId":"test-`, `"trackingId":"test-`} {
			if !strings.Contains(string(cb.Payload), member) {
				t.Errorf("%s has no %s", cb.Payload, member)
			}
		}
		if again, err := client.Post[client.Accepted](ctx, own, client.Path("merchants", "mine", "test"), nil); err != nil || again.ID == sent.ID || again.Duplicate {
			t.Errorf("the second: %+v, %v", again, err)
		}
		if _, err := own.ResendCallback(ctx, sent.ID, client.ResendOne{}); err != nil {
			t.Error(err)
		}
		addDeposit(h, newDeposit("theirs", 1))
		theirs, err := admin.Callbacks(ctx, client.CallbackFilter{Merchant: "theirs"}, client.PageOptions{})
		if err != nil || len(theirs.Items) != 1 {
			t.Fatal(theirs, err)
		}
		dbtest.Fails(client.Post[client.Accepted](ctx, own, client.Path("merchants", "theirs", "test"), nil))(t, client.ErrNotFound)
		dbtest.Fails(own.Callback(ctx, theirs.Items[0].ID))(t, client.ErrNotFound)
		dbtest.Fails(own.ResendCallback(ctx, theirs.Items[0].ID, client.ResendOne{}))(t, client.ErrNotFound)
		for i := 2; ; i++ {
			_, err := client.Post[client.Accepted](ctx, own, client.Path("merchants", "mine", "test"), nil)
			if err == nil && i < testsAnHour {
				h.pass(time.Millisecond)
				continue
			}
			if i != testsAnHour || !errors.As(err, &p) || p.Status != 429 {
				t.Errorf("test deposit %d of an hour: %v", i+1, err)
			}
			break
		}
	})
}

// TestDepositsPerHour: whoever steals such a token invents that many deposits an hour and no more; an array is taken
// whole or not at all.
func TestDepositsPerHour(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme")
	ctx, admin := t.Context(), h.client(client.RoleAdmin)
	for _, role := range []client.Role{client.RoleCore, client.RoleAdmin} {
		dbtest.Fails(admin.CreateToken(ctx, client.NewToken{Name: "x", Role: role, Hourly: 1}))(t, client.ErrInvalid, "")
	}
	made := must(admin.CreateToken(ctx, client.NewToken{Name: "ingest", Role: client.RoleIngest, Hourly: 4}))(t)
	if list, err := client.Get[client.List[client.Token]](ctx, admin, "/v1/tokens"); err != nil || made.Hourly != 4 || list.Items[len(list.Items)-1].Hourly != 4 {
		t.Errorf("%+v, %+v, %v", made, list, err)
	}
	send := func(want int, ns ...int) endtest.Answer {
		t.Helper()
		var list []client.NewDeposit
		for _, n := range ns {
			list = append(list, newDeposit("acme", n))
		}
		a := h.as(made.Secret.Reveal(), post, "/v1/deposits", api.TypeJSON, list)
		if a.Status != want {
			t.Fatalf("deposits %v: %d %s, want %d", ns, a.Status, a.Body, want)
		}
		return a
	}
	send(202, 0, 1)
	a, end := send(429, 2, 3, 4), h.now().UTC().Truncate(time.Hour).Add(time.Hour)
	if says := "2 are left until " + end.Format(time.RFC3339); !strings.Contains(a.Body, says) || a.Header.Get("Retry-After") == "" {
		t.Errorf("%v %s, want %q", a.Header, a.Body, says)
	}
	send(202, 1, 2, 3) // one of them is there already
	send(429, 9)
	h.pass(end.Sub(h.now()))
	send(202, 9)
}
