package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/envelope"
)

// addConfirming makes a merchant that takes everything and confirms every withdrawal of
// the function withdrawal.
func (s *service) addConfirming(id string) *countersigntest.Merchant {
	return s.addConfirmingOf(id, 1024, nil)
}

// addConfirmingOf is addConfirming with a key of so many bits, and with faults.
func (s *service) addConfirmingOf(id string, bits int, fault func(int, countersign.Callback) countersigntest.MerchantFault) *countersigntest.Merchant {
	s.t.Helper()
	s.signs = envelope.GenerateSigningKey()
	pair, amount := must(envelope.GenerateKey(bits))(s.t), must(countersign.ParseAmount("120.50"))(s.t)
	m := must(countersigntest.StartMerchant(countersigntest.MerchantConfig{Key: pair.Public(), APIKey: "answers", Sign: s.signs, Fault: fault, Orders: func(string) (countersign.Details, bool) {
		return countersign.Details{Address: "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8", ChainName: "TRON", Symbol: "USDT", Amount: amount}, true
	}}))(s.t)
	s.t.Cleanup(m.Close)
	must(s.admin.CreateMerchant(context.Background(), client.NewMerchant{ID: id, Key: &client.KeySpec{PrivateKey: client.Secret(must(pair.PrivatePEM())(s.t))}, MerchantSecrets: client.MerchantSecrets{APIKey: "answers"},
		MerchantSettings: client.MerchantSettings{FinalCodes: client.ProtocolCodes(), Concurrency: 64, NotifyURL: m.NotifyURL(), WithdrawURL: m.WithdrawURL(), AnswerKey: s.signs.PublicBase64()}}))(s.t)
	return m
}

// proves checks what a signer is handed of a permit in the core's database, with the keys of the
// service and of the merchant shop.
func (s *service) proves(c *core, callBackID, claim string) {
	s.t.Helper()
	proof := must(s.admin.AuditCheckpoint(s.t.Context(), 0))(s.t)
	x := client.Execution{Claim: claim, Merchant: "shop", CallBackID: callBackID, Details: *s.withdrawalOf(callBackID).Details, MerchantKeys: []*envelope.SigningKey{s.signs.Public()}}
	note := c.one(`SELECT note FROM countersign_permits WHERE call_back_id = $1`, callBackID)
	if _, err := client.VerifyPermit(note, proof.Key, x); !errors.Is(err, client.ErrAnswerMissing) {
		s.t.Errorf("the permit of %s without an answer: %v", callBackID, err)
	}
	if err := json.Unmarshal([]byte(c.one(`SELECT answer::text FROM countersign_permits WHERE call_back_id = $1`, callBackID)), &x.Answer); err != nil {
		s.t.Fatal(err)
	}
	if n, err := client.VerifyPermit(note, proof.Key, x); err != nil {
		s.t.Errorf("the permit of %s: %+v, %v", callBackID, n, err)
	}
}

// about is the body of a row about one withdrawal.
func (c *core) about(kind, callBackID string, members map[string]any) {
	c.t.Helper()
	body := map[string]any{"merchant": "shop", "callBackId": callBackID}
	for k, v := range members {
		body[k] = v
	}
	c.insert(kind, body)
}

// decided waits for the decision of a withdrawal.
func (c *core) decided(callBackID, decision string) {
	c.t.Helper()
	until(c.t, "the decision of "+callBackID, func() bool {
		return c.one(`SELECT COALESCE(MAX(decision), '') FROM countersign_decisions WHERE call_back_id = $1`, callBackID) == decision
	})
}

// permit waits for the permit of a withdrawal.
func (c *core) permit(callBackID string) (permit string) {
	c.t.Helper()
	until(c.t, "the permit of "+callBackID, func() bool {
		permit = c.one(`SELECT COALESCE(MAX(permit), '') FROM countersign_permits WHERE call_back_id = $1`, callBackID)
		return permit != ""
	})
	return permit
}

func (s *service) withdrawalOf(callBackID string) client.Withdrawal {
	s.t.Helper()
	p, err := s.admin.Withdrawals(context.Background(), client.WithdrawalFilter{CallBackID: callBackID}, client.PageOptions{})
	if err != nil || len(p.Items) != 1 {
		s.t.Fatalf("%s: %+v, %v", callBackID, p, err)
	}
	return p.Items[0]
}

// toldOf returns the types of what a merchant was told of a withdrawal after the question, sorted: callbacks
// do not wait for one another.
func toldOf(m *countersigntest.Merchant, callBackID string) (types []countersign.Type) {
	for _, cb := range m.Received() {
		if cb.CallbackType() != countersign.TypeRequestWithdraw && strings.Contains(fmt.Sprintf("%+v ", cb), "TrackingID:"+callBackID+" ") {
			types = append(types, cb.CallbackType())
		}
	}
	slices.Sort(types)
	return types
}

