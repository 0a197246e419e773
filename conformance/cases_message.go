package conformance

import (
	"bytes"
	"fmt"
	"strings"
)

// messageCases are malformed messages, correctly sealed and bound, so that only the parser can refuse them.
func messageCases() []Case {
	usual := []*Need{NeedUsual}
	return []Case{
		{801, Must, money, "message/duplicate-member", "Messages, M2",
			"A member twice is refused, whichever comes first, and if one is written with escapes.", nil,
			malformed(`+amount "999"`, "first toAddress", `+\u0061mount "999"`)},
		{803, Should, ours, "message/duplicate-nested", "Messages, M2",
			"A member twice in a nested object is refused, in unknown members too.", nil,
			malformed(`+extra {"a":[{"b":1,"b":2}]}`)},
		{805, Must, ours, "message/other-case", "Messages, M2",
			"A member that differs from a known one by case alone is refused.", nil, malformed(`+Amount "999"`,
				`+TOADDRESS "999"`, `+tenantuserid "999"`, `+Type "999"`)},
		{806, Must, ours, "message/missing-member", "Messages, M3",
			"A deposit in which a member is missing, null or an empty text is refused.", nil, missing},
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
			"A withdrawal request without one of its members is refused.", usual, shortWithdrawal},
	}
}

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func amounts(list ...string) (ways []string) {
	for _, amount := range list {
		ways = append(ways, "amount "+text(amount))
	}
	return ways
}

// malformed posts a deposit damaged in each of the ways, which the endpoint must refuse as malformed. A way is an
// edit; after "whole", what is sent in place of the message, %s; or after "first", a member that is put before all
// others, too.
func malformed(ways ...string) func(*session) {
	return func(s *session) {
		s.each(ways, func(way string) {
			m := s.deposit()
			whole, isWhole := strings.CutPrefix(way, "whole ")
			first, isFirst := strings.CutPrefix(way, "first ")
			escaped, isEscaped := strings.CutPrefix(way, `+\u0061`)
			plain := m.bytes()
			switch {
			case isWhole:
				plain = []byte(strings.ReplaceAll(whole, "%s", string(plain)))
			case isFirst:
				plain = append([]byte(`{"`+first+`":"0x00",`), plain[1:]...)
			case isEscaped: // a name is written as it is
				plain = bytes.Replace(m.edit("+@"+escaped).bytes(), []byte(`"@`), []byte(`"\u0061`), 1)
			default:
				plain = m.edit(way).bytes()
			}
			s.notOpened(s.send(s.attemptOf(fmt.Sprintf("a malformed deposit (%.40q)", way), m, plain)))
		})
	}
}

// missing leaves out the members of a deposit that no service may leave out, even if the merchant is lenient.
func missing(s *session) {
	var ways []string
	for name := range strings.FieldsSeq("type trackingId tenantUserId txId chainName symbol amount toAddress requestUUID") {
		ways = append(ways, name, name+" null")
		if name != "type" {
			ways = append(ways, name+` ""`)
		}
	}
	malformed(ways...)(s)
}

func shortWithdrawal(s *session) {
	s.each([]string{"trackingId", "tenantUserId", "callBackId", "requestUUID", "type"}, func(name string) {
		q := s.attempt("a withdrawal request without "+name, s.unknown().edit(name))
		s.notOpened(s.send(q))
	})
}
