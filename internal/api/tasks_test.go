package api

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/outbox"
)

// things is a kind of task in memory, the newest first.
type things struct {
	list  []ListedTask
	fails error
	did   []string
}

func (h *things) add(about string, state client.TaskState, at db.Millis) *client.Task {
	t := ListedTask{Task: NewTask("order", about, state, at), Place: about, Since: at}
	h.list = append(h.list, t)
	slices.SortStableFunc(h.list, func(a, b ListedTask) int { return int(b.Opened - a.Opened) })
	i := slices.IndexFunc(h.list, func(x ListedTask) bool { return x.About == about })
	return &h.list[i].Task
}

// kind returns the kind with sources for open tasks and for those that are done.
func (h *things) kind(name client.TaskKind) TaskKind {
	source := func(state client.TaskState) TaskSource {
		return TaskSource{Name: string(state), State: state, List: func(_ *TaskLook, _ client.TaskFilter, cursor string, limit int) (out []ListedTask, next string, err error) {
			from := 1 + slices.IndexFunc(h.list, func(x ListedTask) bool { return x.Place == cursor })
			for _, x := range h.list[from:] {
				if len(out) == max(1, limit/2) { // a source may return fewer
					return out, out[len(out)-1].Place, h.fails
				}
				if x.State == state {
					x.Kind, x.ID = name, client.TaskID(name, x.About)
					out = append(out, x)
				}
			}
			return out, "", h.fails
		}}
	}
	do := func(verb string) func(*Call, string, string) error {
		return func(_ *Call, about, _ string) error { h.did = append(h.did, verb+" "+about); return nil }
	}
	return TaskKind{Kind: name, Tells: "thing", Approve: "yes", Decline: "no", Sources: []TaskSource{source(client.TaskOpen), source(client.TaskDone)},
		Find: func(_ *TaskLook, about string) (ListedTask, error) {
			i := slices.IndexFunc(h.list, func(x ListedTask) bool { return x.About == about })
			if i < 0 {
				return ListedTask{}, db.ErrNotFound
			}
			t := h.list[i]
			t.Kind, t.ID = name, client.TaskID(name, about)
			return t, nil
		},
		DoApprove: do(Approve), DoDecline: do(Decline)}
}

func call(role client.Role) *Call {
	return &Call{R: httptest.NewRequest("GET", "/v1/tasks", nil), Token: Token{ID: "tok", Role: role}, Now: 10_000_000}
}

// TestTellOfWaiting: however many tasks wait, approval_waits stands once for each that has waited for an hour or is told
// at once, and ends for those alone that do not wait any more; of a kind that cannot be read nothing ends.
func TestTellOfWaiting(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d *db.DB) {
		const now = 2 * waitsLong
		var h things
		for i := range 2*waitingPage + 5 {
			h.add(fmt.Sprint(i), client.TaskOpen, db.Millis(1+i))
		}
		h.add("young", client.TaskOpen, now-waitsLong+1)
		h.add("done", client.TaskDone, 1)
		tasks := Tasks{Lists: d, Kinds: []TaskKind{h.kind("order")}}
		var want []string
		told := func() {
			t.Helper()
			list, err := d.StandingAlarms(t.Context(), client.AlarmApprovalWaits)
			var got []string
			for _, a := range list {
				if got = append(got, a.Subject); a.Number != 1 {
					t.Errorf("%+v", a)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("told of %d, want %d: %v", len(got), len(want), err)
			}
		}
		look := func() {
			t.Helper()
			if err := tasks.tellOfWaiting(t.Context(), d, now); !errors.Is(err, h.fails) {
				t.Fatal(err)
			}
			told()
		}
		for _, x := range h.list {
			if x.State == client.TaskOpen && x.About != "young" {
				want = append(want, "thing "+x.About)
			}
		}
		look()
		look()
		of := func(about string) *ListedTask {
			return &h.list[slices.IndexFunc(h.list, func(x ListedTask) bool { return x.About == about })]
		}
		for _, about := range []string{"0", "250", "404"} {
			of(about).State = client.TaskDone
			want = slices.DeleteFunc(want, func(s string) bool { return s == "thing "+about })
		}
		of("young").AtOnce = true
		want = append(want, "thing young")
		of("7").Unknown, of("7").AtOnce, of("7").Since = true, false, now // nobody knows whether it still waits
		look()
		h.fails = errors.New("disk says no")
		of("8").State = client.TaskDone
		look()
	})
}

