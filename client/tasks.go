package client

import (
	"context"
	"strconv"
)

// TaskKind says what a task is about.
type TaskKind string

// The kinds of tasks.
const (
	TaskChange   TaskKind = "change"
	TaskRelease  TaskKind = "release"
	TaskOrder    TaskKind = "order"
	TaskDeposit  TaskKind = "deposit"
	TaskAddress  TaskKind = "address"
	TaskRefused  TaskKind = "refused"
	TaskRestored TaskKind = "restored"
)

var _ = newWords(words[TaskKind]{
	{is: TaskChange, at: AtBoth, means: "Something that could move money, or who decides on it, is to be changed."},
	{is: TaskRelease, at: AtService, means: "A confirmed withdrawal above the merchant's approveAbove is to be released."},
	{is: TaskOrder, at: AtGateway, means: "The policy holds an order for a person."},
	{is: TaskDeposit, at: AtGateway, means: "A deposit may be a copy of another one, or forged. It counts only if a person says so."},
	{is: TaskAddress, at: AtGateway, means: "A deposit address is to replace another one. It counts only if a person says so."},
	{is: TaskRefused, at: AtGateway, means: "A callback was refused. It can be taken under the present settings."},
	{is: TaskRestored, at: AtBoth, means: "A restored database does not know what became of it. Nothing is decided on it until a person says that nothing did."},
})

// TaskState says what became of a task.
type TaskState string

// The states of a task.
const (
	TaskOpen     TaskState = "open"
	TaskDone     TaskState = "done"
	TaskDeclined TaskState = "declined"
	TaskExpired  TaskState = "expired"
	TaskStale    TaskState = "stale"
)

var _ = newWords(words[TaskState]{
	{is: TaskOpen, means: "It waits for a person."},
	{is: TaskDone, means: "It was approved by as many persons as it needs."},
	{is: TaskDeclined, means: "A person declined it."},
	{is: TaskExpired, means: "Its time ended before anybody decided."},
	{is: TaskStale, means: "What it was about has changed or ended otherwise; nobody can decide it any more."},
})

// TaskID returns the id of the task about a thing.
func TaskID(kind TaskKind, about string) string { return string(kind) + "." + about }

// DepositTask returns the id of the task about a deposit of the gateway.
func DepositTask(seq int64) string { return TaskID(TaskDeposit, strconv.FormatInt(seq, 10)) }

// Task is something that waits for persons, or did: what it is about, what would happen, how many
// must agree, and who has said what.
type Task struct {
	ID       string       `json:"id" doc:"its kind, a dot, and the id of what it is about"`
	Kind     TaskKind     `json:"kind" doc:"what kind of thing it is about"`
	About    string       `json:"about" doc:"id of what it is about"`
	Merchant string       `json:"merchant,omitempty" doc:"id of the merchant that it is about; absent: none, or it is the gateway's"`
	Title    string       `json:"title" doc:"what it is about, in one line"`
	Why      string       `json:"why,omitempty" doc:"why a person must decide, or what to look at first"`
	Content  []TaskMember `json:"content" nullable:"false" doc:"what is decided on, member by member"`
	Approve  string       `json:"approve" doc:"what an approval does"`
	Decline  string       `json:"decline,omitempty" doc:"what it does to decline; absent: it cannot be declined"`
	State    TaskState    `json:"state" doc:"open until it is decided"`
	Opened   Time         `json:"opened" doc:"since when it is there"`
	Due      Time         `json:"due,omitzero" doc:"when it expires; absent: never"`
	Decided  Time         `json:"decided,omitzero" doc:"when it was decided; absent: it is open"`
	Needs    int          `json:"needs" doc:"how many persons must approve it, each with a token of another origin"`
	Missing  int          `json:"missing" doc:"how many of them are missing"`
	Votes    []TaskVote   `json:"votes" nullable:"false" doc:"who said what, the first first; notes only where one task is shown"`
	Could    []string     `json:"could,omitempty" nullable:"false" doc:"names of tokens that may give what is missing, at most 20"`
	Nobody   string       `json:"nobody,omitempty" doc:"says that those who exist cannot give what is missing, and what to do; absent: they can"`
	May      []string     `json:"may" nullable:"false" doc:"what the caller may do now: approve, decline, note"`
	MayNot   string       `json:"mayNot,omitempty" doc:"why the caller may not approve it now; absent: it may"`
	Alone    string       `json:"alone,omitempty" doc:"why it is approved by itself alone and left out where many are; absent: it is not"`
}

