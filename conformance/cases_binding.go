package conformance

import (
	"strings"

	"countersign"
)

// bindingCases are requests put together from parts of genuine ones, as an
// attacker could who has seen some. How a merchant detects them depends on the
// service (PROTOCOL.md, Binding).
func bindingCases() []Case {
	bound, unbound := []Need{NeedBound}, []Need{NeedUnbound}
	return []Case{
		{901, "binding/absent", "Binding, B4", "A request that is not bound is refused.", bound, bindingAbsent},
		{902, "binding/broken", "Binding, B3", "A request bound to other bytes is refused.", bound, bindingBroken},
		{903, "binding/spliced-amount", "Binding, B4", "The beginning of one deposit with the amount of another is refused.", bound, splicedAmount},
		{904, "binding/spliced-by-usual-blocks", "Binding, B4", "Full blocks of two deposits, mixed, are refused.", bound, splicedBlocks},
		{905, "binding/swapped-values", "Binding, B4", "Two blocks of one deposit, swapped so that it still parses, are refused.", bound, swappedValues},
		{906, "binding/repeated-white-space", "Binding, B4", "A block of white space, repeated, is refused although it changes no member.", bound, repeatedSpace},
		{907, "binding/left-out-member", "Binding, B4", "A deposit from which a block with an unknown member was cut is refused.", bound, leftOut},
		{908, "binding/upper-case", "Binding, B2", "The digits of a bound requestUUID are lower case.", bound, upperCase},
		{909, "binding/spliced-withdrawal", "Binding, B4", "The beginning of one withdrawal request with the callBackId of another is refused.", []Need{NeedBound, NeedOrder}, splicedWithdrawal},
		{921, "binding/first-block-other-rest", "Binding, B5", "A first block that was seen with another rest is refused.", unbound, firstBlockOtherRest},
		{922, "binding/first-block-same-rest", "Binding, B5", "The same first block with the same rest is a repeat.", unbound, firstBlockSameRest},
		{923, "binding/withdrawal-other-rest", "Binding, B5", "The first block of a withdrawal request with another rest is refused.", []Need{NeedUnbound, NeedOrder}, withdrawalOtherRest},
		{924, "binding/last-blocks-other-beginning", "Binding, B5", "The blocks with the requestUUID of one deposit behind the beginning of another are refused.", unbound, lastBlocksOtherBeginning},
	}
}

const checkBinding = "Recompute the binding from the opened bytes, unchanged, before parsing them, and refuse every request whose binding does not hold."

// forged checks that r is a refusal of any kind.
func (s *session) forged(r *reply) error { return because(s.refused(r), checkBinding) }

func bindingAbsent(s *session) error {
	m := s.deposit()
	s.expect(m.str("trackingId"), 0)
	return s.forged(s.send(s.attemptAs("a deposit with a random requestUUID", m.bytes(), false)))
}