// TestMay: what a caller may do follows from the state, the role, the kind and what people said.
func TestMay(t *testing.T) {
	for name, c := range map[string]struct {
		role   client.Role
		state  client.TaskState
		mayNot string
		kind   func(*TaskKind)
		want   string
	}{
		"an approver":              {client.RoleApprover, client.TaskOpen, "", nil, "approve decline"},
		"who approved":             {client.RoleApprover, client.TaskOpen, "approved", nil, "decline"},
		"an operator":              {client.RoleOperator, client.TaskOpen, "no approver", nil, ""},
		"a kind without no":        {client.RoleAdmin, client.TaskOpen, "", func(k *TaskKind) { k.Decline = "" }, "approve"},
		"stopped":                  {client.RoleAdmin, client.TaskOpen, "", func(k *TaskKind) { k.Stops = []string{Approve, Decline} }, ""},
		"only yes is stopped":      {client.RoleAdmin, client.TaskOpen, "", func(k *TaskKind) { k.Stops = []string{Approve} }, "decline"},
		"done":                     {client.RoleAdmin, client.TaskDone, "", nil, ""},
		"noted by an approver":     {client.RoleApprover, client.TaskDone, "", func(k *TaskKind) { k.Note = outbox.New(nil).NoteWithdrawal }, "note"},
		"noted by an operator":     {client.RoleOperator, client.TaskOpen, "x", func(k *TaskKind) { k.Note = outbox.New(nil).NoteWithdrawal }, ""},
		"operators note this kind": {client.RoleOperator, client.TaskOpen, "x", func(k *TaskKind) { k.Note, k.Deciders = outbox.New(nil).NoteWithdrawal, Deciders }, "note"},
	} {
		var h things
		k := h.kind("order")
		if c.kind != nil {
			c.kind(&k)
		}
		task := *h.add("1", c.state, 1)
		task.MayNot = c.mayNot
		k.finish(&TaskLook{Call: call(c.role), stopped: "restored"}, &task)
		if got := strings.Join(task.May, " "); got != c.want || !strings.Contains(c.want, Approve) && task.MayNot == "" {
			t.Errorf("%s: may %q, want %q; %q", name, got, c.want, task.MayNot)
		}
	}
}

// TestDecliners: one that cannot be declined says so, and a role that does not decide is refused.
func TestDecliners(t *testing.T) {
	var h things
	k := h.kind("order")
	for _, c := range []struct {
		role      client.Role
		decline   string
		deciders  Roles
		want      error
		forbidden bool
	}{{client.RoleApprover, "no", nil, nil, false}, {client.RoleAdmin, "", nil, db.ErrConflict, false}, {client.RoleOperator, "no", nil, nil, true}, {client.RoleOperator, "no", Deciders, nil, false}} {
		k.Decline, k.Deciders, h.did = c.decline, c.deciders, nil
		err := k.decline(call(c.role), "1", "r")
		var p *client.Problem
		if errors.As(err, &p) != c.forbidden || c.want != nil && !errors.Is(err, c.want) || (err == nil) != (len(h.did) == 1) {
			t.Errorf("%+v: %v, %q", c, err, h.did)
		}
	}
}

// TestTaskList: tasks of several kinds come the newest first, each once, whatever the size of a page is.
func TestTaskList(t *testing.T) {
	d := open(t, dbtest.SQLite(t), outbox.End())
	var a, b things
	var want []string
	for i := range 20 {
		h, kind := &a, "order"
		if i%3 == 0 {
			h, kind = &b, "deposit"
		}
		state := client.TaskOpen
		if i%5 == 0 {
			state = client.TaskDone
		} else {
			want = append([]string{fmt.Sprint(kind, ".", i)}, want...)
		}
		h.add(fmt.Sprint(i), state, db.Millis(1+i))
	}
	tasks := Tasks{Lists: d, Kinds: []TaskKind{a.kind("order"), b.kind("deposit")}}
	read := func(f client.TaskFilter, limit int) (got []string) {
		t.Helper()
		for cursor, more := "", true; more; more = cursor != "" {
			page, next, err := tasks.list(call(client.RoleAdmin), f, limit, cursor)
			ok(t, err)
			for _, x := range page {
				got = append(got, x.ID)
			}
			cursor = next
		}
		return got
	}
	for limit := range 21 {
		if got := read(client.TaskFilter{}, 1+limit); !slices.Equal(got, want) {
			t.Errorf("in pages of %d: %q, want %q", 1+limit, got, want)
		}
	}
	if got := read(client.TaskFilter{Kind: "deposit", State: client.TaskDone}, 1); !slices.Equal(got, []string{"deposit.15", "deposit.0"}) {
		t.Errorf("of a kind and a state: %q", got)
	}
	for _, cursor := range []string{"x", "order.open"} {
		if _, _, err := tasks.list(call(client.RoleAdmin), client.TaskFilter{}, 1, cursor); err == nil {
			t.Errorf("a cursor %q is taken", cursor)
		}
	}
}

// TestManyTasks: of many tasks each that can be answered is, the oldest first, and each other says why not.
func TestManyTasks(t *testing.T) {
	d := open(t, dbtest.SQLite(t), outbox.End())
	var h things
	h.add("old", client.TaskOpen, 1)
	h.add("new", client.TaskOpen, 9)
	h.add("over", client.TaskDone, 5)
	h.add("alone", client.TaskOpen, 4).Alone = "it may be a duplicate"
	tasks := Tasks{Lists: d, Kinds: []TaskKind{h.kind("order")}}
	in := client.DecideTasks{IDs: []string{"order.new", "order.over", "order.alone", "order.old", "order.new"}, DryRun: true}
	for _, dry := range []bool{true, false} {
		in.DryRun = dry
		out, err := tasks.approveMany(call(client.RoleApprover), None{}, in)
		var why []string
		for _, x := range out.Tasks {
			why = append(why, x.Why)
		}
		if err != nil || out.Done != 2 || out.LeftOut != 1 || !slices.Equal(why, []string{"", "it is done", "it may be a duplicate", "", "it is named twice"}) {
			t.Errorf("%+v, %v", out, err)
		}
		if want := map[bool][]string{false: {"approve old", "approve new"}}[dry]; !slices.Equal(h.did, want) {
			t.Errorf("dry %v: did %q", dry, h.did)
		}
	}
}
