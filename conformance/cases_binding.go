package conformance

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"countersign"
)

// bindingCases are requests put together from parts of genuine ones, as an attacker could who has seen some. How a
// merchant detects them depends on the service (PROTOCOL.md, Binding).
func bindingCases() []Case {
	binds := []*Need{NeedBound}
	return []Case{
		{901, Must, ours, "binding/absent", "Binding, B4", "A request that is not bound is refused.", binds, unboundRequest},
		{903, Must, money, "binding/spliced-amount", "Binding, B4, B5",
			"The blocks with the requestUUID of one deposit and the amount of another, or its beginning, are refused.", nil,
			splices},
		{905, Must, ours, "binding/swapped-values", "Binding, B4",
			"Two blocks of one deposit, swapped so that it still parses, are refused.", binds, swappedValues},
		{906, Must, ours, "binding/repeated-white-space", "Binding, B4",
			"A block of white space, repeated, is refused although it changes no member.", binds, repeatedSpace},
		{907, Must, ours, "binding/left-out-member", "Binding, B4",
			"A deposit from which a block with an unknown member was cut is refused.", binds, leftOut},
		{908, Must, ours, "binding/upper-case", "Binding, B2", "The digits of a bound requestUUID are lower case.", binds,
			upperCase},
		{909, Must, ours, "binding/spliced-withdrawal", "Binding, B4, B5",
			"The beginning of one withdrawal request with the callBackId of another is refused.", []*Need{NeedOrder},
			splicedWithdrawal},
	}
}

// forged posts the chunks, each in blocks of its own, as q. It must be refused.
func (s *session) forged(q request, chunks ...[]byte) {
	s.rejects(s.send(s.inChunks(q, chunks...)), http.StatusOK, http.StatusBadRequest)
}

func unboundRequest(s *session) {
	m := s.deposit()
	plain, _ := bind(m.bytes(), false)
	s.forged(s.attemptOf("a deposit with a random requestUUID", m, plain), plain)
}

// splice posts genuine, then forged with the very blocks of genuine before the mark in place of its own, or those
// behind it where tail is set. That must be refused. Between the two comes between, if any.
func (s *session) splice(genuine, forged message, mark string, tail bool, between func()) {
	q, forgery := s.attempt("a callback", genuine), s.attempt("a callback with blocks of another one", forged)
	parts, others := cutAt(q.plaintext, mark), cutAt(forgery.plaintext, mark)
	seen := [][][]byte{s.blocks(parts[0]), s.blocks(parts[1])}
	q.body = join(slices.Concat(seen...))
	if r := s.send(q); q.to == toWithdraw {
		s.notConfirmed(r)
	} else {
		s.accepted(r, countersign.TypeDeposited)
	}
	if between != nil {
		between()
	}
	own := 1 // the part that the forgery has of its own
	if tail {
		own = 0
	}
	parts[own], seen[own] = others[own], s.blocks(others[own])
	forgery.plaintext, forgery.body = slices.Concat(parts...), join(slices.Concat(seen...))
	s.rejects(s.send(forgery), http.StatusOK, http.StatusBadRequest)
}

// firstBlock posts a deposit whose first block has the requestUUID, and that block with the rest of another deposit.
func (s *session) firstBlock(between func()) {
	s.splice(s.deposit().uuidFirst(), s.deposit().set("amount", `"9.5"`).uuidFirst(), `"type"`, false, between)
}

func splices(s *session) {
	s.each([]string{"first block", "last blocks"}, func(way string) {
		if way == "first block" {
			s.firstBlock(nil)
			return
		}
		s.splice(s.deposit(), s.deposit().set("amount", `"9.5"`), `"amount"`, true, nil)
	})
}

// splicedWithdrawal asks the genuine question first, so that the endpoint keeps the
// confirmation of this order, not the refusal of a forgery.
func splicedWithdrawal(s *session) {
	s.knownOrder()
	s.splice(s.unknown().uuidFirst(), s.known().uuidFirst(), `"type"`, false, nil)
}

func swappedValues(s *session) {
	m := s.deposit()
	q := s.attempt("a deposit whose two addresses were swapped", m)
	c := cutAt(q.plaintext, m.str("fromAddress"), `","toAddress"`, m.str("toAddress"), `","riskLevelFrom"`)
	s.forged(q, c[0], c[3], c[2], c[1], c[4])
}

func repeatedSpace(s *session) {
	m := s.deposit()
	plain := bytes.Replace(m.bytes(), []byte(`,"txId"`), []byte(`, "txId"`), 1)
	q := s.attemptOf("a deposit with a space twice", m, plain)
	c := cutAt(q.plaintext, ` "txId"`, `"txId"`)
	s.forged(q, c[0], c[1], c[1], c[2])
}

func leftOut(s *session) {
	q := s.attempt("a deposit without one of its blocks", s.deposit().add("memo", `"do not credit before review"`))
	c := cutAt(q.plaintext, `"memo"`, `"requestUUID"`)
	s.forged(q, c[0], c[2])
}

func upperCase(s *session) {
	for {
		q := s.attempt("a deposit whose requestUUID is in upper case", s.deposit())
		if upper := strings.ToUpper(q.uuid); upper != q.uuid { // it has letters
			s.forged(q, []byte(strings.Replace(string(q.plaintext), q.uuid, upper, 1)))
			return
		}
	}
}
