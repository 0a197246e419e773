package conformance

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"countersign"
)

// depositCases are correct deposits in unusual forms. All must be accepted.
func depositCases() []Case {
	return []Case{
		{101, Must, iface, "deposit/plain", "HTTP, H1", "A deposit is accepted.", nil, takesEach("")},
		{102, Must, iface, "deposit/json", "Messages, M1, M6, M10",
			"The order of members, white space, escapes and unknown members have no effect.", nil, jsonForms},
		{106, Should, ours, "deposit/large", "Messages, M1, M3",
			"Nesting up to 16 deep and texts of 200 characters are taken.", nil,
			takesEach("+deep "+nested(15), `trackingId "{id}-`+long[40:]+`"`, `txId "`+long+`" & fromAddress "`+long+`"`)},
		{107, Must, ours, "deposit/blocks", "Sealing, S1",
			"Blocks carry any number of bytes, and a character may lie across two.", nil, anyBlocks},
		{109, Must, iface, "deposit/values", "Messages, M3, M4, M8",
			"txIndex may be −1 or 0, a risk level 0 or 100; letters keep their case; in type 1 newAddress has no effect.", nil,
			takesEach("txIndex -1", "txIndex 0", "riskLevelFrom 0 & riskLevelTo 0", "riskLevelFrom 100 & riskLevelTo 100",
				`chainName "TRON" & fromAddress "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8" & txId "`+strings.Repeat("7C", 32)+`"`,
				`newAddress "0x7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c"`)},
		{110, Must, ours, "deposit/edges", "Messages, M3, M4",
			"fromAddress and newAddress may be empty, txIndex 2⁵³−1 is exact, business is any whole number.", nil,
			takesEach(`fromAddress "" & newAddress ""`, "txIndex 9007199254740991", "business -9007199254740991")},
		{121, Must, iface, "deposit/amounts", "Amounts, A1, A2",
			"Amounts with and without a point and with zeros at the end are exact, up to 38 digits.", nil,
			takesEach(`amount "7"`, `amount "2.500000000000"`, `amount "2.50"`, `amount "10.000"`, `amount "1000"`,
				`amount "0.000000000000000001"`, `amount "12345678901234567890.123456789012345678"`)},
		{128, Must, ours, "deposit/long-amounts", "Amounts, A1, A2",
			"78 digits, the largest balance of an EVM token, are exact.", nil,
			takesEach(`amount "115792089237316195423570985008687907853269984665640564039457584007913129639935"`,
				`amount "1.`+strings.Repeat("1234567", 11)+`"`)},
	}
}

var long = strings.Repeat("7c", 100)

// takesEach is a case in which deposits must be accepted, each with one of the changes.
func takesEach(changes ...string) func(*session) {
	return func(s *session) {
		s.each(changes, func(change string) {
			s.takes(strings.TrimSpace(fmt.Sprintf("a deposit %.60s", change)), s.deposit().edit(change))
		})
	}
}

func jsonForms(s *session) {
	m := s.deposit()
	slices.Reverse(m)
	s.takes("a deposit with its members in another order", m)
	m = s.deposit()
	plain := m.bytes()
	for _, token := range []string{"{", "}", ",", ":"} {
		plain = bytes.ReplaceAll(plain, []byte(token), []byte(" \t\r\n"+token+" \n"))
	}
	s.takesBody(s.attemptOf("a deposit with white space between the tokens", m, plain))
	takesEach(`symbol "\u0055S\u0044\u0054" & chainName "E\u0054H" & +memo "\/\\\"\b\f\n\r\t\u00e9\ud83d\ude00"`,
		`+memo "…" & +extra {"a":[1,2.50,{"b":null}],"type":2,"amount":"9"} & +flag true & +none null`)(s)
}

func anyBlocks(s *session) {
	q := s.attempt("a deposit with a character across two blocks", s.deposit().add("memo", text("тест 用户 😀")))
	inside := bytes.Index(q.plaintext, []byte("😀")) + 2
	s.takesBody(s.inChunks(q, q.plaintext[:inside], q.plaintext[inside:]))
	q = s.attempt("a deposit in blocks of 1, 1, 43, 1 and more bytes", s.deposit())
	p := q.plaintext
	s.takesBody(s.inChunks(q, p[:1], p[1:2], p[2:45], p[45:46], p[46:]))
}

