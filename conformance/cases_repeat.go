package conformance

import (
	"fmt"
	"strings"

	"countersign"
)

// repeatCases are callbacks that are repeated, and callbacks that only look
// repeated.
func repeatCases() []Case {
	return []Case{
		{201, "repeat/new-request", "Deposit identity, I1", "A deposit told again with a new requestUUID is answered with errCode 0 and that requestUUID.", nil, repeatNew},
		{202, "repeat/same-body", "Deposit identity, I1", "The same body sent again is answered with errCode 0.", nil, repeatSame},
		{203, "repeat/at-once", "Deposit identity, I1", "Eight attempts of one deposit at the same time each get their own requestUUID, and none is refused.", nil, repeatAtOnce},
		{204, "repeat/two-transfers", "Deposit identity, I2", "Two transfers of one transaction to one address, told apart by txIndex, are both accepted.", nil,
			pair("txIndex", "4", 1)},
		{205, "repeat/two-symbols", "Deposit identity, I2", "One transaction that moves two tokens to one address is two deposits.", nil,
			pair("symbol", `"USDC"`, 1)},
		{206, "repeat/possible-duplicate", "Deposit identity, I2", "A deposit under suspicion of being told twice is answered with errCode 0 and kept.", nil,
			pair("txIndex", "-1", 0)},
		{207, "repeat/two-at-once", "Deposit identity, I2", "Two transfers of one transaction at the same time are both accepted.", nil, transfersAtOnce},
		{208, "repeat/other-amount", "Deposit identity, I1", "A known trackingId with another amount is refused with errCode 2002, and nothing changes.", nil,
			contradiction("amount", `"2.51"`)},
		{209, "repeat/other-user", "Deposit identity, I1", "A known trackingId with another tenantUserId is refused with errCode 2002.", nil,
			contradiction("tenantUserId", `"somebody-else"`)},
		{210, "repeat/other-address", "Deposit identity, I1", "A known trackingId with another toAddress is refused with errCode 2002.", nil,
			contradiction("toAddress", `"0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"`)},
		{211, "repeat/other-spelling", "Deposit identity, I3", "A deposit under suspicion in another spelling is answered with errCode 0 and recorded, not credited.", nil, respelt},
	}
}

func repeatNew(s *session) error {
	m := s.deposit()
	first, err := s.taken("a deposit", m)
	if err != nil {
		return err
	}
	again, err := s.taken("the same deposit with a new requestUUID", m)
	if err != nil {
		return err
	}
	if first.uuid == again.uuid {
		return fmt.Errorf("conformance: two attempts with one requestUUID")
	}
	return sameDeposit(m, again)
}

func repeatSame(s *session) error {
	m := s.deposit()
	q := s.attempt("a deposit", m.bytes())
	if err := s.accepted(s.send(q), countersign.TypeDeposited); err != nil {
		return err
	}
	s.expect(m.str("trackingId"), 1)
	q.what = "the same body again"
	return s.accepted(s.send(q), countersign.TypeDeposited)
}

const instant = 8 // attempts at the same time

// repeatAtOnce allows the endpoint to answer "try again" (a hold or a failure of
// its own) to all attempts but one. The endpoint must not refuse any, and must
// accept the deposit afterwards.
func repeatAtOnce(s *session) error {
	m := s.deposit()
	requests := make([]request, instant)
	for i := range requests {
		requests[i] = s.attempt(fmt.Sprintf("attempt %d of %d at once", i+1, instant), m.bytes())
	}
	taken := 0
	for _, r := range s.atOnce(requests) {
		ok, err := s.acceptedOrLater(r, countersign.TypeDeposited)
		if err != nil {
			return because(err, "Let the database decide which attempt is first, and answer the others as repeats.")
		}
		if ok {
			taken++
		}
	}
	if taken == 0 {
		return fail("Accept one of several attempts that come at once.", "none of %d attempts at once was accepted", instant)
	}
	return s.takes("the same deposit afterwards", m)
}

// acceptedOrLater is accepted, but gives false and no error for "try again".
func (s *session) acceptedOrLater(r *reply, t countersign.Type) (bool, error) {
	if err := statusIs(r, 200); err != nil {
		return false, err
	}
	if err := s.wellFormed(r); err != nil {
		return false, err
	}
	switch r.response.ErrCode.Class() {
	case countersign.ClassHold, countersign.ClassFailure:
		s.note("some attempts at the same time were told to try again (errCode %d)", r.response.ErrCode)
		return false, nil
	}
	return true, s.accepted(r, t)
}

// pair posts two deposits of one transaction to one address that differ in a
// member besides trackingId. effects is how often each must be credited, -1 if
// the protocol leaves it open.
func pair(name, value string, effects int) func(*session) error {
	return func(s *session) error {
		first := s.deposit()
		second := first.set("trackingId", text(s.id())).set(name, value)
		if err := s.takes("a deposit", first); err != nil {
			return err
		}
		r := s.post("another deposit of the same transaction to the same address", second)
		if err := s.accepted(r, countersign.TypeDeposited); err != nil {
			return because(err, "txId and address do not identify a deposit: trackingId does.")
		}
		if effects >= 0 {
			s.expect(second.str("trackingId"), effects)
		}
		return sameDeposit(second, r)
	}
}

// contradiction posts a deposit, then the same trackingId with another value of a
// member, then the deposit once more.
func contradiction(name, value string) func(*session) error {
	return func(s *session) error {
		m := s.deposit()
		if err := s.takes("a deposit", m); err != nil {
			return err
		}
		r := s.post("the same trackingId with another "+name, m.set(name, value))
		if err := s.judged(r, countersign.CodeDetailsDiffer); err != nil {
			return because(err, "Keep what an accepted trackingId stood for. A repeat that says something else is refused with errCode 2002, and a person looks at it.")
		}
		return s.takes("the deposit once more", m)
	}
}

// respelt posts one transfer under several names, in several spellings.
func respelt(s *session) error {
	m := s.deposit().set("chainName", `"ETH"`).set("txIndex", "-1")
	if err := s.takes("a deposit", m); err != nil {
		return err
	}
	tx := strings.TrimPrefix(m.str("txId"), "0x")
	for _, change := range [][2]string{
		{"txId", "0x" + strings.ToUpper(tx)}, {"txId", tx}, {"chainName", "eth"}, {"chainName", "ETH "},
		{"symbol", strings.ToLower(m.str("symbol")) + " "}, {"toAddress", "0X" + strings.TrimPrefix(m.str("toAddress"), "0x")},
	} {
		id := s.id()
		s.expect(id, 0)
		r := s.post("the transfer under another trackingId, with the "+change[0]+" "+change[1], m.set("trackingId", text(id)).set(change[0], text(change[1])))
		if err := s.accepted(r, countersign.TypeDeposited); err != nil {
			return because(err, "Answer a possible duplicate with errCode 0 and record it; a person decides whether it is credited.")
		}
	}
	return nil
}

func transfersAtOnce(s *session) error {
	base := s.deposit()
	requests := make([]request, instant)
	for i := range requests {
		id := s.id()
		m := base.set("trackingId", text(id)).set("txIndex", fmt.Sprint(i))
		requests[i] = s.attempt(fmt.Sprintf("transfer %d of one transaction, all at once", i), m.bytes())
		s.expect(id, 1)
	}
	for i, r := range s.atOnce(requests) {
		ok, err := s.acceptedOrLater(r, countersign.TypeDeposited)
		if err != nil {
			return err
		}
		if !ok {
			again := s.send(requests[i])
			if err := s.accepted(again, countersign.TypeDeposited); err != nil {
				return err
			}
		}
	}
	return nil
}
