package conformance_test

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"countersign"
	"countersign/envelope"
)

func parsePublic(key *envelope.Key) *rsa.PublicKey {
	der, err := base64.StdEncoding.DecodeString(key.PublicBase64())
	if err != nil {
		panic(err)
	}
	pub, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		panic(err)
	}
	return pub.(*rsa.PublicKey)
}

func str(v any) string {
	s, _ := v.(string)
	return s
}

// deposit takes a deposit. f.mu is held.
func (f *fake) deposit(m map[string]any) verdict {
	if f.refusesDeposit(m) {
		return refuse(5000)
	}
	key := "1 " + str(m["trackingId"])
	if f.contradicts(key, m) {
		return refuse(2002)
	}
	if old, ok := f.kept[key]; ok {
		switch {
		case f.has("refuses repeats"):
			return refuse(2002)
		case f.has("keeps its first answer"):
			return verdict{status: 200, answer: old}
		}
	} else if f.has("identifies by transaction") {
		for k, o := range f.kept {
			if strings.HasPrefix(k, "1 ") && o["txId"] == m["txId"] && o["toAddress"] == m["toAddress"] {
				return refuse(2002)
			}
		}
	}
	answer := map[string]any{"callBackId": nil, "state": nil, "tenantType": nil}
	for _, name := range []string{"type", "trackingId", "txId", "txIndex", "chainName", "symbol", "amount", "fromAddress", "toAddress", "tenantUserId", "requestUUID"} {
		answer[name] = m[name]
	}
	f.spoilDeposit(answer, m)
	if _, ok := f.kept[key]; !ok || f.has("credits repeats") {
		if suspect := f.suspects(m); !f.has("credits nothing") && (!suspect || ok) {
			f.credit(str(m["trackingId"]), str(m["amount"]))
		}
		f.kept[key] = answer
	}
	return verdict{status: 200, answer: answer}
}

// credit books a deposit. f.mu is held.
func (f *fake) credit(id, amount string) {
	switch {
	case f.has("rounds credits"):
		n, _ := strconv.ParseFloat(amount, 64)
		amount = strconv.FormatFloat(n, 'f', 8, 64)
	case f.has("answers before it keeps"):
		f.unkept = append(f.unkept, id)
	case f.has("credits the one before again") && f.last != "":
		f.effects[f.last] = append(f.effects[f.last], f.effects[f.last][0])
	}
	f.effects[id], f.last = append(f.effects[id], amount), id
}

// contradicts reports whether key stood for something else before.
func (f *fake) contradicts(key string, m map[string]any) bool {
	members := []string{"tenantUserId", "callBackId", "txId", "chainName", "symbol", "amount", "toAddress"}
	if strings.HasPrefix(key, "2 ") {
		members = []string{"trackingId"} // the user is compared with the order
	}
	content := ""
	for _, name := range members {
		if !f.has("takes another " + name) {
			value := fmt.Sprint(m[name])
			if n, err := strconv.ParseFloat(value, 64); err == nil && name == "amount" && f.has("compares floats") {
				value = fmt.Sprint(n)
			}
			content += value + "\n"
		}
	}
	before, known := f.contents[key]
	if f.has("no binding") {
		return false // a spliced question could be refused for its other trackingId
	}
	if !known {
		f.contents[key] = content
	}
	return known && before != content
}

// suspects records the transfer of m and reports whether it may be one that was
// told before.
func (f *fake) suspects(m map[string]any) bool {
	key := ""
	for _, name := range []string{"chainName", "txId", "symbol", "toAddress"} {
		v := str(m[name])
		if !f.has("spelling counts") {
			v = strings.TrimPrefix(strings.Map(visible, strings.ToLower(v)), "0x")
		}
		key += v + "\n"
	}
	index, _ := m["txIndex"].(json.Number)
	t, before := transfer{index, str(m["amount"])}, f.transfers[key]
	if a, err := countersign.ParseAmount(t.amount); err == nil {
		t.amount = a.Canonical()
	}
	f.transfers[key] = append(before, t)
	return !f.has("suspects nothing") && slices.ContainsFunc(before, func(b transfer) bool {
		return b.index == index || b.index == "-1" || index == "-1" || b.amount == t.amount && !f.has("another index is another transfer")
	})
}

