package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/lab/dbtest"
)

// newDeposit is a deposit as the API takes it.
func newDeposit(to string, d *countersign.Deposit) client.NewDeposit {
	return client.NewDeposit{Merchant: to, TrackingID: d.TrackingID, TenantUserID: d.TenantUserID, TxID: d.TxID, ChainName: d.ChainName,
		Symbol: d.Symbol, Amount: d.Amount, FromAddress: d.FromAddress, ToAddress: d.ToAddress, TxIndex: d.TxIndex}
}

// tellEverything makes the service tell the shop of everything, and waits until all of it is accepted: withdrawal 1 is
// executed, and 2 failed.
func tellEverything(t *testing.T, b *bothEnds) {
	t.Helper()
	ctx := t.Context()
	accepted := func(want int) {
		t.Helper()
		b.await(fmt.Sprint(want, " accepted callbacks"), func(ctx context.Context) (bool, error) {
			page, err := b.api.Callbacks(ctx, client.CallbackFilter{State: client.CallbackAccepted}, client.PageOptions{})
			return len(page.Items) == want, err
		})
	}
	d := countersigntest.Deposit(1)
	must(b.api.AddDeposits(ctx, newDeposit("shop", d)))
	for range 2 { // the second is a repetition, at the service already
		must(b.api.AddAddress(ctx, client.NewAddress{Merchant: "shop", ChangeID: "change-1", TenantUserID: d.TenantUserID,
			NewAddress: "TNew", ToAddress: "TOld", ChainName: "TRON", Symbol: "USDT"}))
	}
	var ids []string
	for n := 1; n <= 2; n++ {
		w := countersigntest.Withdrawal(n)
		must(b.there.AddOrder(ctx, client.NewOrder{CallBackID: w.CallBackID, TenantUserID: w.TenantUserID}.Paying(countersigntest.Order(n))))
		ids = append(ids, must(b.api.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: "shop", CallBackID: w.CallBackID, TenantUserID: w.TenantUserID})).ID)
	}
	accepted(4)
	outcomes := []client.Outcome{{Executed: &client.Executed{TxID: "0xdone"}}, {Failed: &client.Failed{Reason: "the address takes nothing"}}}
	for i, id := range ids {
		outcomes[i].Permit = must(b.api.ReleaseWithdrawal(ctx, id, "wallet")).Permit
	}
	for _, what := range []client.WaitingFor{"funds", "fees", "funds", "fees"} { // two of them are repetitions, which the merchant knows
		must(b.api.ReportWaiting(ctx, ids[0], what))
	}
	accepted(8)
	for i, id := range ids {
		must(b.api.ReportOutcome(ctx, id, outcomes[i]))
	}
	accepted(10)
}

// TestEveryType lets the service tell a gateway of everything that it can: all seven types are accepted and have their
// effect once. Then all of it is sent once more, by name: it answers as to a repetition, and nothing has its effect
// again. Then both are compared, and stop.
func TestEveryType(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { testEveryType(t, "", "") })
	t.Run("postgres", func(t *testing.T) { testEveryType(t, dbtest.Postgres(t), dbtest.Postgres(t)) })
}

