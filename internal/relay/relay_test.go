package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"countersign/client"
	"countersign/internal/lab/dbtest"
)

// A relay keeps the digits of amounts. A refused row is kept with its reason, holds up no other, and goes when it is
// retried and can be taken.
func TestRefusedRowsAndRetry(t *testing.T) {
	c := newCore(t)
	s := newService(t, "shop")
	long := strings.Replace(string(must(json.Marshal(deposit("shop", "long")))(t)), "7.400", "7.4000000000000000000000000000001000", 1)
	c.insert(kindDeposit, long)
	want := []string{"long"}
	for i := range 40 {
		c.insert(kindDeposit, deposit("shop", fmt.Sprint("good-", i)))
		want = append(want, fmt.Sprint("good-", i))
		if i%4 == 0 {
			c.insert(kindDeposit, deposit("later", fmt.Sprint("later-", i)))
		}
		if i%7 == 0 {
			bad := deposit("shop", fmt.Sprint("bad-", i))
			bad["amount"] = "1e3"
			c.insert(kindDeposit, bad)
		}
	}
	r := s.relay(c)
	c.carried()
	if diff := cmp.Diff(want, s.told("shop")); diff != "" {
		t.Error(diff)
	}
	if n := c.refused(); n != "16" {
		t.Fatalf("%s rows are refused, not 16", n)
	}
	page := must(s.admin.Callbacks(t.Context(), client.CallbackFilter{TrackingID: "long"}, client.PageOptions{}))(t)
	if d := must(s.admin.Callback(t.Context(), page.Items[0].ID))(t); !strings.Contains(string(d.Payload), `"amount":"7.4000000000000000000000000000001000"`) {
		t.Errorf("the amount lost digits: %s", d.Payload)
	}
	if got := c.one(`SELECT problem->'errors'->0->>'location' FROM countersign_outbox WHERE merchant = 'later' LIMIT 1`); got != "body.merchant" {
		t.Errorf("the reason names %q", got)
	}
	if strings.Contains(r.log.String(), "1e3") {
		t.Error("the log repeats a value")
	}
	s.addMerchant("later")
	// As docs/provider/relay.md says; the first may be refused again by then.
	c.exec(`UPDATE countersign_outbox SET refused = NULL, problem = NULL WHERE id = (SELECT min(id) FROM countersign_outbox WHERE refused IS NOT NULL)`)
	c.exec(`UPDATE countersign_outbox SET refused = NULL, problem = NULL WHERE refused IS NOT NULL`)
	until(t, "they are carried or refused", func() bool { return c.waiting() == "0" })
	if got := len(s.told("later")); got != 10 || c.refused() != "6" {
		t.Errorf("%d rows went, and %s are refused", got, c.refused())
	}
	c.exec(`DELETE FROM countersign_outbox`)
	c.insert(kindDeposit, deposit("shop", "good-1")) // the same again
	c.insert(kindDeposit, strings.Replace(long, "7.4", "8", 1))
	c.insert(kindDeposit, `{"merchant": "shop", "x": 1}`)
	c.insert(kindDeposit, strings.NewReplacer(`"7.4000000000000000000000000000001000"`, "7.4", "long", "number").Replace(long))
	c.carried()
	if got := c.one(`SELECT string_agg(problem->>'status', ',' ORDER BY id) FROM countersign_outbox`); got != "409,422,422" {
		t.Errorf("refused: %s", got)
	}
}

// A merchant whose rows fail holds up its own rows alone.
func TestOneMerchantFails(t *testing.T) {
	c := newCore(t)
	s := newService(t, "bad", "shop")
	s.set(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		return strings.Contains(string(body), "poison") && fails(w, http.StatusInternalServerError, "the service failed; its log says why")
	}, nil)
	for i := range 30 {
		c.insert(kindDeposit, deposit("shop", fmt.Sprint("s-", i)))
		name := fmt.Sprint("b-", i)
		if i == 10 {
			name = "poison"
		}
		c.insert(kindDeposit, deposit("bad", name))
	}
	s.relay(c)
	until(t, "the others are carried", func() bool { return c.waiting() == "20" })
	if n := len(s.told("shop")); n != 30 {
		t.Errorf("%d of the other merchant's went", n)
	}
	if n := len(s.told("bad")); n != 10 {
		t.Errorf("%d of the failing merchant's went, not those before the failing one", n)
	}
	c.insert(kindDeposit, deposit("shop", "s-30"))
	until(t, "the other merchant goes on", func() bool { return len(s.told("shop")) == 31 })
	s.set(nil, nil)
	until(t, "the merchant goes on", func() bool { return c.waiting() == "0" })
	if got := s.told("bad"); got[10] != "poison" || len(got) != 30 {
		t.Errorf("the order is %v", got)
	}
}

