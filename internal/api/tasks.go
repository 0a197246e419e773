package api

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"countersign/client"
	"countersign/internal/db"
)

// Tasks are the tasks of an end: everything that waits for persons there. The routes of the zero value can be read, not
// called.
type Tasks struct {
	// Lists reads what people may do. Required.
	Lists db.Querier
	Kinds []TaskKind
	// Unreconciled says why nothing is decided while the database is restored from a backup and not reconciled.
	Unreconciled string
}

// manyFor is how long one call continues to answer many tasks.
const manyFor = 5 * time.Second

// look begins a call.
func (t Tasks) look(c *Call) (*TaskLook, error) {
	people, err := ReadPeople(c.R.Context(), t.Lists)
	l := &TaskLook{Call: c, People: people}
	if err != nil {
		return l, err
	}
	open, err := db.EpochIsOpen(c.R.Context(), t.Lists)
	if open {
		l.stopped = t.Unreconciled
	}
	return l, err
}

// of returns the kind and the subject of the task with an id.
func (t Tasks) of(id string) (*TaskKind, string, error) {
	kind, about, _ := strings.Cut(id, ".")
	i := slices.IndexFunc(t.Kinds, func(k TaskKind) bool { return string(k.Kind) == kind })
	if i < 0 || about == "" {
		return nil, "", db.ErrNotFound
	}
	return &t.Kinds[i], about, nil
}

// find returns a task as the caller sees it, without notes.
func (t Tasks) find(l *TaskLook, id string) (*TaskKind, client.Task, error) {
	k, about, err := t.of(id)
	if err != nil {
		return nil, client.Task{}, err
	}
	found, err := k.Find(l, about)
	if err == nil {
		l.Concerns(found.Merchant)
		k.finish(l, &found.Task)
	}
	return k, found.Task, err
}

// NewTask returns a new task.
func NewTask(kind client.TaskKind, about string, state client.TaskState, opened db.Millis) client.Task {
	return client.Task{ID: client.TaskID(kind, about), Kind: kind, About: about, State: state, Opened: TimeOf(opened),
		Content: []client.TaskMember{}, Votes: []client.TaskVote{}, May: []string{}}
}

// AddMember adds a member of what is decided on, unless its value is empty.
func AddMember(t *client.Task, name, value string) {
	if value != "" {
		t.Content = append(t.Content, client.TaskMember{Name: name, Value: value})
	}
}

// finish adds what the kind says and what the caller may do.
func (k *TaskKind) finish(l *TaskLook, t *client.Task) {
	t.Approve, t.Decline = k.Approve, k.Decline
	approver := slices.Contains(Approvers, l.Token.Role)
	stops := func(verdict string) bool { return l.stopped != "" && slices.Contains(k.Stops, verdict) }
	switch {
	case t.State != client.TaskOpen:
		t.Missing, t.Could, t.Nobody = 0, nil, ""
		t.MayNot = cmp.Or(t.MayNot, "it is "+string(t.State))
	case stops(Approve):
		t.MayNot = l.stopped
	case t.MayNot == "":
		t.May = append(t.May, Approve)
	}
	if t.State == client.TaskOpen && k.Decline != "" && approver {
		t.May = append(t.May, Decline)
	}
	if k.Note != nil && k.decides(l.Token.Role) {
		t.May = append(t.May, note)
	}
	if stops(Decline) {
		t.May = slices.DeleteFunc(t.May, func(verb string) bool { return verb == Decline })
	}
	slices.Sort(t.May)
	t.May = slices.Compact(t.May)
}

// decides reports whether a role may decline and note.
func (k *TaskKind) decides(r client.Role) bool {
	return slices.Contains(Approvers, r) || slices.Contains(k.Deciders, r)
}

