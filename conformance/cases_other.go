package conformance

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"countersign"
)

// otherCases are what providers send that are not of this project: members left
// out, and members in other forms that say the same.
func otherCases() []Case {
	other, order := []*Need{NeedOther}, []*Need{NeedOther, NeedOrder}
	return []Case{
		{1001, Must, "other/members-absent", "Messages, M3", "A deposit without members that have no effect is accepted.", other, membersAbsent},
		{1002, Must, "other/numeric-identifiers", "Messages, M12", "Identifiers that are numbers stand for the text of their digits.", other, numericIdentifiers},
		{1003, Must, "other/numbers-as-texts", "Messages, M12", "type and txIndex are taken as texts.", other,
			otherForm([]string{"type", `"1"`}, []string{"txIndex", `"3"`})},
		{1004, Must, "other/risk-levels", "Messages, M12", "Risk levels and business in any form are taken, since they have no effect.", other,
			otherForm([]string{"riskLevelFrom", `"LOW"`, "riskLevelTo", `"40"`}, []string{"riskLevelFrom", "5.5", "riskLevelTo", "-1"}, []string{"business", `"vip"`})},
		{1005, Must, "other/amount-numbers", "Amounts, A3", "Amounts that are JSON numbers are exact.", other,
			otherAmounts("2.5", "2.5", "7", "7", "0.100", "0.100", "123456789012345678901234567890.123456789", "123456789012345678901234567890.123456789")},
		{1006, Must, "other/amount-exponents", "Amounts, A4", "Amounts with an exponent, in a number or a text, are converted exactly.", other,
			otherAmounts("1E-7", "0.0000001", `"1E-7"`, "0.0000001", "3.10e+2", "310", `"1.50E+3"`, "1500", `"0E-18"`, "0",
				"1234567890123456789012E-20", "12.34567890123456789012", `"12E-1"`, "1.2")},
		{1007, Must, "other/answer-forms", "Messages, M12", "The answer returns a number where a number came, and a text where a text came.", other, answerForms},
		{1008, Must, "other/repeat", "Deposit identity, I1", "A deposit told again in other forms is a repetition; one whose amount differs in the last of twenty digits is not.", other, otherRepeat},
		{1009, Must, "other/notices", "Messages, M3", "Notices are accepted without members that have no effect, and with identifiers and amounts in other forms.", other, otherNotices},
		{1010, Must, "other/withdrawal-nulls", "Messages, M3", "A type 2 whose trackingId is null and whose tenantUserId is empty is one with its callBackId alone.", order, withdrawalNulls},
		{1011, Must, "other/withdrawal-number", "Messages, M12", "A callBackId that is a number is read, and not confirmed where it is unknown.", other, withdrawalNumber},
		{1012, Must, "other/withdrawal-smuggled", "Messages, M6", "Details in unknown members of a type 2, as numbers too, have no effect on the answer.", order, withdrawalSmuggled},
		{1013, Must, "other/not-guessed", "Messages, M12", "What decides who gets what is not guessed: such a deposit is refused as malformed.", other,
			malformed([]string{"txId 17", "toAddress 17", "symbol null", "chainName true", "tenantUserId -1", "tenantUserId 1.5", "trackingId 1E3", "txIndex 3.0",
				"txIndex -2", "txIndex \"first\"", "type \"1.0\"", "amount null", "amount true", "amount \"\"", "amount -1E3", "amount \"+1E3\"", "amount \"1E\"",
				"amount \"1E3.5\"", "amount \"0x1E3\"", "amount \" 1E3\"", "amount 1E-78", "amount 1E999"}, withValue)},
		{1014, Must, "other/withdrawal-not-guessed", "Messages, M12", "A type 2 without a callBackId is refused as malformed.", other, withdrawalNotGuessed},
	}
}

const otherFix = "Take other forms that say the same (PROTOCOL.md, M12 and A4): convert them when you parse, the amount as a text and never by a floating-point number."

// takesAs posts the deposit sent, which must be accepted as if it were usual.
func (s *session) takesAs(what string, sent, usual message) {
	s.advice = otherFix
	sameAnswer(usual, s.takes(what, sent).parsed.(countersign.DepositAnswer))
}

func membersAbsent(s *session) {
	names := []string{"fromAddress", "riskLevelFrom", "riskLevelTo", "txIndex", "newAddress", "business"}
	all := s.deposit()
	for _, name := range names {
		m := s.deposit()
		for _, sent := range []message{m.drop(name), m.set(name, "null")} {
			s.takesAs("a deposit without "+name, sent, m.drop(name))
		}
		all = all.drop(name)
	}
	s.takesAs("a deposit without any of those", all, all)
}

