package sim

import (
	"fmt"
	"time"

	"countersign"
	"countersign/client"
)

// stop is a time in which no permit may be given: from when an operator knew of it until the operator began to end it.
// Without a merchant it applies to all.
type stop struct {
	merchant string
	from, to time.Duration
}

// operate stops everything, or the merchant, for a while.
func (w *world) operate(i int, f fault) {
	w.turn(w.operating, "fault", i)
	defer func() { <-w.operating }()
	begin := func() error { _, err := w.operator.Freeze(w.ctx, "a fault"); return err }
	end := func() error { _, err := w.operator.Thaw(w.ctx); return err }
	merchant := ""
	if f.kind == pause {
		merchant = "shop"
		begin = func() error { _, err := w.operator.PauseMerchant(w.ctx, "shop", "a fault"); return err }
		end = func() error { _, err := w.operator.ResumeMerchant(w.ctx, "shop", client.Resume{}); return err }
	}
	w.persist(f.kind.String(), begin)
	from := time.Since(w.begun)
	if f.kind == freeze {
		w.wantAlarm(w.operator, client.AlarmFilter{Kind: client.AlarmFrozen}, "", "the service is frozen")
	}
	time.Sleep(f.span)
	before := w.resumptions(merchant)
	to := time.Since(w.begun)
	w.persist("ending a "+f.kind.String(), end)
	if w.resumptions(merchant) == before {
		w.wrong("what was stopped goes on, and no alarm says so: %q", merchant)
	}
	w.core.mu.Lock()
	defer w.core.mu.Unlock()
	w.core.stops = append(w.core.stops, stop{merchant, from, to})
}

// rotate replaces the merchant's pair and the API key of its answers, step by step, while
// everything goes on. The gateway knows both pairs, and gets the API key when it starts again.
func (w *world) rotate(i int, f fault) {
	w.turn(w.operating, "fault", i)
	defer func() { <-w.operating }()
	w.rotations++
	key := w.c.Keys[w.rotations%2]
	secret, err := key.PrivatePEM()
	if err != nil {
		w.wrong("a key of a rotation: %v", err)
		return
	}
	apiKey := fmt.Sprint("answers-", w.rotations)
	// A step that is refused was done before, and its answer was lost.
	w.persist("staging keys", func() error {
		_, err := w.operator.StageRotation(w.ctx, "shop", client.NewRotation{Key: &client.KeySpec{PrivateKey: client.Secret(secret)}, APIKey: client.Secret(apiKey)})
		return err
	})
	w.turn(w.gateway.busy, "rotation", i)
	w.answers.Store(&apiKey)
	w.gateway.stop()
	err = w.gateway.start(w.ctx)
	<-w.gateway.busy
	if err != nil {
		return
	}
	time.Sleep(f.span)
	w.persist("activating keys", func() error {
		_, err := w.operator.StepRotation(w.ctx, "shop", "activate", client.Duration(time.Hour))
		return err
	})
	time.Sleep(f.span)
	w.persist("ending older keys", func() error {
		_, err := w.operator.StepRotation(w.ctx, "shop", "finish", 0)
		return err
	})
	if m, err := w.operator.Merchant(w.ctx, "shop"); err == nil && m.Rotation != nil {
		w.wrong("a rotation does not end: %v", m.Rotation.State)
	}
}

// decideRefused is what a person of the merchant does about callbacks that the gateway refused: has
// them tried again, and dismisses what is refused once more, since the service tells it again.
func (w *world) decideRefused() {
	page, err := w.shop.api.Refused(w.ctx, client.RefusedFilter{State: client.RefusedOpen}, client.PageOptions{})
	if err != nil {
		return
	}
	for _, r := range page.Items {
		task := client.TaskID(client.TaskRefused, fmt.Sprint(r.ID))
		is, err := w.shop.api.ApproveTask(w.ctx, task, "the cause is gone")
		if err != nil {
			is, err = w.shop.api.DeclineTask(w.ctx, task, err.Error())
		}
		if err == nil {
			w.say("person", "what the gateway refused (%s %s) is %s", r.Reason, r.CallbackID, is.State)
		}
	}
}

// resendRefused is what a person of the service does about deposits that a merchant refused for good,
// once its codes mean what they should: sends them again.
func (w *world) resendRefused() {
	w.pages("callbacks", func(o client.PageOptions) (*string, error) {
		page, err := w.operator.Callbacks(w.ctx, client.CallbackFilter{State: client.CallbackRefused}, o)
		for _, c := range page.Items {
			if c.Type == countersign.TypeRequestWithdraw { // its withdrawal is declined
				continue
			}
			if _, err := w.operator.ResendCallback(w.ctx, c.ID, client.ResendOne{}); err == nil {
				w.say("operator", "%s, which %s refused, is sent again", c.Name, c.Merchant)
			}
		}
		return page.Next, err
	})
}
