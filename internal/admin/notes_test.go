package admin

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// TestNotes: notes are added by who may decide, in order, whoever adds at once, kept as they were
// written, are in the audit log, and bounded; nothing changes one.
func TestNotes(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		h.merchant("a")
		w := acceptWithdrawal(h, newWithdrawal("a", 1))
		id := releaseTask(w.ID)
		operator, viewer, other := h.client(client.RoleOperator), h.client(client.RoleViewer), h.bound(client.RoleOperator, "b")
		hostile := "=1+1 <script>\u202e\u0007" + strings.Repeat("ü", 1980)
		first := must(operator.NoteTask(ctx, id, hostile))(t).Votes[0]
		if first.Verdict != "" || first.Note != hostile || first.Actor == "" || first.Name == "" || first.Origin == "" || first.At == 0 {
			t.Fatalf("%+v", first)
		}
		var work sync.WaitGroup
		for i := range 8 {
			work.Go(func() {
				if _, err := operator.NoteTask(ctx, id, fmt.Sprint("at once ", i)); err != nil {
					t.Error(err)
				}
			})
		}
		work.Wait()
		if got := must(viewer.Task(ctx, id))(t).Votes; len(got) != 9 || got[0] != first {
			t.Fatalf("%+v", got)
		}
		noted := 0
		for _, r := range must(client.Get[client.List[client.AuditEntry]](ctx, viewer, "/v1/audit/about", client.AuditAboutOptions{ID: w.ID}))(t).Items {
			noted += strings.Count(string(r.Record), `"withdrawal.noted"`)
		}
		if noted != 9 {
			t.Errorf("the audit log has %d notes", noted)
		}
		for text, problem := range map[string]string{"": "text", " \n\t": "is blank", strings.Repeat("x", 2001): "text", "a\x00": "text"} {
			dbtest.Fails(operator.NoteTask(ctx, id, text))(t, client.ErrInvalid, problem)
		}
		dbtest.Fails(viewer.NoteTask(ctx, id, "x"))(t, client.ErrForbidden, "")
		dbtest.Fails(h.client(client.RoleCore).NoteTask(ctx, id, "x"))(t, client.ErrForbidden, "")
		dbtest.Fails(other.NoteTask(ctx, id, "x"))(t, client.ErrNotFound, "")
		dbtest.Fails(other.Task(ctx, id))(t, client.ErrNotFound, "")
		dbtest.Fails(operator.NoteTask(ctx, releaseTask("a."+strings.Repeat("0", 26)), "x"))(t, client.ErrNotFound, "")
		// A thing has 1,000 notes at most.
		ok(t, h.store.Write(ctx, func(ctx context.Context, tx *db.Tx) error { // each answer has all notes: by calls it is a minute
			_, err := tx.Exec(ctx, `UPDATE votes SET seq = 999 WHERE seq = 9`)
			return err
		}))
		must(operator.NoteTask(ctx, id, "x"))(t)
		dbtest.Fails(operator.NoteTask(ctx, id, "x"))(t, client.ErrConflict, "")
	})
}
