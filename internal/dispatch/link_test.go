package dispatch

import (
	"net/http"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
)

// With answerKey set, nothing that the merchant's key did not sign for this very request
// decides anything: not a confirmation, not a refusal, not a hold.
func TestJudgeSigned(t *testing.T) {
	merchant, service, stranger := envelope.GenerateSigningKey(), envelope.GenerateSigningKey(), envelope.GenerateSigningKey()
	asked := func() http.Header {
		h := http.Header{"Content-Type": {"text/plain"}}
		ok(service.SignRequest(envelope.LinkRequest{Method: "POST", URL: "https://shop.example/w", Header: h, Body: []byte("body")}, []byte("plain"), time.UnixMilli(int64(deadline)-2000)))
		return h
	}
	right := rightWithdrawal
	q := testQuestion(true)
	q.AnswerKeys, q.Asked = []*envelope.SigningKey{stranger.Public(), merchant.Public()}, asked()
	signed := func(r Response, by *envelope.SigningKey, to http.Header, plain string, at time.Time) Response {
		r.Header = http.Header{"Content-Type": {"application/json"}}
		var opened []byte
		if plain != "" {
			opened = []byte(plain)
		}
		ok(by.SignResponse(envelope.LinkResponse{Status: r.Status, Header: r.Header, Body: r.Body, Request: to}, opened, at))
		return r
	}
	now := time.UnixMilli(int64(deadline) - 1000)
	confirms := answers(right)
	v := Judge(q, signed(confirms, merchant, q.Asked, right, now), openPlain)
	if v.Decision != countersign.DecisionConfirmed || v.SignedBy != merchant.Fingerprint() {
		t.Fatalf("a signed confirmation is %+v", v)
	}
	if v := Judge(q, signed(refuses(2003), merchant, q.Asked, "", now), openPlain); v.Decision != countersign.DecisionDeclined {
		t.Errorf("a signed refusal is %+v", v)
	}
	for name, c := range map[string]struct {
		r      Response
		reason client.Reason
	}{
		"not signed":                   {confirms, client.ReasonUnsigned},
		"a refusal that is not signed": {refuses(2003), client.ReasonUnsigned},
		"a hold that is not signed":    {refuses(3001), client.ReasonUnsigned},
		"nonsense that is not signed":  {Response{Status: 200, Body: []byte("{"), Done: deadline - 1}, client.ReasonUnsigned},
		"by the service":               {signed(confirms, service, q.Asked, right, now), client.ReasonSignatureInvalid},
		"for another request":          {signed(confirms, merchant, asked(), right, now), client.ReasonSignatureInvalid},
		"over another answer":          {signed(confirms, merchant, q.Asked, right+" ", now), client.ReasonSignatureInvalid},
		"over no answer":               {signed(confirms, merchant, q.Asked, "", now), client.ReasonSignatureInvalid},
		"the body of another": {func() Response {
			r := signed(confirms, merchant, q.Asked, right, now)
			r.Body = answers(right + " ").Body
			return r
		}(), client.ReasonSignatureInvalid},
		"too old":       {signed(confirms, merchant, q.Asked, right, now.Add(-6*time.Minute)), client.ReasonSignatureOld},
		"too far ahead": {signed(confirms, merchant, q.Asked, right, now.Add(6*time.Minute)), client.ReasonSignatureOld},
	} {
		v := Judge(q, c.r, openPlain)
		if v.Decision != countersign.DecisionNone || v.Result != client.AttemptRetry || v.Reason != c.reason || v.Alarm != client.AlarmAnswerDiffers || v.SignedBy != "" || v.ErrCode != nil {
			t.Errorf("%s: %+v", name, v)
		}
	}
	q.AnswerKeys = nil
	if v := Judge(q, confirms, openPlain); v.Decision != countersign.DecisionConfirmed {
		t.Errorf("without answerKey: %+v", v)
	}
}