func testEveryType(t *testing.T, serviceDB, gatewayDB string) {
	t.Parallel()
	b := startBoth(t, t.TempDir(), serviceDB, gatewayDB)
	ctx := t.Context()
	tellEverything(t, b)
	// The address replaces another: a person decides.
	must(b.gateway.Book().DecideAddress(ctx, 1, client.AddressAccepted, "tok_1", "", 1))
	want := []client.EventKind{"address.changed", "address.held", "order.confirmed", "order.confirmed", "order.ended", "order.executed", "order.waiting", "order.waiting"}
	effects := func() {
		t.Helper()
		d, err := b.gateway.Book().Deposits(ctx, 0, 100)
		events, more := b.gateway.Book().Events(ctx, 0, 100)
		if err := errors.Join(err, more); err != nil || len(d) != 1 {
			t.Fatalf("%d deposits, %v", len(d), err)
		}
		var kinds []client.EventKind
		for _, e := range events {
			kinds = append(kinds, e.Kind)
			if e.Kind == client.EventAddressChanged && (e.Address != "TNew" || e.OldAddress != "TOld" || e.TenantUserID != "60001") {
				t.Errorf("the change of address is %+v", e)
			}
		}
		if slices.Sort(kinds); !slices.Equal(kinds, want) {
			t.Errorf("events %q, want %q", kinds, want)
		}
	}
	effects()
	checkMetrics(t, b.service.URL(), b.gateway.URL())
	for url, lines := range map[string][]string{
		b.service.URL(): {
			`countersign_attempts_total{lane="notify",reason="accepted",result="accepted",type="NOTIFY_DEPOSITED"} 1`, `countersign_decisions_total{decision="confirmed"} 2`,
			`countersign_withdrawals{state="executed"} 1`, `countersign_callbacks{lane="notify",state="accepted"} 8`, `countersign_callbacks{lane="notify",state="pending"} 0`,
			`countersign_oldest_due_seconds{lane="withdraw"} 0`, `countersign_rsa_seconds_count{operation="seal"}`, `countersign_claimed_total{lane="withdraw"} 2`,
		},
		b.gateway.URL(): {
			`countersign_gateway_orders{state="executed"} 1`, `countersign_gateway_deposits_total 1`, `countersign_gateway_deposits_held 0`, `countersign_gateway_callbacks_open 0`,
			`countersign_gateway_requests_total{reason="confirmed",type="NOTIFY_REQUEST_WITHDRAW"} 2`, `countersign_gateway_forwards_waiting 9`,
		},
	} {
		metrics := b.figures(url, append(lines, `countersign_database_up 1`, `countersign_database_writable 1`, `countersign_disk_free_bytes `, `rsa="`+envelope.Library()+`"`)...)
		for _, label := range []string{"shop", countersigntest.Withdrawal(1).CallBackID, countersigntest.Deposit(1).TrackingID} {
			if strings.Contains(metrics, label) {
				t.Errorf("the metrics name %s", label)
			}
		}
		if status, _ := get(t, url+"/readyz"); status != http.StatusOK {
			t.Errorf("/readyz says %d", status)
		}
	}

	if r, err := b.api.ResendCallbacks(ctx, client.Resend{Filter: client.CallbackFilter{Merchant: "shop"}}); err != nil || r.Count != 0 {
		t.Errorf("by a filter: %+v, %v", r, err)
	}
	if _, err := b.api.ResendCallbacks(ctx, client.Resend{Filter: client.CallbackFilter{State: client.CallbackAccepted}}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("by their state: %v", err)
	}
	var repeated []string
	for c, err := range client.All(ctx, b.api.Callbacks, client.CallbackFilter{}) {
		ok(t, err)
		if _, err := b.api.ResendCallback(ctx, c.ID, client.ResendOne{}); !errors.Is(err, client.ErrConflict) {
			t.Errorf("%s, not asked for as accepted: %v", c.Name, err)
		}
		switch again, err := b.api.ResendCallback(ctx, c.ID, client.ResendOne{Accepted: true}); {
		case c.Type == 2:
			if !errors.Is(err, client.ErrConflict) {
				t.Errorf("a question: %v", err)
			}
		case err != nil || again.ID != c.ID:
			t.Errorf("%s: %+v, %v", c.Name, again, err)
		default:
			repeated = append(repeated, c.ID)
		}
	}
	if len(repeated) != 8 {
		t.Errorf("%d are sent again", len(repeated))
	}
	for _, id := range repeated {
		b.await("the second attempt of "+id, func(ctx context.Context) (bool, error) {
			c, err := b.api.Callback(ctx, id)
			if err != nil || c.State != client.CallbackAccepted || c.Repeated {
				return false, err
			}
			if len(c.Attempts) != 2 || c.Attempts[0].Repeated || !c.Attempts[1].Repeated || c.Attempts[1].Result != client.AttemptAccepted {
				t.Errorf("%s has attempts %+v", c.Name, c.Attempts)
			}
			return true, nil
		})
	}
	effects()

	p, err := client.Get[client.List[client.AuditEntry]](ctx, b.api, "/v1/audit/about", client.AuditAboutOptions{ID: repeated[0]})
	if err != nil || !slices.ContainsFunc(p.Items, func(e client.AuditEntry) bool { return bytes.Contains(e.Record, []byte(`"callbacks.sent_again"`)) }) {
		t.Errorf("the log does not tell who asked: %+v, %v", p, err)
	}
	reconcileEnds(t, b)

	// A reader of a feed does not hold up the end.
	waiting := make(chan error, 1)
	go func() {
		_, err := b.api.Decisions(ctx, client.FeedOptions{After: 2, Wait: time.Minute})
		waiting <- err
	}()
	time.Sleep(50 * time.Millisecond) // most often the call waits by now; the test holds in any case
	begun := time.Now()
	b.stop()
	<-waiting
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("stopping took %v beside a call that waits for a minute", took)
	}
	if err := b.service.Outbox().Ping(ctx); err == nil {
		t.Error("the service's database is open after Run")
	}
}
