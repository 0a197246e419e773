package admin

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// person is somebody with a token of the service.
type person struct {
	*client.Service
	id, secret string
}

// person makes somebody with a token that no other made.
func (h *harness) person(role client.Role, merchants string) person {
	h.t.Helper()
	k := api.NewStoreToken("a person", role, 1)
	k.Merchants = merchants
	return h.holder(k.ID, h.keep(k))
}

func (h *harness) holder(id, secret string) person {
	h.t.Helper()
	c := must(client.NewService(client.Config{URL: h.url, Token: client.Secret(secret)}))(h.t)
	return person{c, id, secret}
}

var ok = dbtest.OK

func must[T any](v T, err error) func(dbtest.Failer) T { return dbtest.Must(v, err) }

// What could move money waits for another person, who sees what it was and would be, and
// no secret. What could not changes at once.
func TestChangeWaitsForAnApprover(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		h.merchant("acme")
		alice, bob, eyes := h.person(client.RoleOperator, ""), h.person(client.RoleApprover, ""), h.client(client.RoleViewer)
		const fresh = "the-new-callback-key-of-acme"
		secrets.add("callbackApiKey", fresh)
		m := must(alice.UpdateMerchant(ctx, "acme", client.MerchantPatch{MerchantSettings: client.MerchantSettings{WithdrawURL: "https://other.example/w", Name: "Acme"}, MerchantSecrets: client.MerchantSecrets{CallbackAPIKey: client.Secret(fresh)}}))(t)
		if m.Task == "" {
			t.Fatalf("%+v", m)
		}
		if kept := must(h.store.Merchant(ctx, "acme"))(t); kept.Version != 1 || kept.Name != "Merchant acme" || kept.CallbackAPIKey.Reveal() == fresh {
			t.Errorf("it has changed already: %+v", kept)
		}
		c := must(changeOf(eyes, ctx, m.Task))(t)
		if c.State != client.TaskOpen || c.ProposedBy != alice.id || c.Decided != 0 {
			t.Errorf("%+v", c)
		}
		if members := slices.Sorted(maps.Keys(c.After)); !slices.Equal(members, []string{"callbackApiKey", "name", "withdrawUrl"}) || c.Before["withdrawUrl"] != "https://acme.example/withdraw" ||
			c.After["withdrawUrl"] != "https://other.example/w" || len(c.After["callbackApiKey"]) != 16 || c.After["callbackApiKey"] == c.Before["callbackApiKey"] {
			t.Errorf("before %v, after %v", c.Before, c.After)
		}

		if s := must(bob.Task(ctx, c.ID))(t); s.MayNot != "" {
			t.Errorf("an approver is told %q", s.MayNot)
		}
		dbtest.Fails(h.client(client.RoleOperator).ApproveTask(ctx, c.ID, ""))(t, client.ErrForbidden, "this needs approver or admin")
		dbtest.Fails(bob.ApproveTask(ctx, "change.chg_none", ""))(t, client.ErrNotFound, "there is no such task")
		applied := must(bob.ApproveTask(ctx, c.ID, ""))(t)
		if applied.State != client.TaskDone || len(applied.Votes) != 1 || applied.Votes[0].Actor != bob.id || applied.Decided.Time() != h.now().UTC() {
			t.Errorf("%+v", applied)
		}
		if kept := must(h.store.Merchant(ctx, "acme"))(t); kept.Version != 2 || kept.Name != "Acme" || kept.WithdrawURL != "https://other.example/w" || kept.CallbackAPIKey.Reveal() != fresh {
			t.Errorf("it has not changed: %+v", kept)
		}
		if s := must(bob.Task(ctx, c.ID))(t); s.MayNot != "it is done" {
			t.Errorf("of an applied change it is told %q", s.MayNot)
		}
		dbtest.Fails(bob.ApproveTask(ctx, c.ID, ""))(t, client.ErrConflict, "the change is done")
		dbtest.Fails(bob.DeclineTask(ctx, c.ID, "too late"))(t, client.ErrConflict, "the change is done")
		told := must(eyes.Alarms(ctx, client.AlarmFilter{}, client.PageOptions{}))(t).Items
		if len(told) != 1 || told[0].Kind != "control_changed" || told[0].Merchant != "acme" || told[0].Subject != c.About+" callbackApiKey,name,withdrawUrl" || told[0].Text == "" {
			t.Errorf("alarms %+v", told)
		}

		// At once: nothing guarded, and what changes nothing.
		m = must(alice.UpdateMerchant(ctx, "acme", client.MerchantPatch{MerchantSettings: client.MerchantSettings{Concurrency: 3, WithdrawURL: "https://other.example/w"}}))(t)
		if m.Task != "" || m.Concurrency != 3 || m.Version != 3 {
			t.Errorf("%+v", m)
		}
		// A wrong proposal is named to the one who proposes it.
		dbtest.Fails(alice.UpdateMerchant(ctx, "acme", client.MerchantPatch{MerchantSettings: client.MerchantSettings{NotifyURL: "https://other.example/w"}}))(t, client.ErrInvalid, "body.withdrawUrl")

		// An admin's own is refused too, and another's is not.
		admin := h.person(client.RoleAdmin, "")
		m = must(admin.UpdateMerchant(ctx, "acme", client.MerchantPatch{MerchantSettings: client.MerchantSettings{Collect: client.CollectAny}}))(t)
		if s := must(admin.Task(ctx, m.Task))(t); !strings.HasPrefix(s.MayNot, "it asked for this itself") {
			t.Errorf("of its own change it is told %q", s.MayNot)
		}
		dbtest.Fails(admin.ApproveTask(ctx, m.Task, ""))(t, client.ErrForbidden, "it asked for this itself")
		many := client.DecideTasks{IDs: []string{m.Task, "change.chg_none"}, Reason: "no", DryRun: true}
		if d := must(bob.DecideMany(ctx, "decline", many))(t); d.Done != 1 || len(d.Tasks) != 2 || must(eyes.Task(ctx, m.Task))(t).State != client.TaskOpen {
			t.Errorf("a dry run of declining: %+v", d)
		}
		many.DryRun, many.Reason = false, "collect stays bound"
		if d := must(bob.DecideMany(ctx, "decline", many))(t); d.Done != 1 || d.Tasks[1].Why == "" {
			t.Errorf("declining two, one of them unknown: %+v", d)
		}
		if r := must(eyes.Task(ctx, m.Task))(t); r.State != client.TaskDeclined || r.Why != "collect stays bound" {
			t.Errorf("%+v", r)
		}
		m = must(alice.UpdateMerchant(ctx, "acme", client.MerchantPatch{MerchantSettings: client.MerchantSettings{WithdrawURL: "https://third.example/w"}}))(t)
		third := m.Task
		if d := must(bob.DecideMany(ctx, "approve", client.DecideTasks{IDs: []string{third, c.ID}}))(t); d.Done != 1 || d.DryRun || must(eyes.Task(ctx, third))(t).State != client.TaskDone {
			t.Errorf("two at once, one of them applied before: %+v", d)
		}
		if list := changesIn(t, eyes, client.TaskDone); len(list) != 2 || !slices.ContainsFunc(list, func(x client.Task) bool { return x.Merchant == "acme" && x.ID == c.ID }) {
			t.Errorf("listed %+v", list)
		}
	})
}

