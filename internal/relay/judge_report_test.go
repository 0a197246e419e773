package relay

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"countersign/client"
)

// A report that a withdrawal failed waits while the service is restored and not reconciled: the
// service refuses it, and the withdrawal is still released. So does one at a node that does not know of
// the decision or the release yet. One that has ended otherwise is refused.
func TestRefusedOutcomeWaits(t *testing.T) {
	state := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"withdrawals":[{"id":"shop.1","merchant":"shop","callBackId":"order","state":%q}],"next":null}`, state)
	}))
	t.Cleanup(s.Close)
	api, err := client.NewService(client.Config{URL: s.URL, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Config{From: "postgres://127.0.0.1:1/x", Nodes: []*client.Service{api}})
	if err != nil {
		t.Fatal(err)
	}
	conflict := &client.Problem{Status: http.StatusConflict, Title: "Conflict", Detail: "a restore is not reconciled"}
	row := Row{Kind: kindOutcome, Merchant: "shop", about: &about{callBackID: "order"}}
	for is, want := range map[client.WithdrawalState]result{client.WithdrawalAwaiting: hold, client.WithdrawalConfirmed: hold, client.WithdrawalReleased: hold, client.WithdrawalExecuted: refused} {
		state = string(is)
		if got := (&turn{r: r}).judgeReport(t.Context(), row, conflict); got.result != want {
			t.Errorf("%s: %v, want %v", is, got.result, want)
		}
	}
}
