package admin

import (
	"context"
	"iter"
	"testing"

	"countersign/client"
)

// What people do through tasks, with what became of the thing.

func releaseTask(id string) string { return client.TaskID(client.TaskRelease, id) }
func changeTask(id string) string  { return client.TaskID(client.TaskChange, id) }

// changesIn returns the changes in some states that a person sees.
func changesIn(t *testing.T, p interface {
	AllTasks(context.Context, client.TaskFilter) iter.Seq2[client.Task, error]
}, states ...client.TaskState) (list []client.Task) {
	t.Helper()
	for _, s := range states {
		for task, err := range p.AllTasks(t.Context(), client.TaskFilter{Kind: client.TaskChange, State: s}) {
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

func approveChange(c answerer, ctx context.Context, id string) (client.ChangeEntry, error) {
	if _, err := c.ApproveTask(ctx, changeTask(id), ""); err != nil {
		return client.ChangeEntry{}, err
	}
	return c.Change(ctx, id)
}

func rejectChange(c answerer, ctx context.Context, id, reason string) (client.ChangeEntry, error) {
	if _, err := c.DeclineTask(ctx, changeTask(id), reason); err != nil {
		return client.ChangeEntry{}, err
	}
	return c.Change(ctx, id)
}

func changeApproval(c answerer, ctx context.Context, id string) (client.Task, error) {
	return c.Task(ctx, changeTask(id))
}

// answerer has the calls of people who answer tasks.
type answerer interface {
	Task(context.Context, string) (client.Task, error)
	ApproveTask(ctx context.Context, id, reason string) (client.Task, error)
	DeclineTask(ctx context.Context, id, reason string) (client.Task, error)
	Withdrawal(context.Context, string) (client.Withdrawal, error)
	Change(context.Context, string) (client.ChangeEntry, error)
}
