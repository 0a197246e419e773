package client

import (
	"context"
)

// Epoch identifies the last restore of an end's database.
type Epoch struct {
	Epoch      int64   `json:"epoch" minimum:"0" doc:"number of the epoch, which grows with each restore from a backup; 0: there was none. The numbers of a feed in an epoch begin behind 1000000 times its number"`
	Began      Time    `json:"began,omitzero" doc:"when the database was restored; absent: never"`
	Earlier    []int64 `json:"earlier,omitempty" minimum:"1" doc:"numbers of the epochs before, the oldest first; absent: there were none"`
	Open       bool    `json:"open" doc:"true: the restore is not reconciled, so what could happen twice is held back"`
	Reconciled Time    `json:"reconciled,omitzero" doc:"when it was reconciled; absent: it is not, or there was no restore"`
}

// Epoch returns the epoch of the end that answers.
func (c *Common) Epoch(ctx context.Context) (Epoch, error) {
	return Get[Epoch](ctx, c, "/v1/epoch")
}
