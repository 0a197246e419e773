package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/outbox"
)

const keptAnswer = `{"type":2,"tenantUserId":"u1","callBackId":"cb1","address":"TAddress","chainName":"TRON","symbol":"USDT","amount":"2.5","requestUUID":"0a0b0c0d-0e0f-8000-8000-000000000001"}`

// keptEvidence is evidence whose answer confirms.
func keptEvidence(t *testing.T) outbox.Evidence {
	t.Helper()
	amount, err := countersign.ParseAmount("2.5")
	if err != nil {
		t.Fatal(err)
	}
	return outbox.Evidence{Merchant: "shop", CallBackID: "cb1", TenantUserID: "u1", Deadline: 1000,
		Ordered: &client.Details{Address: "TAddress", ChainName: "TRON", Symbol: "USDT", Amount: amount},
		Answer: &outbox.KeptAnswer{Data: "sealed", Opened: keptAnswer, Blocks: []int{len(keptAnswer)}, Done: 999, Collect: client.CollectBound,
			Request: `{"type":2,"trackingId":"t1","tenantUserId":"u1","callBackId":"cb1","business":0,"requestUUID":"0a0b0c0d-0e0f-8000-8000-000000000001"}`}}
}

// TestJudgeAgain: what is kept confirms what it confirmed, and nothing once a part of it is
// another.
func TestJudgeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*outbox.Evidence)
		confirms bool
	}{
		"as it was":       {func(*outbox.Evidence) {}, true},
		"no order, bound": {func(e *outbox.Evidence) { e.Ordered = nil }, true},
		"no order, not bound": {func(e *outbox.Evidence) {
			e.Ordered = nil
			at := strings.Index(keptAnswer, "Address\",")
			e.Answer.Blocks = []int{at, len(keptAnswer) - at}
		}, false},
		"another order":             {func(e *outbox.Evidence) { e.Ordered.Address = "TEvil" }, false},
		"another withdrawal":        {func(e *outbox.Evidence) { e.CallBackID = "cb2" }, false},
		"another user":              {func(e *outbox.Evidence) { e.TenantUserID = "u2" }, false},
		"late":                      {func(e *outbox.Evidence) { e.Answer.Done = 1000 }, false},
		"another attempt":           {func(e *outbox.Evidence) { e.Answer.Request = strings.Replace(e.Answer.Request, "001\"", "002\"", 1) }, false},
		"a question of another one": {func(e *outbox.Evidence) { e.Answer.Request = strings.ReplaceAll(e.Answer.Request, "cb1", "cb2") }, false},
		"another type": {func(e *outbox.Evidence) {
			e.Answer.Request = strings.Replace(e.Answer.Request, `"type":2`, `"type":5`, 1)
		}, false},
		"another answer": {func(e *outbox.Evidence) { e.Answer.Opened = strings.Replace(keptAnswer, "2.5", "2.6", 1) }, false},
		"no answer":      {func(e *outbox.Evidence) { e.Answer.Opened = "" }, false},
		"no request":     {func(e *outbox.Evidence) { e.Answer.Request = "" }, false},
		"no data":        {func(e *outbox.Evidence) { e.Answer.Data = "" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := keptEvidence(t)
			c.change(&e)
			d, err := judgeAgain(&e, func(string) ([]byte, []int, error) { return []byte(e.Answer.Opened), e.Answer.Blocks, nil })
			switch {
			case (err == nil) != c.confirms:
				t.Errorf("%+v, %v", d, err)
			case err == nil && (d.Address != "TAddress" || d.Amount.String() != "2.5"):
				t.Errorf("it confirms %+v", d)
			case errors.Is(err, outbox.ErrNotJudged):
				t.Error("it was not judged")
			}
		})
	}
	testJudgeAgainSigned(t)
	e := keptEvidence(t)
	_, err := judgeAgain(&e, func(string) ([]byte, []int, error) {
		return nil, nil, fmt.Errorf("%w: %w", outbox.ErrNotJudged, context.Canceled)
	})
	if !errors.Is(err, outbox.ErrNotJudged) {
		t.Errorf("a call that ended: %v", err)
	}
}

// testJudgeAgainSigned: where a signature was demanded, the kept answer confirms only while that
// signature holds, whatever else is right.
func testJudgeAgainSigned(t *testing.T) {
	key, other := envelope.GenerateSigningKey(), envelope.GenerateSigningKey()
	sign := func(by *envelope.SigningKey, plaintext string, at time.Time) *outbox.Link {
		asked := http.Header{"Content-Type": {"text/plain"}}
		if err := other.SignRequest(envelope.LinkRequest{Method: "POST", URL: "https://shop.example/w", Header: asked, Body: []byte("body")}, []byte("plain"), at); err != nil {
			t.Fatal(err)
		}
		h := http.Header{"Content-Type": {"application/json"}}
		if err := by.SignResponse(envelope.LinkResponse{Status: 200, Header: h, Body: []byte("response"), Request: asked}, []byte(plaintext), at); err != nil {
			t.Fatal(err)
		}
		return &outbox.Link{Request: flat(asked), Status: 200, Response: flat(h), Key: by.Fingerprint()}
	}
	now := time.UnixMilli(999)
	for name, c := range map[string]struct {
		change   func(*outbox.KeptAnswer)
		confirms bool
	}{
		"as it was":          {func(*outbox.KeptAnswer) {}, true},
		"another key":        {func(k *outbox.KeptAnswer) { k.Signer = other.PublicBase64() }, false},
		"by another key":     {func(k *outbox.KeptAnswer) { k.Link = sign(other, keptAnswer, now) }, false},
		"no signature":       {func(k *outbox.KeptAnswer) { k.Link = nil }, false},
		"no key":             {func(k *outbox.KeptAnswer) { k.Signer = "" }, false},
		"not signed":         {func(k *outbox.KeptAnswer) { k.Link.Response = nil }, false},
		"another status":     {func(k *outbox.KeptAnswer) { k.Link.Status = 201 }, false},
		"of another answer":  {func(k *outbox.KeptAnswer) { k.Link = sign(key, keptAnswer+" ", now) }, false},
		"of another request": {func(k *outbox.KeptAnswer) { k.Link.Request = sign(key, keptAnswer, now).Request }, false},
		"old":                {func(k *outbox.KeptAnswer) { k.Link = sign(key, keptAnswer, now.Add(6*time.Minute)) }, false},
	} {
		e := keptEvidence(t)
		e.Answer.Link, e.Answer.Signer = sign(key, keptAnswer, now), key.PublicBase64()
		c.change(e.Answer)
		if _, err := judgeAgain(&e, func(string) ([]byte, []int, error) { return []byte(e.Answer.Opened), e.Answer.Blocks, nil }); (err == nil) != c.confirms {
			t.Errorf("signed, %s: %v", name, err)
		}
	}
}