// list merges the sources that match, the newest first.
func (t Tasks) list(c *Call, f client.TaskFilter, limit int, cursor string) (out []client.Task, next string, err error) {
	l, err := t.look(c)
	if err != nil {
		return nil, "", err
	}
	f.State = cmp.Or(f.State, client.TaskOpen)
	at, err := readCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	type head struct {
		kind *TaskKind
		name string
		list []ListedTask
		next string
	}
	var heads []*head
	for i := range t.Kinds {
		k := &t.Kinds[i]
		if f.Kind != "" && f.Kind != k.Kind {
			continue
		}
		for _, s := range k.Sources {
			h := &head{kind: k, name: string(k.Kind) + "." + s.Name}
			from, going := at[h.name]
			if s.State != f.State || cursor != "" && !going {
				continue
			}
			if h.list, h.next, err = s.List(l, f, from, limit); err != nil {
				return nil, "", err
			}
			at[h.name] = from
			heads = append(heads, h)
		}
	}
	for taken := 0; taken < limit; taken++ {
		var first *head
		cut := false // a list continues beyond what was read of it, so nothing older may be shown
		for _, h := range heads {
			switch {
			case len(h.list) == 0:
				cut = cut || h.next != ""
			case first == nil || h.list[0].Opened > first.list[0].Opened:
				first = h
			}
		}
		if first == nil || cut {
			break
		}
		task := first.list[0].Task
		at[first.name], first.list = first.list[0].Place, first.list[1:]
		first.kind.finish(l, &task)
		// The people's answers may have put what a source lists by its row into another state.
		if task.State == f.State && (f.Awaits == "" || slices.Contains(task.May, Approve)) {
			out = append(out, task)
		}
	}
	for _, h := range heads {
		switch {
		case len(h.list) > 0:
		case h.next == "":
			delete(at, h.name)
		default:
			at[h.name] = h.next
		}
	}
	return out, writeCursor(at), nil
}

func (t Tasks) show(c *Call, _, _ None) (client.Task, error) {
	l, err := t.look(c)
	if err != nil {
		return client.Task{}, err
	}
	return t.shown(l, c.R.PathValue("id"))
}

// shown returns a task with its notes, which are votes without a verdict.
func (t Tasks) shown(l *TaskLook, id string) (client.Task, error) {
	k, task, err := t.find(l, id)
	if err != nil || k.Note == nil {
		return task, err
	}
	notes, err := db.Votes(l.R.Context(), t.Lists, k.Noted+task.About, "")
	for _, n := range notes {
		task.Votes = append(task.Votes, client.TaskVote{Task: task.ID, Actor: n.Token, Name: n.Name,
			Origin: l.People.Origin(n.Token), Note: n.Text, At: TimeOf(n.At)})
	}
	slices.SortStableFunc(task.Votes, func(a, b client.TaskVote) int { return cmp.Compare(a.At, b.At) })
	return task, err
}

// act answers one task in the name of the caller, and returns the task as it is then.
func (t Tasks) act(c *Call, do func(k *TaskKind, about string) error) (client.Task, error) {
	l, err := t.look(c)
	if err != nil {
		return client.Task{}, err
	}
	id := c.R.PathValue("id")
	k, task, err := t.find(l, id)
	if err == nil {
		err = do(k, task.About)
	}
	if err != nil {
		return client.Task{}, err
	}
	if l, err = t.look(c); err != nil { // it may have changed a token
		return client.Task{}, err
	}
	return t.shown(l, id)
}

func (t Tasks) approve(c *Call, _ None, in client.Decide) (client.Task, error) {
	return t.act(c, func(k *TaskKind, about string) error { return k.DoApprove(c, about, in.Reason) })
}

func (t Tasks) decline(c *Call, _ None, in client.Decide) (client.Task, error) {
	return t.act(c, func(k *TaskKind, about string) error { return k.decline(c, about, in.Reason) })
}

func (k *TaskKind) decline(c *Call, about, reason string) error {
	switch {
	case k.Decline == "":
		return &db.ConflictError{Reason: "a task of kind " + string(k.Kind) + " cannot be declined"}
	case !k.decides(c.Token.Role):
		return forbidden(c, "declines")
	}
	return k.DoDecline(c, about, reason)
}

func forbidden(c *Call, what string) error {
	return NewProblem(http.StatusForbidden, "a token of role "+string(c.Token.Role)+" "+what+
		" no task of this kind; this needs approver or admin")
}

