package outbox

import (
	"context"
	"encoding/json"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
)

// SealedAnswers is the table of signed answers with its data keys. It is sealed because the body
// has the merchant's API key.
var SealedAnswers = db.SealedTable{Name: "answers", Key: "id", DataKey: "data_key"}

var answerPurpose = []string{"answer"}

func placeAnswer(id string) db.Record { return db.Record{Table: SealedAnswers.Name, Row: id} }

const (
	keepAnswerSQL = `INSERT INTO answers (id, data_key, answer) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING`
	readAnswerSQL = `SELECT data_key, answer FROM answers WHERE id = $1`
	dropAnswerSQL = `DELETE FROM answers WHERE id = $1`
)

var insertAnswers = db.NewInsert(keepAnswerSQL, 50, 5)

// settleAnswers keeps the signed answers with which the batch confirmed withdrawals.
func (o *Outbox) settleAnswers(ctx context.Context, t *db.Tx, batch []*settling) error {
	var args []any
	for _, b := range batch {
		if b.awaiting != 1 || b.decided != countersign.DecisionConfirmed || b.Exchange == nil || b.Exchange.Signed == nil {
			continue
		}
		text, err := json.Marshal(b.Exchange.Signed)
		if err != nil {
			return err
		}
		key, sealed, err := o.Seal(ctx, placeAnswer(b.CallbackID), answerPurpose, [][]byte{text})
		if err != nil {
			return err
		}
		args = append(args, b.CallbackID, key, sealed[0])
	}
	return t.Batch(ctx, insertAnswers.Statements(args, nil))
}

// keptAnswer is a row of answers. The zero value is none.
type keptAnswer struct{ key, sealed []byte }

// read is the statement that reads the row of the withdrawal id.
func (k *keptAnswer) read(id string) db.Statement {
	return db.Statement{SQL: readAnswerSQL, Args: []any{id}, Row: func(r db.Rows) error { return r.Scan(&k.key, &k.sealed) }}
}

// open gives the answer; nil: none is kept, or what is kept does not open, which is as good as none.
func (k *keptAnswer) open(ctx context.Context, d *db.DB, id string) (*client.SignedAnswer, error) {
	if k.sealed == nil {
		return nil, nil
	}
	plain, err := d.Unseal(ctx, placeAnswer(id), answerPurpose, k.key, [][]byte{k.sealed})
	if err != nil {
		return nil, ctx.Err()
	}
	var a client.SignedAnswer
	if json.Unmarshal(plain[0], &a) != nil {
		return nil, nil
	}
	return &a, nil
}

// unsigned reports whether a merchant with these keys has not signed a as the confirmation of w.
// Without keys the merchant signs nothing, and the row counts.
func (w *Withdrawal) unsigned(a *client.SignedAnswer, keys []*envelope.SigningKey) bool {
	return keys != nil && (a == nil || w.Details == nil || a.Confirms(w.CallBackID, *w.Details, keys...) != nil)
}
