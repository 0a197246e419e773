package gateway

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/db"
	"countersign/merchant"
)

// splice joins the first blocks of head to the others of tail.
func (r *rig) splice(head, tail []byte, blocks int) []byte {
	r.t.Helper()
	return must(countersigntest.Splice(head, tail, blocks, testPair().Size()))(r.t)
}

func (r *rig) body(cb countersign.Callback) []byte {
	r.t.Helper()
	body, _, err := r.service.Body(cb)
	ok(r.t, err)
	return body
}

// posted returns the errCode of the response to body.
func (r *rig) posted(path string, body []byte) countersign.ErrCode {
	r.t.Helper()
	resp := must(countersign.ParseResponse(r.service.Post(r.t.Context(), r.to, path, body).Raw))(r.t)
	return resp.ErrCode
}

// posts posts body and wants an errCode.
func (r *rig) posts(path string, body []byte, want countersign.ErrCode) {
	r.t.Helper()
	if got := r.posted(path, body); got != want {
		r.t.Errorf("errCode %d, want %d\n%s", got, want, r.log)
	}
}

// records is how many records of a kind the log has.
func (r *rig) records(kind string) int {
	r.t.Helper()
	list := must(r.client.Audit(r.t.Context(), client.FeedOptions{Limit: 1000}))(r.t)
	return strings.Count(string(asJSON(r.t.(*testing.T), list)), kind)
}

// TestRepeatedQuestion: one recorded question costs one record of each answer, however often it
// comes, from any process.
func TestRepeatedQuestion(t *testing.T) {
	eachRig(t, nil, func(t *testing.T, r *rig) {
		r.order(1)
		question := r.body(countersigntest.Withdrawal(1))
		for range 50 {
			r.posts(merchant.DefaultWithdrawPath, question, countersign.CodeAccepted)
		}
		again := newRigOn(t, r.db, r.service, nil)
		for range 5 {
			again.posted(merchant.DefaultWithdrawPath, question)
		}
		if n := r.records("withdrawal.answered"); n != 1 {
			t.Errorf("the log has %d records of it", n)
		}
		r.confirmed(1) // another question
		if n := r.records("withdrawal.answered"); n != 2 {
			t.Errorf("the log has %d records of two questions", n)
		}
	})
}

// TestJoinsOfRefused: a request that is joined from refused ones is not taken once the setting is right, and what it is
// joined from is; "retry all" books the honest ones and nothing else. TestFloods and TestRefusedBounds of package book
// have how many are kept.
func TestJoinsOfRefused(t *testing.T) {
	service := newService(t, countersigntest.ServiceConfig{Unbound: true})
	strict := newRig(t, dialects[0].url(t), service, func(c *Config) { c.Callbacks.Profile.Binding = merchant.BindingRequired })
	const honest = 8
	var bodies, joins [][]byte
	right := map[string]string{}
	for n := range honest {
		deposit := countersigntest.Deposit(n + 1)
		right[deposit.TrackingID] = deposit.Amount.String()
		bodies = append(bodies, strict.body(deposit))
		strict.posted(merchant.DefaultNotifyPath, bodies[n])
	}
	for n := range 5 * honest {
		joins = append(joins, strict.splice(bodies[n%honest], bodies[(n+1+n/honest)%honest], 2))
		strict.posted(merchant.DefaultNotifyPath, joins[n])
	}
	lax := newRigOn(t, strict.db, service, nil)
	if code := lax.posted(merchant.DefaultNotifyPath, joins[0]); code == countersign.CodeAccepted {
		t.Error("a join of two refused deposits was taken")
	}
	lax.posts(merchant.DefaultNotifyPath, bodies[0], countersign.CodeAccepted)
	refused := lax.client.open(t, client.TaskRefused)
	slices.Reverse(refused) // the first that came first
	for len(refused) > 0 {
		got := must(lax.client.DecideMany(t.Context(), "approve", client.DecideTasks{IDs: refused}))(t)
		refused = nil
		for _, x := range got.Tasks {
			if strings.Contains(x.Why, "in time") { // it says so: repeat the call
				refused = append(refused, x.ID)
			}
		}
	}
	taken := 0
	for _, x := range lax.allDeposits() {
		if x.State != client.DepositTaken {
			continue
		}
		taken++
		if right[x.TrackingID] != x.Amount.String() {
			t.Errorf("%s is booked with %s, want %s", x.TrackingID, x.Amount, right[x.TrackingID])
		}
	}
	if taken != honest {
		t.Errorf("%d of %d are booked", taken, honest)
	}
}

// TestForgerPoisonsNothing: a join that came, and was refused, before what it was joined from costs
// the honest deposit nothing but a person's look.
func TestForgerPoisonsNothing(t *testing.T) {
	eachUnbound(t, func(c *Config) { c.Callbacks.Profile.Binding = merchant.BindingRequired }, func(t *testing.T, strict *rig) {
		a, b := strict.body(countersigntest.Deposit(1)), strict.body(countersigntest.Deposit(2))
		strict.posted(merchant.DefaultNotifyPath, strict.splice(a, b, 2))
		strict.posted(merchant.DefaultNotifyPath, strict.splice(b, a, 2))
		r := newRigOn(t, strict.db, strict.service, nil)
		r.posted(merchant.DefaultNotifyPath, a) // of the same blocks as both joins
		for _, x := range all(t, client.All(t.Context(), r.client.Refused, client.RefusedFilter{Reason: "spliced"})) {
			if got, err := r.client.RetryRefused(t.Context(), x.ID, "looked at"); err != nil || got.State != client.RefusedTaken {
				t.Errorf("%+v, %v", got, err)
			}
		}
		held := r.allDeposits()
		if len(held) != 1 || held[0].State != client.DepositHeld || held[0].Amount.String() != countersigntest.Deposit(1).Amount.String() {
			t.Fatalf("%+v", held)
		}
		r.answers(countersigntest.Deposit(2), countersign.CodeAccepted)
	})
}

