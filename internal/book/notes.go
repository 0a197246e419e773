package book

import (
	"context"
	"strconv"

	"countersign/internal/db"
	"countersign/internal/journal"
)

func aboutOrder(callBackID string) string { return "order/" + callBackID }

func aboutDeposit(seq int64) string { return "deposit/" + strconv.FormatInt(seq, 10) }

// OrderNotes returns what people noted about an order, the oldest first.
func (b *Book) OrderNotes(ctx context.Context, callBackID string) ([]db.Note, error) {
	if _, err := b.Order(ctx, callBackID); err != nil {
		return nil, err
	}
	return db.Notes(ctx, b, aboutOrder(callBackID))
}

// NoteOrder adds a note about an order, and a record of it.
func (b *Book) NoteOrder(ctx context.Context, callBackID string, n db.Note) (db.Note, error) {
	if db.CheckText("", callBackID) != nil {
		return n, db.ErrNotFound
	}
	err := b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		o, err := findOrder(ctx, t, lockOrderSQL, callBackID)
		if err != nil {
			return err
		}
		if n, err = db.AddNote(ctx, t, aboutOrder(o.CallBackID), n); err != nil {
			return err
		}
		return journal.AddAbout(ctx, t, journal.OrderNoted, o.CallBackID, n.At, journal.Note{CallBackID: o.CallBackID, Number: n.Seq, Text: n.Text})
	})
	return n, err
}

// DepositNotes returns what people noted about a deposit, the oldest first. They go with it.
func (b *Book) DepositNotes(ctx context.Context, seq int64) ([]db.Note, error) {
	if _, err := b.Deposit(ctx, seq); err != nil {
		return nil, err
	}
	return db.Notes(ctx, b, aboutDeposit(seq))
}

// NoteDeposit adds a note about a deposit, and a record of it.
func (b *Book) NoteDeposit(ctx context.Context, seq int64, n db.Note) (db.Note, error) {
	err := b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		d, err := findDeposit(ctx, t, lockDepositSQL, seq) // so that it is not purged meanwhile
		if err != nil {
			return err
		}
		if n, err = db.AddNote(ctx, t, aboutDeposit(d.Seq), n); err != nil {
			return err
		}
		return journal.Add(ctx, t, journal.Record{Kind: journal.DepositNoted, At: n.At, Data: journal.Note{Deposit: d.Seq, Number: n.Seq, Text: n.Text}})
	})
	return n, err
}
