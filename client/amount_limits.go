package client

import (
	"encoding/json"
	"strings"

	"countersign"
)

// AmountLimit is the amount of a currency above which a person must approve.
type AmountLimit struct {
	Symbol string             `json:"symbol" minLength:"1" maxLength:"64" doc:"the currency, in any case of its letters, 1 to 64 characters; * for every one that is not named"`
	Above  countersign.Amount `json:"above,omitzero" required:"true" doc:"in units of the currency: an exact decimal; what is greater needs an approval, so with 0 everything does"`
}

// AmountLimits are the limits of several currencies, each at most once.
type AmountLimits []AmountLimit

// AnySymbol stands for the currencies that no limit names.
const AnySymbol = "*"

// Exceeded reports whether an amount of a currency is above its limit. Where there are limits, a
// currency that none names is above every limit: its name may be another spelling of one that has one.
func (l AmountLimits) Exceeded(symbol string, amount countersign.Amount) bool {
	folded, at := countersign.FoldSymbol(symbol), -1
	for i, of := range l {
		switch {
		case countersign.FoldSymbol(of.Symbol) == folded:
			return amount.Sum().Cmp(of.Above.Sum()) > 0
		case of.Symbol == AnySymbol:
			at = i
		}
	}
	if at < 0 {
		return len(l) > 0
	}
	return amount.Sum().Cmp(l[at].Above.Sum()) > 0
}

// String writes limits as people do: USDT 10000, BTC 0.5.
func (l AmountLimits) String() string {
	var list []string
	for _, of := range l {
		list = append(list, of.Symbol+" "+of.Above.String())
	}
	return strings.Join(list, ", ")
}

// limitsJSON returns the JSON of what AmountLimits.String writes. Anything else stays as it is.
func limitsJSON(text string) string {
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		return text
	}
	var list []map[string]string
	for part := range strings.SplitSeq(text, ",") {
		f := strings.Fields(part)
		if len(f) != 2 {
			return text
		}
		list = append(list, map[string]string{"symbol": f[0], "above": f[1]})
	}
	b, err := json.Marshal(list)
	if err != nil {
		return text
	}
	return string(b)
}
