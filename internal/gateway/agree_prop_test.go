package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/admin"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/lab/endtest"
	"countersign/internal/outbox"
	"countersign/internal/policy"
)

// caller is what both clients have.
type caller interface {
	Task(context.Context, string) (client.Task, error)
	Tasks(context.Context, client.TaskFilter, client.PageOptions) (client.List[client.Task], error)
	ApproveTask(ctx context.Context, id, reason string) (client.Task, error)
}

// agreeEnd is an end at which things wait for persons, as TestTasksAgreeWithTheRule needs it.
type agreeEnd struct {
	db      *db.DB
	clock   *clock
	changes *api.Changes
	asks    client.Role // of programs that ask for things
	table   string      // of these
	as      func(client.Secret) caller
	// add asks for a thing that waits, in the name of a token; small ones are below some thresholds.
	add func(t *rapid.T, by client.Secret, n int, small bool) (task, subject string)
	// threshold draws how many must agree from now on, to small things and to others.
	threshold func(t *rapid.T) (small, other int)
	// ask asks for what the approvals are for, in the name of who asked first: whether it is given.
	ask func(t *rapid.T, by client.Secret, x *thing) bool
}

// serviceEnd: withdrawals above approveAbove.
func serviceEnd(t *testing.T, url string) *agreeEnd {
	ctx := t.Context()
	d, err := db.Open(ctx, db.Config{URL: url, Keys: testKeys}, outbox.End())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	e := &agreeEnd{db: d, clock: newClock(), asks: client.RoleCore, table: "withdrawals"}
	store := outbox.New(d)
	if e.changes, err = api.NewChanges(api.ChangesConfig{DB: d, Now: e.clock.now}); err != nil {
		t.Fatal(err)
	}
	s, err := admin.New(admin.Config{Process: api.Process{Now: e.clock.now}, Outbox: store, Changes: e.changes, RatePerSecond: 1e9,
		CheckURL: func(string, bool) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(s.Stop)
	as := func(token client.Secret) *client.Service {
		c, err := client.NewService(client.Config{URL: server.URL, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	e.as = func(token client.Secret) caller { return as(token) }
	pem, err := testPair().PrivatePEM()
	if err != nil {
		t.Fatal(err)
	}
	_, err = as(e.keep(t, api.NewStoreToken("first", client.RoleAdmin, 1))).CreateMerchant(ctx, client.NewMerchant{ID: "acme", Key: &client.KeySpec{PrivateKey: client.Secret(pem)},
		MerchantSettings: client.MerchantSettings{Name: "a", NotifyURL: "https://a.example/n", WithdrawURL: "https://a.example/w"}, MerchantSecrets: client.MerchantSecrets{APIKey: "an-api-key-of-it"}})
	if err != nil {
		t.Fatal(err)
	}
	e.add = func(t *rapid.T, by client.Secret, n int, small bool) (string, string) {
		x := newOrder(n)
		x.Amount, err = countersign.ParseAmount(map[bool]string{true: "10", false: "1000"}[small])
		if err != nil {
			t.Fatal(err)
		}
		w, err := as(by).CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: "acme", CallBackID: x.CallBackID, TenantUserID: x.TenantUserID,
			Details: &client.Details{Address: x.Address, ChainName: x.ChainName, Symbol: x.Symbol, Amount: x.Amount}})
		if err != nil {
			t.Fatal(err)
		}
		e.exec(t, `UPDATE withdrawals SET state = 'confirmed', decided = $1, release_by = $2, confirmed_address = ordered_address, confirmed_chain = ordered_chain,
confirmed_symbol = ordered_symbol, confirmed_amount = ordered_amount WHERE state = 'awaiting'`, int64(e.now()), int64(db.Never))
		return client.TaskID(client.TaskRelease, w.Withdrawal.ID), "withdrawal " + w.Withdrawal.ID
	}
	e.threshold = func(t *rapid.T) (small, other int) {
		limit := rapid.SampledFrom([]string{"5", "50", "5000"}).Draw(t, "approveAbove")
		if err := store.Write(ctx, func(ctx context.Context, x *db.Tx) error {
			_, err := store.ChangeMerchant(ctx, x, "acme", e.now(), func(m *outbox.Merchant) error {
				a, err := countersign.ParseAmount(limit)
				m.ApproveAbove = client.AmountLimits{{Symbol: client.AnySymbol, Above: a}}
				return err
			})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		above := func(is bool) int { return map[bool]int{true: 1}[is] }
		return above(limit == "5"), above(limit != "5000")
	}
	e.ask = func(t *rapid.T, by client.Secret, x *thing) bool {
		_, err := as(by).ReleaseWithdrawal(ctx, strings.TrimPrefix(x.task, "release."), fmt.Sprint("claim ", x.n))
		if err != nil && !errors.Is(err, client.ErrConflict) {
			t.Fatal(err)
		}
		return err == nil
	}
	return e
}

// gatewayEnd: orders of which the policy wants some persons.
func gatewayEnd(t *testing.T, url string) *agreeEnd {
	rules := &wordPolicy{effect: policy.Ask}
	r := newRig(t, url, newService(t, countersigntest.ServiceConfig{}), func(c *Config) { rules.use(c) })
	api := r.client.url
	e := &agreeEnd{db: r.db, clock: r.clock, changes: r.api.changes, asks: client.RoleApp, table: "orders",
		as: func(token client.Secret) caller { return newUser(t, api, token) }}
	e.add = func(t *rapid.T, by client.Secret, n int, small bool) (string, string) {
		o := newOrder(n)
		if _, err := newUser(r.t, api, by).AddOrder(r.t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if code := r.deliver(countersigntest.Withdrawal(n)); code != countersign.CodeAwaitingApproval {
			t.Fatalf("errCode %d", code)
		}
		return client.TaskID(client.TaskOrder, o.CallBackID), "order " + o.CallBackID
	}
	e.threshold = func(t *rapid.T) (small, other int) {
		rules.approvals = rapid.IntRange(1, 3).Draw(t, "approvals")
		return rules.approvals, rules.approvals
	}
	e.ask = func(t *rapid.T, _ client.Secret, x *thing) bool {
		code := r.deliver(countersigntest.Withdrawal(x.n))
		if code != countersign.CodeAccepted && code != countersign.CodeAwaitingApproval {
			t.Fatalf("errCode %d", code)
		}
		return code == countersign.CodeAccepted
	}
	return e
}

func (e *agreeEnd) now() db.Millis { return db.MillisOf(e.clock.now()) }

func (e *agreeEnd) keep(t interface{ Fatal(...any) }, k api.Token) client.Secret {
	secret, hash := api.MintToken()
	if err := api.NewTokens(e.db).Create(context.Background(), k, hash); err != nil {
		t.Fatal(err)
	}
	return secret
}

func (e *agreeEnd) exec(t interface{ Fatal(...any) }, text string, args ...any) {
	err := e.db.Write(context.Background(), func(ctx context.Context, x *db.Tx) error {
		_, err := x.Exec(ctx, text, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// holder is a token of a run, and thing what waits, as the model sees them.
type (
	holder struct {
		api.Token
		with client.Secret
	}
	thing struct {
		n             int
		task, subject string
		by            int
		small, over   bool
		votes         []db.Vote
	}
	agreeRun struct {
		*agreeEnd
		people       []*holder
		things       []*thing
		small, other int // how many must agree
	}
)

// agreed judges the approvals of a thing by the rule, to which TestAgree of package api holds People.Agree. enough is
// also true where nobody has to agree.
func (r *agreeRun) agreed(x *thing) (a api.Agreed, enough bool) {
	var tokens []api.Token
	for _, p := range r.people {
		tokens = append(tokens, p.Token)
	}
	needed := r.other
	if x.small {
		needed = r.small
	}
	a = api.NewPeople(tokens).Agree(api.Asked{Needed: needed, By: []string{r.people[x.by].ID}, At: r.now()}, x.votes)
	return a, needed == 0 || a.Enough()
}

// look holds a thing and its task, as each sees it, and its alarm to the rule. It returns who is
// offered it.
func (r *agreeRun) look(t *rapid.T, x *thing, alarms []string) (offered []int) {
	ctx := context.Background()
	a, enough := r.agreed(x)
	open := !enough && !x.over
	if slices.Contains(alarms, x.subject) != (open && a.TellNow()) {
		t.Fatalf("%s: %s, nobody %q: the alarms are %q", x.task, a.Short(), a.Nobody(), alarms)
	}
	for who, p := range r.people {
		if p.Revoked != 0 || !slices.Contains(api.Approvers, p.Role) { // these are offered nothing
			continue
		}
		c := r.as(p.with)
		task, err := c.Task(ctx, x.task)
		if err != nil {
			t.Fatal(err)
		}
		if (task.State == client.TaskOpen) != open || open && (task.Missing != a.Missing() || task.Needs != a.Needed) || (task.Nobody != "") != (open && a.Nobody() != "") {
			t.Fatalf("%s, nobody %q; the task is %+v", a.Short(), a.Nobody(), task)
		}
		offer := slices.Contains(task.May, "approve")
		if offer != (open && slices.Contains(a.Could(), p.Name)) || offer != (task.MayNot == "") || open && offer != slices.Contains(task.Could, p.Name) {
			t.Fatalf("%s is offered: %v, and told %q; those who could are %q, and %q in %+v", p.Name, offer, task.MayNot, a.Could(), task.Could, task)
		}
		page, err := c.Tasks(ctx, client.TaskFilter{Awaits: "me"}, client.PageOptions{Limit: 1000})
		if err != nil || slices.ContainsFunc(page.Items, func(k client.Task) bool { return k.ID == x.task }) != offer {
			t.Fatalf("%s is offered: %v, and what awaits it is %+v, %v", p.Name, offer, page.Items, err)
		}
		if offer {
			offered = append(offered, who)
		}
	}
	return offered
}

func (r *agreeRun) approve(t *rapid.T, x *thing, who int, offered []int) {
	a, enough := r.agreed(x)
	p := r.people[who]
	task, err := r.as(p.with).ApproveTask(context.Background(), x.task, "")
	offer := slices.Contains(offered, who)
	switch {
	case err == nil && (enough || x.over): // one more is nothing or is kept
		x.votes = nil
		for _, v := range task.Votes {
			x.votes = append(x.votes, db.Vote{Token: v.Actor, At: r.now()})
		}
	case offer && err != nil:
		t.Fatalf("%s is offered: %v", p.Name, err)
	case !offer && err == nil && !a.Approved(p.ID):
		t.Fatalf("%s is not offered, and was taken: %+v", p.Name, task)
	case !offer && err != nil && !errors.Is(err, client.ErrForbidden) && !errors.Is(err, client.ErrConflict) && !errors.Is(err, client.ErrUnauthorized):
		t.Fatal(err)
	}
	if offer {
		x.votes = append(slices.DeleteFunc(x.votes, func(v db.Vote) bool { return v.Token == p.ID }), db.Vote{Token: p.ID, At: r.now()})
	}
}

// TestTasksAgreeWithTheRule: over random people, tokens, the tokens that made them, roles and
// thresholds that change in between, at both ends, what each is offered, what an approval does, what the
// task says, the alarm and what is confirmed or released agree with the rule after every step.
func TestTasksAgreeWithTheRule(t *testing.T) {
	kinds := map[string]func(*testing.T) *agreeEnd{}
	for _, d := range dialects {
		kinds["gateway/"+d.name] = func(t *testing.T) *agreeEnd { return gatewayEnd(t, d.url(t)) }
	}
	for name, url := range endtest.Kinds(outbox.End()) {
		kinds["service/"+name] = func(t *testing.T) *agreeEnd { return serviceEnd(t, url(t)) }
	}
	for name, make := range kinds {
		t.Run(name, func(t *testing.T) {
			e, n := make(t), 0
			rapid.Check(t, func(t *rapid.T) { e.run(t, &n) })
		})
	}
}

func (e *agreeEnd) run(t *rapid.T, n *int) {
	// It is alone: what another run left waits no more.
	e.exec(t, `DELETE FROM tokens`)
	e.exec(t, `DELETE FROM alarms`)
	e.exec(t, `UPDATE `+e.table+` SET state = CASE WHEN state IN ('confirmed', 'released') THEN 'executed' ELSE 'cancelled' END`)
	r := &agreeRun{agreeEnd: e}
	r.small, r.other = e.threshold(t)
	roles := []client.Role{client.RoleApprover, client.RoleApprover, client.RoleAdmin, e.asks}
	person := func() {
		*n++
		i := len(r.people)
		p := &holder{Token: api.NewStoreToken(fmt.Sprint("p", *n), rapid.SampledFrom(roles).Draw(t, "role"), e.now())}
		if i == 0 {
			p.Role = e.asks
		}
		if maker := rapid.IntRange(-1, i-1).Draw(t, "maker"); maker >= 0 {
			if p.Maker = r.people[maker].ID; rapid.Bool().Draw(t, "of its origin") {
				p.Root = r.people[maker].Root
			}
		}
		p.with = e.keep(t, p.Token)
		r.people = append(r.people, p)
	}
	some := func(list []*thing) *thing { return list[rapid.IntRange(0, len(list)-1).Draw(t, "thing")] }
	add := func() {
		var may []int
		for i, p := range r.people {
			if p.Revoked == 0 && (p.Role == e.asks || p.Role == client.RoleAdmin) {
				may = append(may, i)
			}
		}
		if len(may) == 0 {
			return
		}
		*n++
		x := &thing{n: *n, by: rapid.SampledFrom(may).Draw(t, "who asks"), small: rapid.Bool().Draw(t, "small")}
		x.task, x.subject = e.add(t, r.people[x.by].with, x.n, x.small)
		r.things = append(r.things, x)
	}
	looks := func() (offers map[*thing][]int) {
		e.clock.advance(time.Millisecond)
		if err := e.changes.TellOfWaiting(context.Background(), e.now()); err != nil {
			t.Fatal(err)
		}
		list, err := e.db.StandingAlarms(context.Background(), client.AlarmApprovalWaits)
		if err != nil {
			t.Fatal(err)
		}
		var alarms []string
		for _, a := range list {
			alarms = append(alarms, a.Subject)
		}
		offers = map[*thing][]int{}
		for _, x := range r.things {
			offers[x] = r.look(t, x, alarms)
		}
		return offers
	}
	ask := func(x *thing) {
		a, enough := r.agreed(x)
		given := e.ask(t, r.people[x.by].with, x)
		if !x.over && given != enough {
			t.Fatalf("%s: %s, and it is given: %v", x.task, a.Short(), given)
		}
		x.over = x.over || given
	}
	for range rapid.IntRange(2, 5).Draw(t, "people") {
		person()
	}
	add()
	for range rapid.IntRange(3, 10).Draw(t, "steps") {
		offers := looks()
		step := rapid.SampledFrom([]string{"approve", "approve", "approve", "approve", "token", "revoke", "role", "threshold", "thing", "ask"}).Draw(t, "step")
		switch step {
		case "approve":
			x := some(r.things)
			r.approve(t, x, rapid.IntRange(0, len(r.people)-1).Draw(t, "who"), offers[x])
		case "token":
			if len(r.people) < 7 {
				person()
			}
		case "revoke":
			p := rapid.SampledFrom(r.people).Draw(t, "whom")
			p.Revoked = e.now()
			e.exec(t, `UPDATE tokens SET revoked = $2 WHERE id = $1`, p.ID, int64(p.Revoked))
		case "role":
			p := rapid.SampledFrom(r.people).Draw(t, "whose")
			p.Role = client.RoleViewer
			e.exec(t, `UPDATE tokens SET role = 'viewer' WHERE id = $1`, p.ID)
		case "threshold":
			r.small, r.other = e.threshold(t)
		case "thing":
			if len(r.things) < 3 {
				add()
			}
		case "ask":
			if x := some(r.things); r.people[x.by].Revoked == 0 && r.people[x.by].Role != client.RoleViewer {
				ask(x)
			}
		}
	}
	// Those who are offered end it, whoever of them comes first.
	r.small, r.other = e.threshold(t)
	for range 5 {
		offers := looks()
		x := some(r.things)
		if len(offers[x]) > 0 {
			r.approve(t, x, rapid.SampledFrom(offers[x]).Draw(t, "who of those"), offers[x])
		}
	}
	r.small, r.other = e.threshold(t)
	for _, x := range r.things {
		if r.people[x.by].Revoked == 0 && r.people[x.by].Role != client.RoleViewer {
			ask(x)
		}
	}
	looks()
}
