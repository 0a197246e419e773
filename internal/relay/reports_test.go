package relay

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign"
	"countersign/client"
)

// Releases and outcomes that wait go in few requests. What is wrong with one of them refuses it
// alone, each withdrawal has its own permit, and what is about one keeps its order.
func TestReportsTogether(t *testing.T) {
	c := newCore(t)
	s := newService(t)
	shop := s.addConfirming("shop")
	var together, alone atomic.Int64
	s.set(func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
		parts := strings.Split(r.URL.Path, "/")
		last := parts[len(parts)-1]
		switch {
		case r.Method != http.MethodPost || last != kindRelease && last != kindOutcome:
		case len(parts) == 5:
			alone.Add(1)
		default:
			together.Add(1)
		}
		return false
	}, nil)
	const n = 60
	for i := range n {
		c.insert(kindWithdrawal, withdrawal("shop", fmt.Sprint("w-", i)))
	}
	r := s.relay(c)
	for i := range n {
		c.decided(fmt.Sprint("w-", i), "confirmed")
	}
	r.stop()
	// While the service is frozen rows that ask for permits wait, and hold up what is about their withdrawal alone.
	must(s.admin.Freeze(t.Context(), "a test"))(t)
	c.exec(`INSERT INTO countersign_outbox (kind, body) SELECT 'release', json_build_object('merchant', 'shop', 'callBackId', 'w-' || i, 'claim', 'e-' || i) FROM generate_series(0, $1::int - 1) i`, n)
	c.about(kindRelease, "w-7", map[string]any{"claim": "another"})
	c.about(kindRelease, "w-8", map[string]any{"claim": strings.Repeat("x", 201)})
	c.about(kindRelease, "nothing", map[string]any{"claim": "e"})
	c.about(kindCancel, "w-0", nil) // behind the release of its withdrawal
	c.insert(kindDeposit, deposit("shop", "d-1"))
	r = s.relay(c)
	until(t, "the deposit goes on", func() bool { return c.one(`SELECT count(*) FROM countersign_outbox WHERE kind = 'deposit'`) == "0" })
	if got := c.one(`SELECT count(*) FROM countersign_permits`); got != "0" {
		t.Errorf("%s permits while it is frozen", got)
	}
	must(s.admin.Thaw(t.Context()))(t)
	c.carried()
	r.stop()
	if got := c.one(`SELECT count(*) FROM countersign_permits WHERE claim = 'e' || substr(call_back_id, 2) AND body->'withdrawal'->>'callBackId' = call_back_id`); got != fmt.Sprint(n) {
		t.Errorf("%s permits of %d", got, n)
	}
	for i := range n {
		s.proves(c, fmt.Sprint("w-", i), fmt.Sprint("e-", i))
	}
	if got := c.one(`SELECT string_agg(problem->>'status', ',' ORDER BY id) FROM countersign_outbox`); got != "409,422,404,409" {
		t.Errorf("refused: %s: %s", got, c.one(`SELECT string_agg(problem::text, ' ' ORDER BY id) FROM countersign_outbox`))
	}
	if got := c.one(`SELECT string_agg(problem->'errors'->0->>'location', ',' ORDER BY id) FROM countersign_outbox`); got != "body.claim,body.claim,body.callBackId" {
		t.Errorf("the faults are at %s", got)
	}
	c.exec(`DELETE FROM countersign_outbox`)

	// Of each a wait, and behind it the outcome.
	c.exec(`INSERT INTO countersign_outbox (kind, body) SELECT 'waiting', json_build_object('merchant', merchant, 'callBackId', call_back_id, 'for', 'fees') FROM countersign_permits`)
	c.exec(`INSERT INTO countersign_outbox (kind, body) SELECT 'outcome', json_build_object('merchant', merchant, 'callBackId', call_back_id, 'permit', permit,
				'executed', json_build_object('txId', '0x' || call_back_id)) FROM countersign_permits`)
	c.exec(`INSERT INTO countersign_outbox (kind, body) SELECT 'outcome', json_build_object('merchant', merchant, 'callBackId', call_back_id, 'permit', 'guessed',
				'executed', json_build_object('txId', '0xother')) FROM countersign_permits WHERE call_back_id = 'w-9'`)
	s.relay(c)
	c.carried()
	if got := c.one(`SELECT string_agg(problem->>'status', ',' ORDER BY id) FROM countersign_outbox`); got != "409" {
		t.Errorf("refused: %s: %s", got, c.one(`SELECT string_agg(problem::text, ' ' ORDER BY id) FROM countersign_outbox`))
	}
	for i := range n {
		id := fmt.Sprint("w-", i)
		if w := s.withdrawalOf(id); w.State != client.WithdrawalExecuted || w.TxID != "0x"+id {
			t.Errorf("%s is %+v", id, w)
		}
		until(t, "the merchant is told of "+id, func() bool { return len(toldOf(shop, id)) == 2 })
		if diff := cmp.Diff([]countersign.Type{countersign.TypeWithdraw, countersign.TypeNotEnoughHotMoney}, toldOf(shop, id)); diff != "" {
			t.Error(diff)
		}
	}
	if m, a := together.Load(), alone.Load(); a != 0 || m > n {
		t.Errorf("%d requests of several, %d of one", m, a)
	}
}

