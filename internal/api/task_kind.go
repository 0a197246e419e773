package api

import (
	"context"

	"countersign/client"
	"countersign/internal/db"
)

// TaskKind is one kind of task: where its tasks are read, and what answers do. The state of a task is the state of the row
// it is about. The deciding function changes it in its own transaction.
type TaskKind struct {
	Kind client.TaskKind
	// Approve and Decline tell people what an answer does. An empty Decline: it cannot be declined.
	Approve, Decline string
	// Sources are the lists of its tasks.
	Sources []TaskSource
	// Find returns one task in any state. The error is db.ErrNotFound if the caller may not see it.
	Find func(look *TaskLook, about string) (ListedTask, error)
	// DoApprove and DoDecline answer in the name of the caller. They may refuse.
	DoApprove, DoDecline func(c *Call, about, reason string) error
	// Tells is the prefix of the subjects of approval_waits about its tasks. Empty: other alarms report them.
	Tells string
	// Stops are the verdicts that are refused while the database is not reconciled.
	Stops []string
	// Deciders may decline and note, if they are more roles than the approvers; Find then sets this in May.
	Deciders Roles
	// Note adds a note about the thing. Notes are kept under Noted and its id. Nil: it has none.
	Noted string
	Note  func(ctx context.Context, about string, n db.Vote) error
}

// TaskSource is a list of the tasks of one kind in one state, the newest first.
type TaskSource struct {
	// Name is unique in its kind.
	Name  string
	State client.TaskState
	// List returns tasks from a cursor on. next is the cursor after them; empty: there are no more. It may return fewer
	// than limit, or none, and still a next.
	List func(look *TaskLook, f client.TaskFilter, cursor string, limit int) (list []ListedTask, next string, err error)
}

// ListedTask is a task with its place in its list.
type ListedTask struct {
	client.Task
	Place string // the cursor after it

	// Since is when it began to wait for persons, for approval_waits. 0: it does not wait.
	Since   db.Millis
	AtOnce  bool // approval_waits is raised at once
	Unknown bool // nobody knows whether it waits: an existing alarm stays
}

// TaskLook is one call that reads tasks, with the people as they are then.
type TaskLook struct {
	*Call
	People  *People
	stopped string // why nothing is decided at the moment
}

// Ask adds to an open task who agrees, who must and who may.
func (l *TaskLook) Ask(t *client.Task, a Agreed) {
	l.Voted(t, a)
	t.Needs, t.Missing = a.Needed, a.Missing()
	if !a.Enough() {
		t.Could, t.Nobody = a.Could(), a.Nobody()
	}
	if t.MayNot == "" {
		t.MayNot = a.WhyNot(l.Token.ID)
	}
}

// Voted adds to a decided task who agreed. Nobody is missing any more.
func (l *TaskLook) Voted(t *client.Task, a Agreed) {
	for _, g := range a.Approvals {
		t.Votes = append(t.Votes, client.TaskVote{Task: t.ID, Actor: g.Token, Name: g.Name, Origin: l.People.Origin(g.Token),
			Verdict: Approve, Note: g.Text, At: TimeOf(g.At), Void: g.Void})
	}
	t.Needs, t.Missing = len(a.Approvals), 0
}

// Vote adds what one person decided alone.
func (l *TaskLook) Vote(t *client.Task, by, reason string, at db.Millis) {
	verdict := Approve
	if t.State == client.TaskDeclined {
		verdict = Decline
	}
	t.Votes = append(t.Votes, client.TaskVote{Task: t.ID, Actor: by, Name: l.People.Name(by), Origin: l.People.Origin(by),
		Verdict: verdict, Note: reason, At: TimeOf(at)})
}

// The verdicts, which are also what a caller may do besides noting.
const (
	Approve = "approve"
	Decline = "decline"
	note    = "note"
)

// TaskRows returns the source of a list whose cursor is a number.
func TaskRows[Row any](name string, state client.TaskState, list func(ctx context.Context, limit int, before int64) ([]Row,
	int64, error), task func(*TaskLook, Row) (ListedTask, error)) TaskSource {
	return TaskSource{Name: name, State: state, List: func(look *TaskLook, _ client.TaskFilter, cursor string,
		limit int) (out []ListedTask, next string, err error) {
		rows, next, err := numbered(cursor, func(before int64) ([]Row, int64, error) {
			return list(look.R.Context(), limit, before)
		})
		for i := 0; i < len(rows) && err == nil; i++ {
			var t ListedTask
			t, err = task(look, rows[i])
			out = append(out, t)
		}
		return out, next, err
	}}
}

// FindTask returns the Find of a kind whose tasks are about the rows that read returns.
func FindTask[Row any](read func(ctx context.Context, about string) (Row, error),
	task func(*TaskLook, Row) (ListedTask, error)) func(*TaskLook, string) (ListedTask, error) {
	return func(look *TaskLook, about string) (t ListedTask, err error) {
		row, err := read(look.R.Context(), about)
		if err != nil {
			return t, err
		}
		return task(look, row)
	}
}