// TestHeldIsAskedAgain: a provider that takes "ask again" for a refusal does not come again. What
// the check held is kept, asked about again, and booked on yes; at the end there is an alarm.
func TestHeldIsAskedAgain(t *testing.T) {
	for _, d := range dialects {
		for _, answer := range []string{"yes", "no", "not_yet"} {
			t.Run(d.name+" "+answer, func(t *testing.T) {
				c := newChecker(t)
				service := newService(t, countersigntest.ServiceConfig{Unbound: true})
				r := newRig(t, d.url(t), service, func(g *Config) {
					g.Callbacks.Profile = merchant.OtherProvider()
					g.Verify = Verifying{URL: c.URL, Secret: testSecret, For: time.Hour}
				})
				c.now = r.clock.now
				says := func(verdict string) { c.answer.Store(`{"verdict":"` + verdict + `"}`) }
				later := func(by time.Duration, asked int) {
					t.Helper()
					r.clock.advance(by)
					if n, err := r.askAgain(t.Context(), db.MillisOf(r.clock.now())); err != nil || n != asked {
						t.Errorf("%d were asked about, want %d, %v", n, asked, err)
					}
				}
				says("not_yet")
				for range 3 { // some come again all the same
					r.answers(countersigntest.Deposit(1), countersign.CodeNotKnownYet)
				}
				x := r.allRefused(1)[0]
				if x.Reason != "unverified" || x.State != client.RefusedOpen || x.Number != 3 || x.CallbackID != countersigntest.Deposit(1).TrackingID || x.Due == 0 {
					t.Errorf("%+v", x)
				}
				r.wantAlarms()
				later(30*time.Second, 0)
				later(30*time.Second, 1) // after a minute
				later(30*time.Second, 0)
				later(30*time.Second, 1) // two
				later(time.Minute, 0)
				later(time.Minute, 1) // four
				says(answer)
				later(time.Hour, 1)
				x = r.allRefused(1)[0]
				later(2*time.Hour, 0)
				list := r.allDeposits()
				if answer != "yes" {
					r.wantAlarms(client.AlarmDepositRefused)
					if x.State != client.RefusedOpen || len(list) != 0 {
						t.Errorf("%+v, %+v", list, x)
					}
					return
				}
				r.wantAlarms()
				if len(list) != 1 || list[0].State != client.DepositTaken || x.State != client.RefusedTaken || x.Inbox != 1 {
					t.Errorf("%+v, %+v", list, x)
				}
			})
		}
	}
}

// TestLongIdentifiers: an identifier that no index holds is refused for good, kept and alarmed,
// whatever the type of the callback, with either database.
func TestLongIdentifiers(t *testing.T) {
	eachUnbound(t, nil, func(t *testing.T, r *rig) {
		random := make([]byte, 3000) // a text that compresses would fit into an index
		for i := range random {
			random[i] = "0123456789abcdef"[rand.IntN(16)]
		}
		kept := 0
		for _, typ := range countersign.TypeUnknown.Values() {
			cb, path := countersigntest.Notice(typ, 1), merchant.DefaultNotifyPath
			switch typ {
			case countersign.TypeDeposited:
				cb = countersigntest.Deposit(1)
			case countersign.TypeRequestWithdraw:
				cb, path = countersigntest.Withdrawal(1), merchant.DefaultWithdrawPath
			}
			member, id := "trackingId", cb.EventID()
			switch {
			case cb.OrderID() != "":
				member, id = "callBackId", cb.OrderID()
			case id == "":
				member, id = "tenantUserId", cb.User()
			}
			plain, _, err := r.service.Plaintext(cb)
			ok(t, err)
			body := must(r.service.Seal(bytes.Replace(plain, fmt.Appendf(nil, "%q:%q", member, id), fmt.Appendf(nil, "%q:%q", member, random), 1)))(t)
			for range 2 {
				r.posts(path, body, countersign.CodeMalformed)
			}
			kept++
			x := r.allRefused(kept)[0]
			if x.Reason != "malformed" || x.Type != typ || x.Number != 2 || len(x.Facts) != 1 || x.Facts[0].Member != member ||
				!strings.Contains(x.Facts[0].Cause, "1024") && !strings.Contains(x.Facts[0].Cause, "1,024") {
				t.Errorf("%.200s", fmt.Sprintf("%+v", x))
			}
			r.wantAlarms(client.AlarmDepositRefused)
			if list := must(r.book.StandingAlarms(t.Context(), client.AlarmDepositRefused))(t); len(list) != 1 || list[0].Number < int64(kept) {
				t.Errorf("type %d is not counted: %+v", typ, list)
			}
		}
	})
}