// TaskMember is a member of what is decided on.
type TaskMember struct {
	Name   string `json:"name" doc:"what it is"`
	Value  string `json:"value" doc:"its value; of keys and secrets the fingerprint"`
	Beside string `json:"beside,omitempty" doc:"to compare with: of a change what it was before, of a possible duplicate that of the first deposit"`
}

// Differs reports whether Beside is set and is not Value.
func (m TaskMember) Differs() bool { return m.Beside != "" && m.Beside != m.Value }

// TaskVote is what one person said of a task. A note has no verdict.
type TaskVote struct {
	Task    string `json:"task" doc:"id of the task"`
	Actor   string `json:"actor" doc:"id of the token"`
	Name    string `json:"name,omitempty" doc:"name of the token"`
	Origin  string `json:"origin,omitempty" doc:"the person of the identity provider, or the token from which the token comes; of one origin one approval counts"`
	Verdict string `json:"verdict,omitempty" enum:"approve,decline" doc:"approve or decline; absent: it is a note"`
	Note    string `json:"note,omitempty" doc:"the reason, or what was noted"`
	At      Time   `json:"at" doc:"when it was said"`
	Void    string `json:"void,omitempty" doc:"why an approval does not count; absent: it does"`
}

// TaskFilter selects tasks. Zero members select all open ones.
type TaskFilter struct {
	Kind     TaskKind  `query:"kind" doc:"only of this kind"`
	Merchant string    `query:"merchant" minLength:"1" maxLength:"64" doc:"only about this merchant, 1 to 64 characters"`
	State    TaskState `query:"state" doc:"only in this state; absent: open"`
	Awaits   string    `query:"awaits" enum:"me" doc:"me: only those that the caller may approve now"`
}

// DecideTasks is what is said of many tasks at once.
type DecideTasks struct {
	IDs    []string `json:"ids" minItems:"1" maxItems:"200" nullable:"false" doc:"1 to 200 ids of tasks; each has its own result, whatever becomes of the others"`
	Reason string   `json:"reason,omitempty" maxLength:"500" doc:"the reason, kept for later readers, at most 500 characters"`
	DryRun bool     `json:"dryRun,omitempty" doc:"only say which of them it would be done to"`
}

// DecidedTasks says what became of many tasks, in the order of the request.
type DecidedTasks struct {
	Tasks   []DecidedTask `json:"tasks" nullable:"false" doc:"one for each id, in the order of the request"`
	Done    int           `json:"done" doc:"to how many it was done, or would be"`
	LeftOut int           `json:"leftOut" doc:"how many are approved one by one alone, as possible duplicates are, and were left out"`
	DryRun  bool          `json:"dryRun" doc:"nothing was done"`
}

// DecidedTask says what became of one of them.
type DecidedTask struct {
	ID   string `json:"id" doc:"as in the request"`
	Done bool   `json:"done" doc:"it was done, or would be"`
	Why  string `json:"why,omitempty" doc:"why it was not; absent: it was"`
}

// Tasks returns a page of what waits for persons, the newest first.
func (c *Common) Tasks(ctx context.Context, f TaskFilter, o PageOptions) (List[Task], error) {
	return Get[List[Task]](ctx, c, "/v1/tasks", f, o)
}

// Task returns one task, with its notes.
func (c *Common) Task(ctx context.Context, id string) (Task, error) {
	return Get[Task](ctx, c, Path("tasks", id))
}

// ApproveTask approves a task. The last missing approval carries the task out. The error is ErrForbidden if the
// approval would not count, and ErrConflict if the task was decided otherwise. The reason may be empty.
func (c *Common) ApproveTask(ctx context.Context, id, reason string) (Task, error) {
	return Post[Task](ctx, c, Path("tasks", id, "approve"), Decide{reason})
}

// DeclineTask declines a task; one person suffices. The reason may be empty.
func (c *Common) DeclineTask(ctx context.Context, id, reason string) (Task, error) {
	return Post[Task](ctx, c, Path("tasks", id, "decline"), Decide{reason})
}

// DecideMany approves or declines up to 200 tasks, each by itself, as ApproveTask and DeclineTask do.
func (c *Common) DecideMany(ctx context.Context, verdict string, d DecideTasks) (DecidedTasks, error) {
	return Post[DecidedTasks](ctx, c, Path("tasks", verdict), d)
}

// NoteTask adds a note about the subject of a task. Notes are never changed. A subject has at most 1,000; after that
// the error is ErrConflict.
func (c *Common) NoteTask(ctx context.Context, id, text string) (Task, error) {
	return Post[Task](ctx, c, Path("tasks", id, "note"), NewNote{text})
}
