package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"countersign/client"
	"countersign/internal/db"
)

// TestNotes: notes are added by who may decide, in order, whoever adds at once, kept as they were
// written, are in the audit log, and bounded; nothing changes one.
func TestNotes(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		h.merchant("a")
		w, err := h.client(client.RoleCore).CreateWithdrawal(ctx, newWithdrawal("a", 1))
		if err != nil {
			t.Fatal(err)
		}
		operator, viewer := h.client(client.RoleOperator), h.client(client.RoleViewer)
		if n, err := viewer.Task(ctx, releaseTask(w.ID)); err != nil || n.Votes == nil || len(n.Votes) != 0 {
			t.Errorf("%+v, %v", n, err)
		}
		hostile := "=1+1 <script>\u202e\u0007" + strings.Repeat("ü", 1980)
		shown, err := operator.NoteTask(ctx, releaseTask(w.ID), hostile)
		if err != nil || len(shown.Votes) != 1 {
			t.Fatalf("%+v, %v", shown, err)
		}
		first := shown.Votes[0]
		if first.Verdict != "" || first.Note != hostile || first.Actor == "" || first.Name == "" || first.Origin == "" || first.At == 0 {
			t.Fatalf("%+v", first)
		}
		var work sync.WaitGroup
		for i := range 8 {
			work.Go(func() {
				if _, err := h.client(client.RoleAdmin).NoteTask(ctx, releaseTask(w.ID), fmt.Sprint("at once ", i)); err != nil {
					t.Error(err)
				}
			})
		}
		work.Wait()
		got, err := viewer.Task(ctx, releaseTask(w.ID))
		if err != nil || len(got.Votes) != 9 || got.Votes[0] != first {
			t.Fatalf("%d notes, %v", len(got.Votes), err)
		}
		proof := must(viewer.AuditAbout(ctx, client.AuditAboutOptions{ID: w.ID}))(t)
		noted := 0
		for _, r := range proof.Entries {
			if strings.Contains(string(r.Record), `"withdrawal.noted"`) {
				noted++
			}
		}
		if noted != 9 {
			t.Errorf("the audit log has %d notes", noted)
		}
		for text, problem := range map[string]string{"": "text", " \n\t": "is blank", strings.Repeat("x", 2001): "text", "a\x00": "text"} {
			if _, err := operator.NoteTask(ctx, releaseTask(w.ID), text); !errors.Is(err, client.ErrInvalid) || !strings.Contains(err.Error(), problem) {
				t.Errorf("%.10q: %v", text, err)
			}
		}
		for _, c := range []*client.Service{viewer, h.client(client.RoleCore)} {
			if _, err := c.NoteTask(ctx, releaseTask(w.ID), "x"); !errors.Is(err, client.ErrForbidden) {
				t.Error(err)
			}
		}
		other := h.bound(client.RoleOperator, "b")
		if _, err := other.NoteTask(ctx, releaseTask(w.ID), "x"); !errors.Is(err, client.ErrNotFound) {
			t.Error(err)
		}
		if _, err := other.Task(ctx, releaseTask(w.ID)); !errors.Is(err, client.ErrNotFound) {
			t.Error(err)
		}
		if _, err := operator.NoteTask(ctx, releaseTask("a."+strings.Repeat("0", 26)), "x"); !errors.Is(err, client.ErrNotFound) {
			t.Error(err)
		}
		// A thing has 1,000 notes at most.
		ok(t, h.store.Write(ctx, func(ctx context.Context, tx *db.Tx) error { // each answer has all notes: by calls it is a minute
			_, err := tx.Exec(ctx, `UPDATE votes SET seq = 999 WHERE seq = 9`)
			return err
		}))
		must(operator.NoteTask(ctx, releaseTask(w.ID), "x"))(t)
		if _, err := operator.NoteTask(ctx, releaseTask(w.ID), "x"); !errors.Is(err, client.ErrConflict) {
			t.Error(err)
		}
	})
}
