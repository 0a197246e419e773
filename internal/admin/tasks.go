package admin

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// tasks returns the tasks of the service: everything that waits for persons.
func (s *Server) tasks() api.Tasks {
	return api.Tasks{Lists: s.Lists, Kinds: []api.TaskKind{s.releaseTasks(), s.restoredTasks()},
		Unreconciled: "the service was restored from a backup and is not reconciled: first reconcile (countersign reconcile)"}
}

// looksMost is how many withdrawals one call reads to find those that wait for a person.
const looksMost = 500

// releaseSource lists the withdrawals of a state whose release is a task in the state is. Those that needed no approval
// are none.
func (s *Server) releaseSource(state client.WithdrawalState, is client.TaskState) api.TaskSource {
	return api.TaskSource{Name: string(state) + string(is), State: is, List: func(look *api.TaskLook, f client.TaskFilter,
		cursor string, limit int) (out []api.ListedTask, next string, err error) {
		of := seen(look.Call, f.Merchant)
		limits := map[string]client.AmountLimits{}
		if state == client.WithdrawalConfirmed {
			if limits, err = s.Lists.Limits(look.R.Context()); err != nil || len(limits) == 0 {
				return nil, "", err
			}
		}
		for looked := 0; looked < looksMost && len(out) < limit; looked += limit {
			list, more, err := s.Lists.Withdrawals(look.R.Context(), of, client.WithdrawalFilter{State: state},
				limit-len(out), cursor)
			if err != nil {
				return nil, "", err
			}
			for _, w := range list {
				if state == client.WithdrawalConfirmed && !w.Large(limits[w.Merchant]) {
					continue
				}
				t, err := s.releaseTask(look, w)
				if err != nil {
					return nil, "", err
				}
				if t.State == is && (is == client.TaskOpen || len(t.Votes) > 0) {
					out = append(out, t)
				}
			}
			if cursor = more; more == "" {
				break
			}
		}
		return out, cursor, nil
	}}
}

var releaseStates = map[client.WithdrawalState]client.TaskState{client.WithdrawalConfirmed: client.TaskOpen,
	client.WithdrawalReleased: client.TaskDone, client.WithdrawalExecuted: client.TaskDone,
	client.WithdrawalFailed: client.TaskDone, client.WithdrawalBlocked: client.TaskDeclined,
	client.WithdrawalLapsed: client.TaskExpired}

func (s *Server) releaseTasks() api.TaskKind {
	k := api.TaskKind{
		Kind: client.TaskRelease, Tells: "withdrawal",
		Approve:   "The wallet core can take the permit to execute the withdrawal.",
		Decline:   "The withdrawal is blocked for ever: it is never released.",
		Find:      s.findTask(s.releaseTask),
		DoApprove: s.approveWithdrawal,
		DoDecline: func(c *api.Call, about, reason string) error {
			if reason == "" {
				return api.Invalid(api.At("body.reason", "is missing: say why the withdrawal is blocked"))
			}
			_, err := s.Outbox.BlockWithdrawal(c.R.Context(), about, reason, c.Token.ID, c.Now)
			return err
		},
		Noted: outbox.AboutWithdrawal, Note: s.Outbox.NoteWithdrawal, Deciders: api.Deciders,
	}
	// Those that were approved before their release wait for nobody any more.
	k.Sources = append(k.Sources, s.releaseSource(client.WithdrawalConfirmed, client.TaskOpen),
		s.releaseSource(client.WithdrawalConfirmed, client.TaskDone))
	for _, state := range []client.WithdrawalState{client.WithdrawalReleased, client.WithdrawalExecuted,
		client.WithdrawalFailed, client.WithdrawalBlocked, client.WithdrawalLapsed} {
		k.Sources = append(k.Sources, s.releaseSource(state, releaseStates[state]))
	}
	return k
}

// findTask returns the Find of a kind about withdrawals. A caller who may not see one does not find it.
func (s *Server) findTask(task func(*api.TaskLook, outbox.Withdrawal) (api.ListedTask, error)) func(*api.TaskLook,
	string) (api.ListedTask, error) {
	return func(look *api.TaskLook, about string) (api.ListedTask, error) {
		read := s.Lists.Withdrawal
		merchant, name, byName := strings.Cut(about, "/")
		if byName {
			read = func(ctx context.Context, _ string) (outbox.Withdrawal, error) {
				return s.Lists.WithdrawalByCallBackID(ctx, merchant, name)
			}
		} else {
			merchant, _, _ = strings.Cut(about, ".")
		}
		if !look.Sees(merchant) {
			return api.ListedTask{}, db.ErrNotFound
		}
		return api.FindTask(read, task)(look, about)
	}
}

