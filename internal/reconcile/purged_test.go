package reconcile

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign"
	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/outbox"
	"countersign/merchant"
)

// TestPurgedIsKnown: what the merchant has booked is found at both ends by its trackingId though it was purged, and what
// it has not booked is named.
func TestPurgedIsKnown(t *testing.T) {
	const day db.Millis = 24 * 3_600_000
	const late, now = start + 80*day, start + 91*day
	told := []merchant.Entry{told("old", start), told("lost", start), told("young", late)}
	purge := func(t *testing.T, d *db.DB, purger func(db.PurgeConfig) (*db.Purger, error)) {
		t.Helper()
		p := must(purger(db.PurgeConfig{DB: d, Keep: 90 * 24 * time.Hour, Now: time.Now, Log: slog.New(slog.DiscardHandler)}))(t)
		if done := must(p.Step(ctx, now))(t); done.Purged != 2 || !done.Ended {
			t.Fatalf("purged %+v", done)
		}
	}
	check := func(t *testing.T, compare func(Config) error) {
		t.Helper()
		var booked []any
		for _, id := range []string{"old", "young", "other"} {
			booked = append(booked, Line{Merchant: "shop", TrackingID: id, Symbol: "USDT", Amount: amount("7.4")})
		}
		got := map[string]Kind{}
		err := compare(Config{Booked: lines(t, booked...), Now: now, Report: func(f Finding) error {
			got[f.TrackingID] = f.Finding
			return nil
		}})
		if diff := cmp.Diff(map[string]Kind{"lost": SentNotBooked, "other": BookedNotSent}, got); err != nil || diff != "" {
			t.Errorf("%v: %s", err, diff)
		}
	}
	onEachDatabase(t, outbox.End(), func(t *testing.T, p *place) {
		o := outbox.New(p.db(false))
		addShop(t, o)
		for _, e := range told {
			id, at := e.ID, db.MillisOf(e.At)
			must(o.Ingest(ctx, []outbox.NewCallback{{Merchant: "shop", Type: countersign.TypeDeposited, EventID: id, TrackingID: id,
				Payload: fmt.Appendf(nil, `{"type":1,"trackingId":%q,"symbol":"USDT","amount":"7.4"}`, id), Due: at, Deadline: db.Never}}, at))(t)
			for _, c := range must(o.Claim(ctx, outbox.ClaimRequest{Lane: countersign.LaneNotify, Now: at, LeaseUntil: at + 1000, Max: 10}))(t) {
				must(o.Settle(ctx, []outbox.Settlement{{Merchant: "shop", CallbackID: c.ID, State: client.CallbackAccepted, Reached: true, MerchantVersion: c.MerchantVersion,
					Attempt: outbox.Attempt{Attempt: client.Attempt{Number: c.Attempt, RequestUUID: id, Result: "accepted", Reason: "accepted", Node: "n"}}}}, at))(t)
			}
		}
		purge(t, o.DB, outbox.NewPurger)
		check(t, func(c Config) error { _, err := Service(ctx, o, c); return err })
	})
	onEachDatabase(t, book.End(), func(t *testing.T, p *place) {
		b := book.New(p.db(false), book.Config{})
		for _, e := range told {
			must(b.Claim(ctx, e))(t)
		}
		purge(t, b.DB, book.NewPurger)
		check(t, func(c Config) error { _, err := Gateway(ctx, b, c); return err })
	})
}
