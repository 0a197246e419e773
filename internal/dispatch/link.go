package dispatch

import (
	"errors"
	"net/http"
	"strings"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/outbox"
)

var errOtherPlaintext = errors.New("its digest is not that of the opened data")

// sign signs the request of a merchant that must sign its answers (PROTOCOL.md, L9).
func (a *attempt) sign() error {
	m := a.m
	if m.answerKeys == nil || m.urls[a.lane] == nil {
		return nil
	}
	if a.d.cfg.Sign == nil {
		return errors.New("this node has no signing key")
	}
	a.header = http.Header{"Content-Type": {m.ContentType}}
	return a.d.cfg.Sign.SignRequest(envelope.LinkRequest{Method: http.MethodPost, URL: envelope.TargetURI(m.urls[a.lane]),
		Header: a.header, Body: a.body}, a.plain, a.d.cfg.Now())
}

// verify verifies the signature of r (PROTOCOL.md, L10). Without a reason it is valid.
func (q *Question) verify(r Response) (s envelope.LinkSignature, reason client.Reason, err error) {
	s, err = envelope.VerifyResponse(envelope.LinkResponse{Status: r.Status, Header: r.Header, Body: r.Body,
		Request: q.Asked}, q.AnswerKeys...)
	switch {
	case errors.Is(err, envelope.ErrUnsigned):
		return s, client.ReasonUnsigned, err
	case err != nil:
		return s, client.ReasonSignatureInvalid, err
	case s.Old(r.Done.Time()):
		return s, client.ReasonSignatureOld, errors.New("created is " + s.Created.UTC().Format("2006-01-02T15:04:05Z"))
	}
	return s, "", nil
}

// notSigned returns the verdict on a response that the merchant's key did not sign. It decides nothing, whatever the
// response says.
func notSigned(v Verdict, reason client.Reason, err error) Verdict {
	v.Reason, v.Alarm = reason, client.AlarmAnswerDiffers
	v.ErrCode = nil
	v.Facts = client.Fact{Cause: strings.TrimPrefix(strings.TrimPrefix(err.Error(), envelope.ErrSignature.Error()+": "),
		envelope.ErrUnsigned.Error()+": ")}
	return v
}

// link adds to e the signatures of the exchange and, if the merchant signed and confirmed, the answer in the form that
// a permit has.
func (a *attempt) link(e *outbox.Exchange, r Response, v Verdict, plaintext []byte) {
	if a.header == nil {
		return
	}
	e.Link = &outbox.Link{URL: envelope.TargetURI(a.m.urls[a.lane]), Request: flat(a.header)}
	if v.SignedBy == "" {
		return
	}
	e.Link.Status, e.Link.Response, e.Link.Key = r.Status, flat(r.Header), v.SignedBy
	if v.Decision != countersign.DecisionConfirmed {
		return
	}
	h := flat(r.Header)
	e.Signed = &client.SignedAnswer{Body: string(r.Body), Opened: string(plaintext), Status: r.Status,
		ContentType: h["Content-Type"], ContentDigest: h[envelope.HeaderDigest],
		SignatureInput: h[envelope.HeaderSignatureInput], Signature: h[envelope.HeaderSignature],
		RequestSignature: flat(a.header)[envelope.HeaderSignature]}
	for _, k := range a.q.AnswerKeys {
		if k.Fingerprint() == v.SignedBy {
			e.SignedBy = k.PublicBase64()
		}
	}
}

func flat(h http.Header) map[string]string {
	m := map[string]string{}
	for name := range h {
		m[name] = strings.Join(h[name], ", ")
	}
	return m
}
