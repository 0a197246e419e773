package gateway

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/policy"
)

// tasks returns everything at the gateway that waits for persons.
func (g *Gateway) tasks() api.Tasks {
	return api.Tasks{Lists: g.lists, Kinds: []api.TaskKind{g.depositTasks(), g.orderTasks(),
		g.addressTasks(), g.refusedTasks(), g.restoredTasks()},
		Unreconciled: "the gateway was restored from a backup and is not reconciled: nothing is decided until it is (countersign reconcile --gateway)"}
}

func seqOf(about string) (int64, error) {
	n, err := strconv.ParseInt(about, 10, 64)
	if err != nil || n <= 0 {
		return 0, db.ErrNotFound
	}
	return n, nil
}

// bySeq adapts read, which takes a number, to a task's subject.
func bySeq[T any](read func(context.Context, int64) (T, error)) func(context.Context, string) (T, error) {
	return func(ctx context.Context, about string) (v T, err error) {
		seq, err := seqOf(about)
		if err != nil {
			return v, err
		}
		return read(ctx, seq)
	}
}

// rows is a kind of task about numbered rows, each decided by one person.
type rows[State ~string, Filter, Row any] struct {
	kind client.TaskKind
	// states are the states of the rows that are listed.
	states []State
	means  map[State]client.TaskState
	filter func(State) Filter
	list   func(context.Context, Filter, int, int64) ([]Row, int64, error)
	read   func(context.Context, int64) (Row, error)
	task   func(*api.TaskLook, Row) (api.ListedTask, error)
	// approve and decline decide on a row.
	approve, decline func(c *api.Call, seq int64, reason string) error
	// what each does, for people
	approves, declines string
}

func (r rows[State, Filter, Row]) tasks() api.TaskKind {
	act := func(do func(*api.Call, int64, string) error) func(*api.Call, string, string) error {
		return func(c *api.Call, about, reason string) error {
			seq, err := seqOf(about)
			if err != nil {
				return err
			}
			return do(c, seq, reason)
		}
	}
	k := api.TaskKind{Kind: r.kind, Approve: r.approves, Decline: r.declines, Find: api.FindTask(bySeq(r.read), r.task),
		DoApprove: act(r.approve), DoDecline: act(r.decline)}
	for _, s := range r.states {
		list := func(ctx context.Context, limit int, before int64) ([]Row, int64, error) {
			return r.list(ctx, r.filter(s), limit, before)
		}
		k.Sources = append(k.Sources, api.TaskRows(string(s), r.means[s], list, r.task))
	}
	return k
}

// decision returns a function that moves a row to the state to.
func decision[State ~string, Row any](decide func(_ context.Context, seq int64, to State, by, reason string,
	now db.Millis) (Row, error), to State) func(*api.Call, int64, string) error {
	return func(c *api.Call, seq int64, reason string) error {
		_, err := decide(c.R.Context(), seq, to, c.Token.ID, reason, c.Now)
		return err
	}
}

// decided returns the task of a row that one person decides: open, or with the vote that ended it.
func decided(look *api.TaskLook, kind client.TaskKind, seq int64, state client.TaskState, opened, at db.Millis, by,
	reason string) api.ListedTask {
	text := strconv.FormatInt(seq, 10)
	t := api.NewTask(kind, text, state, opened)
	switch {
	case state == client.TaskOpen:
		look.Ask(&t, look.People.Agree(api.Asked{At: look.Now}, nil))
	case by != "":
		t.Needs, t.Decided = 1, api.TimeOf(at)
		look.Vote(&t, by, reason, at)
	}
	return api.ListedTask{Task: t, Place: text}
}

func (g *Gateway) depositTasks() api.TaskKind {
	k := rows[client.DepositState, client.DepositSearch, client.DepositEntry]{
		kind: client.TaskDeposit, means: depositStates,
		states: []client.DepositState{client.DepositHeld, client.DepositCredited, client.DepositRejected},
		filter: func(s client.DepositState) client.DepositSearch { return client.DepositSearch{State: s} },
		list:   g.lists.SearchDeposits, read: g.lists.Deposit, task: g.depositTask,
		approve:  decision(g.book.DecideDeposit, client.DepositCredited),
		decline:  decision(g.book.DecideDeposit, client.DepositRejected),
		approves: "The deposit is credited: it counts from now on, and the application is told so. This cannot be undone.",
		declines: "The deposit is rejected: it does not count. This cannot be undone.",
	}.tasks()
	k.Stops = []string{api.Approve, api.Decline}
	k.Noted = book.AboutDeposit
	k.Note = func(ctx context.Context, about string, n db.Vote) error {
		seq, err := seqOf(about)
		if err != nil {
			return err
		}
		return g.book.NoteDeposit(ctx, seq, n)
	}
	return k
}