// visible drops white space and format characters.
func visible(r rune) rune {
	if unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) {
		return -1
	}
	return r
}

func (f *fake) refusesDeposit(m map[string]any) bool {
	amount := str(m["amount"])
	whole := func(name string) *big.Int {
		n, _ := m[name].(json.Number)
		i, ok := new(big.Int).SetString(n.String(), 10)
		if !ok {
			return new(big.Int)
		}
		return i
	}
	for fault, refuses := range map[string]bool{
		"knows all members":     len(m) > 15,
		"empty is missing":      m["fromAddress"] == "",
		"no negative index":     whole("txIndex").Sign() < 0,
		"whole numbers 32 bit":  whole("txIndex").BitLen() > 31 || whole("business").BitLen() > 31,
		"risk 1 to 99":          whole("riskLevelFrom").Sign() == 0 && whole("riskLevelTo").Sign() == 0 || whole("riskLevelTo").Int64() > 99,
		"64 characters":         len(str(m["txId"])) > 66,
		"no trailing zeros":     strings.Contains(amount, ".") && strings.HasSuffix(amount, "0"),
		"amounts need a point":  !strings.Contains(amount, "."),
		"refuses every deposit": true,
	} {
		if refuses && f.has(fault) {
			return true
		}
	}
	return false
}

func (f *fake) spoilDeposit(answer, m map[string]any) {
	for fault, change := range map[string]func(){
		"zero index is none": func() {
			if n, _ := m["txIndex"].(json.Number); n == "0" {
				answer["txIndex"] = -1
			}
		},
		"newAddress always counts": func() {
			if a := str(m["newAddress"]); a != "" {
				answer["toAddress"] = a
			}
		},
		"lower-cases addresses": func() { answer["fromAddress"] = strings.ToLower(str(m["fromAddress"])) },
		"float amounts": func() {
			v, _ := strconv.ParseFloat(str(m["amount"]), 64)
			answer["amount"] = fmt.Sprint(v)
		},
		"trims all zeros":  func() { answer["amount"] = strings.TrimRight(str(m["amount"]), "0.") },
		"no requestUUID":   func() { delete(answer, "requestUUID") },
		"no type":          func() { delete(answer, "type") },
		"sparse answers":   func() { delete(answer, "amount"); delete(answer, "txId") },
		"an invented user": func() { answer["tenantUserId"] = "somebody" },
		"numbers as texts": func() { answer["type"] = "1" }, // allowed
		"amounts as numbers": func() { // allowed: the digits are those that came
			answer["amount"] = json.RawMessage(str(m["amount"]))
		},
	} {
		if f.has(fault) {
			change()
		}
	}
}

// withdrawal answers from a book of one order. f.mu is held.
func (f *fake) withdrawal(m map[string]any) verdict {
	id, user := str(m["callBackId"]), str(m["tenantUserId"])
	if f.other && user == "" {
		user = testOrder.TenantUserID
	}
	f.asked[id]++
	known := id == testOrder.CallBackID && user == testOrder.TenantUserID
	o := testOrder
	switch {
	case f.has("no order book"):
		return refuse(2001)
	case f.has("orders in any case"):
		known = strings.EqualFold(id, o.CallBackID) && user == o.TenantUserID
	case f.has("trims identifiers"):
		known = strings.TrimSpace(id) == o.CallBackID && user == o.TenantUserID
	case f.has("any user"):
		known = id == o.CallBackID
	case f.has("confirms everything"):
		known = true
	case f.has("confirms the second time"):
		known = known || f.asked[id] > 1
	case f.has("an order once"):
		known = known && f.asked[id] == 1
	case f.has("not understood"):
		if !known {
			return refuse(1234)
		}
	case f.has("a code of its own"):
		if !known {
			return refuse(404)
		}
	}
	if f.has("believes the request") && m["address"] != nil {
		known, o.Address, o.Amount = true, str(m["address"]), str(m["amount"])
	}
	if !known {
		return refuse(2001)
	}
	if f.contradicts("2 "+id, m) {
		return refuse(2002)
	}
	if f.has("another amount") {
		o.Amount = "120.50000001"
	}
	answer := map[string]any{
		"type": 2, "tenantUserId": user, "callBackId": id, "address": o.Address, "chainName": o.ChainName, "symbol": o.Symbol,
		"amount": o.Amount, "requestUUID": m["requestUUID"],
	}
	if f.has("its own callBackId") {
		answer["callBackId"] = "mine-1"
	}
	if f.has("keeps its first answer") {
		if old, ok := f.kept["2 "+id]; ok {
			answer = old
		}
		f.kept["2 "+id] = answer
	}
	return verdict{status: 200, answer: answer}
}