// Without an approver a change is made at once, and told all the same.
func TestChangeWithoutAnApprover(t *testing.T) {
	h := sqlite(t)
	ctx := t.Context()
	h.merchant("acme")
	alice := h.person(client.RoleOperator, "")
	if m := must(alice.UpdateMerchant(ctx, "acme", client.MerchantPatch{MerchantSettings: client.MerchantSettings{WithdrawURL: "https://other.example/w"}}))(t); m.Task != "" || m.Version != 2 || m.WithdrawURL != "https://other.example/w" {
		t.Errorf("%+v", m)
	}
	list := changesIn(t, alice, client.TaskDone)
	if len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	if c := must(changeOf(alice, ctx, list[0].ID))(t); c.State != client.TaskDone || len(c.Votes) != 0 || c.ProposedBy != alice.id {
		t.Errorf("%+v", c)
	}
	if told := must(alice.Alarms(ctx, client.AlarmFilter{}, client.PageOptions{}))(t).Items; len(told) != 1 || told[0].Kind != "control_changed" {
		t.Errorf("alarms %+v", told)
	}
	dbtest.Fails(alice.CreateToken(ctx, client.NewToken{Name: "mine", Role: client.RoleAdmin}))(t, client.ErrForbidden, "as long as there is no approver, only an admin's token can make tokens")
	if may := must(alice.Self(ctx))(t).May; slices.Contains(may, "createToken") || !slices.Contains(may, "revokeToken") {
		t.Errorf("it is told that it may %v", may)
	}
	h.person(client.RoleApprover, "")
	if may := must(alice.Self(ctx))(t).May; !slices.Contains(may, "createToken") {
		t.Errorf("it is told that it may %v", may)
	}
}

