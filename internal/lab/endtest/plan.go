package endtest

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"countersign/internal/db"
)

// PlanKept returns how PostgreSQL would run text with arguments of types, by a plan that is kept for all arguments.
func PlanKept(t testing.TB, d *db.DB, types, text, arguments string) string {
	t.Helper()
	ctx := t.Context()
	var lines []string
	err := d.Write(ctx, func(ctx context.Context, x *db.Tx) error {
		if _, err := x.Exec(ctx, `PREPARE looked `+types+` AS `+text); err != nil {
			return err
		}
		explain := `EXPLAIN (COSTS OFF) EXECUTE looked ` + arguments
		err := db.Each(ctx, x, explain, []any{pgx.QueryExecModeSimpleProtocol}, func(r db.Rows) error {
			lines = append(lines, "")
			return r.Scan(&lines[len(lines)-1])
		})
		if err != nil {
			return err
		}
		_, err = x.Exec(ctx, `DEALLOCATE looked`)
		return err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return strings.Join(lines, "\n")
}

// Plan returns how a database would run text.
func Plan(t testing.TB, d *db.DB, text string, args []any) string {
	t.Helper()
	ctx := t.Context()
	if d.Dialect().ConcurrentWriters {
		types := make([]string, len(args))
		for i, a := range args {
			types[i] = "bigint"
			if _, ok := a.(string); ok {
				types[i] = "text"
			}
		}
		if len(args) == 0 {
			return PlanKept(t, d, "", text, "")
		}
		return PlanKept(t, d, "("+strings.Join(types, ", ")+")", text, "("+strings.Repeat("NULL, ", len(args)-1)+"NULL)")
	}
	var lines strings.Builder
	err := db.Each(ctx, d, "EXPLAIN QUERY PLAN "+text, args, func(r db.Rows) error {
		var id, parent, unused int
		var detail string
		err := r.Scan(&id, &parent, &unused, &detail)
		lines.WriteString(detail + "\n")
		return err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return lines.String()
}
