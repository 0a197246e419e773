package console

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"countersign/client"
)

// tasksSection is the first page of both ends: what waits for a person.
var tasksSection = section{
	nav:   navItem{root, "Tasks", "tasks"},
	lists: []lister{tasksList},
	pages: []page{
		{"GET /console/tasks/many", (*visit).manyTasks},
		{"POST /console/tasks/many", (*visit).manyTasksDone},
		{"GET /console/tasks/{id}", (*visit).task},
		{"POST /console/tasks/{id}/approve", (*visit).taskApprove},
		{"POST /console/tasks/{id}/decline", (*visit).taskDecline},
		{"POST /console/tasks/{id}/note", call("noted", "POST /v1/tasks/{id}/note", "text")},
	},
	notices: map[string]string{
		"approved":      "Approved.",
		"approved-one":  "Your approval is kept. The page says who is missing.",
		"declined":      "Declined.",
		"approved-many": "Approved. What is still here was left out: open it to see why.",
		"declined-many": "Declined.",
	},
}

var tasksList = &list[client.TaskFilter, client.Task]{
	table: table{name: "tasks", title: "Tasks"},
	at:    root,
	live:  true,
	fields: []field{{name: "kind", label: "Kind"}, {name: "state", label: "State", options: func(*visit) []option {
		return optionsOf(client.Values[client.TaskState](), "")
	}}, {name: "awaits", label: "Waits for", options: func(*visit) []option {
		return optionsOf([]string{"me"}, "anybody")
	}}, {name: "merchant", label: "Merchant", end: "service"}},
}

// taskView is a task, as shown on its own page and on that of its subject.
type taskView struct {
	client.Task
	Thing   string // the page of what it is about; empty: this one, or there is none
	Whole   bool   // all members are shown, not only those that are compared
	Values  map[string]string
	Refused string // the act whose form was refused
}

// Compared reports whether a member is shown with another beside it.
func (t taskView) Compared() bool {
	return slices.ContainsFunc(t.Content, func(m client.TaskMember) bool { return m.Beside != "" })
}

// MayDo reports whether the session's token may do what a verb names.
func (t taskView) MayDo(verb string) bool { return slices.Contains(t.May, verb) }

// taskOf fetches the task of a page's subject. It returns nil if there is none or the token may not see it.
func (v *visit) taskOf(id string) *taskView {
	if v.err != nil || !v.may("task") {
		return nil
	}
	t, err := read[client.Task](v, client.Path("tasks", id))
	if errors.Is(err, client.ErrNotFound) {
		return nil
	}
	v.err = err
	return &taskView{Task: t, Values: v.values(nil), Refused: v.before.Act}
}

// taskThings are the subjects of tasks. A change has no page but its task.
var taskThings = map[client.TaskKind]client.FoundKind{
	client.TaskRelease: client.FoundWithdrawal, client.TaskOrder: client.FoundOrder,
	client.TaskDeposit: client.FoundDeposit,
	client.TaskAddress: client.FoundAddress, client.TaskRefused: client.FoundRefused}

// thingOf returns the page of a task's subject, or "" if it has none.
func (v *visit) thingOf(t client.Task) string {
	kind := taskThings[t.Kind]
	if t.Kind == client.TaskRestored {
		kind = atEnd(v, client.FoundWithdrawal, client.FoundOrder)
	}
	if kind == "" {
		return ""
	}
	return frame{}.PathOf(client.Found{Kind: kind, ID: t.About})
}

// restoredOr returns the kind of an item's task, which is another one while a restore has left the item open.
func restoredOr(restored bool, kind client.TaskKind) client.TaskKind {
	if restored {
		return client.TaskRestored
	}
	return kind
}

func (v *visit) task() error {
	t := fetch[client.Task](v, client.Path("tasks", v.r.PathValue("id")))
	view := taskView{Task: t, Thing: v.thingOf(t), Whole: true, Values: v.values(nil), Refused: v.before.Act}
	return v.render("task", "Task", view)
}

func (v *visit) taskApprove() error {
	t, err := send[client.Task](v, client.Path("tasks", v.r.PathValue("id"), "approve"), client.Decide{Reason: v.form("reason")})
	switch {
	case err != nil:
		return err
	case t.State == client.TaskOpen: // others are missing
		return v.done(v.cameFrom(), "approved-one")
	}
	return v.done(v.cameFrom(), "approved")
}

var declineTask = call("declined", "POST /v1/tasks/{id}/decline", "reason")

func (v *visit) taskDecline() error {
	if v.c.end.name == "service" && strings.HasPrefix(v.r.PathValue("id"), string(client.TaskRelease)+".") {
		if err := v.typed("block"); err != nil { // it is for ever
			return err
		}
	}
	return declineTask(v)
}

// manyPage lists the chosen tasks that an answer would be given to, before it is given.
type manyPage struct {
	Verdict string
	client.DecidedTasks
	Values map[string]string
}

// decideMany answers the tasks that a form names with the form's answer.
func (v *visit) decideMany(form url.Values, dry bool) (client.DecidedTasks, error) {
	d := client.DecideTasks{IDs: form["id"], Reason: strings.TrimSpace(form.Get("reason")), DryRun: dry}
	if len(d.IDs) == 0 {
		return client.DecidedTasks{}, refuse("choose at least one task")
	}
	verdict := form.Get("verdict")
	if verdict != "approve" && verdict != "decline" {
		return client.DecidedTasks{}, refuse("the verdict is neither approve nor decline")
	}
	return v.api.DecideMany(v.r.Context(), verdict, d)
}

func (v *visit) manyTasks() error {
	dry, err := v.decideMany(v.r.URL.Query(), true)
	if err != nil {
		return err
	}
	return v.render("many", "Many tasks", manyPage{Verdict: v.query("verdict"), DecidedTasks: dry, Values: v.values(nil)})
}

func (v *visit) manyTasksDone() error {
	verdict := v.form("verdict")
	if err := v.typed(verdict); err != nil {
		return err
	}
	if _, err := v.decideMany(v.r.PostForm, false); err != nil {
		return err
	}
	return v.done(root, map[string]string{"approve": "approved-many", "decline": "declined-many"}[verdict])
}