// releaseTask returns the task of w, which is open if a person must approve w before its release.
func (s *Server) releaseTask(look *api.TaskLook, w outbox.Withdrawal) (api.ListedTask, error) {
	state, decides := releaseStates[w.State]
	if !decides {
		state = client.TaskStale
	}
	t := api.ListedTask{Task: withdrawalTask(client.TaskRelease, w, state), Place: w.ID}
	if w.State != client.WithdrawalConfirmed {
		t.MayNot = "the withdrawal is " + string(w.State)
	}
	a, err := s.Lists.WithdrawalApproval(look.R.Context(), w)
	if errors.Is(err, db.ErrNotFound) { // its merchant was deleted
		return t, nil
	}
	if err != nil {
		return t, err
	}
	if !a.Needed {
		agreed := look.People.Agree(releaseAsked(w, a, cmp.Or(w.Released, w.Ended, look.Now)), a.Approvals)
		look.Voted(&t.Task, agreed)
		if w.State == client.WithdrawalConfirmed { // it needs no approval
			t.State, t.MayNot = client.TaskDone, "it needs no approval"
		}
		if w.State == client.WithdrawalBlocked {
			look.Vote(&t.Task, w.BlockedBy, w.BlockedReason, w.Ended)
		}
		return t, nil
	}
	if w.Restored {
		t.State, t.MayNot = client.TaskStale, "it is from before a restore: resume it first (task "+
			client.TaskID(client.TaskRestored, w.ID)+")"
		return t, nil
	}
	t.Why = "its amount is above the merchant's approveAbove"
	agreed := look.People.Agree(releaseAsked(w, a, look.Now), a.Approvals)
	if agreed.Enough() {
		t.State = client.TaskDone
	}
	look.Ask(&t.Task, agreed)
	t.Since, t.AtOnce = w.Decided, agreed.TellNow()
	if slices.Contains(api.Deciders, look.Token.Role) {
		t.May = append(t.May, api.Decline)
	}
	return t, nil
}

func withdrawalTask(kind client.TaskKind, w outbox.Withdrawal, state client.TaskState) client.Task {
	t := api.NewTask(kind, w.ID, state, w.Created) // by which they are listed
	t.Merchant, t.Decided = w.Merchant, api.TimeOf(cmp.Or(w.Released, w.Ended))
	d := w.Details
	if d == nil {
		d = w.Ordered
	}
	t.Title = "withdrawal " + w.CallBackID
	if d != nil {
		t.Title = d.Amount.String() + " " + d.Symbol + " to " + d.Address
		for _, m := range [][2]string{{"amount", d.Amount.String()}, {"symbol", d.Symbol}, {"to", d.Address},
			{"chain", d.ChainName}} {
			api.AddMember(&t, m[0], m[1])
		}
	}
	api.AddMember(&t, "user", w.TenantUserID)
	api.AddMember(&t, "callBackId", w.CallBackID)
	return t
}

func (s *Server) restoredTasks() api.TaskKind {
	task := func(look *api.TaskLook, w outbox.Withdrawal) (api.ListedTask, error) {
		state := client.TaskDone
		if w.Restored {
			state = client.TaskOpen
		}
		t := withdrawalTask(client.TaskRestored, w, state)
		t.Why = "it is from before a restore: look at the wallet and the chain whether anything became of it after the backup"
		if w.Restored {
			look.Ask(&t, look.People.Agree(api.Asked{At: look.Now,
				Sees: func(t api.Token) bool { return t.Sees(w.Merchant) }}, nil))
		}
		return api.ListedTask{Task: t, Place: w.ID}, nil
	}
	return api.TaskKind{
		Kind: client.TaskRestored, Stops: []string{api.Approve},
		Approve: "Nothing became of the withdrawal after the backup: it is decided and released as any other.",
		Sources: []api.TaskSource{{Name: "withdrawals", State: client.TaskOpen, List: func(look *api.TaskLook,
			f client.TaskFilter, cursor string, limit int) (out []api.ListedTask, next string, err error) {
			list, err := s.Lists.RestoredWithdrawals(look.R.Context())
			list = slices.DeleteFunc(list, func(w outbox.Withdrawal) bool {
				return !look.Sees(w.Merchant) || f.Merchant != "" && f.Merchant != w.Merchant
			})
			slices.SortFunc(list, newest)
			if i := slices.IndexFunc(list, func(w outbox.Withdrawal) bool { return w.ID == cursor }); i >= 0 {
				list = list[i+1:]
			}
			for _, w := range list[:min(limit, len(list))] {
				t, _ := task(look, w)
				out = append(out, t)
			}
			if len(list) > limit {
				next = list[limit-1].ID
			}
			return out, next, err
		}}},
		Find: s.findTask(task),
		DoApprove: func(c *api.Call, about, reason string) error {
			if reason == "" {
				return api.Invalid(api.At("body.reason", "is missing: say how you know that nothing became of it"))
			}
			return s.Outbox.ResumeWithdrawal(c.R.Context(), about, reason, false, c.Now)
		},
		Noted: outbox.AboutWithdrawal, Note: s.Outbox.NoteWithdrawal, Deciders: api.Deciders,
	}
}

func newest(a, b outbox.Withdrawal) int {
	return cmp.Or(cmp.Compare(b.Created, a.Created), cmp.Compare(b.ID, a.ID))
}

func (s *Server) approveWithdrawal(c *api.Call, id, reason string) error {
	v := c.Vote(reason)
	return s.Outbox.ApproveWithdrawal(c.R.Context(), id, v, func(ctx context.Context, q db.Querier, w outbox.Withdrawal,
		a outbox.Approval) (bool, error) {
		people, err := api.ReadPeople(ctx, q)
		if err != nil {
			return false, err
		}
		keep, _, err := people.Vote(releaseAsked(w, a, c.Now), a.Approvals, v)
		return keep, err
	})
}
