package book

import (
	"context"
	"strconv"

	"countersign/internal/db"
	"countersign/internal/journal"
)

// AboutOrder and AboutDeposit are prefixes of the subjects of approvals and notes. The id follows.
const (
	AboutOrder   = "order/"
	AboutDeposit = "deposit/"
)

func aboutOrder(callBackID string) string { return AboutOrder + callBackID }

func aboutDeposit(seq int64) string { return AboutDeposit + strconv.FormatInt(seq, 10) }

// NoteOrder adds a note about an order, and a record of it to the log.
func (b *Book) NoteOrder(ctx context.Context, callBackID string, n db.Vote) error {
	return b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		o, err := findOrder(ctx, t, lockOrderSQL, callBackID)
		if err != nil {
			return err
		}
		seq, err := db.AddVote(ctx, t, aboutOrder(o.CallBackID), "", n)
		if err != nil {
			return err
		}
		return journal.AddAbout(ctx, t, journal.OrderNoted, o.CallBackID, n.At,
			journal.Note{CallBackID: o.CallBackID, Number: seq, Text: n.Text})
	})
}

// NoteDeposit adds a note about a deposit, and a record of it to the log. Notes are purged with the deposit.
func (b *Book) NoteDeposit(ctx context.Context, seq int64, n db.Vote) error {
	return b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		d, err := findDeposit(ctx, t, lockDepositSQL, seq) // locked, so that it is not purged meanwhile
		if err != nil {
			return err
		}
		number, err := db.AddVote(ctx, t, aboutDeposit(d.Seq), "", n)
		if err != nil {
			return err
		}
		return journal.Add(ctx, t, journal.Record{Kind: journal.DepositNoted, At: n.At,
			Data: journal.Note{Deposit: d.Seq, Number: number, Text: n.Text}})
	})
}
