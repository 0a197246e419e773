package outbox

import (
	"context"
	"encoding/json"
	"slices"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
)

var answerPurpose = []string{"answer"}

const (
	keepAnswerSQL = `INSERT INTO answers (id, data_key, answer) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING`
	readAnswerSQL = `SELECT data_key, answer FROM answers WHERE id = $1`
	dropAnswerSQL = `DELETE FROM answers WHERE id = $1`
)

var insertAnswers = db.NewInsert(keepAnswerSQL, 50, 5)

// evidence is a row of answers: it proves why a withdrawal is confirmed. It is sealed, so somebody who can only write
// to the database cannot forge one. The zero value is no evidence.
type evidence struct {
	Answer *client.SignedAnswer `json:"answer,omitempty"`
	// Key is the public key that verified Answer when it came. The merchant may have another key when the permit is
	// asked for again.
	Key string `json:"key,omitempty"`
	// Unsigned holds the details of an answer that came while the merchant had no answerKey. They stay valid when the
	// merchant gets one.
	Unsigned *client.Details `json:"unsigned,omitempty"`
	// Adopted replaces an answer that a restore lost: reconcile recorded that the core has the permit for these
	// details.
	Adopted *client.Details `json:"adopted,omitempty"`
}

// sealEvidence returns the arguments of keepAnswerSQL.
func (o *Outbox) sealEvidence(id string, e evidence) ([]any, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	key, sealed := o.Seal(db.Record{Table: SealedAnswers.Name, Row: id}, answerPurpose, [][]byte{text})
	return []any{id, key, sealed[0]}, nil
}

// settleAnswers stores the answers with which the batch confirmed withdrawals.
func (o *Outbox) settleAnswers(ctx context.Context, t *db.Tx, batch []*settling) error {
	var args []any
	for _, b := range batch {
		if b.awaiting != 1 || b.decided != countersign.DecisionConfirmed {
			continue
		}
		var e evidence
		switch {
		case !b.signs:
			e.Unsigned = &b.Details
		case b.Exchange != nil && b.Exchange.Signed != nil:
			e.Answer, e.Key = b.Exchange.Signed, b.Exchange.SignedBy
		default:
			continue
		}
		row, err := o.sealEvidence(b.CallbackID, e)
		if err != nil {
			return err
		}
		args = append(args, row...)
	}
	return t.Batch(ctx, insertAnswers.Statements(args, nil))
}

// openEvidence inverts sealEvidence. If the row is missing or does not open, it returns no evidence.
func (o *Outbox) openEvidence(id string, key, sealed []byte) (e evidence) {
	if sealed == nil {
		return e
	}
	plain, err := o.Unseal(db.Record{Table: SealedAnswers.Name, Row: id}, answerPurpose, key, [][]byte{sealed})
	if err != nil || json.Unmarshal(plain[0], &e) != nil {
		return evidence{}
	}
	return e
}

// bears reports whether e proves that the merchant confirmed w. keys are the merchant's present keys. again means
// that the permit of w was issued before. The key that verified the answer then counts too, and so does what
// reconcile recorded.
func (e evidence) bears(w *Withdrawal, again bool, keys []*envelope.SigningKey) bool {
	if w.Details == nil {
		return false
	}
	d := e.Unsigned
	if again && d == nil {
		d = e.Adopted
	}
	if d != nil {
		return d.Differs(*w.Details) == ""
	}
	if again && e.Key != "" {
		if then, err := envelope.ParseSigningKeys(e.Key); err == nil {
			keys = append(slices.Clip(keys), then...)
		}
	}
	return e.Answer != nil && e.Answer.Confirms(w.CallBackID, *w.Details, keys...) == nil
}
