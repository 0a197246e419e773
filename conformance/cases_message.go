package conformance

import (
	"bytes"
	"slices"
	"strings"

	"countersign"
)

// depositCases are correct deposits in unusual forms. All must be accepted.
func depositCases() []Case {
	return []Case{
		{101, Must, iface, "deposit/plain", "HTTP, H1", "A deposit is accepted.", nil, takes("")},
		{102, Must, iface, "deposit/json", "Messages, M1, M6, M10",
			"The order of members, white space, escapes and unknown members have no effect.", nil, inTurn(
				posts(1, (*session).taken, reversed, spaced),
				takes(`symbol "\u0055S\u0044\u0054" & chainName "E\u0054H" & +memo "\/\\\"\b\f\n\r\t\u00e9\ud83d\ude00"`,
					`+memo "…" & +extra {"a":[1,2.50,{"b":null}],"type":2,"amount":"9"} & +flag true & +none null`))},
		{106, Should, ours, "deposit/large", "Messages, M1, M3",
			"Nesting up to 16 deep and texts of 200 characters are taken.", nil,
			takes("+deep "+nested(15), `trackingId "{id}-`+long[40:]+`"`, `txId "`+long+`" & fromAddress "`+long+`"`)},
		{107, Must, ours, "deposit/blocks", "Sealing, S1",
			"Blocks carry any number of bytes, and a character may lie across two.", nil,
			posts(1, (*session).taken, acrossBlocks, smallBlocks)},
		{109, Must, iface, "deposit/values", "Messages, M3, M4, M8",
			"txIndex may be −1 or 0, a risk level 0 or 100; letters keep their case; in type 1 newAddress has no effect.", nil,
			takes("txIndex -1", "txIndex 0", "riskLevelFrom 0 & riskLevelTo 0", "riskLevelFrom 100 & riskLevelTo 100",
				`chainName "TRON" & fromAddress "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8" & txId "`+strings.Repeat("7C", 32)+`"`,
				`newAddress "0x7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c"`)},
		{110, Must, ours, "deposit/edges", "Messages, M3, M4",
			"fromAddress and newAddress may be empty, txIndex 2⁵³−1 is exact, business is any whole number.", nil,
			takes(`fromAddress "" & newAddress ""`, "txIndex 9007199254740991", "business -9007199254740991")},
		{121, Must, iface, "deposit/amounts", "Amounts, A1, A2",
			"Amounts with and without a point and with zeros at the end are exact, up to 38 digits.", nil,
			takes(`amount "7"`, `amount "2.500000000000"`, `amount "2.50"`, `amount "10.000"`, `amount "1000"`,
				`amount "0.000000000000000001"`, `amount "12345678901234567890.123456789012345678"`)},
		{128, Must, ours, "deposit/long-amounts", "Amounts, A1, A2",
			"78 digits, the largest balance of an EVM token, are exact.", nil,
			takes(`amount "115792089237316195423570985008687907853269984665640564039457584007913129639935"`,
				`amount "1.`+strings.Repeat("1234567", 11)+`"`)},
	}
}

var long = strings.Repeat("7c", 100)

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

var (
	reversed = way{"with its members in another order", func(s *session, q *request) {
		slices.Reverse(q.m)
		*q = s.attempt(q.what, q.m)
	}}
	spaced = way{"with white space between the tokens", func(s *session, q *request) {
		plain := q.m.bytes()
		for _, token := range []string{"{", "}", ",", ":"} {
			plain = bytes.ReplaceAll(plain, []byte(token), []byte(" \t\r\n"+token+" \n"))
		}
		*q = s.attemptOf(q.what, q.m, plain)
	}}
	acrossBlocks = way{"with a character across two blocks", func(s *session, q *request) {
		*q = s.attempt(q.what, q.m.add("memo", text("тест 用户 😀")))
		inside := bytes.Index(q.Plaintext, []byte("😀")) + 2
		*q = s.inChunks(*q, q.Plaintext[:inside], q.Plaintext[inside:])
	}}
	smallBlocks = way{"in blocks of 1, 1, 43, 1 and more bytes", func(s *session, q *request) {
		p := q.Plaintext
		*q = s.inChunks(*q, p[:1], p[1:2], p[2:45], p[45:46], p[46:])
	}}
)

