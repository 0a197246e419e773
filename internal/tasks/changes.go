package tasks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
)

var changeStates = map[client.ChangeState]client.TaskState{client.ChangeWaiting: client.TaskOpen, client.ChangeApproved: client.TaskDone, client.ChangeApplied: client.TaskDone,
	client.ChangeRejected: client.TaskDeclined, client.ChangeStale: client.TaskStale}

// OfChanges are the changes by two persons, which both ends have.
func OfChanges(k *api.Changes) Kind {
	kind := Kind{
		Kind:    client.TaskChange,
		Approve: "The change is made, at once or at its time.",
		Decline: "Nothing is changed.",
		Find: func(look *Look, about string) (client.Task, error) {
			c, err := k.Show(look.R.Context(), about, look.Token, look.Now)
			if err != nil {
				return client.Task{}, err
			}
			return changeTask(look, k, c, true)
		},
		DoApprove: func(c *api.Call, about, reason string) error {
			defer c.ForgetTokens() // the change may revoke one
			_, err := k.Approve(c.R.Context(), about, c.Token, reason, c.Now)
			return err
		},
		DoDecline: func(c *api.Call, about, reason string) error {
			_, err := k.Reject(c.R.Context(), about, c.Token, reason, c.Now)
			return err
		},
		Deciders: api.Deciders,
	}
	for _, s := range client.ChangeState("").Values() {
		source := Source{Name: string(s), State: changeStates[s], List: func(look *Look, f client.TaskFilter, cursor string, limit int) (out []Listed, next string, err error) {
			list, err := k.List(look.R.Context(), s, f.Merchant, look.Token, cursor, limit)
			for _, c := range list {
				var t client.Task
				if err == nil && s == client.ChangeWaiting {
					c, err = k.Show(look.R.Context(), c.ID, look.Token, look.Now)
				}
				if err == nil {
					t, err = changeTask(look, k, c, s == client.ChangeWaiting)
				}
				if err != nil {
					return nil, "", err
				}
				out = append(out, Listed{t, db.Millis(c.Proposed), c.ID})
			}
			if len(list) == limit {
				next = list[limit-1].ID
			}
			return out, next, err
		}}
		kind.Sources = append(kind.Sources, source)
		if s == client.ChangeWaiting { // some of them are stale already
			source.Name, source.State = "waiting and stale", client.TaskStale
			kind.Sources = append(kind.Sources, source)
		}
	}
	return kind
}

// changeTitle returns in one line what a change would do.
func changeTitle(c client.ChangeEntry, members []string) string {
	switch c.Kind {
	case client.ChangeToken:
		return fmt.Sprintf("new token %s, role %s", c.After["name"], c.After["role"])
	case client.ChangeRevoke:
		return fmt.Sprintf("end of token %s, role %s", c.Before["name"], c.Before["role"])
	}
	what := string(c.Kind)
	if c.Kind == client.ChangeMerchant {
		what = "settings"
	}
	return fmt.Sprintf("%s of %s: %s", what, c.Merchant, strings.Join(members, ", "))
}

// changeTask returns the task of a change; with votes, with who agrees to it.
func changeTask(look *Look, k *api.Changes, c client.ChangeEntry, votes bool) (client.Task, error) {
	t := New(client.TaskChange, c.ID, changeStates[c.State], db.Millis(c.Proposed))
	t.Merchant, t.Decided, t.Due = c.Merchant, c.Decided, c.TakesEffect
	t.Why = c.Reason
	if t.State == client.TaskOpen && c.Stale != "" {
		t.State, t.Why = client.TaskStale, c.Stale
	}
	members := slices.Collect(maps.Keys(c.After))
	for name := range c.Before {
		if _, is := c.After[name]; !is {
			members = append(members, name)
		}
	}
	slices.Sort(members)
	t.Title = changeTitle(c, members)
	for _, name := range members {
		t.Content = append(t.Content, client.TaskMember{Name: name, Value: c.After[name], Beside: c.Before[name]})
	}
	Member(&t, "token", c.Token)
	Member(&t, "proposed by", c.ProposedBy)
	given := 0
	if votes {
		agreed, err := k.Agreed(look.R.Context(), c.ID, look.Token, look.Now)
		if err != nil {
			return t, err
		}
		switch given = len(agreed.Given); {
		case c.State == client.ChangeWaiting:
			look.Ask(&t, agreed)
		case given > 0:
			look.Voted(&t, agreed)
		}
	}
	switch {
	case c.State == client.ChangeRejected:
		look.Vote(&t, c.DecidedBy, c.Reason, db.Millis(c.Decided))
	case given == 0 && c.DecidedBy != "" && t.State == client.TaskDone:
		look.Vote(&t, c.DecidedBy, "", db.Millis(c.Decided))
	}
	open := c.State == client.ChangeWaiting || c.State == client.ChangeApproved
	if open && (c.ProposedBy == look.Token.ID || slices.Contains(api.Approvers, look.Token.Role)) {
		t.May = append(t.May, Decline)
	}
	switch {
	case t.State == client.TaskStale && c.State == client.ChangeWaiting:
		t.MayNot = c.Stale
	case c.State != client.ChangeWaiting:
		t.MayNot = "the change is " + string(c.State)
	}
	return t, nil
}
