package outbox

import (
	"fmt"
	"slices"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// testListsOfATime: with every filter and page size a list of a time has the rows of the
// whole list that were made in it.
func testListsOfATime(t *testing.T, s *Outbox) {
	merchants := addMerchants(t, s, 2, nil)
	details := client.Details{Address: "T1", ChainName: "TRON", Symbol: "USDT", Amount: must(countersign.ParseAmount("2.5"))(t)}
	for at := db.Millis(1000); at < 1060; at++ {
		m := merchants[at%2]
		n := deposit(m, fmt.Sprint("d", at), at)
		n.TxID = "tx"
		must(s.Ingest(ctx, []NewCallback{n}, at))(t)
		if _, _, err := s.CreateWithdrawal(ctx, NewWithdrawal{Merchant: m, CallBackID: fmt.Sprint("w", at), TenantUserID: "u", TrackingID: fmt.Sprint("w", at),
			Details: &details, Deadline: at + 1_000_000, Payload: []byte(`{"type":2}`)}, at); err != nil {
			t.Fatal(err)
		}
	}
	settleAll(t, s, claim(t, s, countersign.LaneNotify, 2000, 20), 2000)
	pages := func(what string, read func(cursor string) (ids []string, at []db.Millis, next string, err error), span client.CallbackFilter) (found []string) {
		t.Helper()
		for cursor := ""; ; {
			ids, at, next, err := read(cursor)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			for i, id := range ids {
				if at[i] >= span.Since && (span.Until == 0 || at[i] < span.Until) {
					found = append(found, id)
				}
			}
			if next == "" {
				return found
			}
			cursor = next
		}
	}
	spans := []client.CallbackFilter{{Since: 1020}, {Until: 1030}, {Since: 1011, Until: 1047}, {Since: 1030, Until: 1030}, {Since: 5000}, {Until: 1}}
	for i, f := range []client.CallbackFilter{{}, {}, {Merchant: "m0"}, {Type: 2}, {Type: 1}, {State: client.CallbackAccepted}, {State: client.CallbackPending},
		{State: client.CallbackPending, Merchant: "m1"}, {TxID: "tx"}, {TrackingID: "d1021"}, {TrackingID: "d1021", Type: 1}, {CallBackID: "w1022"}} {
		of := [][]string{1: {"m0", "m1"}, 12: nil}[i]
		for _, span := range spans {
			for _, limit := range []int{13} {
				read := func(f client.CallbackFilter) func(string) (ids []string, at []db.Millis, next string, err error) {
					return func(cursor string) (ids []string, at []db.Millis, next string, err error) {
						list, next, err := s.Callbacks(ctx, of, f, limit, cursor)
						for _, c := range list {
							ids, at = append(ids, c.ID), append(at, c.Created)
						}
						return ids, at, next, err
					}
				}
				what := fmt.Sprintf("%+v of %v in %+v by %d", f, of, span, limit)
				f.Since, f.Until = 0, 0
				want := pages(what, read(f), span)
				f.Since, f.Until = span.Since, span.Until
				if got := pages(what, read(f), client.CallbackFilter{}); !slices.Equal(got, want) {
					t.Errorf("%s: %d, want %d", what, len(got), len(want))
				}
			}
		}
	}
	for _, state := range []client.WithdrawalState{"", client.WithdrawalAwaiting, client.WithdrawalConfirmed} {
		for _, of := range [][]string{{""}, {"m0"}, {"m0", "m1"}} {
			for _, span := range spans {
				read := func(in client.CallbackFilter) func(string) (ids []string, at []db.Millis, next string, err error) {
					return func(cursor string) (ids []string, at []db.Millis, next string, err error) {
						list, next, err := s.Withdrawals(ctx, of, client.WithdrawalFilter{State: state, Since: in.Since, Until: in.Until}, 7, cursor)
						for _, w := range list {
							ids, at = append(ids, w.ID), append(at, w.Created)
						}
						return ids, at, next, err
					}
				}
				what := fmt.Sprintf("withdrawals %s of %v in %+v", state, of, span)
				want := pages(what, read(client.CallbackFilter{}), span)
				if got := pages(what, read(span), client.CallbackFilter{}); !slices.Equal(got, want) {
					t.Errorf("%s: %d, want %d", what, len(got), len(want))
				}
			}
		}
	}
}
