package conformance

import (
	"slices"
	"strings"

	"countersign"
)

// bindingCases are requests put together from parts of genuine ones, as an
// attacker could who has seen some. How a merchant detects them depends on the
// service (PROTOCOL.md, Binding).
func bindingCases() []Case {
	bound, unbound := []*Need{NeedBound}, []*Need{NeedUnbound}
	return []Case{
		{901, Must, "binding/absent", "Binding, B4", "A request that is not bound is refused.", bound, bindingAbsent},
		{902, Must, "binding/broken", "Binding, B3", "A request bound to other bytes is refused.", bound, bindingBroken},
		{903, Must, "binding/spliced-amount", "Binding, B4", "The beginning of one deposit with the amount of another is refused.", bound, splicedAmount},
		{904, Must, "binding/spliced-by-usual-blocks", "Binding, B4", "Full blocks of two deposits, mixed, are refused.", bound, splicedBlocks},
		{905, Must, "binding/swapped-values", "Binding, B4", "Two blocks of one deposit, swapped so that it still parses, are refused.", bound, swappedValues},
		{906, Must, "binding/repeated-white-space", "Binding, B4", "A block of white space, repeated, is refused although it changes no member.", bound, repeatedSpace},
		{907, Must, "binding/left-out-member", "Binding, B4", "A deposit from which a block with an unknown member was cut is refused.", bound, leftOut},
		{908, Must, "binding/upper-case", "Binding, B2", "The digits of a bound requestUUID are lower case.", bound, upperCase},
		{909, Must, "binding/spliced-withdrawal", "Binding, B4", "The beginning of one withdrawal request with the callBackId of another is refused.", []*Need{NeedBound, NeedOrder}, splicedWithdrawal},
		{921, Must, "binding/first-block-other-rest", "Binding, B5", "A first block that was seen with another rest is refused.", unbound, otherRest(countersign.TypeDeposited, nil)},
		{922, Must, "binding/first-block-same-rest", "Binding, B5", "The same first block with the same rest is a repeat.", unbound, firstBlockSameRest},
		{923, Must, "binding/withdrawal-other-rest", "Binding, B5", "The first block of a withdrawal request with another rest is refused.", []*Need{NeedUnbound, NeedOrder}, otherRest(countersign.TypeRequestWithdraw, nil)},
		{924, Must, "binding/last-blocks-other-beginning", "Binding, B5", "The blocks with the requestUUID of one deposit behind the beginning of another are refused.", unbound, lastBlocksOtherBeginning},
	}
}

// forged posts the chunks, each in blocks of its own, as q. It must be refused.
func (s *session) forged(q request, chunks ...[]byte) {
	s.advice = "Recompute the binding from the opened bytes, unchanged, before parsing them, and refuse every request whose binding does not hold."
	s.refused(s.send(s.inChunks(q, chunks...)))
}

func bindingAbsent(s *session) {
	m := s.deposit()
	q := s.attemptAs("a deposit with a random requestUUID", m, m.bytes(), false)
	s.forged(q, q.plaintext)
}

func bindingBroken(s *session) {
	q := s.attempt("a deposit whose amount was changed after binding", s.deposit())
	s.forged(q, []byte(strings.Replace(string(q.plaintext), `"amount":"2.5"`, `"amount":"9.5"`, 1)))
}

// twins are two deposits whose members have the same lengths but whose amounts
// differ.
func (s *session) twins() (message, message) {
	a := s.deposit()
	b := s.deposit().set("amount", `"9.5"`)
	for len(a.bytes()) != len(b.bytes()) { // the counter of identifiers may have grown by a digit
		a = s.deposit()
	}
	return a, b
}

func splicedAmount(s *session) {
	a, b := s.twins()
	q, other := s.attempt("a deposit with the amount of another", a), s.attempt("", b)
	s.forged(q, cutAt(q.plaintext, `"amount"`)[0], cutAt(other.plaintext, `"amount"`)[1])
}

func splicedBlocks(s *session) {
	a, b := s.twins()
	filler := text(randomHex(s.raw.size / 2)) // for keys whose blocks hold a whole deposit
	q, other := s.attempt("the first blocks of one deposit and the last of another", a.add("memo", filler)), s.attempt("", b.add("memo", filler))
	full := s.cfg.Key.MaxChunk(s.cfg.Padding)
	cut := (len(q.plaintext) + full - 1) / full / 2 * full
	s.forged(q, q.plaintext[:cut], other.plaintext[cut:])
}

