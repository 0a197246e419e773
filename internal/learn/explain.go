package learn

import (
	"fmt"
	"time"

	"countersign"
	"countersign/envelope"
)

// Explain says what a body holds, block by block, what message it is, and which settings of
// the gateway fit. opened is false where the body does not open, with other settings neither.
func (r Reader) Explain(body []byte) (text string, opened bool) {
	e := envelope.Explain(r.Key, r.Padding, body)
	f := r.Read(body)
	text = e.String()
	switch {
	case e.Err == nil:
		return text + r.explain(f, e.Plaintext), true
	case f.Opened:
		return text + fmt.Sprintf("\nwith other settings:\n%v%s", f, f.fits()), true
	}
	return text, false
}

// explain tells of an opened plaintext. What the private part opened may be an answer,
// and most answers pass for a lenient request.
func (r Reader) explain(f Finding, plain []byte) string {
	if f.Strict || f.Lenient && !r.Key.HasPrivate() {
		return f.Message() + f.fits()
	}
	for _, answer := range []struct {
		name  string
		parse func([]byte) error
	}{
		{"answer to a withdrawal confirmation", parses(countersign.ParseWithdrawalAnswer)},
		{"answer to a deposit", parses(countersign.ParseDepositAnswer)},
		{"answer to a notice", parses(countersign.ParseNoticeAnswer)},
	} {
		if answer.parse(plain) == nil {
			return fmt.Sprintf("message    %s\n", answer.name)
		}
	}
	return f.Message()
}

func parses[A any](parse func([]byte) (A, error)) func([]byte) error {
	return func(b []byte) error {
		_, err := parse(b)
		return err
	}
}

// fits says which settings of the gateway fit what f shows.
func (f Finding) fits() string {
	var p Provider
	p.Add(f, "", "", time.Time{})
	return fmt.Sprintf("fits       %s\n", Flags(p.Settings()))
}
