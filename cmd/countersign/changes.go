package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"countersign/client"
)

// changesCmd asks either end with client.NewService: both have the same calls for
// changes.
type changesCmd struct {
	List    changesListCmd    `cmd:"" help:"List changes that could move money or who decides on it, the newest first."`
	Show    changesShowCmd    `cmd:"" help:"Show one change."`
	Approve changesApproveCmd `cmd:"" help:"Approve a change that another token proposed."`
	Reject  changesRejectCmd  `cmd:"" help:"Reject a change that is not applied yet."`
}

type changesListCmd struct {
	eitherEnd
	State    client.ChangeState `help:"Only in this state." enum:",waiting,approved,applied,rejected,stale" default:"" placeholder:"STATE"`
	Merchant string             `help:"Only of this merchant." placeholder:"ID"`
	listFlags
}

func (c *changesListCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	return list(std, c.listFlags, api.AllChanges(ctx, client.ChangeFilter{State: c.State, Merchant: c.Merchant}), "ID|STATE|ABOUT|CHANGES|PROPOSED BY|PROPOSED|DECIDED BY|TAKES EFFECT",
		func(e client.ChangeEntry) []any {
			return []any{e.ID, e.State, string(e.Kind) + " " + e.Merchant + e.Token, changeText(e), e.ProposedBy, e.Proposed, e.DecidedBy, e.TakesEffect}
		})
}

// changeText tells each member before and after.
func changeText(e client.ChangeEntry) string {
	var parts []string
	for _, m := range slices.Sorted(maps.Keys(e.After)) {
		parts = append(parts, fmt.Sprintf("%s: %s → %s", m, cell(e.Before[m]), cell(e.After[m])))
	}
	return strings.Join(parts, "; ")
}

// changeID is a subcommand about one change.
type changeID struct {
	eitherEnd
	ID string `arg:"" help:"The change."`
}

type changesShowCmd struct{ changeID }

func (c *changesShowCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	return std.show(api.Change(ctx, c.ID))
}

type changesApproveCmd struct{ changeID }

func (c *changesApproveCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	return std.show(api.ApproveChange(ctx, c.ID))
}

type changesRejectCmd struct {
	changeID
	Reason string `help:"Why, for those who look at the change later." placeholder:"TEXT"`
}

func (c *changesRejectCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	return std.show(api.RejectChange(ctx, c.ID, c.Reason))
}

// tellWaiting says what waits for whom, if something does.
func tellWaiting(std streams, e *client.ChangeEntry) {
	if e != nil {
		fmt.Fprintf(std.err, "countersign: nothing has changed yet: %s waits for an approver other than %s; changes approve %s\n", e.ID, e.ProposedBy, e.ID)
	}
}
