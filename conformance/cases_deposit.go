package conformance

import (
	"bytes"
	"strings"

	"countersign"
)

// depositCases are correct deposits in unusual forms. All must be accepted.
func depositCases() []Case {
	return []Case{
		{101, Must, "deposit/plain", "HTTP, H1", "A deposit is accepted.", nil, setting()},
		{102, Must, "deposit/any-order", "Messages, M10", "The order of members has no effect.", nil,
			changed(func(_ *session, m message) message { return m.reversed() })},
		{103, Must, "deposit/white-space", "Messages, M1", "White space between and after the tokens has no effect.", nil, spaced},
		{104, Must, "deposit/escapes", "Messages, M1", "Escaped characters in strings mean the same as plain ones.", nil, escaped},
		{105, Must, "deposit/unknown-members", "Messages, M6", "Unknown members, nested ones too, have no effect.", nil,
			changed(func(_ *session, m message) message {
				return m.add("memo", `"…"`).add("extra", `{"a":[1,2.50,{"b":null}],"type":2,"amount":"9"}`).add("flag", "true").add("none", "null")
			})},
		{106, Should, "deposit/nested-16-deep", "Messages, M1", "Nesting up to 16 deep is taken.", nil,
			changed(func(_ *session, m message) message {
				return m.add("deep", strings.Repeat("[", 15)+strings.Repeat("]", 15))
			})},
		{107, Must, "deposit/other-scripts", "Sealing, S1", "A character may lie across two blocks.", nil, straddling},
		{108, Must, "deposit/short-chunks", "Sealing, S1", "Blocks may carry any number of bytes from one up.", nil, shortChunks},
		{109, Must, "deposit/empty-texts", "Messages, M3", "fromAddress and newAddress may be empty.", nil,
			setting("fromAddress", `""`, "newAddress", `""`)},
		{110, Must, "deposit/tx-index-none", "Messages, M4", "txIndex −1 is taken and returned.", nil, setting("txIndex", "-1")},
		{111, Must, "deposit/tx-index-zero", "Messages, M4", "txIndex 0 is an index, not a missing one.", nil, setting("txIndex", "0")},
		{112, Must, "deposit/tx-index-largest", "Messages, M4", "txIndex 2⁵³−1 is exact.", nil, setting("txIndex", "9007199254740991")},
		{113, Must, "deposit/risk-lowest", "Messages, M4", "Risk levels of 0 are taken.", nil, setting("riskLevelFrom", "0", "riskLevelTo", "0")},
		{114, Must, "deposit/risk-highest", "Messages, M4", "Risk levels of 100 are taken.", nil, setting("riskLevelFrom", "100", "riskLevelTo", "100")},
		{115, Must, "deposit/business", "Messages, M4", "business may be any whole number, below 0 too.", nil, setting("business", "-9007199254740991")},
		{116, Should, "deposit/long-texts", "Messages, M3", "Identifiers and addresses of 200 characters are taken.", nil,
			changed(func(s *session, m message) message {
				m = m.set("txId", text(randomHex(100))).set("fromAddress", text(randomHex(100)))
				return m.set("trackingId", text(m.str("trackingId")+"-"+randomHex(80)))
			})},
		{117, Must, "deposit/new-address", "Messages, M8", "newAddress has no effect in type 1: toAddress counts and is returned.", nil,
			changed(func(s *session, m message) message { return m.set("newAddress", text(randomAddress())) })},
		{118, Must, "deposit/tron", "Messages, M3", "Addresses keep the case of their letters.", nil,
			setting("chainName", `"TRON"`, "fromAddress", `"TJRabPrwbZy45sbavfcjinPJC18kjpRTv8"`, "txId", `"`+strings.Repeat("7C", 32)+`"`)},
		amountCase(121, "integer", "7", "An amount without a point is taken."),
		amountCase(122, "trailing-zeros", "2.500000000000", "Zeros at the end of the fraction are taken."),
		amountCase(123, "one-trailing-zero", "2.50", "A single zero at the end of the fraction is taken."),
		amountCase(124, "zero-fraction", "10.000", "A fraction of zeros only is taken, and the 10 before it stays 10."),
		amountCase(125, "trailing-zeros-of-an-integer", "1000", "The zeros of a whole number count."),
		amountCase(126, "18-decimals", "0.000000000000000001", "One wei of a token with 18 decimals is exact."),
		amountCase(127, "beyond-floats", "12345678901234567890.123456789012345678", "More digits than a floating-point number holds are exact."),
		amountCase(128, "78-digits", "115792089237316195423570985008687907853269984665640564039457584007913129639935",
			"The largest balance of an EVM token is exact."),
		amountCase(129, "78-digits-fraction", "1."+strings.Repeat("1234567", 11), "78 digits with a point among them are exact."),
	}
}

