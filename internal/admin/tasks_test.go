package admin

import (
	"context"
	"testing"

	"countersign/client"
)

// What people do through tasks, with what became of the thing.

func releaseTask(id string) string { return client.TaskID(client.TaskRelease, id) }

// changed is what a change would do, member by member, and who proposed it.
type changed struct {
	client.Task
	Before, After map[string]string
	ProposedBy    string
}

// DecidedBy is whoever said the last.
func (c changed) DecidedBy() string {
	if len(c.Votes) == 0 {
		return ""
	}
	return c.Votes[len(c.Votes)-1].Actor
}

// changeOf returns the change that a task is about.
func changeOf(c answerer, ctx context.Context, id string) (changed, error) {
	task, err := c.Task(ctx, id)
	out := changed{task, map[string]string{}, map[string]string{}, ""}
	for _, m := range task.Content {
		if m.Name == "proposed by" {
			out.ProposedBy = m.Value
			continue
		}
		out.After[m.Name], out.Before[m.Name] = m.Value, m.Beside
	}
	return out, err
}

// changesIn returns the changes in some states that a person sees.
func changesIn(t *testing.T, p interface {
	Tasks(context.Context, client.TaskFilter, client.PageOptions) (client.List[client.Task], error)
}, states ...client.TaskState) (list []client.Task) {
	t.Helper()
	for _, s := range states {
		for task, err := range client.All(t.Context(), p.Tasks, client.TaskFilter{Kind: client.TaskChange, State: s}) {
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, task)
		}
	}
	return list
}

func approveWithdrawal(c answerer, ctx context.Context, id, reason string) (client.Withdrawal, error) {
	if _, err := c.ApproveTask(ctx, releaseTask(id), reason); err != nil {
		return client.Withdrawal{}, err
	}
	return c.Withdrawal(ctx, id)
}

func withdrawalApproval(c answerer, ctx context.Context, id string) (client.Task, error) {
	return c.Task(ctx, releaseTask(id))
}

func resumeWithdrawal(c answerer, ctx context.Context, id, reason string) (client.Withdrawal, error) {
	if _, err := c.ApproveTask(ctx, client.TaskID(client.TaskRestored, id), reason); err != nil {
		return client.Withdrawal{}, err
	}
	return c.Withdrawal(ctx, id)
}

// answerer has the calls of people who answer tasks.
type answerer interface {
	Task(context.Context, string) (client.Task, error)
	ApproveTask(ctx context.Context, id, reason string) (client.Task, error)
	DeclineTask(ctx context.Context, id, reason string) (client.Task, error)
	Withdrawal(context.Context, string) (client.Withdrawal, error)
}
