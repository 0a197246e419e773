package conformance

import (
	"fmt"
	"net/http"
	"strings"

	"countersign"
)

// repeatCases are callbacks that are repeated, and callbacks that only look
// repeated.
func repeatCases() []Case {
	return []Case{
		{201, Must, "repeat/new-request", "Deposit identity, I1", "A deposit told again with a new requestUUID is answered with errCode 0 and that requestUUID.", nil, repeatNew},
		{202, Must, "repeat/same-body", "Deposit identity, I1", "The same body sent again is answered with errCode 0.", nil, repeatSame},
		{203, Must, "repeat/at-once", "Deposit identity, I1", "Eight attempts of one deposit at the same time each get their own requestUUID, and none is refused.", nil, atOnce(countersign.TypeDeposited)},
		{204, Must, "repeat/two-transfers", "Deposit identity, I2", "Two transfers of one transaction to one address, told apart by txIndex and amount, are both credited.", nil,
			pair(1, "txIndex", "4", "amount", `"2.6"`)},
		{205, Must, "repeat/two-symbols", "Deposit identity, I2", "One transaction that moves two tokens, in two amounts, to one address is two deposits.", nil,
			pair(1, "symbol", `"USDC"`, "amount", `"2.6"`)},
		{206, Must, "repeat/possible-duplicate", "Deposit identity, I2", "A deposit under suspicion of being told twice is answered with errCode 0 and kept.", nil,
			pair(0, "txIndex", "-1")},
		{208, Must, "repeat/other-amount", "Deposit identity, I1", "A known trackingId with another amount is refused with errCode 2002, and nothing changes.", nil,
			contradiction("amount", `"2.5"`, `"2.51"`)},
		{209, Must, "repeat/other-user", "Deposit identity, I1", "A known trackingId with another tenantUserId is refused with errCode 2002.", nil,
			contradiction("tenantUserId", "", `"somebody-else"`)},
		{210, Must, "repeat/other-address", "Deposit identity, I1", "A known trackingId with another toAddress is refused with errCode 2002.", nil,
			contradiction("toAddress", "", `"0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"`)},
		{211, Must, "repeat/other-spelling", "Deposit identity, I3", "A deposit under suspicion in another spelling is answered with errCode 0 and recorded, not credited.", nil, respelt},
		{212, Must, "repeat/other-amount-20th-digit", "Amounts, A2", "A known trackingId with an amount that differs in the 20th digit is refused with errCode 2002.", nil,
			contradiction("amount", `"1234567890.1234567890"`, `"1234567890.1234567891"`)},
	}
}

func repeatNew(s *session) {
	m := s.deposit()
	s.takes("a deposit", m)
	sameDeposit(m, s.takes("the same deposit with a new requestUUID", m))
}

func repeatSame(s *session) {
	q := s.attempt("a deposit", s.deposit())
	s.takesBody(q)
	q.what = "the same body again"
	s.takesBody(q)
}

const instant = 8 // attempts at the same time

// atOnce is a case of one callback in several attempts at the same time. The endpoint may answer "try again" (a
// hold or a failure of its own) to all but one. It must not refuse any, and must accept the callback afterwards.
func atOnce(t countersign.Type) func(*session) {
	return func(s *session) {
		m := s.callback(t)
		requests := make([]request, instant)
		for i := range requests {
			requests[i] = s.attempt(fmt.Sprintf("attempt %d of %d at once", i+1, instant), m)
		}
		s.advice = "Let the database decide which attempt is first, and answer the others as repeats."
		taken := 0
		for _, r := range s.atOnce((*session).send, requests) {
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

// pair posts two deposits of one transaction to one address that differ in
// the given members besides trackingId. effects is how often the second must be credited.
func pair(effects int, members ...string) func(*session) {
	return func(s *session) {
		first := s.deposit()
		s.takes("a deposit", first)
		s.advice = "txId and address do not identify a deposit: trackingId does."
		second := first.set("trackingId", text(s.id())).with(members)
		r := s.takes("another deposit of the same transaction to the same address", second)
		s.expect(r.request, effects)
		sameDeposit(second, r)
	}
}

const keepContent = "Keep what an accepted trackingId stood for. A repeat that says something else is refused with errCode 2002, and a person looks at it. " +
	"Amounts are compared as exact decimals: as floating-point numbers two are equal that differ in the 18th digit or later."

// contradiction is a case of a deposit in which a member has the value before ("": the usual one), then of the same
// trackingId with the value after, then of the deposit once more.
func contradiction(name, before, after string) func(*session) {
	return func(s *session) {
		m := s.deposit()
		if before != "" {
			m = m.set(name, before)
		}
		s.takes("a deposit", m)
		s.advice = keepContent
		s.judged(s.post("the same trackingId with another "+name, m.set(name, after)), countersign.CodeDetailsDiffer)
		s.takes("the deposit once more", m)
	}
}

// respelt posts one transfer under several trackingIds, in several spellings.
func respelt(s *session) {
	m := s.deposit().set("chainName", `"ETH"`).set("txIndex", "-1")
	s.takes("a deposit", m)
	s.advice = "Answer a possible duplicate with errCode 0 and record it; a person decides whether it is credited."
	tx := strings.TrimPrefix(m.str("txId"), "0x")
	for _, change := range [][2]string{
		{"txId", "0x" + strings.ToUpper(tx)}, {"txId", tx}, {"chainName", "eth"}, {"chainName", "ETH "},
		{"symbol", strings.ToLower(m.str("symbol")) + " "}, {"toAddress", "0X" + strings.TrimPrefix(m.str("toAddress"), "0x")},
	} {
		other := m.set("trackingId", text(s.id())).set(change[0], text(change[1]))
		r := s.takes("the transfer under another trackingId, with the "+change[0]+" "+change[1], other)
		s.expect(r.request, 0)
	}
}
