package tasks

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"countersign/client"
	"countersign/internal/api"
)

// OfChanges returns the kind of changes by two persons, which both ends have.
func OfChanges(k *api.Changes) Kind {
	kind := Kind{
		Kind: client.TaskChange, Tells: "change",
		Approve: "The change is made at once.",
		Decline: "Nothing is changed.",
		Find: func(look *Look, about string) (client.Task, error) {
			c, err := k.Find(look.R.Context(), about, look.Token)
			if err != nil {
				return client.Task{}, err
			}
			t, err := changeTask(look, k, c)
			return t.Task, err
		},
		DoApprove: func(c *api.Call, about, reason string) error {
			defer c.ForgetTokens() // the change may revoke one
			_, err := k.Approve(c.R.Context(), about, c.Token, reason, c.Now)
			return err
		},
		DoDecline: func(c *api.Call, about, reason string) error {
			_, err := k.Decline(c.R.Context(), about, c.Token, reason, c.Now)
			return err
		},
		Deciders: api.Deciders,
	}
	for _, of := range []struct{ row, is client.TaskState }{{client.TaskOpen, client.TaskOpen},
		{client.TaskDone, client.TaskDone}, {client.TaskDeclined, client.TaskDeclined},
		{client.TaskStale, client.TaskStale}, {client.TaskOpen, client.TaskStale}} { // some that wait are stale already
		kind.Sources = append(kind.Sources, Source{Name: string(of.row + of.is), State: of.is,
			List: func(look *Look, f client.TaskFilter, cursor string, limit int) (out []Listed, next string, err error) {
				list, err := k.List(look.R.Context(), of.row, f.Merchant, look.Token, cursor, limit)
				for i := 0; i < len(list) && err == nil; i++ {
					var t Listed
					t, err = changeTask(look, k, list[i])
					out = append(out, t)
				}
				if len(list) == limit {
					next = list[limit-1].ID
				}
				return out, next, err
			}})
	}
	return kind
}

// changeTitle returns one line that says what a change would do.
func changeTitle(c api.Change, members []string) string {
	switch c.Kind {
	case api.ChangeToken:
		return fmt.Sprintf("new token %s, role %s", c.After["name"], c.After["role"])
	case api.ChangeRevoke:
		return fmt.Sprintf("end of token %s, role %s", c.Before["name"], c.Before["role"])
	}
	what := string(c.Kind)
	if c.Kind == api.ChangeMerchant {
		what = "settings"
	}
	return fmt.Sprintf("%s of %s: %s", what, c.Merchant, strings.Join(members, ", "))
}

// changeTask returns the task of a change.
func changeTask(look *Look, k *api.Changes, c api.Change) (Listed, error) {
	t := Listed{Task: New(client.TaskChange, c.ID, c.State, c.Proposed), At: c.Proposed, Place: c.ID}
	t.Merchant, t.Decided, t.Why = c.Merchant, c.Decided, c.Reason
	members := map[string]string{}
	maps.Copy(members, c.Before)
	maps.Copy(members, c.After)
	names := slices.Sorted(maps.Keys(members))
	t.Title = changeTitle(c, names)
	for _, name := range names {
		t.Content = append(t.Content, client.TaskMember{Name: name, Value: c.After[name], Beside: c.Before[name]})
	}
	Member(&t.Task, "token", c.Token)
	Member(&t.Task, "proposed by", c.ProposedBy)
	agreed, err := k.Agreed(look.R.Context(), &c, look.People, look.Now)
	if err != nil {
		return t, err
	}
	if c.State != client.TaskOpen {
		look.Voted(&t.Task, agreed)
		if c.State == client.TaskDeclined {
			look.Vote(&t.Task, c.DecidedBy, c.Reason, c.Decided)
		}
		return t, nil
	}
	look.Ask(&t.Task, agreed)
	t.Since, t.AtOnce = c.Proposed, agreed.TellNow()
	if c.ProposedBy == look.Token.ID || slices.Contains(api.Approvers, look.Token.Role) {
		t.May = append(t.May, Decline)
	}
	if err = k.Stale(look.R.Context(), &c, look.Now); errors.Is(err, api.ErrStale) {
		t.State, t.Why, t.MayNot, err = client.TaskStale, err.Error(), err.Error(), nil
	}
	return t, err
}
