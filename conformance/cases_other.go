package conformance

import (
	"crypto/rand"
	"fmt"
	"strings"

	"countersign"
)

// otherCases are what providers send that are not of this project: members left out, and members in other forms that
// say the same.
func otherCases() []Case {
	other, order := []*Need{NeedOther}, []*Need{NeedOther, NeedOrder}
	return []Case{
		{1001, Must, ours, "other/members-absent", "Messages, M3",
			"A deposit without members that have no effect is accepted.", other, otherForms("fromAddress", "fromAddress null",
				"riskLevelFrom", "riskLevelFrom null", "riskLevelTo", "riskLevelTo null", "txIndex", "txIndex null", "newAddress",
				"newAddress null", "business", "business null",
				"fromAddress & riskLevelFrom & riskLevelTo & txIndex & newAddress & business")},
		{1002, Must, ours, "other/forms", "Messages, M12",
			"Identifiers that are numbers, type and txIndex as texts, risk levels and business in any form are taken.", other,
			otherForms("tenantUserId {user} & trackingId {9}", "tenantUserId {user} & trackingId {20}", `type "1"`,
				`txIndex "3"`, `riskLevelFrom "LOW" & riskLevelTo "40"`, "riskLevelFrom 5.5 & riskLevelTo -1", `business "vip"`)},
		{1005, Must, ours, "other/amounts", "Amounts, A3, A4",
			"Amounts that are JSON numbers or have an exponent are converted exactly.", other, otherForms("amount 2.5",
				"amount 7", "amount 0.100", "amount 123456789012345678901234567890.123456789", "amount 1E-7", `amount "1E-7"`,
				"amount 3.10e+2", `amount "1.50E+3"`, `amount "0E-18"`, "amount 1234567890123456789012E-20", `amount "12E-1"`)},
		{1007, Must, ours, "other/answer-forms", "Messages, M12",
			"The answer returns a number where a number came, and a text where a text came.", other, answerForms},
		{1008, Must, ours, "other/repeat", "Deposit identity, I1",
			"A deposit told again in other forms is a repetition; one whose amount differs in the last of twenty digits is not.",
			other, otherRepeat},
		{1009, Must, ours, "other/notices", "Messages, M3",
			"Notices are accepted without members that have no effect, and with identifiers and amounts in other forms.",
			other, otherNotices},
		{1010, Must, ours, "other/withdrawal", "Messages, M3, M6, M12",
			"A type 2 is one with its callBackId alone, whatever its other members are; a callBackId may be a number.", order,
			otherWithdrawal},
		{1013, Must, ours, "other/not-guessed", "Messages, M12",
			"What decides who gets what is not guessed: such a deposit or question is refused as malformed.", other, notGuessed},
	}
}

// digits is a number of n digits that no other message has.
func digits(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	for i := range b {
		b[i] = '1' + b[i]%9
	}
	return string(b)
}

// aNumber is Config.User if that is a number, else 65515.
func (s *session) aNumber() string {
	if u := s.cfg.User; strings.Trim(u, "0123456789") == "" && u[0] != '0' {
		return u
	}
	return "65515"
}

// otherForms is a case of deposits that must be accepted, each with one of the changes.
func otherForms(changes ...string) func(*session) {
	return func(s *session) {
		s.each(changes, func(change string) {
			values := strings.NewReplacer("{user}", s.aNumber(), "{9}", digits(9), "{20}", digits(20)) // more than 2⁵³ too
			s.takes("a deposit with "+change, s.deposit().edit(values.Replace(change)))
		})
	}
}

func answerForms(s *session) {
	s.each([]string{"0.000025", `"2.5E-5"`}, func(amount string) {
		sent := s.deposit().edit("tenantUserId " + s.aNumber() + " & trackingId " + digits(12) + " & amount " + amount)
		r := s.takes("a deposit of "+amount+" whose identifiers are numbers", sent)
		for _, name := range []string{"trackingId", "tenantUserId", "amount"} {
			if raw := r.member(name); raw != "" && (raw[0] == '"') != (sent.get(name)[0] == '"') {
				fail("Return a member in the form in which it came: keep that form beside the value.",
					"%s of the answer is %s; %s came", name, raw, sent.get(name))
			}
		}
	})
}

func otherRepeat(s *session) {
	user := s.aNumber()
	usual := s.deposit().edit(`tenantUserId "` + user + `" & amount "0.12345678901234567890"`)
	s.takes("a deposit", usual)
	again := usual.edit("tenantUserId " + user + ` & txIndex "3" & riskLevelTo`)
	for _, amount := range []string{"0.1234567890123456789", "12345678901234567890E-20", `"1.234567890123456789E-1"`} {
		s.takes("the same deposit, its amount written "+amount, again.set("amount", amount))
	}
	r := s.post("the same trackingId with an amount that differs in the last of twenty digits",
		again.set("amount", "12345678901234567891E-20"))
	s.judged(r, countersign.CodeDetailsDiffer)
}

func otherNotices(s *session) {
	s.each([]string{"3", "4", "5", "6", "7"}, func(number string) {
		var t countersign.Type
		_, _ = fmt.Sscan(number, &t)
		m := s.callback(t).edit("tenantUserId " + s.aNumber() + " & trackingId " + digits(12) + " & business")
		switch t {
		case countersign.TypeWithdraw:
			s.notifies("a notice of type 3 whose amount has an exponent", m.set("amount", "2.5E-6"), t)
			m = m.edit("trackingId " + digits(12) + " & chainName & symbol & amount & toAddress")
		case countersign.TypeAddress:
			m = m.edit("chainName & symbol")
		}
		s.notifies("a short notice of type "+number, m, t)
	})
}

func otherWithdrawal(s *session) {
	s.knownOrder()
	brought := `+amount 999999 & +symbol 7 & +address "0x5a5a"`
	s.each([]string{`+trackingId null & +tenantUserId ""`, brought}, func(way string) {
		s.confirmed(s.post("the known order, with "+way, s.known().edit(way)))
	})
	s.notConfirmed(s.post("an unknown order whose callBackId is a number", s.unknown().set("callBackId", digits(15))))
}

func notGuessed(s *session) {
	malformed("txId 17", "toAddress 17", "symbol null", "chainName true", "tenantUserId -1", "tenantUserId 1.5",
		"trackingId 1E3", "txIndex 3.0", "txIndex -2", `txIndex "first"`, `type "1.0"`, "amount null", "amount true",
		`amount ""`, "amount -1E3", `amount "+1E3"`, `amount "1E"`, `amount "1E3.5"`, `amount "0x1E3"`, `amount " 1E3"`,
		"amount 1E-78", "amount 1E999")(s)
	s.each([]string{"callBackId", "callBackId null", `callBackId ""`, "callBackId true", "callBackId -1", "callBackId 1.5",
		"callBackId []"}, func(way string) {
		s.notOpened(s.post("a withdrawal request with "+way, s.unknown().edit(way)))
	})
}
