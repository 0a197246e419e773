package console

import "countersign/client"

// rotationStage makes a merchant's next keys and shows them once.
func (v *visit) rotationStage() error {
	id := v.r.PathValue("id")
	if err := v.posted(); err != nil {
		return err
	}
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
	warnings := made.Warnings
	if made.Task != "" {
		warnings = append(warnings, "They are not used yet: the task "+made.Task+" waits for an approver.")
	}
	return v.render("once", "Newer keys of "+id, once{
		Back: v.above(), Warnings: warnings,
		Items: handOver(made.PublicKey, made.ResponsePublicKey, made.APIKey.Reveal(), made.CallbackAPIKey.Reveal()),
	})
}