// A core does all its work with inserts and selects: an address, a withdrawal, its permit, a
// wait, its outcome, and a question that it takes back. What is wrong is refused and kept.
func TestWholeWithdrawal(t *testing.T) {
	c := newCore(t)
	s := newService(t, "far")
	shop := s.addConfirming("shop")
	r := s.relay(c)
	c.insert(kindAddress, map[string]any{"merchant": "shop", "changeId": "a-1", "tenantUserId": "65515", "newAddress": "TNew", "toAddress": "TOld", "chainName": "TRON", "symbol": "USDT"})
	c.insert(kindWithdrawal, withdrawal("shop", "w-1"))
	c.insert(kindWithdrawal, withdrawal("shop", "w-2"))
	c.decided("w-1", "confirmed")
	c.decided("w-2", "confirmed")
	// A release that waits for a person says so in its row, which goes when the permit comes.
	above := func(limit string) {
		t.Helper()
		must(s.admin.UpdateMerchant(t.Context(), "shop", client.MerchantPatch{MerchantSettings: client.MerchantSettings{
			ApproveAbove: client.AmountLimits{{Symbol: client.AnySymbol, Above: must(countersign.ParseAmount(limit))(t)}}}}))(t)
	}
	above("100") // they are of 120.50
	c.about(kindRelease, "w-1", map[string]any{"claim": "execution-1"})
	c.about(kindRelease, "w-2", map[string]any{"claim": "execution-2"})
	until(t, "both rows say that a person must approve", func() bool {
		return c.one(`SELECT count(*) FROM countersign_outbox WHERE refused IS NULL AND kind = 'release' AND problem ->> 'code' = $1`, client.CodeAwaitingApproval) == "2"
	})
	above("1000")
	permit, other := c.permit("w-1"), c.permit("w-2")
	if got := c.one(`SELECT withdrawal || ' ' || claim || ' ' || (body->'details'->>'amount') || ' ' || (body->'withdrawal'->>'state') FROM countersign_permits WHERE call_back_id = 'w-1'`); got !=
		s.withdrawalOf("w-1").ID+" execution-1 120.50 released" {
		t.Errorf("the permit's row: %s", got)
	}
	s.proves(c, "w-1", "execution-1")
	if strings.Contains(c.one(`SELECT body::text FROM countersign_permits WHERE call_back_id = 'w-1'`), permit) {
		t.Error("the body has the permit")
	}
	c.about(kindWaiting, "w-1", map[string]any{"for": "fees"})
	c.about(kindOutcome, "w-1", map[string]any{"permit": permit, "executed": map[string]any{"txId": "0xdone"}})
	c.about(kindOutcome, "w-2", map[string]any{"permit": other, "failed": map[string]any{"reason": "no funds"}})
	c.insert(kindWithdrawal, withdrawal("far", "w-3"))
	c.insert(kindCancel, map[string]any{"merchant": "far", "callBackId": "w-3"})
	c.carried()
	if c.refused() != "0" {
		t.Fatal("refused: ", c.one(`SELECT string_agg(kind || ' ' || problem::text, ' ') FROM countersign_outbox`))
	}
	for id, state := range map[string]client.WithdrawalState{"w-1": client.WithdrawalExecuted, "w-2": client.WithdrawalFailed, "w-3": client.WithdrawalCancelled} {
		if w := s.withdrawalOf(id); w.State != state {
			t.Errorf("%s is %s", id, w.State)
		}
	}
	until(t, "the merchant is told of everything", func() bool { return len(shop.Received()) >= 6 })
	if diff := cmp.Diff([]countersign.Type{countersign.TypeWithdraw, countersign.TypeNotEnoughHotMoney}, toldOf(shop, "w-1")); diff != "" {
		t.Error(diff)
	}

	// The same again changes nothing; what is wrong is refused.
	c.about(kindRelease, "w-1", map[string]any{"claim": "execution-1"})
	c.about(kindOutcome, "w-1", map[string]any{"permit": permit, "executed": map[string]any{"txId": "0xdone"}})
	c.about(kindWaiting, "w-1", map[string]any{"for": "fees"}) // the outcome was told, and the relay died before it deleted both
	c.insert(kindCancel, map[string]any{"merchant": "far", "callBackId": "w-3"})
	c.carried()
	if c.refused() != "0" {
		t.Error("the same again is refused: ", c.one(`SELECT string_agg(problem::text, ' ') FROM countersign_outbox`))
	}
	wrong := []struct {
		kind, id string
		members  map[string]any
		status   string
	}{
		{kindRelease, "w-1", map[string]any{"claim": "another"}, "409"},
		{kindOutcome, "w-1", map[string]any{"permit": "cpt_wrong", "executed": map[string]any{"txId": "0xdone"}}, "409"},
		{kindOutcome, "w-1", map[string]any{"permit": permit, "failed": map[string]any{"reason": "no"}}, "409"},
		{kindOutcome, "w-1", map[string]any{"permit": permit}, "422"},
		{kindWaiting, "w-1", map[string]any{"for": "rain"}, "422"},
		{kindCancel, "w-1", nil, "409"},
		{kindCancel, "w-1", map[string]any{"x": 1}, "422"},
		{kindRelease, "nothing", map[string]any{"claim": "c"}, "404"},
		{kindOutcome, "", map[string]any{"permit": permit}, "422"},
		{kindOutcome, "w-1/../w-2", map[string]any{"permit": permit, "executed": map[string]any{"txId": "0xdone"}}, "404"},
	}
	for _, x := range wrong {
		c.about(x.kind, x.id, x.members)
	}
	c.insert(kindOutcome, `{"merchant": "shop", "callBackId": "w-2", "callBackId": "w-1", "permit": "`+permit+`", "failed": {"reason": "no"}}`)
	c.insert(kindOutcome, `{"merchant": "shop", "callBackId": 5, "permit": "p", "failed": {"reason": "no"}}`)
	c.insert(kindOutcome, `{"callBackId": "w-1", "permit": "p", "failed": {"reason": "no"}}`)
	c.carried()
	var want []string
	for _, x := range wrong {
		want = append(want, x.status)
	}
	want = append(want, "422", "422", "422")
	if got := c.one(`SELECT string_agg(problem->>'status', ',' ORDER BY id) FROM countersign_outbox`); got != strings.Join(want, ",") {
		t.Errorf("refused: %s, want %v: %s", got, want, c.one(`SELECT string_agg(problem::text, ' ' ORDER BY id) FROM countersign_outbox`))
	}
	if w := s.withdrawalOf("w-1"); w.State != client.WithdrawalExecuted || w.TxID != "0xdone" {
		t.Errorf("w-1 is %+v", w)
	}
	if c.refused() != fmt.Sprint(len(want)) {
		t.Fatalf("%s rows are refused", c.refused())
	}
	for _, text := range []string{r.log.String(), c.one(`SELECT string_agg(problem::text, ' ') FROM countersign_outbox`)} {
		if strings.Contains(text, permit) || strings.Contains(text, other) {
			t.Errorf("a permit is shown: %s", text)
		}
	}
}

