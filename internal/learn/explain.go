package learn

import (
	"cmp"
	"fmt"
	"strings"

	"countersign"
	"countersign/envelope"
	"countersign/merchant"
)

// Explain says what a body holds, block by block, what message it is, and which settings of
// the gateway fit. opened is false where the body does not open, with other settings neither.
func (r Reader) Explain(body []byte) (text string, opened bool) {
	e, f := envelope.Explain(r.Key, r.Padding, body), r.Read(body)
	fits := fmt.Sprintf("fits       %s\n", flags(fitOf([]Seen{{Finding: f}}).settings()))
	switch {
	case e.Err == nil:
		return e.String() + r.explain(f, e.Plaintext, fits), true
	case f.Opened:
		return e.String() + fmt.Sprintf("\nwith other settings:\n%v%s", f, fits), true
	}
	return e.String(), false
}

// explain tells of an opened plaintext. What the private part opened may be an answer,
// and most answers pass for a lenient request.
func (r Reader) explain(f Finding, plain []byte, fits string) string {
	if f.Strict || f.Lenient && !r.Key.HasPrivate() {
		return f.Message() + fits
	}
	_, withdrawal := countersign.ParseWithdrawalAnswer(plain)
	_, deposit := countersign.ParseDepositAnswer(plain)
	_, notice := countersign.ParseNoticeAnswer(plain)
	switch {
	case withdrawal == nil:
		return "message    answer to a withdrawal confirmation\n"
	case deposit == nil:
		return "message    answer to a deposit\n"
	case notice == nil:
		return "message    answer to a notice\n"
	}
	return f.Message()
}

// lines are for a terminal, each with a word in front.
type lines struct{ strings.Builder }

func (s *lines) add(word string, texts ...string) {
	if len(texts) > 0 {
		fmt.Fprintf(s, "%-10s %s\n", word, strings.Join(texts, ", "))
	}
}

// String renders f for a terminal.
func (f Finding) String() string {
	var s lines
	form := f.Form.String()
	if f.Field != "" {
		form += ", in " + printable(f.Field)
	}
	s.add("form", form)
	if f.Opened {
		s.add("sealed", f.Seal)
		return s.String() + f.Message()
	}
	s.add("result", f.Seal)
	for _, hint := range f.Try {
		s.add("try", hint)
	}
	return s.String()
}

// Message renders what the opened plaintext is, for a terminal.
func (f Finding) Message() string {
	var s lines
	if f.Lenient {
		s.add("message", fmt.Sprintf("callback type %d, %v", int(f.Type), f.Type))
	} else {
		s.add("message", fmt.Sprintf("no valid request: %v", f.Refused[0]))
	}
	s.add("members", f.Names...)
	s.add("missing", f.Missing...)
	s.add("different", f.Different...)
	s.add("unknown", f.Unknown...)
	if f.Names != nil {
		s.add("binding", fmt.Sprintf("%v; the requestUUID is %s", f.Binding, f.UUID))
	}
	switch {
	case f.Strict:
		s.add("rules", "it has the form of the interface")
	case f.Lenient:
		s.add("rules", "it differs from the interface without loss: lenient")
	}
	for _, fault := range f.Refused {
		s.add("refused", fmt.Sprintf("%v; no setting changes that, the provider must", fault))
	}
	return s.String()
}

// Blocks returns the blocks of a body with the finding f; nil if it did not open, or is bound.
func (r Reader) Blocks(f Finding, body []byte) *merchant.Blocks {
	if !f.Opened {
		return nil
	}
	padding := r.Padding
	if f.OAEP {
		padding = envelope.OAEP
	}
	return merchant.ReadBlocks(r.Key, padding, cmp.Or(f.Field, r.Field), body)
}
