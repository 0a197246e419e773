package console

import (
	"encoding/json"
	"slices"

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
	if !v.may("auditAbout") {
		return nil, nil
	}
	about, err := v.service.AuditAbout(v.r.Context(), client.AuditAboutOptions{ID: w.ID, Limit: 1000})
	if err != nil {
		return nil, err
	}
	var list []answer
	for _, e := range slices.Backward(about.Entries) {
		row := auditRowOf(e.Seq, e.Record)
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
