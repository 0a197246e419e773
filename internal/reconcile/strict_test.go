package reconcile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// A line of the core opens a withdrawal again only if it says open and nothing else about it. Any
// other line is refused before anything is settled.
func TestOnlyOpenReopens(t *testing.T) {
	const order = `"merchant":"shop","callBackId":"order"`
	wrong := map[string]struct{ lines, want string }{
		"the feed of decisions":   {`{` + order + `,"state":"confirmed","claim":"execution","permit":"cpt_1","txId":"tx"}`, "write open if nothing did"},
		"confirmed":               {`{` + order + `,"state":"confirmed"}`, "write open if nothing did"},
		"awaiting":                {`{` + order + `,"state":"awaiting"}`, "write open if nothing did"},
		"open with a permit":      {`{` + order + `,"state":"open","permit":"cpt_1"}`, "contradicted by permit"},
		"open with a claim":       {`{` + order + `,"state":"open","claim":"execution"}`, "contradicted by claim"},
		"open with a transaction": {`{` + order + `,"state":"open","txId":"tx"}`, "contradicted by txId"},
		"cancelled with one":      {`{` + order + `,"state":"cancelled","txId":"tx"}`, "contradicted by txId"},
		"failed with one":         {`{` + order + `,"state":"failed","txId":"tx"}`, "contradicted by txId"},
		"a member twice":          {`{` + order + `,"state":"executed","state":"open"}`, "occurs twice"},
		"a member in two cases":   {`{` + order + `,"state":"open","Permit":"cpt_1"}`, "write permit"},
		"Open":                    {`{` + order + `,"state":"Open"}`, "is not known"},
		"another address":         {`{` + order + `,"state":"open","address":"TOther"}`, "address is not that of order"},
		"another amount":          {`{` + order + `,"state":"open","symbol":"USDT","amount":"2.51"}`, "amount is not that of order"},
		"another user":            {`{` + order + `,"state":"open","tenantUserId":"other"}`, "tenantUserId is not that of order"},
		"another ended":           {`{` + order + `,"state":"cancelled","address":"TOther"}`, "address is not that of order"},
		"nested details":          {`{` + order + `,"state":"open","details":{"amount":"9"}}`, "details"},
		"executed and failed":     {`{` + order + `,"state":"failed"}` + "\n" + `{` + order + `,"state":"executed"}`, "another line"},
		"executed and cancelled":  {`{` + order + `,"state":"executed"}` + "\n" + `{` + order + `,"state":"cancelled"}`, "another line"},
	}
	onEachDatabase(t, outbox.End(), func(t *testing.T, p *place) {
		create(t, steps(t, p, answered), "good", start+1_000_000)
		o, path := again(t, p), filepath.Join(t.TempDir(), "executed")
		for name, s := range wrong {
			// A good line before it, which is settled only if all are.
			ok(t, os.WriteFile(path, []byte(`{"merchant":"shop","callBackId":"good","state":"open"}`+"\n"+s.lines+"\n"), 0o600))
			for _, settle := range []bool{false, true} {
				var found []Finding
				ended, err := Service(ctx, o, Config{Executed: path, Settle: settle, Report: into(&found), Now: start + 660})
				if ended || err == nil || !strings.Contains(err.Error(), s.want) || !strings.Contains(err.Error(), ", line ") || len(found) != 0 {
					t.Errorf("%s, settle %v: ended %v, found %+v, %v", name, settle, ended, found, err)
				}
			}
			for _, id := range []string{"order", "good"} {
				if w := must(o.WithdrawalByCallBackID(ctx, "shop", id))(t); !w.Restored {
					t.Errorf("%s: %s was opened again", name, id)
				}
			}
		}
	})
}

// The same at the gateway: what would open an order again says open, and is about that order.
func TestOnlyOpenReopensOrders(t *testing.T) {
	onEachDatabase(t, book.End(), func(t *testing.T, p *place) {
		b := restoredBook(t, p, "order", "good")
		good := Line{CallBackID: "good", State: "open"}
		for want, l := range map[string]Line{
			"write open":                    {CallBackID: "order", State: "approved"},
			"contradicted by txId":          {CallBackID: "order", State: "open", TxID: "tx"},
			"contradicted by confirmed":     {CallBackID: "order", State: "open", Confirmed: client.Time(start)},
			`"ended" is contradicted by tx`: {CallBackID: "order", State: "ended", TxID: "tx"},
			"amount is not that of order":   {CallBackID: "order", State: "open", Amount: amount("9")},
		} {
			var found []Finding
			ended, err := Gateway(ctx, b, Config{Booked: lines(t, good, l), Settle: true, Report: into(&found), Now: start + 200})
			if ended || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "line 2") || len(found) != 0 || !must(b.Order(ctx, "good"))(t).Restored {
				t.Errorf("%s: ended %v, found %+v, %v", want, ended, found, err)
			}
		}
		for _, settle := range []bool{false, true} {
			found, _ := reconcileGateway(t, b, settle, start+200, good, Line{CallBackID: "order", State: "open"}, Line{CallBackID: "order", State: "confirmed"})
			if len(found) != 2 || found[1].Finding != EndedThere || found[0].Finding != Reopened || found[0].CallBackID != "good" || found[0].Settled != settle {
				t.Errorf("found %+v", found)
			}
		}
	})
}

