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

// The errors of SignedAnswer and, about its answer, of VerifyPermit. Each is an ErrAnswer.
var (
	// ErrAnswer means that a SignedAnswer is not the merchant's confirmation of a withdrawal.
	ErrAnswer = errors.New("the merchant's answer does not confirm the permit")
	// ErrAnswerMissing: there is none. The merchant does not sign, or somebody took it away.
	ErrAnswerMissing = fmt.Errorf("%w: there is none", ErrAnswer)
	// ErrAnswerUnsigned: it has no signature.
	ErrAnswerUnsigned = fmt.Errorf("%w: it is not signed", ErrAnswer)
	// ErrAnswerKey: another key than the merchant's signed it.
	ErrAnswerKey = fmt.Errorf("%w: it is signed by another key, not by this merchant's", ErrAnswer)
	// ErrAnswerAltered: it is not what was signed.
	ErrAnswerAltered = fmt.Errorf("%w: it was altered after it was signed", ErrAnswer)
	// ErrAnswerMalformed: it is signed, and is no answer to a question about a withdrawal.
	ErrAnswerMalformed = fmt.Errorf("%w: it cannot be read", ErrAnswer)
	// ErrAnswerRefusal: the merchant refused, whatever the details beside the refusal say.
	ErrAnswerRefusal = fmt.Errorf("%w: it is a refusal", ErrAnswer)
	// ErrAnswerDiffers: it confirms another withdrawal, or other details.
	ErrAnswerDiffers = fmt.Errorf("%w: it confirms something else", ErrAnswer)
)

// Verify checks that one of keys signed a as a response with errCode 0, and returns the answer that
// its data opened to (PROTOCOL.md, N7). A nil a is missing. The caller compares the answer with the
// withdrawal: Confirms does.
func (a *SignedAnswer) Verify(keys ...*envelope.SigningKey) (none countersign.WithdrawalAnswer, err error) {
	if a == nil {
		return none, ErrAnswerMissing
	}
	s, err := envelope.VerifyResponse(envelope.LinkResponse{Status: a.Status, Body: []byte(a.Body),
		Header: http.Header{"Content-Type": {a.ContentType}, envelope.HeaderDigest: {a.ContentDigest},
			envelope.HeaderSignatureInput: {a.SignatureInput}, envelope.HeaderSignature: {a.Signature}},
		Request: http.Header{envelope.HeaderSignature: {a.RequestSignature}}}, keys...)
	switch {
	case errors.Is(err, envelope.ErrUnsigned):
		return none, ErrAnswerUnsigned
	case errors.Is(err, envelope.ErrSignatureKey):
		return none, ErrAnswerKey
	case err != nil:
		return none, fmt.Errorf("%w: %w", ErrAnswerAltered, err)
	}
	r, err := countersign.ParseResponse([]byte(a.Body))
	switch {
	case err != nil:
		return none, fmt.Errorf("%w: %w", ErrAnswerMalformed, err)
	case a.Status != http.StatusOK || r.ErrCode != countersign.CodeAccepted:
		return none, fmt.Errorf("%w: it has the status %d and errCode %d", ErrAnswerRefusal, a.Status, r.ErrCode)
	case !s.Covers([]byte(a.Opened)):
		return none, fmt.Errorf("%w: opened is not the plaintext that was signed", ErrAnswerAltered)
	}
	answer, err := countersign.ParseLenientAnswer(countersign.TypeRequestWithdraw, []byte(a.Opened))
	if err != nil {
		return none, fmt.Errorf("%w: %w", ErrAnswerMalformed, err)
	}
	return answer.(countersign.WithdrawalAnswer), nil
}

// Confirms is Verify and also compares the answer with what is about to be executed: the merchant's id of the
// withdrawal and the details, amounts and addresses by their values.
func (a *SignedAnswer) Confirms(callBackID string, d countersign.Details, keys ...*envelope.SigningKey) error {
	answer, err := a.Verify(keys...)
	if err != nil {
		return err
	}
	if answer.CallBackID != callBackID {
		return fmt.Errorf("%w: the withdrawal %q", ErrAnswerDiffers, answer.CallBackID)
	}
	if member := answer.Details.Differs(d); member != "" {
		return fmt.Errorf("%w: another %s", ErrAnswerDiffers, member)
	}
	return nil
}