// repeatCases are callbacks that are repeated, and callbacks that only look repeated.
func repeatCases() []Case {
	return []Case{
		{201, Must, money, "repeat/new-request", "Deposit identity, I1",
			"A deposit told again with a new requestUUID is answered with errCode 0 and that requestUUID.", nil, repeatNew},
		{202, Must, ours, "repeat/same-body", "Deposit identity, I1",
			"The same body sent again is answered with errCode 0.", nil, repeatSame},
		{203, Must, money, "repeat/at-once", "Deposit identity, I1",
			"Eight attempts of one deposit at the same time each get their own requestUUID, and none is refused.", nil,
			atOnce(countersign.TypeDeposited)},
		{204, Must, money, "repeat/two-transfers", "Deposit identity, I2",
			"Two transfers of one transaction to one address, of two indexes or tokens and two amounts, are both credited.",
			nil, sameTransaction(1, ` => txIndex 4 & amount "2.6"`, ` => symbol "USDC" & amount "2.6"`)},
		{206, Must, money, "repeat/possible-duplicate", "Deposit identity, I2, I3",
			"A transfer under another trackingId, in another spelling too, is answered with errCode 0, kept and not credited.",
			nil, sameTransaction(0, " => txIndex -1", `txIndex -1 => txId "0x{TX}"`, `txIndex -1 => txId "{tx}"`,
				`txIndex -1 => chainName "eth"`, `txIndex -1 => chainName "ETH "`, `txIndex -1 => symbol "usdt "`,
				`txIndex -1 => toAddress "0X{to}"`)},
		{208, Must, money, "repeat/other-content", "Deposit identity, I1",
			"A known trackingId with another amount, user or address is refused with errCode 2002, and nothing changes.", nil,
			contradictions},
	}
}

func repeatNew(s *session) {
	m := s.deposit()
	s.takes("a deposit", m)
	s.takes("the same deposit with a new requestUUID", m)
}

func repeatSame(s *session) {
	for _, m := range []message{s.deposit(), s.deposit().uuidFirst()} {
		q := s.attempt("a deposit", m)
		s.takesBody(q)
		q.what = "the same body again"
		s.takesBody(q)
	}
}

const instant = 8 // attempts at the same time

// atOnce is a case of one callback in several attempts at the same time. The endpoint may answer "try again" (a
// hold or a failure of its own) to all but one. It must not refuse any, and must accept the callback afterwards.
func atOnce(t countersign.Type) func(*session) {
	return func(s *session) {
		m := s.subject(t)
		requests := make([]request, instant)
		for i := range requests {
			requests[i] = s.attempt(fmt.Sprintf("attempt %d of %d at once", i+1, instant), m)
		}
		taken := 0
		for _, r := range s.atOnce(requests) {
			statusIs(r, http.StatusOK)
			s.wellFormed(r)
			switch r.response.ErrCode.Class() {
			case countersign.ClassHold, countersign.ClassFailure:
				s.note("some attempts at the same time were told to try again (errCode %d)", r.response.ErrCode)
			default:
				s.settles(r, t)
				taken++
			}
		}
		if taken == 0 {
			fail("Answer one of several attempts that come at once.", "none of %d attempts at once was accepted", instant)
		}
		s.settles(s.post("the same callback afterwards", m), t)
	}
}

// sameTransaction is a case of deposits that follow another one of the same transaction to the same address, under a
// trackingId of their own. Each way says what the first has, and what the second, which must be credited so many times.
func sameTransaction(credits int, ways ...string) func(*session) {
	return func(s *session) {
		s.each(ways, func(way string) {
			before, after, _ := strings.Cut(way, " => ")
			first := s.deposit().edit(before)
			second := first.edit(after).set("trackingId", text(s.id()))
			s.takes("a deposit", first)
			r := s.takes("another deposit of the same transaction to the same address, "+after, second)
			s.expect(r.request, credits)
		})
	}
}

// contradictions tells a deposit, another one under its trackingId, and the deposit once more.
func contradictions(s *session) {
	s.each([]string{` => amount "2.51"`, `amount "1234567890.1234567890" => amount "1234567890.1234567891"`,
		` => tenantUserId "somebody-else"`, ` => toAddress "0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"`}, func(way string) {
		before, after, _ := strings.Cut(way, " => ")
		m := s.deposit().edit(before)
		s.takes("a deposit", m)
		s.judged(s.post("the same trackingId with another "+after, m.edit(after)), countersign.CodeDetailsDiffer)
		s.takes("the deposit once more", m)
	})
}