// An end that differs from that of the core is a finding, and so is another transaction.
func TestEndsAreCompared(t *testing.T) {
	for name, failed := range map[string]bool{"executed": false, "failed": true} {
		onEachDatabase(t, outbox.End(), func(t *testing.T, p *place) {
			o := steps(t, p, released)
			for state, missing := range map[string]bool{"executed": true, "failed": true, "released": false, "": false} {
				found, _ := reconcileService(t, o, false, start+700, Line{Merchant: "shop", CallBackID: "order", State: state})
				if (len(found) == 1 && found[0].Finding == OutcomeUnknown && found[0].There == state) != missing || len(found) > 1 {
					t.Errorf("released here, %q there: found %+v", state, found)
				}
			}
			became := outbox.Outcome{TxID: "tx"}
			if failed {
				became = outbox.Outcome{FailReason: "no funds"}
			}
			must(end(t, o, became, start+800))(t)
			for _, c := range []struct {
				state, tx string
				differs   bool
			}{
				{"executed", "", failed}, {"executed", "TX", failed}, {"executed", "tx", failed}, {"", "tx", failed}, {"executed", "other", true},
				{"failed", "", !failed}, {"released", "", false}, {"", "", false},
			} {
				found, _ := reconcileService(t, o, false, start+900, Line{Merchant: "shop", CallBackID: "order", State: c.state, TxID: c.tx})
				if (len(found) == 1 && found[0].Finding == EndDiffers) != c.differs || len(found) > 1 {
					t.Errorf("%s here, %q of %q there: found %+v", name, c.state, c.tx, found)
				}
			}
		})
	}
}

// What was released in a backup may have been executed since: while the restore is not reconciled
// nobody is told that it failed. That it was executed is taken at once.
func TestFailuresWait(t *testing.T) {
	onEachDatabase(t, outbox.End(), func(t *testing.T, p *place) {
		failure := outbox.Outcome{Permit: must(release(t, steps(t, p, released), "execution"))(t), FailReason: "no funds"}
		o := again(t, p)
		if _, err := end(t, o, failure, start+760); !errors.Is(err, db.ErrConflict) || !strings.Contains(err.Error(), "not reconciled") {
			t.Errorf("a failure before it is reconciled: %v", err)
		}
		if got := order(t, o); got.State != client.WithdrawalReleased {
			t.Errorf("it is %s", got.State)
		}
		if alarms := must(o.StandingAlarms(ctx, client.AlarmWalletDiffers))(t); len(alarms) != 0 {
			t.Errorf("alarms %+v", alarms)
		}
		reconcileService(t, o, true, start+770, Line{Merchant: "shop", CallBackID: "order", State: "failed"})
		if got, err := end(t, o, failure, start+780); err != nil || got.State != client.WithdrawalFailed {
			t.Errorf("and then: %s, %v", got.State, err)
		}
	})
}

// A line says each member once, in its own spelling, and an amount as a text: a program that writes
// numbers may have rounded it.
func TestLinesAreStrict(t *testing.T) {
	for text, want := range map[string]string{
		`{"trackingId":"a","amount":0.30000000000000004}`: "amount is not a text",
		`{"trackingId":"a","Amount":"1"}`:                 "write amount",
		`{"trackingId":"a","amount":"1","amount":"1"}`:    "occurs twice",
		`{"trackingId":"a","x":{"y":1,"y":1}}`:            "occurs twice",
		`{"trackingId":"a","CallBackId":"a"}`:             "write callBackId",
		`{"trackingId":"a","details":{"amount":"1"}}`:     "beside callBackId",
		`{"trackingId":"a"} {"trackingId":"a"}`:           "line 1",
		`{"trackingId":"a","x":{"y":1},"details":null}`:   "",
		`{"trackingId":"a","amount":true}`:                "amount is not a text",
		`{"trackingId":"a","amount":"1e3"}`:               "amount",
		`{"trackingId":"a","amount":"7.40"}`:              "",
		`{"trackingId":"a"}`:                              "",
	} {
		path := filepath.Join(t.TempDir(), "lines")
		ok(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
		var got Line
		err := Lines(path, func(l Line) error { got = l; return nil })
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "line 1")) {
			t.Errorf("%s: %v", text, err)
		}
		if err == nil && (got.TrackingID != "a" || strings.Contains(text, "7.40") != (got.Amount.String() == "7.40")) {
			t.Errorf("%s is %+v", text, got)
		}
	}
}
