package outbox

import (
	"context"

	"countersign/internal/db"
	"countersign/internal/journal"
)

// AboutWithdrawal is the prefix of the subject of an approval or a note. The withdrawal's id follows.
const AboutWithdrawal = "withdrawal/"

func aboutWithdrawal(id string) string { return AboutWithdrawal + id }

// NoteWithdrawal adds a note about a withdrawal, and a record of it.
func (o *Outbox) NoteWithdrawal(ctx context.Context, id string, n db.Vote) error {
	return o.withWithdrawal(ctx, id, func(ctx context.Context, t *db.Tx, w *Withdrawal) error {
		seq, err := db.AddVote(ctx, t, aboutWithdrawal(w.ID), "", n)
		if err != nil {
			return err
		}
		return journal.AddAbout(ctx, t, journal.WithdrawalNoted, w.ID, n.At,
			journal.Note{Merchant: w.Merchant, CallBackID: w.CallBackID, Number: seq, Text: n.Text})
	})
}
