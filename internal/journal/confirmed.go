package journal

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"countersign"
	"countersign/envelope"
)

// Confirmation is an answer of a merchant that the merchant's own key signed (PROTOCOL.md, L14).
type Confirmation struct {
	Seq    int64  // of the record
	Key    string // fingerprint
	At     time.Time
	Answer countersign.WithdrawalAnswer
}

// String says what was confirmed, for people.
func (c Confirmation) String() string {
	a := c.Answer
	return fmt.Sprintf("%q of user %q, %s %q on %q to %q: confirmed by the merchant's key %s at %s (record %d)",
		a.CallBackID, a.TenantUserID, a.Details.Amount, a.Details.Symbol, a.Details.ChainName, a.Details.Address, c.Key, c.At.UTC().Format(time.RFC3339), c.Seq)
}

// Confirmations gives the answers among the records of a proof that one of keys signed, and how many other answers
// say errCode 0: those are not signed, or not by these keys. keys are public parts of the merchant, from
// elsewhere than the file.
func (v *Verified) Confirmations(keys ...*envelope.SigningKey) (list []Confirmation, others int, err error) {
	for _, r := range v.Records {
		entry, err := Read(r.Record)
		if err != nil {
			return nil, 0, err
		}
		if entry.Kind != WithdrawalAnswered {
			continue
		}
		var e struct {
			ErrCode        *int64
			ResponseOpened string
			Link           *Link
		}
		if err := json.Unmarshal(entry.Data, &e); err != nil {
			return nil, 0, fmt.Errorf("%w: record %d: %w", ErrFile, r.Seq, err)
		}
		if e.ErrCode == nil || *e.ErrCode != 0 {
			continue // only what is sealed is signed for others
		}
		c, ok := e.Link.confirmation(e.ResponseOpened, keys)
		if !ok {
			others++
			continue
		}
		c.Seq = r.Seq
		list = append(list, c)
	}
	return list, others, nil
}

// confirmation verifies the answer opened.
func (l *Link) confirmation(opened string, keys []*envelope.SigningKey) (c Confirmation, ok bool) {
	s, err := l.Verify([]byte(opened), keys...)
	if err != nil {
		return c, false
	}
	a, err := countersign.ParseWithdrawalAnswer([]byte(opened))
	if err != nil {
		return c, false
	}
	return Confirmation{Key: s.Key.Fingerprint(), At: s.Created, Answer: a}, true
}

// Verify says which of keys signed the response whose data opened to this, as the answer to the
// request. Errors wrap envelope.ErrUnsigned or envelope.ErrSignature. A nil Link is not signed.
func (l *Link) Verify(opened []byte, keys ...*envelope.SigningKey) (envelope.LinkSignature, error) {
	if l == nil || l.Response == nil {
		return envelope.LinkSignature{}, envelope.ErrUnsigned
	}
	return envelope.VerifyAnswer(envelope.LinkResponse{Status: l.Status, Header: headers(l.Response), Request: headers(l.Request)}, opened, keys...)
}

func headers(m map[string]string) http.Header {
	h := http.Header{}
	for name, value := range m {
		h.Set(name, value)
	}
	return h
}
