package conformance

import (
	"bytes"
	"fmt"
	"strings"
)

// messageCases are malformed messages, correctly sealed and bound, so that only
// the parser can refuse them.
func messageCases() []Case {
	usual := []*Need{NeedUsual}
	return []Case{
		{801, Must, "message/duplicate-member", "Messages, M2", "A member twice is refused.", nil,
			malformed([]string{"999"}, func(m message, v string) []byte { return m.add("amount", text(v)).bytes() })},
		{802, Must, "message/duplicate-first", "Messages, M2", "A member twice is refused, whichever comes first.", nil,
			malformed([]string{"0x00"}, func(m message, v string) []byte {
				return append(message{{"toAddress", text(v)}}, m...).bytes()
			})},
		{803, Should, "message/duplicate-nested", "Messages, M2", "A member twice in a nested object is refused, in unknown members too.", nil,
			malformed(nil, func(m message, _ string) []byte { return m.add("extra", `{"a":[{"b":1,"b":2}]}`).bytes() })},
		{804, Must, "message/duplicate-escaped", "Messages, M2", "A member twice is refused, even if one is written with escapes.", nil,
			malformed(nil, func(m message, _ string) []byte {
				return bytes.Replace(m.add("@", `"999"`).bytes(), []byte(`"@"`), []byte(`"\u0061mount"`), 1)
			})},
		{805, Must, "message/other-case", "Messages, M2", "A member that differs from a known one by case alone is refused.", nil,
			malformed([]string{"Amount", "TOADDRESS", "tenantuserid", "Type"}, func(m message, name string) []byte {
				return m.add(name, `"999"`).bytes()
			})},
		{806, Must, "message/missing-member", "Messages, M3", "A deposit without one of its members is refused.", nil,
			malformed(needed, func(m message, name string) []byte { return m.drop(name).bytes() })},
		{807, Must, "message/null-member", "Messages, M3", "null counts as absent.", nil,
			malformed(needed, func(m message, name string) []byte { return m.set(name, "null").bytes() })},
		{808, Must, "message/empty-text", "Messages, M3", "An empty text is refused where the member must not be empty.", nil,
			malformed([]string{"trackingId", "tenantUserId", "txId", "chainName", "symbol", "amount", "toAddress", "requestUUID"},
				func(m message, name string) []byte { return m.set(name, `""`).bytes() })},
		{809, Must, "message/number-for-text", "Messages, M3", "A number in place of a text is refused.", usual,
			malformed([]string{"trackingId", "tenantUserId", "txId", "toAddress"},
				func(m message, name string) []byte { return m.set(name, "17").bytes() })},
		{810, Must, "message/text-for-number", "Messages, M4, M5", "A text in place of a number is refused.", usual,
			malformed([]string{"type", "txIndex", "riskLevelFrom"},
				func(m message, name string) []byte { return m.set(name, text(m.get(name))).bytes() })},
		{811, Must, "message/number-out-of-range", "Messages, M4", "txIndex below −1 and risk levels outside 0 to 100 are refused.", usual,
			malformed([]string{"txIndex -2", "txIndex 9007199254740992", "riskLevelFrom -1", "riskLevelTo 101"}, withValue)},
		{812, Must, "message/number-with-fraction", "Messages, M4", "A whole number has no fraction and no exponent.", usual,
			malformed([]string{"txIndex 3.5", "txIndex 3.0", "txIndex 1e2", "riskLevelTo 5.5", "type 1.0"}, withValue)},
		{813, Must, "message/amount-exponent", "Amounts, A1", "An amount with an exponent is refused.", usual, badAmount("1e3", "1E-18", "0.5e1")},
		{814, Must, "message/amount-sign", "Amounts, A1", "An amount with a sign is refused.", nil, badAmount("-1", "+1", "-0")},
		{815, Must, "message/amount-shape", "Amounts, A1", "An amount is digits with at most one point between them.", nil,
			badAmount(".5", "5.", "1,000", "1_000", "0x10", "1.2.3", " 1", "1 ", "007", "00.5", "NaN", "Infinity", "１")},
		{816, Must, "message/amount-79-digits", "Amounts, A1", "An amount of more than 78 digits is refused.", nil,
			badAmount(strings.Repeat("9", 79), "0."+strings.Repeat("1", 78), strings.Repeat("9", 5000))},
		{817, Must, "message/bytes-not-utf8", "Messages, M2", "Invalid UTF-8 is refused.", nil,
			malformed([]string{"\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf0\x9f\x98"}, func(m message, v string) []byte {
				return bytes.Replace(m.add("memo", `"@@"`).bytes(), []byte("@@"), []byte(v), 1)
			})},
		{818, Must, "message/surrogates-and-nul", "Messages, M2", "Unpaired surrogates and U+0000 are refused.", nil,
			malformed([]string{`\ud83d`, `\ude00`, `\ud83dx`, `\u0000`}, func(m message, v string) []byte {
				return m.add("memo", `"a`+v+`"`).bytes()
			})},
		{819, Must, "message/more-behind", "Messages, M1", "Nothing but white space may follow the object.", nil,
			malformed([]string{"x", "{}", ",", "\x00", "null"}, func(m message, v string) []byte {
				return append(m.bytes(), v...)
			})},
		{820, Must, "message/no-object", "Messages, M1", "A message is one JSON object.", nil,
			malformed([]string{"[%s]", "%s %s", "\ufeff%s", `"%s"`}, func(m message, format string) []byte {
				return []byte(strings.ReplaceAll(format, "%s", string(m.bytes())))
			})},
		{821, Should, "message/nested-17-deep", "Messages, M1", "Nesting deeper than 16 is refused.", nil,
			malformed([]string{"16", "5000"}, func(m message, v string) []byte {
				n := 16
				_, _ = fmt.Sscan(v, &n)
				return m.add("deep", strings.Repeat("[", n)+strings.Repeat("]", n)).bytes()
			})},
		{822, Should, "message/loose-json", "Messages, M1", "What only lenient parsers read is refused.", nil,
			malformed([]string{"'a'", "0x1", "01", "+1", "1.", ".5", "NaN", "[1,]", "{\"a\":1,}", "undefined", "True", "\"\t\"", "\"\\x41\"", "/* */ 1"},
				func(m message, v string) []byte { return m.add("extra", v).bytes() })},
		{823, Must, "message/withdrawal-missing-member", "Messages, M3", "A withdrawal request without one of its members is refused.", usual, shortWithdrawal},
	}
}

