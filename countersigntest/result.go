package countersigntest

import (
	"errors"
	"fmt"
	"net/http"

	"countersign"
	"countersign/envelope"
)

// Result says how one delivery ended.
type Result struct {
	Sent countersign.Callback // with the requestUUID of the attempt
	Body []byte               // sealed, as Service.Body returned it

	Status   int
	Header   http.Header
	Raw      []byte
	Response countersign.Response // zero where Raw is none

	Answer countersign.Answer // nil where none was opened

	// Err says why the callback is not accepted. It is nil only if all conditions
	// of PROTOCOL.md, D1 hold that apply to the type, but for the signature, which package
	// conformance checks. A *Refusal is the merchant's own errCode.
	Err error
}

// Refusal is a response whose errCode is not 0.
type Refusal struct{ Code countersign.ErrCode }

func (r *Refusal) Error() string { return fmt.Sprintf("errCode %d", int64(r.Code)) }

// Code returns the errCode of the response, -1 if there was none.
func (r Result) Code() countersign.ErrCode {
	if r.Response.APIKey == "" && r.Response.Message == "" && r.Response.Data == "" {
		return -1
	}
	return r.Response.ErrCode
}

// Details returns what the answer confirms. They are zero if it confirms nothing.
func (r Result) Details() countersign.Details {
	a, _ := r.Answer.(countersign.WithdrawalAnswer)
	return a.Details
}

// judge reads the response in r, which is to answer sent.
func (s *Service) judge(r Result, sent countersign.Callback, body []byte) Result {
	r.Sent, r.Body = sent, body
	if r.Err != nil {
		return r
	}
	resp, err := countersign.ParseResponse(r.Raw)
	if err == nil {
		r.Response = resp
	}
	switch {
	case r.Status != http.StatusOK:
		r.Err = fmt.Errorf("status %d", r.Status)
	case err != nil:
		r.Err = fmt.Errorf("response: %w", err)
	case !s.c.APIKey.Equal(resp.APIKey):
		r.Err = errors.New("response: wrong apiKey")
	case resp.ErrCode != countersign.CodeAccepted:
		r.Err = &Refusal{resp.ErrCode}
	default:
		r.Err = s.judgeAnswer(&r)
	}
	return r
}

func (s *Service) judgeAnswer(r *Result) error {
	plaintext, err := envelope.Open(s.c.Key, s.c.ResponsePadding, []byte(r.Response.Data))
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	answer, err := countersign.ParseAnswer(r.Sent.CallbackType(), plaintext)
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	r.Answer = answer
	if answer.UUID() != r.Sent.UUID() {
		return errors.New("answer: another attempt's requestUUID")
	}
	if member := r.Sent.Differs(answer); member != "" {
		return fmt.Errorf("answer: about another callback: %s differs", member)
	}
	return nil
}