// An answer that does not say exactly what became of each row counts as none: the rows stay.
func TestForeignResults(t *testing.T) {
	list := []Row{{Merchant: "shop", about: &about{callBackID: "w-1", rest: json.RawMessage(`{"claim":"c"}`)}},
		{Merchant: "shop", about: &about{callBackID: "w-2", rest: json.RawMessage(`{"claim":"c"}`)}}}
	permit := func(id string) string {
		return `{"issued":{"permit":"cpt_` + id + `","withdrawal":{"merchant":"shop","callBackId":"` + id + `"}}}`
	}
	ended := func(id string) string { return `{"ended":{"merchant":"shop","callBackId":"` + id + `"}}` }
	refused := `{"error":{"title":"Conflict","status":409}}`
	for answer, good := range map[string]string{
		`{"items":[` + permit("w-1") + `,` + permit("w-2") + `]}`:                                      kindRelease,
		`{"items":[` + permit("w-1") + `,` + refused + `]}`:                                            kindRelease,
		`{"items":[` + permit("w-2") + `,` + permit("w-1") + `]}`:                                      "",
		`{"items":[` + permit("w-1") + `]}`:                                                            "",
		`{"items":[` + permit("w-1") + `,` + permit("w-2") + `,` + permit("w-1") + `]}`:                "",
		`{"items":[` + permit("w-1") + `,{}]}`:                                                         "",
		`{"items":[{"issued":{"withdrawal":{"merchant":"shop","callBackId":"w-1"}}},` + refused + `]}`: "",
		`{"items":[` + ended("w-1") + `,` + ended("w-2") + `]}`:                                        kindOutcome,
		`{"items":[` + refused + `,` + ended("w-2") + `]}`:                                             kindOutcome,
		`{"items":[` + ended("w-1") + `,` + ended("w-1") + `]}`:                                        "",
		`{"items":[` + ended("w-1") + `,null]}`:                                                        "",
		`{"items":[]}`:                                                                                 "",
		`{}`:                                                                                           "",
		`[]`:                                                                                           "",
		`"`:                                                                                            "",
	} {
		for _, kind := range []string{kindRelease, kindOutcome} {
			if _, err := readResults(kind, list, json.RawMessage(answer)); (err == nil) != (kind == good) {
				t.Errorf("%s of %s: %v", answer, kind, err)
			}
		}
	}
}

// TestHoldEndsWhileRowsAreRead: rows were read without the release of a withdrawal, which was
// held. That the hold ends before they are sent lets no row behind the release go ahead of it.
func TestHoldEndsWhileRowsAreRead(t *testing.T) {
	r := &Relay{held: held{most: time.Millisecond, until: map[string]pause{}, parked: map[int64]string{}}}
	release := Row{ID: 1, Kind: kindRelease, Merchant: "shop", Body: []byte(`{"merchant":"shop","callBackId":"w-0","claim":"e-0"}`)}
	cancel := Row{ID: 2, Kind: kindCancel, Merchant: "shop", Body: []byte(`{"merchant":"shop","callBackId":"w-0"}`)}
	if p := unfit(&release); p != nil {
		t.Fatal(p)
	}
	read := time.Now().Add(-time.Minute)
	r.held.fail(release.key(), read)
	r.held.park(release.ID, release.key())
	if left := r.held.rows(read); !slices.Equal(left, []int64{release.ID}) {
		t.Fatal("left out: ", left)
	}
	if turn := newTurn(r, []Row{cancel}, read); len(turn.waiting) != 0 || len(turn.parked) != 1 {
		t.Errorf("%d rows wait to be sent and %d are parked", len(turn.waiting["shop"]), len(turn.parked))
	}
	if turn := newTurn(r, []Row{release, cancel}, time.Now()); len(turn.waiting["shop"]) != 2 {
		t.Errorf("once the hold is over, %d rows wait to be sent", len(turn.waiting["shop"]))
	}
}

// A report that a withdrawal failed waits while the service is restored and not reconciled: the
// service refuses it, and the withdrawal is still released. So does one at a node that does not know of
// the decision or the release yet. One that has ended otherwise is refused.
func TestRefusedOutcomeWaits(t *testing.T) {
	state := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"items":[{"id":"shop.1","merchant":"shop","callBackId":"order","state":%q}]}`, state)
	}))
	t.Cleanup(s.Close)
	r := must(New(Config{From: "postgres://127.0.0.1:1/x", Nodes: []*client.Service{clientOf(t, s.URL, "t")}}))(t)
	conflict := &client.Problem{Status: http.StatusConflict, Title: "Conflict", Detail: "a restore is not reconciled"}
	row := Row{Kind: kindOutcome, Merchant: "shop", about: &about{callBackID: "order"}}
	for is, want := range map[client.WithdrawalState]result{client.WithdrawalAwaiting: hold, client.WithdrawalConfirmed: hold, client.WithdrawalReleased: hold, client.WithdrawalExecuted: refused} {
		state = string(is)
		if got := (&turn{r: r}).judgeReport(t.Context(), row, conflict); got.result != want {
			t.Errorf("%s: %v, want %v", is, got.result, want)
		}
	}
}