var depositStates = map[client.DepositState]client.TaskState{client.DepositTaken: client.TaskDone,
	client.DepositHeld: client.TaskOpen, client.DepositCredited: client.TaskDone,
	client.DepositRejected: client.TaskDeclined}

// The sentences about deposits that a person must look at.
const (
	whySuspect   = "its sealed blocks belong to another request: it may be joined from several; ask the service, and compare it with the chain"
	whySame      = "it and the first deposit name the same transfer: if the chain has it once, decline this one, since crediting it would pay twice"
	whyUnknown   = "it may be a transfer that was reported before, and the first deposit is not found; look at the chain"
	aloneDeposit = "it may be the same transfer as another deposit: crediting all copies would pay each; approve it by itself"
)

func (g *Gateway) depositTask(look *api.TaskLook, d client.DepositEntry) (api.ListedTask, error) {
	ctx := look.R.Context()
	t := decided(look, client.TaskDeposit, d.Seq, depositStates[d.State], d.Taken, d.Decided, d.DecidedBy, d.Reason)
	t.Title = d.Amount.String() + " " + d.Symbol + " for user " + d.TenantUserID
	if d.State == client.DepositTaken { // it never waited
		t.MayNot = "the deposit is not held: it counts already"
		return t, nil
	}
	var first client.DepositEntry
	var err error
	if d.PossibleDuplicate {
		if first, err = g.lists.FirstDeposit(ctx, d.Seq); err != nil && !notThere(err) {
			return t, err
		}
	}
	beside := func(name, value, of string) {
		m := client.TaskMember{Name: name, Value: value}
		if first.Seq != 0 {
			m.Beside = of
		}
		t.Content = append(t.Content, m)
	}
	of := first.Amount.String()
	if first.Seq != 0 && first.Amount.Cmp(d.Amount) == 0 {
		of = d.Amount.String()
	}
	beside("amount", d.Amount.String(), of)
	beside("symbol", d.Symbol, first.Symbol)
	beside("user", d.TenantUserID, first.TenantUserID)
	beside("to", d.ToAddress, first.ToAddress)
	beside("from", d.FromAddress, first.FromAddress)
	beside("chain", d.ChainName, first.ChainName)
	beside("transaction", d.TxID, first.TxID)
	beside("transfer no.", strconv.FormatInt(d.TxIndex, 10), strconv.FormatInt(first.TxIndex, 10))
	beside("trackingId", d.TrackingID, first.TrackingID)
	beside("deposit no.", strconv.FormatInt(d.Seq, 10), strconv.FormatInt(first.Seq, 10))
	switch {
	case d.Suspect:
		t.Why = whySuspect
	case first.Seq == 0:
		t.Why = whyUnknown
	default:
		t.Why = cmp.Or(twoTransfers(d, first), whySame)
	}
	doubted, err := g.lists.Doubted(ctx, d.TrackingID)
	if doubted {
		t.Alone = aloneDeposit
	}
	return t, err
}

// twoTransfers says that a deposit may be another transfer of the first one's transaction. It is empty if nothing
// suggests that.
func twoTransfers(d, first client.DepositEntry) string {
	what := ""
	switch {
	case d.Amount.Cmp(first.Amount) != 0 && d.TenantUserID != first.TenantUserID:
		what = "amount and user"
	case d.Amount.Cmp(first.Amount) != 0:
		what = "amount"
	case d.TenantUserID != first.TenantUserID:
		what = "user"
	default:
		return ""
	}
	return "same transaction and address, another " + what + ": perhaps two transfers; look at the chain"
}

var orderStates = map[client.OrderState]client.TaskState{client.OrderOpen: client.TaskOpen,
	client.OrderHeld: client.TaskOpen, client.OrderApproved: client.TaskDone, client.OrderConfirmed: client.TaskDone,
	client.OrderExecuted: client.TaskDone, client.OrderEnded: client.TaskDone, client.OrderDeclined: client.TaskDeclined,
	client.OrderCancelled: client.TaskStale,
	client.OrderExpired:   client.TaskExpired, client.OrderUnknown: client.TaskStale}

