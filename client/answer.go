package client

import (
	"errors"
	"fmt"
	"net/http"

	"countersign"
	"countersign/envelope"
)

// SignedAnswer is the answer with which a merchant confirmed a withdrawal, as its key signed it
// (PROTOCOL.md, L6 and L14). The service cannot make one.
type SignedAnswer struct {
	Body             string `json:"body" doc:"the whole body of the merchant's response, with its apiKey; it is the text that contentDigest is of"`
	Opened           string `json:"opened" doc:"what data of the body opens to"`
	Status           int    `json:"status" doc:"of the response, always 200"`
	ContentType      string `json:"contentType" doc:"the header of the response"`
	ContentDigest    string `json:"contentDigest" doc:"the header of the response: the digests of body and opened"`
	SignatureInput   string `json:"signatureInput" doc:"the header of the response"`
	Signature        string `json:"signature" doc:"the header of the response"`
	RequestSignature string `json:"requestSignature" doc:"the header Signature of the service's request, which the response answers"`
}

// ErrAnswer means that a SignedAnswer is not the merchant's confirmation.
var ErrAnswer = errors.New("the answer is no confirmation that the merchant signed")

// Verify checks that one of keys signed a as a response with errCode 0, and gives the answer that
// its data opened to. Errors wrap ErrAnswer. The caller compares the answer with the withdrawal:
// Confirms does.
func (a *SignedAnswer) Verify(keys ...*envelope.SigningKey) (none countersign.WithdrawalAnswer, err error) {
	wrong := func(err error) (countersign.WithdrawalAnswer, error) {
		return none, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	s, err := envelope.VerifyResponse(envelope.LinkResponse{Status: a.Status, Body: []byte(a.Body),
		Header: http.Header{"Content-Type": {a.ContentType}, envelope.HeaderDigest: {a.ContentDigest},
			envelope.HeaderSignatureInput: {a.SignatureInput}, envelope.HeaderSignature: {a.Signature}},
		Request: http.Header{envelope.HeaderSignature: {a.RequestSignature}}}, keys...)
	if err != nil {
		return wrong(err)
	}
	r, err := countersign.ParseResponse([]byte(a.Body))
	switch {
	case err != nil:
		return wrong(err)
	case a.Status != http.StatusOK || r.ErrCode != countersign.CodeAccepted:
		return wrong(fmt.Errorf("it has the status %d and errCode %d: a refusal confirms nothing", a.Status, r.ErrCode))
	case !s.Covers([]byte(a.Opened)):
		return wrong(errors.New("opened is not the plaintext that was signed"))
	}
	answer, err := countersign.ParseLenientAnswer(countersign.TypeRequestWithdraw, []byte(a.Opened))
	if err != nil {
		return wrong(err)
	}
	return answer.(countersign.WithdrawalAnswer), nil
}

// Confirms is Verify, and compares the answer with what is about to be executed: the merchant's id
// of the withdrawal and the details, amounts and addresses by their values.
func (a *SignedAnswer) Confirms(callBackID string, d countersign.Details, keys ...*envelope.SigningKey) error {
	answer, err := a.Verify(keys...)
	if err != nil {
		return err
	}
	if answer.CallBackID != callBackID {
		return fmt.Errorf("%w: it is about the withdrawal %q", ErrAnswer, answer.CallBackID)
	}
	if member := answer.Details.Differs(d); member != "" {
		return fmt.Errorf("%w: it confirms another %s", ErrAnswer, member)
	}
	return nil
}