// A relay that is killed at any step of releases or of outcomes, which go together, loses none: the
// next one gets the same permits, and the merchant is told once of each.
func TestOutcomeIsNotLost(t *testing.T) {
	c := newCore(t)
	s := newService(t)
	shop := s.addConfirming("shop")
	reached := make(chan struct{}, 100)
	hang := func(r *http.Request) { reached <- struct{}{}; <-r.Context().Done() }
	n := 0
	for _, kind := range []string{kindRelease, kindOutcome} {
		is := func(r *http.Request) bool {
			return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/"+kind)
		}
		set := func(before func(http.ResponseWriter, *http.Request, []byte) bool, after func(*http.Request, []byte, int, []byte) bool) (end func()) {
			s.set(before, after)
			return func() { s.set(nil, nil) }
		}
		hangs := func(r *http.Request) bool {
			if is(r) {
				hang(r)
			}
			return is(r)
		}
		for _, step := range []struct {
			name  string
			begin func() (end func())
		}{
			{"the request has not arrived", func() func() {
				return set(func(_ http.ResponseWriter, r *http.Request, _ []byte) bool { return hangs(r) }, nil)
			}},
			{"the service has committed and not answered", func() func() {
				return set(nil, func(r *http.Request, _ []byte, _ int, _ []byte) bool { return !hangs(r) })
			}},
			{"the row is being deleted", func() func() { return c.gate("NOT DEFERRABLE", reached) }},
			{"the deletion is being committed", func() func() { return c.gate("DEFERRABLE INITIALLY DEFERRED", reached) }},
		} {
			t.Run(kind+": "+step.name, func(t *testing.T) {
				_, kill := s.spawn(c, 0)
				var ids []string
				for range 3 {
					n++
					ids = append(ids, fmt.Sprint("w-", n))
					c.insert(kindWithdrawal, withdrawal("shop", ids[len(ids)-1]))
				}
				for _, id := range ids {
					c.decided(id, "confirmed")
				}
				c.carried()
				together := func(kind string, members func(id string) map[string]any) {
					c.exec(`BEGIN`)
					for _, id := range ids {
						c.about(kind, id, members(id))
					}
					c.exec(`COMMIT`)
				}
				ask := func() { together(kindRelease, func(id string) map[string]any { return map[string]any{"claim": id} }) }
				tell := func() {
					permits := map[string]string{}
					for _, id := range ids {
						permits[id] = c.permit(id)
					}
					together(kindOutcome, func(id string) map[string]any {
						return map[string]any{"permit": permits[id], "executed": map[string]any{"txId": "0x" + id}}
					})
				}
				if kind == kindOutcome {
					ask()
					c.carried()
				}
				end := step.begin()
				if kind == kindRelease {
					ask()
				} else {
					tell()
				}
				<-reached
				kill()
				end()
				_, stop := s.spawn(c, 0)
				defer stop() // else it would work in place of the next one that is to be killed
				if kind == kindRelease {
					tell()
				}
				c.carried()
				for _, id := range ids {
					if w := s.withdrawalOf(id); w.State != client.WithdrawalExecuted || w.TxID != "0x"+id || c.refused() != "0" {
						t.Errorf("it is %+v, %s refused", w, c.refused())
					}
					until(t, "the merchant is told", func() bool { return len(toldOf(shop, id)) > 0 })
					if diff := cmp.Diff([]countersign.Type{countersign.TypeWithdraw}, toldOf(shop, id)); diff != "" {
						t.Error(diff)
					}
				}
				for len(reached) > 0 {
					<-reached
				}
			})
		}
	}
	if got := c.one(`SELECT count(*) FROM countersign_permits`); got != fmt.Sprint(n) {
		t.Errorf("%s permits of %d", got, n)
	}
}