func (g *Gateway) orderTasks() api.TaskKind {
	k := api.TaskKind{
		Kind: client.TaskOrder, Tells: "order", Stops: []string{api.Decline},
		Approve:   "The order is confirmed when the service asks, unless the policy or a limit forbids it.",
		Decline:   "The order is never confirmed, and the service is told so when it asks.",
		Find:      api.FindTask(g.lists.Order, g.orderTask),
		DoApprove: g.approve,
		DoDecline: func(c *api.Call, about, reason string) error {
			_, err := g.book.DeclineOrder(c.R.Context(), about, c.Token.ID, reason, c.Now)
			return err
		},
		Noted: book.AboutOrder, Note: g.book.NoteOrder,
	}
	for _, s := range []client.OrderState{client.OrderHeld, client.OrderApproved, client.OrderConfirmed,
		client.OrderExecuted, client.OrderEnded, client.OrderDeclined, client.OrderCancelled, client.OrderExpired} {
		list := func(ctx context.Context, limit int, before int64) ([]book.Order, int64, error) {
			list, next, err := g.lists.Orders(ctx, client.OrderFilter{State: s}, limit, before)
			return slices.DeleteFunc(list, func(o book.Order) bool { return !personal(o) }), next, err
		}
		k.Sources = append(k.Sources, api.TaskRows(string(s), orderStates[s], list, g.orderTask))
		switch s { // by what has become of approvals and rules since
		case client.OrderHeld:
			k.Sources = append(k.Sources, api.TaskRows("enough", client.TaskDone, list, g.orderTask))
		case client.OrderApproved:
			k.Sources = append(k.Sources, api.TaskRows("lost", client.TaskOpen, list, g.orderTask))
		}
	}
	return k
}

// personal reports whether a person decides or decided on an order.
func personal(o book.Order) bool {
	return o.State == client.OrderHeld || o.State == client.OrderApproved || o.DecidedBy != "" && o.DecidedBy != byPolicy
}

// aboutOrder starts a task about an order.
func aboutOrder(kind client.TaskKind, o book.Order, state client.TaskState) client.Task {
	t := api.NewTask(kind, o.CallBackID, state, o.Created)
	t.Title = o.Amount.String() + " " + o.Symbol + " to " + o.Address
	for _, m := range [][2]string{{"amount", o.Amount.String()}, {"symbol", o.Symbol}, {"to", o.Address},
		{"chain", o.ChainName}, {"user", o.TenantUserID}} {
		api.AddMember(&t, m[0], m[1])
	}
	return t
}

func (g *Gateway) orderTask(look *api.TaskLook, o book.Order) (api.ListedTask, error) {
	ctx := look.R.Context()
	t := api.ListedTask{Task: aboutOrder(client.TaskOrder, o, orderStates[o.State]),
		Place: strconv.FormatInt(o.Seq, 10)}
	t.Due, t.Why = o.ExpiresAt, o.Reason
	votes, err := g.lists.OrderApprovals(ctx, g.lists, o)
	if err != nil {
		return t, err
	}
	t.MayNot = o.WhyNotDecided(look.Now)
	if !o.State.Undecided() {
		t.Decided = api.TimeOf(cmp.Or(o.Confirmed, o.Ended))
		agreed := look.People.Agree(askedOf(g.c.Policy, o, policy.Ruling{}, cmp.Or(o.Confirmed, o.Ended, look.Now)), votes)
		look.Voted(&t.Task, agreed)
		if o.State == client.OrderDeclined && personal(o) {
			look.Vote(&t.Task, o.DecidedBy, o.Reason, o.Ended)
		}
		return t, nil
	}
	if o.Restored {
		t.State, t.MayNot = client.TaskStale, "it is from before a restore: resume it first (task "+
			client.TaskID(client.TaskRestored, o.CallBackID)+")"
		return t, nil
	}
	if slices.Contains(api.Approvers, look.Token.Role) { // also one that is approved
		t.May = append(t.May, api.Decline)
	}
	switch {
	case o.State == client.OrderApproved: // it waits again at once, where its approvals have lost their tokens
		t.Since = db.Never
	case t.MayNot == "":
		t.Since = o.Updated
	}
	ruling, err := g.policyOn(ctx, o, look.Now, nil)
	if err != nil { // a task is shown also while the policy cannot be asked
		t.Unknown = true
		t.MayNot, t.Needs, t.Missing = cmp.Or(t.MayNot, "the policy cannot be asked at the moment"), 1, 1
		return t, nil
	}
	agreed := look.People.Agree(askedOf(g.c.Policy, o, ruling, look.Now), votes)
	if t.MayNot = cmp.Or(t.MayNot, notAsked(o, ruling, look.Now)); agreed.Enough() || ruling.Effect != policy.Ask {
		t.State = client.TaskDone
		look.Voted(&t.Task, agreed)
		return t, nil
	}
	t.State = client.TaskOpen
	look.Ask(&t.Task, agreed)
	t.AtOnce = agreed.TellNow()
	return t, nil
}

func notThere(err error) bool { return errors.Is(err, db.ErrNotFound) || errors.Is(err, db.ErrPurged) }

var addressStates = map[client.AddressState]client.TaskState{client.AddressTaken: client.TaskDone,
	client.AddressHeld: client.TaskOpen, client.AddressAccepted: client.TaskDone,
	client.AddressRejected: client.TaskDeclined}

