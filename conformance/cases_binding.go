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
		{901, Must, ours, "binding/absent", "Binding, B2, B4",
			"A request that is not bound is refused; the digits of a bound requestUUID are lower case.", binds,
			posts(1, (*session).forged, unboundUUID, upperCase)},
		{903, Must, money, "binding/spliced-amount", "Binding, B4, B5",
			"The blocks with the requestUUID of one deposit and the amount of another, or its beginning, are refused.", nil,
			splices},
		{905, Must, ours, "binding/changed", "Binding, B4",
			"A deposit of which blocks were swapped, repeated or cut out, so that it still parses, is refused.", binds,
			posts(1, (*session).forged, swappedValues, repeatedSpace, leftOut)},
		{909, Must, ours, "binding/spliced-withdrawal", "Binding, B4, B5",
			"The beginning of one withdrawal request with the callBackId of another is refused.", []*Need{NeedOrder},
			splicedWithdrawal},
	}
}

// forged checks that r refuses a request that no holder of the key sent.
func (s *session) forged(r *reply) { s.rejects(r, http.StatusOK, http.StatusBadRequest) }

// splice posts genuine, calls between if there is one, and posts forged with the blocks of genuine before the mark in
// place of its own, or those after it if tail is set. That must be refused.
func (s *session) splice(genuine, forged message, mark string, tail bool, between func()) {
	q, forgery := s.attempt("a callback", genuine), s.attempt("a callback with blocks of another one", forged)
	parts, others := cutAt(q.Plaintext, mark), cutAt(forgery.Plaintext, mark)
	seen := [][][]byte{s.blocks(parts[0]), s.blocks(parts[1])}
	q.Sealed = join(slices.Concat(seen...))
	if r := s.send(q); q.to == countersign.LaneWithdraw {
		s.notConfirmed(r)
	} else {
		s.taken(r)
	}
	if between != nil {
		between()
	}
	own := 1 // the part that the forgery has of its own
	if tail {
		own = 0
	}
	parts[own], seen[own] = others[own], s.blocks(others[own])
	forgery.Plaintext, forgery.Sealed = slices.Concat(parts...), join(slices.Concat(seen...))
	s.forged(s.send(forgery))
}

// splices joins the first block of one deposit, which has its requestUUID, to the rest of another, and the last blocks
// of one to the beginning of another. Where seen blocks are the rule, a kill must not make the endpoint forget them.
func splices(s *session) {
	var between func()
	if s.cfg.Unbound && s.cfg.Restart != nil {
		between = s.restart
	}
	m, other := s.deposit(), s.deposit().set("amount", `"9.5"`)
	s.splice(m.uuidFirst(), other.uuidFirst(), `"type"`, false, between)
	s.splice(s.deposit(), s.deposit().set("amount", `"9.5"`), `"amount"`, true, nil)
}

// splicedWithdrawal asks the genuine question first, so that the endpoint keeps the
// confirmation of this order, not the refusal of a forgery.
func splicedWithdrawal(s *session) {
	s.knownOrder()
	s.splice(s.unknown().uuidFirst(), s.known().uuidFirst(), `"type"`, false, nil)
}

var (
	unboundUUID = way{"with a random requestUUID", func(s *session, q *request) {
		random := q.UUID[:14] + "4" + q.UUID[15:] // of version 4
		*q = s.inChunks(*q, bytes.Replace(q.Plaintext, []byte(q.UUID), []byte(random), 1))
	}}
	upperCase = way{"whose requestUUID is in upper case", func(s *session, q *request) {
		for strings.ToUpper(q.UUID) == q.UUID { // until it has letters
			*q = s.attempt(q.what, q.m)
		}
		*q = s.inChunks(*q, []byte(strings.Replace(string(q.Plaintext), q.UUID, strings.ToUpper(q.UUID), 1)))
	}}
	swappedValues = way{"whose two addresses were swapped", func(s *session, q *request) {
		c := cutAt(q.Plaintext, q.m.str("fromAddress"), `","toAddress"`, q.m.str("toAddress"), `","riskLevelFrom"`)
		*q = s.inChunks(*q, c[0], c[3], c[2], c[1], c[4])
	}}
	repeatedSpace = way{"with a space twice", func(s *session, q *request) {
		*q = s.attemptOf(q.what, q.m, bytes.Replace(q.m.bytes(), []byte(`,"txId"`), []byte(`, "txId"`), 1))
		c := cutAt(q.Plaintext, ` "txId"`, `"txId"`)
		*q = s.inChunks(*q, c[0], c[1], c[1], c[2])
	}}
	leftOut = way{"without one of its blocks", func(s *session, q *request) {
		*q = s.attempt(q.what, q.m.add("memo", `"do not credit before review"`))
		c := cutAt(q.Plaintext, `"memo"`, `"requestUUID"`)
		*q = s.inChunks(*q, c[0], c[2])
	}}
)
