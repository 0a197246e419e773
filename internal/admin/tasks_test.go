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

// changeOf returns the change that a task is about.
func changeOf(c interface {
	Task(context.Context, string) (client.Task, error)
}, ctx context.Context, id string) (changed, error) {
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