// needed are the members of a deposit that no service may leave out, even if the
// merchant is lenient.
var needed = []string{"type", "trackingId", "tenantUserId", "txId", "chainName", "symbol", "amount", "toAddress", "requestUUID"}

func withValue(m message, pair string) []byte {
	name, value, _ := strings.Cut(pair, " ")
	return m.set(name, value).bytes()
}

// malformed posts a deposit damaged in each of the ways. The endpoint must refuse
// all as malformed.
func malformed(ways []string, damage func(m message, way string) []byte) func(*session) {
	if ways == nil {
		ways = []string{""}
	}
	return func(s *session) {
		s.advice = "Parse strictly: no member twice at any depth, exact names, exact types, standard JSON in UTF-8, nothing after it."
		for _, way := range ways {
			what := "a malformed deposit"
			if way != "" && len(way) < 40 {
				what += fmt.Sprintf(" (%q)", way)
			}
			m := s.deposit()
			s.notOpened(s.send(s.attemptOf(what, m, damage(m, way))))
		}
	}
}

func badAmount(amounts ...string) func(*session) {
	return malformed(amounts, func(m message, amount string) []byte { return m.set("amount", text(amount)).bytes() })
}

func shortWithdrawal(s *session) {
	s.advice = "Refuse a withdrawal request that lacks a member."
	for _, name := range []string{"trackingId", "tenantUserId", "callBackId", "requestUUID", "type"} {
		s.notOpened(s.post("a withdrawal request without "+name, s.unknown().drop(name)))
	}
}