// What would change something that was changed since is stale, and so is what was
// proposed by a token that was revoked. Nothing is left of the secrets of a change that
// is final.
func TestStaleChanges(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		h.merchant("acme")
		alice, mallory, bob, admin := h.person(client.RoleOperator, ""), h.person(client.RoleOperator, ""), h.person(client.RoleApprover, ""), h.client(client.RoleAdmin)
		propose := func(p person, url string) string {
			t.Helper()
			return must(p.UpdateMerchant(ctx, "acme", client.MerchantPatch{MerchantSettings: client.MerchantSettings{WithdrawURL: url}}))(t).Task
		}
		first, second := propose(alice, "https://one.example/w"), propose(alice, "https://two.example/w")
		h.wantToldOf(time.Hour - time.Millisecond)
		h.wantToldOf(time.Hour, strings.Replace(first, ".", " ", 1), strings.Replace(second, ".", " ", 1))
		must(bob.ApproveTask(ctx, first, ""))(t)
		h.wantToldOf(time.Hour) // the other is stale
		why := "change " + strings.TrimPrefix(first, "change.") + " was applied after this was proposed"
		for _, p := range []person{alice, bob} {
			if c := must(p.Task(ctx, second))(t); c.State != client.TaskStale || !strings.HasPrefix(c.Why, why) {
				t.Errorf("%+v", c)
			}
		}
		if s := must(bob.Task(ctx, second))(t); !strings.HasPrefix(s.MayNot, why) || !slices.Equal(s.May, []string{"decline"}) {
			t.Errorf("of a stale change an approver is told %q, and may %q", s.MayNot, s.May)
		}
		dbtest.Fails(bob.ApproveTask(ctx, second, ""))(t, client.ErrConflict, "the change is stale: "+why)
		if c := must(bob.Task(ctx, second))(t); c.State != client.TaskStale || c.Decided == 0 || !strings.HasPrefix(c.Why, why) {
			t.Errorf("%+v", c)
		}
		dbtest.Fails(bob.ApproveTask(ctx, second, ""))(t, client.ErrConflict, "the change is stale")
		if m := must(bob.Merchant(ctx, "acme"))(t); m.WithdrawURL != "https://one.example/w" {
			t.Errorf("%+v", m)
		}
		named := propose(alice, "https://named.example/w")
		if c := must(bob.Task(ctx, named))(t); c.State != client.TaskOpen {
			t.Errorf("%+v", c)
		}
		must(alice.UpdateMerchant(ctx, "acme", client.MerchantPatch{MerchantSettings: client.MerchantSettings{Name: "Acme"}}))(t)
		if c := must(bob.Task(ctx, named))(t); !strings.HasPrefix(c.Why, "it was changed after this was proposed") {
			t.Errorf("%+v", c)
		}
		must(bob.DeclineTask(ctx, named, ""))(t)
		third := propose(mallory, "https://three.example/w")
		if is := must(admin.RevokeToken(ctx, mallory.id))(t); is.Task != "" || is.Revoked == 0 {
			t.Errorf("the end of an operator's token waits: %+v", is)
		}
		dbtest.Fails(bob.ApproveTask(ctx, third, ""))(t, client.ErrConflict, "the token that proposed it was revoked")
		fourth := propose(alice, "https://four.example/w")
		must(alice.DeclineTask(ctx, fourth, ""))(t)
		must(bob.ApproveTask(ctx, propose(alice, "https://five.example/w"), ""))(t)
		for _, task := range changesIn(t, bob, client.Values[client.TaskState]()...) {
			var kept int
			_, err := db.One(ctx, h.store, `SELECT length(content) + length(data_key) FROM changes WHERE id = $1`, []any{task.About}, &kept)
			if waits := task.State == client.TaskOpen; err != nil || (kept > 0) != waits {
				t.Errorf("%s is %s and has %d sealed bytes, %v", task.ID, task.State, kept, err)
			}
		}
	})
}

