package main

import (
	"context"
	"fmt"
	"path/filepath"

	"countersign/client"
	"countersign/internal/daemon"
)

type rotateStageCmd struct {
	merchantID
	merchantKeyFlags
	APIKey            secretText `name:"api-key" help:"What the merchant's responses will carry, or @FILE." placeholder:"KEY" env:"-" xor:"api"`
	NewAPIKey         bool       `name:"new-api-key" help:"Make that key." env:"-" xor:"api"`
	CallbackAPIKey    secretText `name:"callback-api-key" help:"What will be sent as X-API-KEY, or @FILE." placeholder:"KEY" env:"-" xor:"callback"`
	NewCallbackAPIKey bool       `name:"new-callback-api-key" help:"Make that key." env:"-" xor:"callback"`
	Out               string     `help:"Directory for what the merchant needs: service.b64, response.b64, api.key, callback-api.key; made if missing. Nothing in it is overwritten. Without it all is printed." type:"path" placeholder:"DIR"`
}

func (c *rotateStageCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	keys, err := c.keys(std)
	if err != nil {
		return err
	}
	in := client.NewRotation{Key: keys.Key, ResponseKey: keys.ResponseKey, MakeAPIKey: c.NewAPIKey, MakeCallbackAPIKey: c.NewCallbackAPIKey}
	apiKey, callbackKey, err := apiKeys(c.APIKey, c.CallbackAPIKey)
	if err != nil {
		return err
	}
	in.APIKey, in.CallbackAPIKey = apiKey, callbackKey
	if c.Out != "" {
		if err := makeHandover(c.Out); err != nil {
			return err
		}
	}
	staged, err := api.StageRotation(ctx, c.ID, in)
	if err != nil {
		return err
	}
	tellWaiting(std, staged.Change)
	if c.Out == "" {
		return std.show(staged, nil)
	}
	var files []daemon.NewFile
	for _, f := range []struct{ name, content string }{
		{"service.b64", staged.PublicKey}, {"response.b64", staged.ResponsePublicKey},
		{"api.key", staged.APIKey.Reveal()}, {"callback-api.key", staged.CallbackAPIKey.Reveal()},
	} {
		if f.content != "" {
			files = append(files, daemon.NewFile{Name: f.name, Data: []byte(f.content + "\n"), Mode: 0o600})
		}
	}
	if err := daemon.CreateFiles(c.Out, files); err != nil {
		return std.show(staged, &hintedError{fmt.Errorf("the keys were staged, and could not be written: %w", err),
			[]string{"keep what was printed, or cancel: the service does not show it again."}})
	}
	for _, f := range files {
		fmt.Fprintln(std.out, filepath.Join(c.Out, f.Name))
	}
	for _, w := range staged.Warnings {
		fmt.Fprintf(std.err, "countersign: warning: %s\n", w)
	}
	return nil
}

// showChanged prints a merchant after a change, or the change that waits.
func showChanged(std streams) func(client.UpdatedMerchant, error) error {
	return func(m client.UpdatedMerchant, err error) error {
		if err != nil || m.Change == nil {
			return std.show(m, err)
		}
		tellWaiting(std, m.Change)
		return printJSON(std.out, m.Change, "  ")
	}
}
