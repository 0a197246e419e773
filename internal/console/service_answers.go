package console

import (
	"encoding/json"

	"countersign"
	"countersign/client"
)

// answer is what the audit log has of one answer to the question about a withdrawal.
type answer struct {
	Attempt  int
	ErrCode  *int64
	Message  string // the merchant's words
	Reason   string
	Late     bool // it came after its lease was lost and changed nothing
	Details  *client.Details
	URL      string
	Request  string // the sealed body, as it was sent
	Response string // the sealed answer, as it came
	Opened   string `json:"responseOpened"`
}

// answers are those of a withdrawal, in order. There are none for a token that may not
// read the audit log.
func (v *visit) answers(w client.Withdrawal) ([]answer, error) {
	if !v.may("auditEvidence") {
		return nil, nil
	}
	proof, err := v.service.AuditEvidence(v.r.Context(), client.AuditOptions{Withdrawal: w.ID})
	if err != nil {
		if statusOf(err) < 500 { // nothing is recorded of it
			return nil, nil
		}
		return nil, err
	}
	var list []answer
	for _, r := range proof.Records {
		row := auditRowOf(r.Seq, r.Record)
		if row.Kind != "withdrawal.answered" {
			continue
		}
		var a answer
		if json.Unmarshal(row.Data, &a) != nil {
			continue
		}
		a.Details = nil // what the answer says, not what was taken from it
		if opened, err := countersign.ParseWithdrawalAnswer([]byte(a.Opened)); err == nil {
			a.Details = &client.Details{Address: opened.Address, ChainName: opened.ChainName, Symbol: opened.Symbol, Amount: opened.Amount}
		}
		list = append(list, a)
	}
	return list, nil
}