// Where one node of the service is gone, or stands still, the other is asked. So it is where a node reads from a database
// server that was replaced, and does not know what the relay has carried and read: nothing is refused for good, and
// decisions go on.
func TestNodes(t *testing.T) {
	c := newCore(t)
	s := newService(t)
	s.addConfirming("shop")
	still := make(chan struct{})
	defer close(still)
	for name, first := range map[string]http.HandlerFunc{
		"still":    func(_ http.ResponseWriter, r *http.Request) { <-still },
		"stopping": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"another":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>a portal</html>") },
		"gone":     nil,
		"behind": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case r.URL.Path == "/v1/decisions":
				fails(w, http.StatusConflict, "after is beyond the end of the feed, which is 0")
			case r.URL.Path == "/v1/withdrawals/release":
				fmt.Fprint(w, `{"items":[{"error":{"status":404,"title":"Not Found"}}]}`)
			case r.Method == http.MethodGet && r.URL.Path == "/v1/withdrawals":
				fmt.Fprint(w, `{"items":[]}`)
			default:
				body, _ := io.ReadAll(r.Body)
				s.passOn(w, r, body)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(first)
			if first == nil {
				server.Close()
			} else {
				defer server.CloseClientConnections() // Close would wait for calls that stand still
			}
			r := start(t, Config{From: c.url, Nodes: []*client.Service{clientOf(t, server.URL, s.token), clientOf(t, s.url, s.token)},
				Decisions: true, probe: 50 * time.Millisecond})
			defer r.stop()
			c.insert(kindDeposit, deposit("shop", "d-"+name))
			c.insert(kindWithdrawal, withdrawal("shop", "w-"+name))
			c.carried()
			c.decided("w-"+name, "confirmed")
			r.nodes.at.Store(0)
			c.about(kindRelease, "w-"+name, map[string]any{"claim": "e-" + name})
			c.permit("w-" + name)
			if c.refused() != "0" || strings.Contains(r.log.String(), "decisions are stopped") {
				t.Errorf("%s refused: %s", c.refused(), r.log)
			}
		})
	}
}

// One relay works on the table at a time, and another takes over when it dies.
func TestOneRelayWorks(t *testing.T) {
	c := newCore(t)
	s := newService(t, "shop", "other")
	reached := make(chan struct{}, 1)
	s.set(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
		if r.Method == http.MethodPost && strings.Contains(string(body), "d-1") {
			reached <- struct{}{}
			<-r.Context().Done()
			return true
		}
		return false
	}, nil)
	_, kill := s.spawn(c, 0)
	c.insert(kindDeposit, deposit("shop", "d-1"))
	<-reached
	second := must(New(Config{From: c.url, Nodes: []*client.Service{s.admin}}))(t)
	defer second.pool.Close()
	c.insert(kindDeposit, deposit("other", "d-2"))
	for range 3 {
		if n, err := second.turn(t.Context()); n != 0 || err != nil {
			t.Errorf("beside the first the second carries %d rows, %v", n, err)
		}
	}
	kill()
	until(t, "the second takes over", func() bool {
		_, err := second.turn(t.Context())
		return err == nil && c.waiting() == "0"
	})
}
