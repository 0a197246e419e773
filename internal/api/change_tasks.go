package api

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"countersign/client"
)

// kind returns the kind of task that changes are.
func (k *Changes) kind() TaskKind {
	kind := TaskKind{
		Kind: client.TaskChange, Tells: "change",
		Approve: "The change is made at once.",
		Decline: "Nothing is changed.",
		Find: func(look *TaskLook, about string) (ListedTask, error) {
			c, err := k.find(look.R.Context(), about, look.Token)
			if err != nil {
				return ListedTask{}, err
			}
			return k.task(look, c)
		},
		DoApprove: func(c *Call, about, reason string) error {
			defer c.ForgetTokens() // the change may revoke one
			_, err := k.approve(c.R.Context(), about, c.Token, reason, c.Now)
			return err
		},
		DoDecline: func(c *Call, about, reason string) error {
			_, err := k.decline(c.R.Context(), about, c.Token, reason, c.Now)
			return err
		},
		Deciders: Deciders,
	}
	for _, of := range []struct{ row, is client.TaskState }{{client.TaskOpen, client.TaskOpen},
		{client.TaskDone, client.TaskDone}, {client.TaskDeclined, client.TaskDeclined},
		{client.TaskStale, client.TaskStale}, {client.TaskOpen, client.TaskStale}} { // some that wait are stale already
		kind.Sources = append(kind.Sources, TaskSource{Name: string(of.row + of.is), State: of.is,
			List: func(look *TaskLook, f client.TaskFilter, cursor string, limit int) (out []ListedTask, next string, err error) {
				list, err := k.list(look.R.Context(), of.row, f.Merchant, look.Token, cursor, limit)
				if err == nil && len(list) == limit {
					next = list[limit-1].ID
				}
				for i := 0; i < len(list) && err == nil; i++ {
					var t ListedTask
					t, err = k.task(look, list[i])
					out = append(out, t)
				}
				return out, next, err
			}})
	}
	return kind
}

// changeTitle returns one line that says what a change would do.
func changeTitle(c Change, members []string) string {
	switch c.Kind {
	case ChangeToken:
		return fmt.Sprintf("new token %s, role %s", c.After["name"], c.After["role"])
	case ChangeRevoke:
		return fmt.Sprintf("end of token %s, role %s", c.Before["name"], c.Before["role"])
	}
	what := string(c.Kind)
	if c.Kind == ChangeMerchant {
		what = "settings"
	}
	return fmt.Sprintf("%s of %s: %s", what, c.Merchant, strings.Join(members, ", "))
}

// task returns the task of a change.
func (k *Changes) task(look *TaskLook, c Change) (ListedTask, error) {
	t := ListedTask{Task: NewTask(client.TaskChange, c.ID, c.State, c.Proposed), Place: c.ID}
	t.Merchant, t.Decided, t.Why = c.Merchant, c.Decided, c.Reason
	members := map[string]string{}
	maps.Copy(members, c.Before)
	maps.Copy(members, c.After)
	names := slices.Sorted(maps.Keys(members))
	t.Title = changeTitle(c, names)
	for _, name := range names {
		t.Content = append(t.Content, client.TaskMember{Name: name, Value: c.After[name], Beside: c.Before[name]})
	}
	AddMember(&t.Task, "token", c.Token)
	AddMember(&t.Task, "proposed by", c.ProposedBy)
	agreed, err := k.agreed(look.R.Context(), &c, look.People, look.Now)
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
	if c.ProposedBy == look.Token.ID || slices.Contains(Approvers, look.Token.Role) {
		t.May = append(t.May, Decline)
	}
	if err = k.stale(look.R.Context(), k.c.DB, &c, look.Now); errors.Is(err, ErrStale) {
		t.State, t.Why, t.MayNot, err = client.TaskStale, err.Error(), err.Error(), nil
	}
	return t, err
}