// Tokens are changes too. A token that was made where an approver existed has the origin
// of the one who proposed it, and does not approve what that one proposes.
func TestTokensAreChanges(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		h.merchant("acme")
		admin, alice := h.person(client.RoleAdmin, ""), h.person(client.RoleOperator, "")
		first := must(admin.CreateToken(ctx, client.NewToken{Name: "bob", Role: client.RoleApprover}))(t)
		if first.Task != "" {
			t.Fatalf("the first approver waits: %+v", first.Task)
		}
		bob := h.holder(first.ID, first.Secret.Reveal())
		make := func(by person, role client.Role, merchants ...string) (person, string) {
			t.Helper()
			made := must(by.CreateToken(ctx, client.NewToken{Name: "made", Role: role, Merchants: merchants}))(t)
			c := must(changeOf(by, ctx, made.Task))(t)
			if c.After["role"] != string(role) {
				t.Fatalf("%+v", c)
			}
			p := h.holder(c.After["token"], made.Secret.Reveal())
			dbtest.Fails(p.Self(ctx))(t, client.ErrUnauthorized, "")
			return p, made.Task
		}
		carol, change := make(alice, client.RoleApprover)
		must(bob.ApproveTask(ctx, change, ""))(t)
		if self := must(carol.Self(ctx))(t); self.Role != client.RoleApprover || self.MadeBy != alice.id {
			t.Errorf("%+v", self)
		}
		dave, change := make(alice, client.RoleOperator)
		must(bob.ApproveTask(ctx, change, ""))(t)
		erin, change := make(dave, client.RoleApprover)
		must(bob.ApproveTask(ctx, change, ""))(t)
		url := func(by person) string {
			t.Helper()
			return must(by.UpdateMerchant(ctx, "acme", client.MerchantPatch{MerchantSettings: client.MerchantSettings{WithdrawURL: "https://x.example/" + api.RandomText(6)}}))(t).Task
		}
		for name, c := range map[string]struct{ proposer, approver person }{
			"made": {alice, carol}, "made by what was made": {alice, erin}, "siblings": {dave, carol}, "child": {dave, erin},
		} {
			_, err := c.approver.ApproveTask(ctx, url(c.proposer), "")
			if !errors.Is(err, client.ErrForbidden) || !strings.Contains(err.Error(), "have the same origin") {
				t.Errorf("%s: %v", name, err)
			}
		}
		must(carol.ApproveTask(ctx, url(admin), ""))(t)
		must(bob.ApproveTask(ctx, url(dave), ""))(t)

		// Approvers' tokens end by an approval; others at once.
		waits := must(admin.RevokeToken(ctx, carol.id))(t).Task
		if c := must(changeOf(admin, ctx, waits))(t); c.Title != "end of token made, role approver" || c.Before["role"] != "approver" {
			t.Fatalf("%+v", c)
		}
		if _, err := carol.Self(ctx); err != nil {
			t.Errorf("it has ended already: %v", err)
		}
		dbtest.Fails(admin.ApproveTask(ctx, waits, ""))(t, client.ErrForbidden, "it asked for this itself")
		must(bob.ApproveTask(ctx, waits, ""))(t)
		dbtest.Fails(carol.Self(ctx))(t, client.ErrUnauthorized, "")
		must(dave.Self(ctx))(t) // it is in the cache then
		if is := must(alice.RevokeToken(ctx, dave.id))(t); is.Task != "" || is.Revoked == 0 {
			t.Errorf("%+v", is)
		}
		dbtest.Fails(dave.Self(ctx))(t, client.ErrUnauthorized, "")
		dbtest.Fails(alice.RevokeToken(ctx, admin.id))(t, client.ErrForbidden, "only an admin's token can revoke an admin's token")

		// A bound approver decides on its merchants and on no other.
		h.merchant("other")
		frank, change := make(admin, client.RoleApprover, "other")
		must(bob.ApproveTask(ctx, change, ""))(t)
		dbtest.Fails(frank.ApproveTask(ctx, url(alice), ""))(t, client.ErrNotFound, "")
		if list := changesIn(t, frank, client.Values[client.TaskState]()...); len(list) != 0 {
			t.Errorf("it sees %+v", list)
		}
		// The last that is for all stays while one is bound.
		must(erin.ApproveTask(ctx, must(admin.RevokeToken(ctx, bob.id))(t).Task, ""))(t)
		dbtest.Fails(erin.ApproveTask(ctx, must(admin.RevokeToken(ctx, erin.id))(t).Task, ""))(t, client.ErrConflict, "revoke those that are bound first")
	})
}

func releaseTask(id string) string { return client.TaskID(client.TaskRelease, id) }

// changed is what a change would do, member by member, and who proposed it.
type changed struct {
	client.Task
	Before, After map[string]string
	ProposedBy    string
}

// changeOf returns the change that a task is about.
func changeOf(c interface {
	Task(context.Context, string) (client.Task, error)
}, ctx context.Context, id string) (changed, error) {
	task, err := c.Task(ctx, id)
	out := changed{task, map[string]string{}, map[string]string{}, ""}
	for _, m := range task.Content {
		if m.Name == "proposed by" {
			out.ProposedBy = m.Value
			continue
		}
		out.After[m.Name], out.Before[m.Name] = m.Value, m.Beside
	}
	return out, err
}

// changesIn returns the changes in some states that a person sees.
func changesIn(t *testing.T, p interface {
	Tasks(context.Context, client.TaskFilter, client.PageOptions) (client.List[client.Task], error)
}, states ...client.TaskState) (list []client.Task) {
	t.Helper()
	for _, s := range states {
		for task, err := range client.All(t.Context(), p.Tasks, client.TaskFilter{Kind: client.TaskChange, State: s}) {
			ok(t, err)
			list = append(list, task)
		}
	}
	return list
}