func bindingBroken(s *session) error {
	m := s.deposit()
	s.expect(m.str("trackingId"), 0)
	q := s.attempt("a deposit whose amount was changed after binding", m.bytes())
	q.plaintext = []byte(strings.Replace(string(q.plaintext), `"amount":"2.5"`, `"amount":"9.5"`, 1))
	q.body = s.seal(q.plaintext)
	return s.forged(s.send(q))
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

func splicedAmount(s *session) error {
	a, b := s.twins()
	s.expect(a.str("trackingId"), 0)
	pa, pb := s.attempt("", a.bytes()).plaintext, s.attempt("", b.bytes()).plaintext
	ca, cb := cutAt(pa, `"amount"`), cutAt(pb, `"amount"`)
	blocks := append(s.sealChunks(ca[0]), s.sealChunks(cb[1])...)
	plain := append(ca[0][:len(ca[0]):len(ca[0])], cb[1]...)
	return s.forged(s.send(request{what: "a deposit with the amount of another", plaintext: plain, body: join(blocks...)}))
}

func splicedBlocks(s *session) error {
	a, b := s.twins()
	filler := text(s.hex(s.raw.size / 2)) // for keys whose blocks hold a whole deposit
	a, b = a.add("memo", filler), b.add("memo", filler)
	qa, qb := s.attempt("", a.bytes()), s.attempt("", b.bytes())
	ba, bb := s.blocks(qa.body), s.blocks(qb.body)
	s.expect(a.str("trackingId"), 0)
	n := len(ba) / 2
	cut := min(n*s.cfg.Key.MaxChunk(s.cfg.Padding), len(qa.plaintext))
	plain := append(qa.plaintext[:cut:cut], qb.plaintext[cut:]...)
	return s.forged(s.send(request{what: "the first blocks of one deposit and the last of another", plaintext: plain,
		body: join(append(ba[:n:n], bb[n:]...)...)}))
}

func swappedValues(s *session) error {
	m := s.deposit().set("fromAddress", text("0x"+s.hex(20))).set("toAddress", text("0x"+s.hex(20)))
	s.expect(m.str("trackingId"), 0)
	plain := s.attempt("", m.bytes()).plaintext
	from, to := m.str("fromAddress"), m.str("toAddress")
	c := cutAt(plain, from, `","toAddress"`, to, `","riskLevelFrom"`)
	c[1], c[3] = c[3], c[1]
	return s.forged(s.send(request{what: "a deposit whose two addresses were swapped", plaintext: []byte(strings.Join(texts(c), "")),
		body: join(s.sealChunks(c...)...)}))
}

func texts(chunks [][]byte) []string {
	out := make([]string, len(chunks))
	for i, c := range chunks {
		out[i] = string(c)
	}
	return out
}

func repeatedSpace(s *session) error {
	m := s.deposit()
	s.expect(m.str("trackingId"), 0)
	spaced := strings.Replace(string(m.bytes()), `,"txId"`, `, "txId"`, 1)
	plain := s.attempt("", []byte(spaced)).plaintext
	c := cutAt(plain, ` "txId"`, `"txId"`)
	blocks := s.sealChunks(c[0], c[1], c[1], c[2])
	return s.forged(s.send(request{what: "a deposit with a space twice",
		plaintext: []byte(string(c[0]) + " " + " " + string(c[2])), body: join(blocks...)}))
}

func leftOut(s *session) error {
	m := s.deposit().add("memo", `"do not credit before review"`)
	s.expect(m.str("trackingId"), 0)
	plain := s.attempt("", m.bytes()).plaintext
	c := cutAt(plain, `"memo"`, `"requestUUID"`)
	return s.forged(s.send(request{what: "a deposit without one of its blocks", plaintext: append(c[0][:len(c[0]):len(c[0])], c[2]...),
		body: join(s.sealChunks(c[0], c[2])...)}))
}

func upperCase(s *session) error {
	for range 50 {
		m := s.deposit()
		q := s.attempt("a deposit whose requestUUID is in upper case", m.bytes())
		upper := strings.ToUpper(q.uuid)
		if upper == q.uuid {
			continue
		}
		s.expect(m.str("trackingId"), 0)
		q.plaintext = []byte(strings.Replace(string(q.plaintext), q.uuid, upper, 1))
		q.body = s.seal(q.plaintext)
		return s.forged(s.send(q))
	}
	return skip("no requestUUID with letters was found")
}

func splicedWithdrawal(s *session) error {
	first := s.withdrawal(s.id(), s.id(), s.cfg.User)
	second := s.known()
	// The genuine question comes first, so that the endpoint keeps the
	// confirmation of this order, not the refusal of a forgery.
	if err := knownOrder(s); err != nil {
		return err
	}
	c1 := cutAt(s.attempt("", first.bytes()).plaintext, `"callBackId"`)
	c2 := cutAt(s.attempt("", second.bytes()).plaintext, `"callBackId"`)
	return s.forged(s.send(request{what: "a withdrawal request with the callBackId of another", to: toWithdraw,
		plaintext: append(c1[0][:len(c1[0]):len(c1[0])], c2[1]...), body: join(s.sealChunks(c1[0], c2[1])...)}))
}

// uuidFirst is m with its requestUUID first, so that the first block holds all of
// it.
func uuidFirst(m message) message {
	last := len(m) - 1
	return append(message{m[last]}, m[:last]...)
}

const rememberBlocks = "Against a service that does not bind, keep the digest of every block that holds the requestUUID, or half of a random one, beside the " +
	"digest of the whole body, and refuse the same block in another body."

func firstBlockOtherRest(s *session) error {
	a, b := s.twins()
	a, b = uuidFirst(a), uuidFirst(b)
	qa := s.attempt("a deposit, requestUUID first", a.bytes())
	ca := cutAt(qa.plaintext, `"trackingId"`)
	cb := cutAt(s.attempt("", b.bytes()).plaintext, `"trackingId"`)
	head := s.sealChunks(ca[0])
	qa.body = join(append(head[:1:1], s.sealChunks(ca[1])...)...)
	if err := s.accepted(s.send(qa), countersign.TypeDeposited); err != nil {
		return err
	}
	s.expect(a.str("trackingId"), 1)
	s.expect(b.str("trackingId"), 0)
	r := s.send(request{what: "its first block, with the rest of another deposit", uuid: qa.uuid,
		plaintext: append(ca[0][:len(ca[0]):len(ca[0])], cb[1]...), body: join(append(head[:1:1], s.sealChunks(cb[1])...)...)})
	return because(s.refused(r), rememberBlocks)
}

func lastBlocksOtherBeginning(s *session) error {
	a, b := s.twins()
	ca := cutAt(s.attempt("", a.bytes()).plaintext, `"amount"`)
	q := s.attempt("a deposit, requestUUID last", b.bytes())
	cb := cutAt(q.plaintext, `"amount"`)
	tail := s.sealChunks(cb[1])
	q.body = join(append(s.sealChunks(cb[0]), tail...)...)
	if err := s.accepted(s.send(q), countersign.TypeDeposited); err != nil {
		return err
	}
	s.expect(a.str("trackingId"), 0)
	s.expect(b.str("trackingId"), 1)
	r := s.send(request{what: "the beginning of a deposit that was not sent, with the amount and the requestUUID of that one", uuid: q.uuid,
		plaintext: append(ca[0][:len(ca[0]):len(ca[0])], cb[1]...), body: join(append(s.sealChunks(ca[0]), tail...)...)})
	return because(s.refused(r), rememberBlocks)
}

func firstBlockSameRest(s *session) error {
	m := uuidFirst(s.deposit())
	q := s.attempt("a deposit, requestUUID first", m.bytes())
	for range 3 {
		if err := s.accepted(s.send(q), countersign.TypeDeposited); err != nil {
			return err
		}
		s.expect(m.str("trackingId"), 1)
		q.what = "the same body again"
	}
	return nil
}

func withdrawalOtherRest(s *session) error {
	first := uuidFirst(s.withdrawal(s.id(), s.id(), s.cfg.User))
	second := uuidFirst(s.known())
	if err := knownOrder(s); err != nil {
		return err
	}
	q := s.attempt("an unknown order, requestUUID first", first.bytes())
	c1 := cutAt(q.plaintext, `"type"`)
	c2 := cutAt(s.attempt("", second.bytes()).plaintext, `"type"`)
	head := s.sealChunks(c1[0])
	q.to, q.body = toWithdraw, join(append(head[:1:1], s.sealChunks(c1[1])...)...)
	if err := s.notConfirmed(s.send(q)); err != nil {
		return err
	}
	r := s.send(request{what: "its first block, with the rest of another withdrawal request", to: toWithdraw, uuid: q.uuid,
		plaintext: append(c1[0][:len(c1[0]):len(c1[0])], c2[1]...), body: join(append(head[:1:1], s.sealChunks(c2[1])...)...)})
	return because(s.refused(r), rememberBlocks)
}
