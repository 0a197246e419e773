package learn

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"countersign"
)

// NoteMark begins every note to a provider.
const NoteMark = "To the provider of our callbacks"

// Note is what to send to the provider: what no setting of the gateway changes, with what was
// seen, what the interface says, and an example. It is empty where nothing is left. It holds
// identifiers of callbacks, and no other value and no secret.
func (p *Provider) Note(at time.Time) string {
	all, refused, why := p.verdict()
	var items strings.Builder
	n := 0
	examples := map[countersign.Type]bool{}
	for _, t := range why {
		says := interfaceSays(t)
		if says == "" {
			continue
		}
		n++
		fmt.Fprintf(&items, "\n%d. Seen in %d of %d callbacks: %s%s.\n", n, t.n, all, about(t.typ), t.text)
		if len(t.ids) > 0 {
			fmt.Fprintf(&items, "   Such as:%s\n", t.names())
		}
		fmt.Fprintf(&items, "   The interface: %s\n", says)
		if example := exampleOf(t.typ); t.kind == faultMessage && example != "" && !examples[t.typ] {
			examples[t.typ] = true
			fmt.Fprintf(&items, "   Example of a whole callback of type %d, before it is sealed:\n   %s\n", int(t.typ), example)
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s\n\nBy %s we had received %d different callbacks from you. Our end must refuse %d of them. What follows cannot be changed\nby a setting at our end; please change it at yours, and send the callbacks again.\n%s",
		NoteMark, at.UTC().Format(time.DateTime+" UTC"), all, refused, items.String())
}

// interfaceSays is what the interface has in place of t; empty where the provider may not be
// at fault.
func interfaceSays(t tally) string {
	switch t.kind {
	case faultURL:
		return "callbacks of type 2 go to a URL of their own, all other types to another one."
	case faultMixed:
		return "all callbacks are sent in one way: one URL for type 2 and one for the others, one form of the body, one header for the API key."
	case faultForm:
		return "the body of a request is the sealed blocks in standard Base64, with + and / and padding, and nothing else: not compressed, not multipart, no byte order mark."
	case faultMessage:
	default:
		return ""
	}
	if !t.typ.Known() {
		return fmt.Sprintf("a message is one JSON object, in which each member is there once and type is a number from 1 to %d.", len(countersign.TypeUnknown.Values()))
	}
	for _, m := range exampleMembers(t.typ) {
		if !strings.HasPrefix(t.text, fmt.Sprintf("member %q ", m.name)) {
			continue
		}
		kind := m.kind
		if m.name == "amount" {
			kind = "a text of digits with at most one point between them, such as \"2.5\""
		}
		return fmt.Sprintf("%s is %s, and every callback of type %d has it.", m.name, kind, int(t.typ))
	}
	return "the message is one JSON object with the members of the example, each once."
}

// member is one member of an example.
type member struct{ name, kind string }

func exampleMembers(t countersign.Type) (list []member) {
	example := exampleOf(t)
	if example == "" {
		return nil
	}
	f := Finding{}
	f.message([]byte(example))
	for i, name := range f.Names {
		list = append(list, member{name, f.kinds[i]})
	}
	return list
}

// exampleOf is a plaintext of a callback as the interface has it, with values of nobody's.
func exampleOf(t countersign.Type) string {
	const (
		user, order, chain, symbol = "65515", "order-1", "TRON", "USDT"
		to, uuid                   = "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8", "7c0f1b52-9f0e-4a53-9d4b-4a1c2b7d9e10"
		txID                       = "0000000000000000000000000000000000000000000000000000000000000001"
	)
	head := countersign.Head{TrackingID: "tracking-1", TenantUserID: user, RequestUUID: uuid}
	amount, err := countersign.ParseAmount("2.5")
	var m interface{ Marshal() ([]byte, error) }
	switch t.Effect() {
	case countersign.EffectDeposit:
		m = &countersign.Deposit{Head: head, TxID: txID, ChainName: chain, Symbol: symbol, Amount: amount, FromAddress: to, ToAddress: to}
	case countersign.EffectQuestion:
		m = &countersign.WithdrawalRequest{Head: head, CallBackID: order}
	case countersign.EffectExecuted:
		m = &countersign.WithdrawalDone{Head: head, CallBackID: order, TxID: txID, ChainName: chain, Symbol: symbol, Amount: amount, FromAddress: to, ToAddress: to}
	case countersign.EffectAddress:
		m = &countersign.AddressChange{Head: head, ChainName: chain, Symbol: symbol, ToAddress: to, NewAddress: to}
	case countersign.EffectEnded:
		m = &countersign.WithdrawalEnded{Head: head, CallBackID: order}
	case countersign.EffectWaiting:
		m = &countersign.WithdrawalNotice{Head: head, Type: t, CallBackID: order}
	default:
		return ""
	}
	b, err2 := m.Marshal()
	if errors.Join(err, err2) != nil {
		return ""
	}
	return string(b)
}
