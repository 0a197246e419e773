package tasks

import (
	"context"
	"strconv"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
)

// Kind is one kind of task: where its tasks are read, and what answers do. The state of a task is the state of the row
// it is about. The deciding function changes it in its own transaction.
type Kind struct {
	Kind client.TaskKind
	// Approve and Decline tell people what an answer does. An empty Decline: it cannot be declined.
	Approve, Decline string
	// Sources are the lists of its tasks.
	Sources []Source
	// Find returns one task in any state. The error is db.ErrNotFound if the caller may not see it.
	Find func(look *Look, about string) (client.Task, error)
	// DoApprove and DoDecline answer in the name of the caller. They may refuse.
	DoApprove, DoDecline func(c *api.Call, about, reason string) error
	// Tells is the prefix of the subjects of approval_waits about its tasks. Empty: other alarms report them.
	Tells string
	// Stops are the verdicts that are refused while Tasks.Stopped returns a reason.
	Stops []string
	// Deciders may decline and note, if they are more roles than the approvers; Find then sets this in May.
	Deciders api.Roles
	// Note adds a note about the thing. Notes are kept under Noted and its id. Nil: it has none.
	Noted string
	Note  func(ctx context.Context, about string, n db.Vote) error
}

// Source is a list of the tasks of one kind in one state, the newest first.
type Source struct {
	// Name is unique in its kind.
	Name  string
	State client.TaskState
	// List returns tasks from a cursor on. next is the cursor after them; empty: there are no more. It may return fewer
	// than limit, or none, and still a next.
	List func(look *Look, f client.TaskFilter, cursor string, limit int) (list []Listed, next string, err error)
}

// Listed is a task with its place in its list.
type Listed struct {
	client.Task
	At    db.Millis // orders tasks of several lists
	Place string    // the cursor after it

	// Since is when it began to wait for persons, for approval_waits. 0: it does not wait.
	Since   db.Millis
	AtOnce  bool // approval_waits is raised at once
	Unknown bool // nobody knows whether it waits: an existing alarm stays
}

// Look is one call that reads tasks, with the people as they are then.
type Look struct {
	*api.Call
	People  *api.People
	stopped string // why nothing is decided at the moment
}

// Ask adds to an open task who agrees, who must and who may.
func (l *Look) Ask(t *client.Task, a api.Agreed) {
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
func (l *Look) Voted(t *client.Task, a api.Agreed) {
	for _, g := range a.Approvals {
		t.Votes = append(t.Votes, client.TaskVote{Task: t.ID, Actor: g.Token, Name: g.Name, Origin: l.People.Origin(g.Token),
			Verdict: Approve, Note: g.Text, At: api.TimeOf(g.At), Void: g.Void})
	}
	t.Needs, t.Missing = len(a.Approvals), 0
}

// Vote adds what one person decided alone.
func (l *Look) Vote(t *client.Task, by, reason string, at db.Millis) {
	verdict := Approve
	if t.State == client.TaskDeclined {
		verdict = Decline
	}
	t.Votes = append(t.Votes, client.TaskVote{Task: t.ID, Actor: by, Name: l.People.Name(by), Origin: l.People.Origin(by),
		Verdict: verdict, Note: reason, At: api.TimeOf(at)})
}

// The verdicts, which are also what a caller may do besides noting.
const (
	Approve = "approve"
	Decline = "decline"
	note    = "note"
)

// Rows returns the source of a list whose cursor is a number.
func Rows[Row any](name string, state client.TaskState, list func(ctx context.Context, limit int, before int64) ([]Row,
	int64, error), task func(*Look, Row) (Listed, error)) Source {
	return Source{Name: name, State: state, List: func(look *Look, _ client.TaskFilter, cursor string,
		limit int) (out []Listed, _ string, err error) {
		before, err := number(cursor)
		if err != nil {
			return nil, "", err
		}
		rows, next, err := list(look.R.Context(), limit, before)
		for i := 0; i < len(rows) && err == nil; i++ {
			var t Listed
			t, err = task(look, rows[i])
			out = append(out, t)
		}
		if next == 0 {
			return out, "", err
		}
		return out, place(next), err
	}}
}

func number(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil || n <= 0 {
		return 0, errCursor
	}
	return n, nil
}

func place(seq int64) string { return strconv.FormatInt(seq, 10) }

var errCursor = api.Invalid(api.At("query.cursor", "is not a cursor of this list"))
