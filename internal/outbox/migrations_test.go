package outbox

import (
	"fmt"
	"strings"
	"testing"

	"countersign/internal/db"
)

// TestConstantsInSQL: the numbers that SQL texts repeat are those of the constants.
func TestConstantsInSQL(t *testing.T) {
	schema := string(must(migrations.ReadFile("migrations/0001_service.sql"))(t))
	for _, want := range []string{
		fmt.Sprintf("WHEN failures >= %d THEN", BreakerThreshold),
		fmt.Sprintf("DEFAULT %d, -- of rows that are pending", db.Never),
		fmt.Sprintf("deadline < %d;", db.Never),
	} {
		if !strings.Contains(schema, want) {
			t.Errorf("the schema lacks %q", want)
		}
	}
	for _, text := range []string{claimLaneSQL, recheckSQL, nextDueSQL, resendSQL, lanesSQL, lateCallbacksSQL} {
		if !strings.Contains(text, fmt.Sprint(int64(db.Never))) {
			t.Errorf("%q lacks Never", text)
		}
	}
}