// notice acknowledges notices. f.mu is held.
func (f *fake) notice(kind int, m map[string]any) verdict {
	key := fmt.Sprint(kind, " ", m["trackingId"], " ", m["callBackId"])
	if m["trackingId"] != nil && f.contradicts(key, m) {
		return refuse(2002)
	}
	_, again := f.kept[key]
	f.kept[key] = m
	for fault, refuses := range map[string]bool{
		"refuses notices":       true,
		"needs a trackingId":    m["trackingId"] == nil,
		"needs all addresses":   kind != 4 && kind < 6 && (m["toAddress"] == nil || kind == 3 && m["fromAddress"] == nil),
		"refuses notices again": again,
	} {
		if refuses && f.has(fault) {
			return refuse(5000)
		}
	}
	if f.has("knows its withdrawals") && kind != 4 {
		return refuse(2001)
	}
	answer := map[string]any{}
	for _, name := range []string{"type", "trackingId", "tenantUserId", "callBackId", "txId", "chainName", "symbol", "amount", "toAddress", "requestUUID"} {
		if v, ok := m[name]; ok {
			answer[name] = v
		}
	}
	if kind == 4 && !f.has("old address stays") {
		answer["toAddress"] = m["newAddress"]
	}
	return verdict{status: 200, answer: answer}
}

// usual returns the members of m in the forms of the interface.
func (f *fake) usual(m map[string]any) map[string]any {
	usual := maps.Clone(m)
	for name, v := range m {
		number, isNumber := v.(json.Number)
		text, isText := v.(string)
		if v == nil {
			delete(usual, name)
			continue
		}
		switch name {
		case "trackingId", "tenantUserId", "callBackId":
			if isNumber {
				usual[name] = number.String()
				if n, _ := number.Float64(); f.has("identifiers are floats") {
					usual[name] = strconv.FormatFloat(n, 'f', -1, 64)
				}
			}
			if text == "" && !isNumber {
				delete(usual, name)
			}
		case "amount":
			if isNumber {
				text = number.String()
			}
			usual[name] = plain(text)
			if n, _ := strconv.ParseFloat(text, 64); f.has("amounts are floats") {
				usual[name] = strconv.FormatFloat(n, 'f', -1, 64)
			}
		case "type", "txIndex":
			if isText {
				usual[name] = json.Number(text)
			}
		}
	}
	if _, ok := usual["txIndex"]; !ok && number(m["type"]) == 1 {
		usual["txIndex"] = json.Number("-1")
	}
	return usual
}

// plain is a decimal with or without an exponent as one without.
func plain(text string) string {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		panic("no amount: " + text)
	}
	return strings.TrimSuffix(strings.TrimRight(r.FloatString(100), "0"), ".")
}

// asCame puts the forms of m into the answer of v.
func (f *fake) asCame(m map[string]any, v verdict) verdict {
	if f.has("usual forms in answers") || v.answer == nil {
		return v
	}
	v.answer = maps.Clone(v.answer)
	for _, name := range []string{"type", "trackingId", "tenantUserId", "callBackId", "txIndex", "amount"} {
		_, answered := v.answer[name]
		switch {
		case !answered || m[name] == nil || m[name] == "":
		case name == "amount" && (number(m["type"]) == 2 && !f.has("repeats every member") || f.has("amounts are floats")):
		case f.has("identifiers are floats") && strings.HasSuffix(name, "Id"):
		default:
			v.answer[name] = m[name]
		}
	}
	return v
}
