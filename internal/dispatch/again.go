package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"countersign"
	"countersign/envelope"
	"countersign/internal/outbox"
)

// errNotConfirmed means that a kept answer, judged again, confirms nothing.
var errNotConfirmed = errors.New("the kept answer does not confirm the withdrawal")

// JudgeAgain judges the kept answer of a confirmed withdrawal once more, as outbox.JudgeFunc: it
// opens the sealed answer with the merchant's key, if the merchant still has the key of then, and
// otherwise takes what it opened to, which is kept under a MAC.
func (d *Dispatcher) JudgeAgain(ctx context.Context, e *outbox.Evidence) (countersign.Details, error) {
	m, err := d.merchants.get(ctx, e.Merchant, e.Answer.Version)
	if err != nil {
		return countersign.Details{}, fmt.Errorf("%w: %w", outbox.ErrNotJudged, err)
	}
	under := m.keyOf(e.Answer.ResponseKey)
	return judgeAgain(e, func(data string) ([]byte, []int, error) {
		if under == nil {
			return []byte(e.Answer.Opened), e.Answer.Blocks, nil
		}
		w := d.rsa(ctx, m.account, openTurn(countersign.LaneWithdraw), "open")
		w.Most = countersign.MaxAnswer(len(e.Answer.Request))
		plaintext, blocks, err := under.open(w, data)
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if ctx.Err() != nil || errors.Is(err, envelope.ErrKeyStore) {
			err = fmt.Errorf("%w: %w", outbox.ErrNotJudged, err)
		}
		return plaintext, blocks, err
	})
}

// keyOf gives the set whose key opens answers and has this fingerprint; nil: there is none.
func (k *keys) keyOf(fingerprint string) *keySet {
	for _, set := range []*keySet{&k.keySet, k.other} {
		if set != nil && set.openKey.Fingerprint() == fingerprint {
			return set
		}
	}
	return nil
}

// keptAPIKey stands for the API key of a kept response: it is a secret and is not kept, and was
// compared when the response came.
const keptAPIKey = "compared when it came"

// judgeAgain gives the details that the answer of e confirms. Where a signature was demanded, it
// must still hold. It is pure, as Judge is.
func judgeAgain(e *outbox.Evidence, open func(data string) ([]byte, []int, error)) (none countersign.Details, err error) {
	sent, err := countersign.ParseCallback([]byte(e.Answer.Request), countersign.ParseOptions{Lenient: true})
	if err != nil {
		return none, err
	}
	asked, ok := sent.(*countersign.WithdrawalRequest)
	if !ok || asked.CallBackID != e.CallBackID || asked.TenantUserID != e.TenantUserID {
		return none, errNotConfirmed
	}
	body, err := json.Marshal(map[string]any{"apiKey": keptAPIKey, "data": e.Answer.Data, "errCode": 0, "message": ""})
	if err != nil {
		return none, err
	}
	q := Question{APIKey: keptAPIKey, Sent: sent, Collect: e.Answer.Collect, Deadline: e.Deadline}
	if e.Ordered != nil {
		q.Ordered = &countersign.Details{Address: e.Ordered.Address, ChainName: e.Ordered.ChainName, Symbol: e.Ordered.Symbol, Amount: e.Ordered.Amount}
	}
	var failed error
	v := Judge(q, Response{Status: 200, Body: body, Done: e.Answer.Done}, func(data string) ([]byte, []int, error) {
		plaintext, blocks, err := open(data)
		if err == nil {
			err = signedThen(e.Answer, plaintext)
		}
		failed = err
		return plaintext, blocks, err
	})
	switch {
	case v.Decision == countersign.DecisionConfirmed:
		return v.Details, nil
	case errors.Is(failed, outbox.ErrNotJudged):
		return none, failed
	}
	if failed != nil {
		return none, fmt.Errorf("%w: %w", errNotConfirmed, failed)
	}
	return none, fmt.Errorf("%w: %s", errNotConfirmed, v.Reason)
}

var _ outbox.JudgeFunc = (*Dispatcher)(nil).JudgeAgain