// changed is a case in which a deposit must be accepted after a change.
func changed(change func(*session, message) message) func(*session) {
	return func(s *session) {
		m := change(s, s.deposit())
		sameDeposit(m, s.takes("a deposit", m))
	}
}

// setting is changed, with new values for members.
func setting(pairs ...string) func(*session) {
	return changed(func(_ *session, m message) message { return m.with(pairs) })
}

func amountCase(number int, name, amount, about string) Case {
	return Case{number, Must, "deposit/amount-" + name, "Amounts, A1, A2", about, nil, setting("amount", text(amount))}
}

func spaced(s *session) {
	m := s.deposit()
	plain := m.bytes()
	for _, token := range []string{"{", "}", ",", ":"} {
		plain = bytes.ReplaceAll(plain, []byte(token), []byte(" \t\r\n"+token+" \n"))
	}
	s.takesBody(s.attemptOf("a deposit with white space between the tokens", m, plain))
}

func escaped(s *session) {
	m := s.deposit()
	spelt := m.set("symbol", `"\u0055S\u0044\u0054"`).set("chainName", `"E\u0054H"`).set("memo", `"\/\\\"\b\f\n\r\t\u00e9\ud83d\ude00"`)
	sameDeposit(m, s.takes("a deposit whose symbol is written with escapes", spelt))
}

func straddling(s *session) {
	s.advice = "Join the bytes of all blocks before decoding them as UTF-8."
	q := s.attempt("a deposit with a character across two blocks", s.deposit().add("memo", text("тест 用户 😀")))
	inside := bytes.Index(q.plaintext, []byte("😀")) + 2
	s.takesBody(s.inChunks(q, q.plaintext[:inside], q.plaintext[inside:]))
}

func shortChunks(s *session) {
	s.advice = "Find the 00 that ends the padding in every block; do not assume full blocks."
	q := s.attempt("a deposit in blocks of 1, 1, 43, 1 and more bytes", s.deposit())
	p := q.plaintext
	s.takesBody(s.inChunks(q, p[:1], p[1:2], p[2:45], p[45:46], p[46:]))
}

// sameDeposit checks that the answer says of the deposit what the request said
// (PROTOCOL.md, R3). The response cases check for members that are missing.
func sameDeposit(m message, r *reply) {
	a := r.parsed.(countersign.DepositAnswer)
	sameAnswer(m, a)
	if raw := answerMember(r, "txIndex"); raw != "" && raw != m.get("txIndex") {
		fail("Return txIndex as it came; −1 and 0 are values.", "txIndex of the answer is %s, not %s", raw, m.get("txIndex"))
	}
}

// sameAnswer is sameDeposit without txIndex.
func sameAnswer(m message, a countersign.DepositAnswer) {
	if want, _ := countersign.ParseAmount(m.str("amount")); a.Amount.IsSet() && !a.Amount.Equal(want) {
		fail("Keep amounts as text or as exact decimals from end to end; a floating-point number changes them.",
			"the amount of the answer is %s, not %s", a.Amount, want)
	}
	for _, c := range []struct{ name, got string }{
		{"trackingId", a.TrackingID}, {"txId", a.TxID}, {"chainName", a.ChainName}, {"symbol", a.Symbol},
		{"fromAddress", a.FromAddress}, {"tenantUserId", a.TenantUserID},
	} {
		if c.got != "" && c.got != m.str(c.name) {
			fail("Return the members of the deposit as they came.", "%s of the answer is not that of the request", c.name)
		}
	}
	if a.ToAddress != "" && !countersign.SameAddress(a.ToAddress, m.str("toAddress")) {
		fail("Return toAddress as it came. In type 1 newAddress has no effect.", "toAddress of the answer is not that of the request")
	}
}