func (g *Gateway) addressTasks() api.TaskKind {
	return rows[client.AddressState, client.AddressFilter, client.AddressEntry]{
		kind: client.TaskAddress, means: addressStates,
		states: []client.AddressState{client.AddressHeld, client.AddressAccepted, client.AddressRejected},
		filter: func(s client.AddressState) client.AddressFilter { return client.AddressFilter{State: s} },
		list:   g.lists.Addresses, read: g.lists.Address, task: g.addressTask,
		approve:  decision(g.book.DecideAddress, client.AddressAccepted),
		decline:  decision(g.book.DecideAddress, client.AddressRejected),
		approves: "The address is accepted: it counts, and users may be shown it. This cannot be undone.",
		declines: "The address is rejected: it does not count. This cannot be undone.",
	}.tasks()
}

func (g *Gateway) addressTask(look *api.TaskLook, x client.AddressEntry) (api.ListedTask, error) {
	t := decided(look, client.TaskAddress, x.Seq, addressStates[x.State], x.Taken, x.Decided, x.DecidedBy, x.Reason)
	t.Title = x.Address + " for user " + x.TenantUserID
	t.Why = "it replaces another address: deposits to it would be somebody else's if the service was deceived; ask the service by another way"
	t.Content = append(t.Content, client.TaskMember{Name: "address", Value: x.Address, Beside: x.OldAddress})
	for _, m := range [][2]string{{"user", x.TenantUserID}, {"chain", x.ChainName}, {"symbol", x.Symbol}} {
		api.AddMember(&t.Task, m[0], m[1])
	}
	return t, nil
}

var refusedStates = map[client.RefusedState]client.TaskState{client.RefusedOpen: client.TaskOpen,
	client.RefusedTaken: client.TaskDone, client.RefusedDismissed: client.TaskDeclined}

func (g *Gateway) refusedTasks() api.TaskKind {
	return rows[client.RefusedState, client.RefusedFilter, client.RefusedCallback]{
		kind: client.TaskRefused, means: refusedStates, states: client.Values[client.RefusedState](),
		filter: func(s client.RefusedState) client.RefusedFilter { return client.RefusedFilter{State: s} },
		list:   g.lists.RefusedList, read: g.lists.RefusedRow, task: g.refusedTask,
		approve: g.takeRefused, decline: g.dismissRefused,
		approves: "The callback is taken under the present settings, as if it came now. What is refused again stays open.",
		declines: "Nothing is done about the callback.",
	}.tasks()
}

func (g *Gateway) refusedTask(look *api.TaskLook, r client.RefusedCallback) (api.ListedTask, error) {
	t := decided(look, client.TaskRefused, r.ID, refusedStates[r.State], r.First, r.Decided, r.DecidedBy, r.Note)
	t.Title = "refused: " + strings.ReplaceAll(string(r.Reason), "_", " ")
	if r.Type != 0 {
		t.Title = r.Type.Words() + ", " + t.Title
	}
	t.Why = r.Means
	if r.Type == countersign.TypeRequestWithdraw {
		t.MayNot = errQuestion.Reason
	}
	api.AddMember(&t.Task, "id", r.CallbackID)
	api.AddMember(&t.Task, "setting", r.Setting)
	for _, f := range r.Facts {
		api.AddMember(&t.Task, f.Member, f.Text())
	}
	return t, nil
}

func (g *Gateway) restoredTasks() api.TaskKind {
	return api.TaskKind{
		Kind: client.TaskRestored, Stops: []string{api.Approve},
		Approve: "Nothing became of the order after the backup: it is decided as any other.",
		Sources: []api.TaskSource{api.TaskRows("orders", client.TaskOpen, g.lists.RestoredOrders, g.restoredTask)},
		Find:    api.FindTask(g.lists.Order, g.restoredTask),
		DoApprove: func(c *api.Call, about, reason string) error {
			_, err := g.book.ResumeOrder(c.R.Context(), about, c.Token.ID, reason, c.Now)
			return err
		},
		Noted: book.AboutOrder, Note: g.book.NoteOrder,
	}
}

func (g *Gateway) restoredTask(look *api.TaskLook, o book.Order) (api.ListedTask, error) {
	state := client.TaskDone
	if o.Restored {
		state = client.TaskOpen
	}
	t := aboutOrder(client.TaskRestored, o, state)
	t.Why = "it is from before a restore: look in the application too whether anything became of it after the backup"
	if o.Restored {
		look.Ask(&t, look.People.Agree(api.Asked{At: look.Now}, nil))
	}
	return api.ListedTask{Task: t, Place: strconv.FormatInt(o.Seq, 10)}, nil
}
