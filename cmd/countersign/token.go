package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"countersign/client"
	"countersign/internal/daemon"
)

// isNew refuses the place of a file that is there.
func isNew(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("--out: %s exists and is not overwritten", path)
	}
	return nil
}

// keepToken writes the secret of a new token to a file and prints the token, or the change that
// would make it. Where it cannot be written, nobody has it, and the token is ended.
func keepToken(ctx context.Context, api *client.Service, std streams, path string, answer json.RawMessage) error {
	var made struct {
		client.Token
		Secret client.Secret       `json:"token"`
		Change *client.ChangeEntry `json:"change"`
	}
	if err := json.Unmarshal(answer, &made); err != nil {
		return err
	}
	if err := daemon.CreateFile(path, []byte(made.Secret.Reveal()+"\n")); err != nil {
		var ended error
		if made.Change != nil {
			_, ended = api.DeclineTask(ctx, client.TaskID(client.TaskChange, made.Change.ID), "its secret was lost")
		} else {
			_, ended = api.RevokeToken(ctx, made.ID)
		}
		return errors.Join(fmt.Errorf("--out: %w", err), ended)
	}
	if made.Change != nil {
		return printJSON(std.out, made.Change, "  ")
	}
	return printJSON(std.out, made.Token, "  ")
}
