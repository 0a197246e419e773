package admin

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"countersign/client"
)

// TestNotes: notes are added by who may decide, in order, whoever adds at once, kept as they were
// written, and are in the audit log; nothing changes one.
func TestNotes(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		h.merchant("a")
		w, err := h.client(client.RoleCore).CreateWithdrawal(ctx, newWithdrawal("a", 1))
		if err != nil {
			t.Fatal(err)
		}
		operator, viewer := h.client(client.RoleOperator), h.client(client.RoleViewer)
		if n, err := viewer.WithdrawalNotes(ctx, w.ID); err != nil || n.Notes == nil || len(n.Notes) != 0 {
			t.Errorf("%+v, %v", n, err)
		}
		hostile := "=1+1 <script>\u202e\u0007" + strings.Repeat("ü", 1980)
		first, err := operator.NoteWithdrawal(ctx, w.ID, hostile)
		if err != nil || first.Number != 1 || first.Text != hostile || first.By == "" || first.Name == "" || first.At == 0 {
			t.Fatalf("%+v, %v", first, err)
		}
		var work sync.WaitGroup
		for i := range 8 {
			work.Go(func() {
				if _, err := h.client(client.RoleAdmin).NoteWithdrawal(ctx, w.ID, fmt.Sprint("at once ", i)); err != nil {
					t.Error(err)
				}
			})
		}
		work.Wait()
		got, err := viewer.WithdrawalNotes(ctx, w.ID)
		if err != nil || len(got.Notes) != 9 || got.Notes[0] != first {
			t.Fatalf("%d notes, %v", len(got.Notes), err)
		}
		for i, n := range got.Notes {
			if n.Number != int64(i+1) {
				t.Errorf("note %d has the number %d", i, n.Number)
			}
		}
		proof, err := viewer.AuditAbout(ctx, client.AuditAboutOptions{ID: w.ID})
		if err != nil {
			t.Fatal(err)
		}
		noted := 0
		for _, r := range proof.Entries {
			if strings.Contains(string(r.Record), `"withdrawal.noted"`) {
				noted++
			}
		}
		if noted != 9 {
			t.Errorf("the audit log has %d notes", noted)
		}
		for text, problem := range map[string]string{"": "text", " \n\t": "white space", strings.Repeat("x", 2001): "text", "a\x00": "text"} {
			if _, err := operator.NoteWithdrawal(ctx, w.ID, text); !errors.Is(err, client.ErrInvalid) || !strings.Contains(err.Error(), problem) {
				t.Errorf("%.10q: %v", text, err)
			}
		}
		for _, c := range []*client.Service{viewer, h.client(client.RoleCore)} {
			if _, err := c.NoteWithdrawal(ctx, w.ID, "x"); !errors.Is(err, client.ErrForbidden) {
				t.Error(err)
			}
		}
		other := h.bound(client.RoleOperator, "b")
		if _, err := other.NoteWithdrawal(ctx, w.ID, "x"); !errors.Is(err, client.ErrNotFound) {
			t.Error(err)
		}
		if _, err := other.WithdrawalNotes(ctx, w.ID); !errors.Is(err, client.ErrNotFound) {
			t.Error(err)
		}
		if _, err := operator.NoteWithdrawal(ctx, "a."+strings.Repeat("0", 26), "x"); !errors.Is(err, client.ErrNotFound) {
			t.Error(err)
		}
	})
}

// TestNotesAreBounded: a thing has 1,000 notes at most.
func TestNotesAreBounded(t *testing.T) {
	h := sqlite(t)
	h.merchant("a")
	w, err := h.client(client.RoleCore).CreateWithdrawal(t.Context(), newWithdrawal("a", 1))
	if err != nil {
		t.Fatal(err)
	}
	operator := h.client(client.RoleOperator)
	for range 1000 {
		h.pass(1e9)
		if _, err := operator.NoteWithdrawal(t.Context(), w.ID, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := operator.NoteWithdrawal(t.Context(), w.ID, "x"); !errors.Is(err, client.ErrConflict) {
		t.Error(err)
	}
}