// repeatCases are callbacks that are repeated, and callbacks that only look repeated. Transfers under another
// trackingId follow another deposit of the same transaction to the same address.
func repeatCases() []Case {
	return []Case{
		{201, Must, money, "repeat/new-request", "Deposit identity, I1",
			"A deposit sent again with a new requestUUID is answered with errCode 0 and that requestUUID.", nil,
			then((*session).taken, "")},
		{202, Must, ours, "repeat/same-body", "Deposit identity, I1",
			"The same body sent again is answered with errCode 0.", nil, posts(1, (*session).takenTwice,
				way{"sent twice", func(*session, *request) {}},
				way{"sent twice, requestUUID first", func(s *session, q *request) { *q = s.attempt(q.what, q.m.uuidFirst()) }})},
		{203, Must, money, "repeat/at-once", "Deposit identity, I1",
			"Eight attempts of one deposit at the same time each get their own requestUUID, and none is refused.", nil,
			atOnce(countersign.TypeDeposited)},
		{204, Must, money, "repeat/two-transfers", "Deposit identity, I2",
			"Two transfers of one transaction to one address, of two indexes or tokens and two amounts, are both credited.",
			nil, then((*session).taken, ` => trackingId "{id}-2" & txIndex 4 & amount "2.6"`,
				` => trackingId "{id}-2" & symbol "USDC" & amount "2.6"`)},
		{206, Must, money, "repeat/possible-duplicate", "Deposit identity, I2, I3",
			"A transfer under another trackingId, in another spelling too, is answered with errCode 0, kept and not credited.",
			nil, then((*session).suspected, ` => trackingId "{id}-2" & txIndex -1`,
				` => trackingId "{id}-2" & txIndex 4 & amount "2.50"`, ` => trackingId "{id}-2" & txId "0X\u200b{TX}"`,
				`txIndex -1 => trackingId "{id}-2" & txId "0x{TX}"`, `txIndex -1 => trackingId "{id}-2" & txId "{tx}"`,
				`txIndex -1 => trackingId "{id}-2" & chainName "eth"`, `txIndex -1 => trackingId "{id}-2" & chainName "ETH "`,
				`txIndex -1 => trackingId "{id}-2" & symbol "us\u00a0dt "`,
				`txIndex -1 => trackingId "{id}-2" & toAddress "0X{to}"`)},
		{208, Must, money, "repeat/other-content", "Deposit identity, I1",
			"A known trackingId with another amount, user or address is refused with errCode 2002, and nothing changes.", nil,
			then((*session).contradicts, ` => amount "2.51"`,
				`amount "1234567890.1234567890" => amount "1234567890.1234567891"`, ` => tenantUserId "somebody-else"`,
				` => toAddress "0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"`)},
	}
}