func (t Tasks) note(c *Call, _ None, in client.NewNote) (client.Task, error) {
	return t.act(c, func(k *TaskKind, about string) error {
		switch {
		case k.Note == nil:
			return &db.ConflictError{Reason: "no notes are kept about a task of kind " + string(k.Kind)}
		case !k.decides(c.Token.Role):
			return forbidden(c, "notes")
		}
		if strings.TrimSpace(in.Text) == "" {
			return Invalid(At("body.text", "is blank: write the note"))
		}
		return k.Note(c.R.Context(), about, c.Vote(in.Text))
	})
}

func (t Tasks) approveMany(c *Call, _ None, in client.DecideTasks) (client.DecidedTasks, error) {
	if !in.DryRun { // as Fresh asks of one
		if err := c.CheckFresh(); err != nil {
			return client.DecidedTasks{}, err
		}
	}
	return t.many(c, in, Approve, func(k *TaskKind, about string) error { return k.DoApprove(c, about, in.Reason) })
}

func (t Tasks) declineMany(c *Call, _ None, in client.DecideTasks) (client.DecidedTasks, error) {
	return t.many(c, in, Decline, func(k *TaskKind, about string) error { return k.decline(c, about, in.Reason) })
}

// many answers the open tasks of in, each in its own transaction, the oldest first. Of two refused callbacks the first
// must not be taken for a copy of the second.
func (t Tasks) many(c *Call, in client.DecideTasks, verdict string,
	do func(k *TaskKind, about string) error) (client.DecidedTasks, error) {
	out := client.DecidedTasks{Tasks: make([]client.DecidedTask, len(in.IDs)), DryRun: in.DryRun}
	l, err := t.look(c)
	if err != nil {
		return out, err
	}
	kinds, found := make([]*TaskKind, len(in.IDs)), make([]client.Task, len(in.IDs))
	var order []int
	for i, id := range in.IDs {
		var why string
		k, task, err := t.find(l, id)
		switch {
		case err != nil:
			if why = said(c, err); why == "" {
				return out, err
			}
		case task.State != client.TaskOpen:
			why = "it is " + string(task.State)
		case verdict == Approve && task.Alone != "":
			why = task.Alone
			out.LeftOut++
		case !slices.Contains(task.May, verdict):
			why = cmp.Or(task.MayNot, "the caller may not "+verdict+" it")
		case slices.ContainsFunc(order, func(j int) bool { return found[j].ID == task.ID }):
			why = "it is named twice"
		default:
			order = append(order, i)
		}
		kinds[i], found[i], out.Tasks[i] = k, task, client.DecidedTask{ID: id, Why: why}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := found[i], found[j]
		return cmp.Or(cmp.Compare(a.Opened, b.Opened), cmp.Compare(len(a.About), len(b.About)),
			strings.Compare(a.About, b.About))
	})
	began := time.Now()
	for _, i := range order {
		x := &out.Tasks[i]
		switch {
		case in.DryRun:
		case out.Done > 0 && time.Since(began) > manyFor:
			x.Why = "not reached in time: repeat the call for it"
		default:
			if err := do(kinds[i], found[i].About); err != nil {
				if x.Why = said(c, err); x.Why == "" {
					return out, err
				}
			}
		}
		if x.Done = x.Why == ""; x.Done {
			out.Done++
		}
	}
	c.Items = out.Done
	return out, nil
}

// said returns the text for the caller of one task; empty: the end failed.
func said(c *Call, err error) string {
	if p := c.Endpoint().ProblemOf(err); p.Status < http.StatusInternalServerError || errors.Is(err, db.ErrConflict) {
		return cmp.Or(p.Detail, p.Title)
	}
	return ""
}

// readCursor reads the place in each source. A source that is not in a cursor has ended.
func readCursor(text string) (map[string]string, error) {
	at := map[string]string{}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || text != "" && json.Unmarshal(raw, &at) != nil {
		return nil, errCursor
	}
	return at, nil
}

// writeCursor inverts readCursor. It is empty if all sources have ended.
func writeCursor(at map[string]string) string {
	if len(at) == 0 {
		return ""
	}
	raw, _ := json.Marshal(at) // texts
	return base64.RawURLEncoding.EncodeToString(raw)
}
