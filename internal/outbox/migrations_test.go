package outbox

import (
	"fmt"
	"strings"
	"testing"

	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/pace"
)

// TestMigrations: the same numbers for both databases, and the constants that texts
// repeat.
func TestMigrations(t *testing.T) {
	dbtest.CheckMigrations(t, End().Migrations)
	for _, dialect := range []string{"sqlite", "postgres"} {
		text := string(must(migrations.ReadFile("migrations/" + dialect + "/0001_service.sql"))(t))
		for _, want := range []string{
			fmt.Sprintf("WHEN failures >= %d THEN", pace.BreakerThreshold),
			fmt.Sprintf("DEFAULT %d, -- of rows that are pending", db.Never),
			fmt.Sprintf("deadline < %d;", db.Never),
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q", dialect, want)
			}
		}
	}
	for _, text := range []string{claimLaneSQL, recheckSQL, nextDueSQL, resendSQL, overlookedSQL, lateCallbacksSQL} {
		if !strings.Contains(text, fmt.Sprint(int64(db.Never))) {
			t.Errorf("%q lacks Never", text)
		}
	}
}