func swappedValues(s *session) {
	m := s.deposit().set("fromAddress", text(randomAddress())).set("toAddress", text(randomAddress()))
	q := s.attempt("a deposit whose two addresses were swapped", m)
	c := cutAt(q.plaintext, m.str("fromAddress"), `","toAddress"`, m.str("toAddress"), `","riskLevelFrom"`)
	s.forged(q, c[0], c[3], c[2], c[1], c[4])
}

func repeatedSpace(s *session) {
	m := s.deposit()
	q := s.attemptOf("a deposit with a space twice", m, []byte(strings.Replace(string(m.bytes()), `,"txId"`, `, "txId"`, 1)))
	c := cutAt(q.plaintext, ` "txId"`, `"txId"`)
	s.forged(q, c[0], c[1], c[1], c[2])
}

func leftOut(s *session) {
	q := s.attempt("a deposit without one of its blocks", s.deposit().add("memo", `"do not credit before review"`))
	c := cutAt(q.plaintext, `"memo"`, `"requestUUID"`)
	s.forged(q, c[0], c[2])
}

func upperCase(s *session) {
	for range 50 {
		q := s.attempt("a deposit whose requestUUID is in upper case", s.deposit())
		if upper := strings.ToUpper(q.uuid); upper != q.uuid {
			s.forged(q, []byte(strings.Replace(string(q.plaintext), q.uuid, upper, 1)))
			return
		}
	}
	skip("no requestUUID with letters was found")
}

// splicedWithdrawal asks the genuine question first, so that the endpoint keeps the
// confirmation of this order, not the refusal of a forgery.
func splicedWithdrawal(s *session) {
	knownOrder(s)
	q := s.attempt("a withdrawal request with the callBackId of another", s.unknown())
	known := s.attempt("", s.known())
	s.forged(q, cutAt(q.plaintext, `"callBackId"`)[0], cutAt(known.plaintext, `"callBackId"`)[1])
}

// uuidFirst is m with its requestUUID first, so that the first block holds all of
// it.
func uuidFirst(m message) message {
	last := len(m) - 1
	return append(message{m[last]}, m[:last]...)
}

// recombines posts q, then forgery, with the blocks of q before the mark in place of its own, or those behind it where
// tail is set. That must be refused. Between the two comes between, if any.
func (s *session) recombines(q, forgery request, mark string, tail bool, between func(*session)) {
	genuine, other := cutAt(q.plaintext, mark), cutAt(forgery.plaintext, mark)
	seen := [][][]byte{s.sealChunks(genuine[0]), s.sealChunks(genuine[1])}
	q.body = join(seen...)
	if r := s.send(q); q.to == toWithdraw {
		s.notConfirmed(r)
	} else {
		s.accepted(r, countersign.TypeDeposited)
	}
	if between != nil {
		between(s)
	}
	if tail {
		other[1], seen[0] = genuine[1], s.sealChunks(other[0])
	} else {
		other[0], seen[1] = genuine[0], s.sealChunks(other[1])
	}
	forgery.plaintext, forgery.body = slices.Concat(other...), join(seen...)
	s.advice = "Against a service that does not bind, keep the digest of every block that holds the requestUUID, or half of a random one, beside the " +
		"digest of the whole body, on the disk, and refuse the same block in another body."
	s.refused(s.send(forgery))
}

// otherRest is a case in which the first block of a callback of type t comes again with the rest of another one.
func otherRest(t countersign.Type, between func(*session)) func(*session) {
	return func(s *session) {
		a, b := s.twins()
		if t == countersign.TypeRequestWithdraw {
			knownOrder(s)
			a, b = s.unknown(), s.known()
		}
		s.recombines(s.attempt("a callback, requestUUID first", uuidFirst(a)), s.attempt("its first block, with the rest of another callback", uuidFirst(b)),
			`"type"`, false, between)
	}
}

func lastBlocksOtherBeginning(s *session) {
	a, b := s.twins()
	s.recombines(s.attempt("a deposit, requestUUID last", b), s.attempt("the beginning of a deposit that was not sent, with the amount and the requestUUID of that one", a),
		`"amount"`, true, nil)
}

func firstBlockSameRest(s *session) {
	q := s.attempt("a deposit, requestUUID first", uuidFirst(s.deposit()))
	for range 3 {
		s.takesBody(q)
		q.what = "the same body again"
	}
}