// noticeCases are the notices, and callbacks of no type.
func noticeCases() []Case {
	return []Case{
		{301, Must, ours, "notice/accepted", "Messages, M3, M8, M9",
			"Types 3 to 7 are accepted, with and without optional members; in type 4 newAddress is returned as toAddress.",
			nil, notified("3", "3 fromAddress", "4", "4 toAddress & trackingId", "5", "5 toAddress", "6", "7")},
		{309, Must, ours, "notice/repeat", "Deposit identity, I1, I4",
			"A notice sent again is answered as before; types 6 and 7 in turns, and ends of two withdrawals, are accepted.", nil,
			notified("3 => 3", "4 => 4", "6 => 7 => 6", `5 => 5 callBackId "{order}-2" => 5`)},
		{310, Must, ours, "notice/unknown-type", "Messages, M5",
			"An unknown type is answered with errCode 1003 and not processed.", nil,
			edits(1, func(s *session, r *reply) { s.judged(r, countersign.CodeUnknownType) }, "type 99", "type 0")},
		{314, Must, ours, "notice/other-content", "Deposit identity, I1",
			"A notice under a known trackingId with another amount is refused with errCode 2002.", nil,
			edits(3, func(s *session, r *reply) {
				s.noticed(r, 3)
				s.judged(s.post("the same trackingId with another amount", r.m.set("amount", `"0.000007"`)),
					countersign.CodeDetailsDiffer, countersign.CodeUnknownOrder, countersign.CodeNotKnownYet)
			}, "")},
	}
}

// responseCases are about what a response says. Each case looks at its form, its status and its apiKey, and
// whether data opens to the answer to the request.
func responseCases() []Case {
	return []Case{
		{508, Must, iface, "response/deposit-members", "Answers, R3",
			"The answer returns the members of the deposit as they came.", nil,
			edits(1, membersThere, `amount "2.500000000000" & txIndex -1`)},
		{514, Must, iface, "response/nothing-in-the-clear", "Answers, R1",
			"The answer is in data and nowhere else: the response has no member of the deposit in the clear.", nil,
			edits(1, nothingInTheClear, "")},
	}
}

func membersThere(s *session, r *reply) {
	s.taken(r)
	members := "trackingId txId txIndex chainName symbol amount fromAddress toAddress tenantUserId"
	for name := range strings.FieldsSeq(members) {
		if v := r.member(name); v == "" || v == "null" {
			fail("Return the members of the deposit in the answer.", "the answer has no member %s", name)
		}
	}
}

func nothingInTheClear(_ *session, r *reply) {
	arrived(r)
	for _, value := range []string{r.m.str("trackingId"), r.m.str("txId"), r.m.str("toAddress"), r.UUID} {
		if bytes.Contains(r.body, []byte(value)) {
			fail("The response has apiKey, data, errCode and message in the clear and nothing else of the deposit.",
				"the response shows %s in the clear", value)
		}
	}
}

