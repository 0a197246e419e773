package outbox

import (
	"slices"
	"testing"
	"testing/fstest"

	"countersign"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
)

// TestBesideALaterVersion: the work goes on beside a node of a later version that adds a
// column to every table, with statements that were prepared before.
func TestBesideALaterVersion(t *testing.T) {
	for name, run := range map[string]func(*testing.T, *Outbox){
		"merchants": testMerchants, "outcome": testOutcome, "resent": testResendMatching,
	} {
		t.Run(name, func(t *testing.T) {
			url := dialects[1].url(t)
			s := openAt(t, url)
			must(s.Merchants(ctx, nil, "", 10))(t)
			must(s.Decisions(ctx, 0, 10))(t)
			must(endtest.Alarms(ctx, s))(t)
			must(s.Claim(ctx, ClaimRequest{Lane: countersign.LaneNotify, Node: "early", Now: 1, LeaseUntil: 2, Max: 50}))(t)
			text := "-- oldest: 1\n"
			for _, table := range dbtest.Tables(t, url) {
				if table != "schema_version" && table != "meta" {
					text += "ALTER TABLE " + table + " ADD COLUMN of_a_later_version TEXT NOT NULL DEFAULT 'x';\n"
				}
			}
			wide := End()
			wide.Migrations = append(slices.Clip(wide.Migrations), fstest.MapFS{"migrations/0002_wide.sql": {Data: []byte(text)}})
			newer := must(db.Open(ctx, db.Config{URL: url, Keys: testKeys}, wide))(t)
			defer newer.Close()
			run(t, s)
			must(db.Open(ctx, db.Config{URL: url, Keys: testKeys}, End()))(t).Close()
		})
	}
}
