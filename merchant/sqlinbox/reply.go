package sqlinbox

import (
	"encoding/json"
	"fmt"

	"countersign"
	"countersign/merchant"
)

// storedReply is a merchant.Reply as it is stored.
type storedReply struct {
	Code         int64  `json:"code"`
	Message      string `json:"message,omitempty"`
	TenantUserID string `json:"tenantUserId,omitempty"`
	Address      string `json:"address,omitempty"`
	ChainName    string `json:"chainName,omitempty"`
	Symbol       string `json:"symbol,omitempty"`
	Amount       string `json:"amount,omitempty"`
}

func formatReply(r merchant.Reply) string {
	d := r.Details
	text, err := json.Marshal(storedReply{int64(r.Code), r.Message, r.TenantUserID, d.Address, d.ChainName, d.Symbol,
		d.Amount.String()})
	if err != nil {
		panic(err) // a struct of texts and a number
	}
	return string(text)
}

func parseReply(text []byte) (r merchant.Reply, err error) {
	var s storedReply
	if err := json.Unmarshal(text, &s); err != nil {
		return merchant.Reply{}, fmt.Errorf("the recorded reply: %w", err)
	}
	r = merchant.Reply{Code: countersign.ErrCode(s.Code), Message: s.Message, TenantUserID: s.TenantUserID,
		Details: countersign.Details{Address: s.Address, ChainName: s.ChainName, Symbol: s.Symbol}}
	if s.Amount != "" {
		r.Details.Amount, err = countersign.ParseAmount(s.Amount)
	}
	return r, err
}