// digits is a number of n digits that no other message has.
func (s *session) digits(n int) string {
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

func numericIdentifiers(s *session) {
	for _, n := range []int{9, 20} { // more than 2⁵³ too
		user, id := s.aNumber(), s.digits(n)
		usual := s.deposit().set("tenantUserId", text(user)).set("trackingId", text(id))
		s.takesAs("a deposit whose identifiers are numbers", usual.set("tenantUserId", user).set("trackingId", id), usual)
	}
}

// otherForm posts deposits in which each pair of name and value is set, and which must be accepted as the usual deposit.
func otherForm(changes ...[]string) func(*session) {
	return func(s *session) {
		for _, pairs := range changes {
			usual := s.deposit()
			s.takesAs("a deposit with "+strings.Join(pairs, " "), usual.with(pairs), usual)
		}
	}
}

// otherAmounts posts deposits. pairs has each amount as it is sent, then its value.
func otherAmounts(pairs ...string) func(*session) {
	return func(s *session) {
		for pair := range slices.Chunk(pairs, 2) {
			usual := s.deposit().set("amount", text(pair[1]))
			s.takesAs("a deposit of "+pair[0], usual.set("amount", pair[0]), usual)
		}
	}
}

func answerForms(s *session) {
	s.advice = otherFix
	for _, amount := range []string{"0.000025", `"2.5E-5"`} {
		sent := s.deposit().set("tenantUserId", s.aNumber()).set("trackingId", s.digits(12)).set("amount", amount)
		r := s.takes("a deposit of "+amount+" whose identifiers are numbers", sent)
		for _, name := range []string{"trackingId", "tenantUserId", "amount"} {
			if raw := answerMember(r, name); raw != "" && (raw[0] == '"') != (sent.get(name)[0] == '"') {
				fail("Return a member in the form in which it came: keep that form beside the value.",
					"%s of the answer is %s; %s came", name, raw, sent.get(name))
			}
		}
	}
}

func otherRepeat(s *session) {
	user := s.aNumber()
	usual := s.deposit().set("tenantUserId", text(user)).set("amount", `"0.12345678901234567890"`)
	s.takesAs("a deposit", usual, usual)
	again := usual.set("tenantUserId", user).set("txIndex", `"3"`).drop("riskLevelTo")
	for _, amount := range []string{"0.1234567890123456789", "12345678901234567890E-20", `"1.234567890123456789E-1"`} {
		s.takesAs("the same deposit, its amount written "+amount, again.set("amount", amount), usual)
	}
	r := s.post("the same trackingId with an amount that differs in the last of twenty digits", again.set("amount", "12345678901234567891E-20"))
	s.judged(r, countersign.CodeDetailsDiffer)
}

func otherNotices(s *session) {
	s.advice = otherFix
	for _, t := range countersign.TypeUnknown.Values() {
		if !t.Effect().IsNotice() {
			continue
		}
		m := s.callback(t).set("tenantUserId", s.aNumber()).set("trackingId", s.digits(12)).drop("business")
		switch t.Effect() {
		case countersign.EffectExecuted:
			s.notifies("a notice of type 3 whose amount has an exponent", m.set("amount", "2.5E-6"), t)
			m = m.set("trackingId", s.digits(12)).drop("chainName").drop("symbol").drop("amount").drop("toAddress")
		case countersign.EffectAddress:
			m = m.drop("chainName").drop("symbol")
		}
		s.notifies(fmt.Sprintf("a short notice of type %d", int(t)), m, t)
	}
}

func withdrawalNulls(s *session) {
	knownOrder(s)
	m := s.known().add("trackingId", "null").add("tenantUserId", `""`)
	s.confirmed(s.post("the known order, trackingId null and tenantUserId empty", m))
}

func withdrawalNumber(s *session) {
	s.notConfirmed(s.post("an unknown order whose callBackId is a number", s.unknown().set("callBackId", s.digits(15))))
}

func withdrawalSmuggled(s *session) {
	knownOrder(s)
	s.advice = "Return in its own form only what is a member of the request; the details are those of the order book."
	m := s.known().add("amount", "999999").add("address", text(randomAddress())).add("symbol", "7")
	s.confirmed(s.post("the known order, with other details in unknown members", m))
}

func withdrawalNotGuessed(s *session) {
	s.advice = "Refuse a withdrawal request that does not say which withdrawal."
	s.notOpened(s.post("a withdrawal request without callBackId", s.unknown().drop("callBackId")))
	for _, value := range []string{"null", `""`, "true", "-1", "1.5", "[]"} {
		s.notOpened(s.post("a withdrawal request with callBackId "+value, s.unknown().set("callBackId", value)))
	}
}
