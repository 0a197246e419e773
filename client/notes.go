package client

import (
	"context"
	"net/http"
	"strconv"
)

// Note is what a person noted about a withdrawal, an order or a deposit. None is ever changed.
type Note struct {
	Number int64  `json:"number" minimum:"1" doc:"counts the notes about one thing, from 1"`
	At     Time   `json:"at" doc:"when it was noted"`
	By     string `json:"by" doc:"id of the token that noted it"`
	Name   string `json:"name,omitempty" doc:"name of that token then"`
	Text   string `json:"text" doc:"what was noted"`
}

// Notes are those about one thing.
type Notes struct {
	Notes []Note `json:"notes" nullable:"false" doc:"the oldest first"`
}

// NewNote is a note to be added.
type NewNote struct {
	Text string `json:"text" minLength:"1" maxLength:"2000" doc:"what is noted, 1 to 2,000 characters; it is kept in the audit log too, for ever"`
}

// WithdrawalNotes gives what people noted about a withdrawal, the oldest first.
func (s *Service) WithdrawalNotes(ctx context.Context, id string) (Notes, error) {
	return ask[Notes](ctx, &s.caller, http.MethodGet, pathOf("withdrawals", id, "/notes"), nil)
}

// NoteWithdrawal notes something about a withdrawal. Each call adds a note; a thousand about one
// thing are the most, and then the error is ErrConflict.
func (s *Service) NoteWithdrawal(ctx context.Context, id, text string) (Note, error) {
	return ask[Note](ctx, &s.caller, http.MethodPost, pathOf("withdrawals", id, "/notes"), NewNote{text})
}

// OrderNotes gives what people noted about an order, the oldest first.
func (g *Gateway) OrderNotes(ctx context.Context, callBackID string) (Notes, error) {
	return ask[Notes](ctx, &g.caller, http.MethodGet, pathOf("orders", callBackID, "/notes"), nil)
}

// NoteOrder is NoteWithdrawal about an order.
func (g *Gateway) NoteOrder(ctx context.Context, callBackID, text string) (Note, error) {
	return ask[Note](ctx, &g.caller, http.MethodPost, pathOf("orders", callBackID, "/notes"), NewNote{text})
}

// DepositNotes gives what people noted about a deposit, the oldest first.
func (g *Gateway) DepositNotes(ctx context.Context, seq int64) (Notes, error) {
	return ask[Notes](ctx, &g.caller, http.MethodGet, pathOf("deposits", strconv.FormatInt(seq, 10), "/notes"), nil)
}

// NoteDeposit is NoteWithdrawal about a deposit. The note goes when the deposit is purged.
func (g *Gateway) NoteDeposit(ctx context.Context, seq int64, text string) (Note, error) {
	return ask[Note](ctx, &g.caller, http.MethodPost, pathOf("deposits", strconv.FormatInt(seq, 10), "/notes"), NewNote{text})
}