// messageCases are malformed messages, correctly sealed and bound, so that only the parser can refuse them.
func messageCases() []Case {
	usual := []*Need{NeedUsual}
	var missing []string // members that no service may leave out, even if the merchant is lenient
	for name := range strings.FieldsSeq("trackingId tenantUserId txId chainName symbol amount toAddress requestUUID") {
		missing = append(missing, name, name+" null", name+` ""`)
	}
	return []Case{
		{801, Must, money, "message/duplicate-member", "Messages, M2",
			"A member twice is refused, whichever comes first, and if one is written with escapes.", nil,
			malformed(`+amount "999"`, `whole {"toAddress":"0x00",%m}`, `whole {"\u0061mount":"999",%m}`)},
		{803, Should, ours, "message/duplicate-nested", "Messages, M2",
			"A member twice in a nested object is refused, in unknown members too.", nil,
			malformed(`+extra {"a":[{"b":1,"b":2}]}`)},
		{805, Must, ours, "message/other-case", "Messages, M2",
			"A member that differs from a known one by case alone is refused.", nil, malformed(`+Amount "999"`,
				`+TOADDRESS "999"`, `+tenantuserid "999"`, `+Type "999"`)},
		{806, Must, ours, "message/missing-member", "Messages, M3",
			"A deposit in which a member is missing, null or an empty text is refused.", nil,
			malformed(append(missing, "type", "type null")...)},
		{809, Must, ours, "message/other-kind", "Messages, M3, M4, M5",
			"A number in place of a text and a text in place of a number are refused.", usual, malformed("trackingId 17",
				"tenantUserId 17", "txId 17", "toAddress 17", `type "1"`, `txIndex "3"`, `riskLevelFrom "10"`)},
		{811, Must, ours, "message/number", "Messages, M4",
			"A whole number has no fraction and no exponent; txIndex is −1 or more, a risk level 0 to 100.", usual,
			malformed("txIndex -2", "txIndex 9007199254740992", "riskLevelFrom -1", "riskLevelTo 101", "txIndex 3.5",
				"txIndex 3.0", "txIndex 1e2", "riskLevelTo 5.5", "type 1.0")},
		{813, Must, ours, "message/amount-exponent", "Amounts, A1", "An amount with an exponent is refused.", usual,
			malformed(amounts("1e3", "1E-18", "0.5e1")...)},
		{814, Must, ours, "message/amount", "Amounts, A1",
			"An amount is at most 78 digits with at most one point between them, and no sign.", nil, malformed(amounts("-1",
				"+1", "-0", ".5", "5.", "1,000", "1_000", "0x10", "1.2.3", " 1", "1 ", "007", "00.5", "NaN", "Infinity", "１",
				strings.Repeat("9", 79), "0."+strings.Repeat("1", 78), strings.Repeat("9", 5000))...)},
		{817, Must, ours, "message/no-utf8", "Messages, M2", "Invalid UTF-8, unpaired surrogates and U+0000 are refused.",
			nil, malformed("+memo \"\xff\"", "+memo \"\xc0\xaf\"", "+memo \"\xed\xa0\x80\"", "+memo \"\xf0\x9f\x98\"",
				`+memo "a\ud83d"`, `+memo "a\ude00"`, `+memo "a\ud83dx"`, `+memo "a\u0000"`)},
		{819, Must, ours, "message/no-object", "Messages, M1",
			"A message is one JSON object, and nothing but white space follows it.", nil, malformed("whole %sx", "whole %s{}",
				"whole %s,", "whole %s\x00", "whole %snull", "whole [%s]", "whole %s %s", "whole \ufeff%s", `whole "%s"`)},
		{821, Should, ours, "message/loose-json", "Messages, M1",
			"What only lenient parsers read, and nesting deeper than 16, is refused.", nil, malformed("+extra 'a'",
				"+extra 0x1", "+extra 01", "+extra +1", "+extra 1.", "+extra .5", "+extra NaN", "+extra [1,]", `+extra {"a":1,}`,
				"+extra undefined", "+extra True", "+extra \"\t\"", `+extra "\x41"`, "+extra /* */ 1", "+extra "+nested(16),
				"+extra "+nested(5000))},
		{823, Must, ours, "message/withdrawal-missing-member", "Messages, M3",
			"A withdrawal request without one of its members is refused.", usual,
			edits(2, (*session).notOpened, "trackingId", "tenantUserId", "callBackId", "requestUUID", "type")},
	}
}

func amounts(list ...string) (ways []string) {
	for _, amount := range list {
		ways = append(ways, "amount "+text(amount))
	}
	return ways
}

