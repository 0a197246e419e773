package console

import (
	"context"

	"countersign/client"
)

// rotationStage makes a merchant's newer keys and shows them once.
func (v *visit) rotationStage() error {
	id := v.r.PathValue("id")
	var keys client.NewRotation
	size, err := v.number("bits", "size of the request key")
	if err != nil {
		return err
	}
	if public := v.form("publicKey"); size > 0 || public != "" {
		keys.Key = &client.KeySpec{Bits: size, PublicKey: public}
	}
	if size, err = v.number("responseBits", "size of the response key"); err != nil {
		return err
	}
	if size > 0 {
		keys.ResponseKey = &client.KeySpec{Bits: size}
	}
	keys.MakeAPIKey, keys.MakeCallbackAPIKey = v.form("apiKey") != "", v.form("callbackApiKey") != ""
	if keys == (client.NewRotation{}) {
		return refuse("no key was chosen")
	}
	made, err := v.service.StageRotation(v.r.Context(), id, keys)
	if err != nil {
		return err
	}
	return v.showOnce(once{
		Title: "Newer keys of " + id, Back: merchantPath(id), Warnings: notUsedYet(made.Warnings, made.Change),
		Items: handOver(made.PublicKey, made.ResponsePublicKey, made.APIKey.Reveal(), made.CallbackAPIKey.Reveal()),
	})
}

func (v *visit) rotationActivate() error {
	return v.changed("activated", func(ctx context.Context, id string) (client.UpdatedMerchant, error) {
		return v.service.ActivateRotation(ctx, id, 0)
	})
}

func (v *visit) rotationFinish() error { return v.changed("finished", v.service.FinishRotation) }

func (v *visit) rotationCancel() error {
	return v.changed("went-back", v.service.CancelRotation)
}

// changed changes the merchant, or proposes it where an approver must approve it.
func (v *visit) changed(notice string, change func(context.Context, string) (client.UpdatedMerchant, error)) error {
	id := v.r.PathValue("id")
	m, err := change(v.r.Context(), id)
	switch {
	case err != nil:
		return err
	case m.Change != nil:
		return v.done(taskPath(client.TaskID(client.TaskChange, m.Change.ID)), "waits")
	}
	return v.done(merchantPath(id), notice)
}