var errNotBooked = errors.New("not booked")

// Several relays, cores that insert at once, and a service that cannot take them now: it is away, broken, busy, closes
// the connection after the commit, or is not the service at all. Each row arrives once, none is refused, and those of one
// merchant that one core inserted one after the other arrive in this order.
func TestSeveralRelaysKeepTheOrder(t *testing.T) {
	cores, each := 4, 150
	if !dbtest.IsWhole() {
		each = 30
	}
	c := newCore(t)
	merchants := []string{"m0", "m1", "m2"}
	s := newService(t, merchants...)
	var faults []func(http.ResponseWriter)
	for _, status := range []int{500, 503, 429, 401, 403, 404, 409, 507} {
		faults = append(faults, func(w http.ResponseWriter) { fails(w, status, "x") })
	}
	faults = append(faults,
		func(w http.ResponseWriter) { http.Error(w, "nginx", http.StatusBadRequest) },
		func(w http.ResponseWriter) { http.Error(w, "nginx", http.StatusRequestEntityTooLarge) },
		func(w http.ResponseWriter) { fmt.Fprint(w, "<html>a portal</html>") },
		func(http.ResponseWriter) { panic(http.ErrAbortHandler) })
	var calls, next atomic.Int64
	s.set(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.Method != http.MethodPost || calls.Add(1)%2 == 0 {
			return false
		}
		faults[int(next.Add(1)-1)%len(faults)](w)
		return true
	}, func(r *http.Request, _ []byte, _ int, _ []byte) bool {
		return r.Method != http.MethodPost || calls.Load()%7 != 0 // done, and the answer is lost
	})
	for range 3 {
		start(t, Config{From: c.url, Nodes: []*client.Service{clientOf(t, s.front.URL, s.token)}, batch: 5})
	}
	var writers sync.WaitGroup
	for n := range cores {
		conn := c.connect()
		writers.Go(func() {
			for i := range each {
				m := merchants[(i+n)%len(merchants)]
				kind, body := kindDeposit, deposit(m, fmt.Sprintf("%s-%d-%05d", m, n, i))
				if i%10 == 9 {
					kind, body = kindWithdrawal, withdrawal(m, fmt.Sprintf("%s-%d-%05d", m, n, i))
				}
				err := pgx.BeginFunc(context.Background(), conn, func(tx pgx.Tx) error {
					_, err := tx.Exec(context.Background(), `INSERT INTO countersign_outbox (kind, body) VALUES ($1, $2)`, kind, body)
					if i%4 == 3 {
						time.Sleep(time.Duration(i%3) * time.Millisecond) // it commits after others
					}
					if err == nil && i%11 == 5 {
						err = errNotBooked // and is rolled back
					}
					return err
				})
				if err != nil && !errors.Is(err, errNotBooked) {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	c.carried()
	for _, m := range merchants {
		told := s.told(m)
		for n := range cores {
			var want []string
			for i := range each {
				if i%11 != 5 && merchants[(i+n)%len(merchants)] == m {
					want = append(want, fmt.Sprintf("%s-%d-%05d", m, n, i))
				}
			}
			mine := slices.DeleteFunc(slices.Clone(told), func(id string) bool { return !strings.HasPrefix(id, fmt.Sprintf("%s-%d-", m, n)) })
			if diff := cmp.Diff(want, mine); diff != "" {
				t.Errorf("%s of core %d: %s", m, n, diff)
			}
		}
	}
	if n := int(next.Load()); n < len(faults) || c.refused() != "0" {
		t.Errorf("%s rows were refused; %d of %d faults", c.refused(), n, len(faults))
	}
}