// otherCases are what providers send that are not of this project: members left out, and members in other forms that
// say the same.
func otherCases() []Case {
	other, order := []*Need{NeedOther}, []*Need{NeedOther, NeedOrder}
	return []Case{
		{1001, Must, ours, "other/members-absent", "Messages, M3",
			"A deposit without members that have no effect is accepted.", other, takes("fromAddress", "fromAddress null",
				"riskLevelFrom", "riskLevelFrom null", "riskLevelTo", "riskLevelTo null", "txIndex", "txIndex null", "newAddress",
				"newAddress null", "business", "business null",
				"fromAddress & riskLevelFrom & riskLevelTo & txIndex & newAddress & business")},
		{1002, Must, ours, "other/forms", "Messages, M12",
			"Identifiers that are numbers, type and txIndex as texts, risk levels and business in any form are taken.", other,
			takes("tenantUserId {number} & trackingId {9}", "tenantUserId {number} & trackingId {20}", `type "1"`,
				`txIndex "3"`, `riskLevelFrom "LOW" & riskLevelTo "40"`, "riskLevelFrom 5.5 & riskLevelTo -1", `business "vip"`)},
		{1005, Must, ours, "other/amounts", "Amounts, A3, A4",
			"Amounts that are JSON numbers or have an exponent are converted exactly.", other, takes("amount 2.5",
				"amount 7", "amount 0.100", "amount 123456789012345678901234567890.123456789", "amount 1E-7", `amount "1E-7"`,
				"amount 3.10e+2", `amount "1.50E+3"`, `amount "0E-18"`, "amount 1234567890123456789012E-20", `amount "12E-1"`)},
		{1007, Must, ours, "other/answer-forms", "Messages, M12",
			"The answer returns a number where a number came, and a text where a text came.", other, edits(1, formsKept,
				"tenantUserId {number} & trackingId {9} & amount 0.000025",
				`tenantUserId {number} & trackingId {9} & amount "2.5E-5"`)},
		{1008, Must, ours, "other/repeat", "Deposit identity, I1",
			"A deposit sent again in other forms is a repetition; one whose amount differs in the last of twenty digits is not.",
			other, inTurn(then((*session).taken, twenty+`0.1234567890123456789 & txIndex "3" & riskLevelTo`,
				twenty+"12345678901234567890E-20 & tenantUserId {number}", twenty+`"1.234567890123456789E-1"`),
				then((*session).contradicts, twenty+"12345678901234567891E-20"))},
		{1009, Must, ours, "other/notices", "Messages, M3",
			"Notices are accepted without members that have no effect, and with identifiers and amounts in other forms.",
			other, notified("3 amount 2.5E-6 & tenantUserId {number} & trackingId {9}",
				"3 business & trackingId {9} & chainName & symbol & amount & toAddress",
				"4 business & tenantUserId {number} & trackingId {9} & chainName & symbol",
				"5 business & tenantUserId {number} & trackingId {9}", "6 business & tenantUserId {number} & trackingId {9}",
				"7 business & tenantUserId {number} & trackingId {9}")},
		{1010, Must, ours, "other/withdrawal", "Messages, M3, M6, M12",
			"A type 2 is one with its callBackId alone, whatever its other members are; a callBackId may be a number.", order,
			inTurn(asked((*session).confirmed, `+trackingId null & +tenantUserId ""`,
				`+amount 999999 & +symbol 7 & +address "0x5a5a"`), edits(2, (*session).notConfirmed, "callBackId {20}"))},
		{1013, Must, ours, "other/not-guessed", "Messages, M12",
			"What decides who gets what is not guessed: such a deposit or question is refused as malformed.", other, inTurn(
				malformed("txId 17", "toAddress 17", "symbol null", "chainName true", "tenantUserId -1", "tenantUserId 1.5",
					"trackingId 1E3", "txIndex 3.0", "txIndex -2", `txIndex "first"`, `type "1.0"`, "amount null", "amount true",
					`amount ""`, "amount -1E3", `amount "+1E3"`, `amount "1E"`, `amount "1E3.5"`, `amount "0x1E3"`, `amount " 1E3"`,
					"amount 1E-78", "amount 1E999"),
				edits(2, (*session).notOpened, "callBackId", "callBackId null", `callBackId ""`, "callBackId true",
					"callBackId -1", "callBackId 1.5", "callBackId []"))},
	}
}

const twenty = `tenantUserId "{number}" & amount "0.12345678901234567890" => amount `

func formsKept(s *session, r *reply) {
	s.taken(r)
	for _, name := range []string{"trackingId", "tenantUserId", "amount"} {
		if raw := r.member(name); raw != "" && (raw[0] == '"') != (r.m.get(name)[0] == '"') {
			fail("Return a member in the form in which it came: keep that form beside the value.",
				"%s of the answer is %s; %s came", name, raw, r.m.get(name))
		}
	}
}
