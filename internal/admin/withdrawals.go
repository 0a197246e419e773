package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// createWithdrawal accepts withdrawals, all or nothing.
func (s *Server) createWithdrawal(c *api.Call, _ api.None,
	in batch[client.NewWithdrawal]) (client.List[client.AcceptedWithdrawal], error) {
	list := make([]outbox.NewWithdrawal, len(in))
	var faults api.Faults
	for i := range in {
		c.Concerns(in[i].Merchant)
		var wrong api.Faults
		if list[i], wrong = withdrawalFrom(&in[i], place(i)); !c.Sees(in[i].Merchant) {
			wrong.Add(place(i)+".merchant", notKnown)
		}
		if faults = append(faults, wrong...); len(faults) >= api.MaxFaults {
			break
		}
	}
	if err := faults.Err(); err != nil {
		return client.List[client.AcceptedWithdrawal]{}, err
	}
	made, err := s.createAll(c, list)
	if err != nil {
		return client.List[client.AcceptedWithdrawal]{}, itemProblem(c, err)
	}
	c.Items = len(made)
	out := client.List[client.AcceptedWithdrawal]{}
	for _, m := range made {
		c.Trace(m.Withdrawal.CallBackID, m.Withdrawal.TrackingID)
		out.Items = append(out.Items, client.AcceptedWithdrawal{Withdrawal: withdrawalOf(c, m.Withdrawal),
			Duplicate: m.Duplicate})
	}
	return out, nil
}

// createAll sets the deadlines of withdrawals, counted from now, and keeps them; see withdrawalFrom.
func (s *Server) createAll(c *api.Call, batch []outbox.NewWithdrawal) ([]outbox.Recorded, error) {
	within := map[string]db.Millis{}
	for _, n := range batch {
		within[n.Merchant] = 0
	}
	list, err := s.Outbox.Merchants(c.R.Context(), slices.Collect(maps.Keys(within)), "", len(within))
	if err != nil {
		return nil, err
	}
	for _, m := range list {
		within[m.ID] = db.Millis(time.Duration(m.ConfirmWithin).Milliseconds())
	}
	for i, n := range batch {
		batch[i].Deadline = c.Now + cmp.Or(n.Deadline, within[n.Merchant]) // an unknown merchant is refused below
	}
	return s.Outbox.CreateWithdrawals(c.R.Context(), batch, c.Now)
}

// withdrawalFrom returns the outbox's withdrawal of in. Its deadline is still a time after its arrival, or zero if the
// merchant's setting is to apply.
func withdrawalFrom(in *client.NewWithdrawal, place string) (outbox.NewWithdrawal, api.Faults) {
	trackingID := cmp.Or(in.TrackingID, in.CallBackID)
	payload, err := (&countersign.WithdrawalRequest{
		Head: countersign.Head{RequestUUID: countersign.UnboundUUID, TrackingID: trackingID,
			TenantUserID: in.TenantUserID, Business: in.Business},
		CallBackID: in.CallBackID,
	}).Marshal()
	var faults api.Faults
	if err != nil {
		faults = append(faults, memberFault(place, err))
	}
	if in.Details != nil {
		if err := in.Details.Validate(); err != nil {
			faults = append(faults, memberFault(place+".details", err))
		}
	}
	return outbox.NewWithdrawal{
		Merchant: in.Merchant, CallBackID: in.CallBackID, TenantUserID: in.TenantUserID,
		TrackingID: trackingID, Business: in.Business, Details: in.Details,
		Deadline: db.Millis(time.Duration(in.ConfirmWithin).Milliseconds()), Payload: payload,
	}, faults
}

func (s *Server) withdrawal(c *api.Call, id string, _ api.None) (client.Withdrawal, error) {
	w, err := s.Lists.Withdrawal(c.R.Context(), id)
	return withdrawalOf(c, w), err
}

func (s *Server) withdrawals(c *api.Call, f client.WithdrawalFilter, limit int,
	cursor string) (shown []client.Withdrawal, next string, err error) {
	list, next, err := s.Lists.Withdrawals(c.R.Context(), seen(c, f.Merchant), f, limit, cursor)
	for _, w := range list {
		shown = append(shown, withdrawalOf(c, w))
	}
	return shown, next, err
}

// seen returns the merchants of a list that a filter selects, for the call's token. The empty text means all.
func seen(c *api.Call, merchant string) []string {
	switch {
	case merchant != "" && !c.Sees(merchant):
		return []string{}
	case merchant == "" && c.Token.Merchants != "":
		return c.Token.BoundTo()
	}
	return []string{merchant}
}

func (s *Server) cancelWithdrawal(c *api.Call, id string, _ api.None) (client.Withdrawal, error) {
	w, err := s.Outbox.CancelWithdrawal(c.R.Context(), id, c.Now)
	return withdrawalOf(c, w), err
}

func (s *Server) releaseWithdrawal(c *api.Call, id string, in client.Claim) (client.Permit, error) {
	// The outbox keeps the permit of the first release and returns it to the same holder again; the new one is then not
	// used.
	done, err := s.Outbox.ReleaseMany(c.R.Context(), []outbox.ReleaseRequest{releaseOf(c, id, in)},
		approvedFor(c.Token, c.Now), c.Now)
	if err != nil {
		return client.Permit{}, err
	}
	return s.permitOf(c, done[0])
}

// releaseOf returns a claim in the outbox's form.
func releaseOf(c *api.Call, id string, in client.Claim) outbox.ReleaseRequest {
	return outbox.ReleaseRequest{ID: id, Holder: outbox.Holder{Claim: in.Holder, Origin: c.Token.Root},
		Permit: "cpt_" + api.RandomText(24)}
}

// permitOf returns the result of one claim in the form that the caller gets.
func (s *Server) permitOf(c *api.Call, r outbox.Released) (client.Permit, error) {
	p, err := r.Issued, r.Err
	if err != nil {
		return client.Permit{}, err
	}
	if p.Withdrawal.Details == nil {
		return client.Permit{}, fmt.Errorf("withdrawal %s was released without details", p.Withdrawal.ID)
	}
	w := p.Withdrawal // its note is of PROTOCOL.md, Permits
	note, err := s.Audit.SignPermit(client.PermitNote{Merchant: w.Merchant, CallBackID: w.CallBackID, Withdrawal: w.ID,
		Details: *w.Details, Claim: w.Holder, Epoch: p.Epoch, Time: api.TimeOf(c.Now), Duplicate: p.Duplicate})
	if err != nil {
		return client.Permit{}, err
	}
	c.Trace(w.CallBackID, w.TrackingID)
	return client.Permit{Note: note, Answer: p.Answer, Permit: client.Secret(p.Permit), Details: *w.Details,
		Withdrawal: withdrawalOf(c, w), Duplicate: p.Duplicate}, nil
}

func (s *Server) reportOutcome(c *api.Call, id string, in client.Outcome) (client.AcceptedWithdrawal, error) {
	if faults := outcomeFaults(in, "body"); len(faults) > 0 {
		return client.AcceptedWithdrawal{}, faults.Err()
	}
	w, err := s.Outbox.Withdrawal(c.R.Context(), id)
	if err != nil {
		return client.AcceptedWithdrawal{}, err
	}
	done, errs, err := s.recordOutcomes(c, []outbox.Withdrawal{w}, func(int) client.Outcome { return in })
	return done[0], cmp.Or(err, errs[0])
}

// recordOutcomes records the outcomes of withdrawals in one transaction. Each has its own result or error; the zero
// withdrawal is one that does not exist.
func (s *Server) recordOutcomes(c *api.Call, list []outbox.Withdrawal,
	in func(int) client.Outcome) ([]client.AcceptedWithdrawal, []error, error) {
	out, errs := make([]client.AcceptedWithdrawal, len(list)), make([]error, len(list))
	var ends []outbox.Outcome
	var at []int // the place of each in list
	for i, w := range list {
		o, err := outcomeOf(w, in(i), c.Now)
		if errs[i] = err; err == nil {
			ends, at = append(ends, o), append(at, i)
		}
	}
	done, err := s.Outbox.RecordOutcomes(c.R.Context(), ends, c.Now)
	for n, r := range done {
		if errs[at[n]] = r.Err; r.Err != nil {
			continue
		}
		c.Trace(r.Withdrawal.CallBackID, r.Withdrawal.TrackingID)
		out[at[n]] = client.AcceptedWithdrawal{Withdrawal: withdrawalOf(c, r.Withdrawal), Duplicate: r.Duplicate}
	}
	return out, errs, err
}

// outcomeFaults returns what is wrong with the outcome at place and no schema can find.
func outcomeFaults(in client.Outcome, place string) (faults api.Faults) {
	switch {
	case in.Executed == nil && in.Failed == nil:
		faults.Add(place+".executed", "is missing: give executed or failed")
	case in.Executed != nil && in.Failed != nil:
		faults.Add(place+".failed", "is given beside executed: give one of them")
	}
	return faults
}

// outcomeOf returns the outbox's form of an outcome. Its callback is queued in the same transaction. The callback's
// event id is the callBackId, which is unique at the merchant.
func outcomeOf(w outbox.Withdrawal, in client.Outcome, now db.Millis) (outbox.Outcome, error) {
	if w.ID == "" {
		return outbox.Outcome{}, db.ErrNotFound
	}
	if w.Released == 0 || w.Details == nil {
		return outbox.Outcome{}, api.NewProblem(http.StatusConflict,
			fmt.Sprintf("the withdrawal is %s: only a released one has an outcome", w.State))
	}
	o := outbox.Outcome{ID: w.ID, Permit: in.Permit.Reveal()}
	var message countersign.Callback
	if in.Executed != nil {
		o.TxID = in.Executed.TxID
		message = &countersign.WithdrawalDone{
			Head: headOf(w), CallBackID: w.CallBackID, TxID: o.TxID, ChainName: w.Details.ChainName, Symbol: w.Details.Symbol,
			Amount: w.Details.Amount, ToAddress: w.Details.Address, FromAddress: in.Executed.FromAddress,
		}
	} else {
		o.FailReason = in.Failed.Reason
		message = &countersign.WithdrawalEnded{Head: headOf(w), CallBackID: w.CallBackID, ToAddress: w.Details.Address}
	}
	payload, err := message.Marshal()
	if err != nil {
		return o, api.Invalid(memberFault("body.executed", err))
	}
	o.Callback = outbox.NewCallback{
		Merchant: w.Merchant, Type: message.CallbackType(), TrackingID: w.TrackingID,
		TxID: o.TxID, CallBackID: w.CallBackID, Payload: payload, Due: now, Deadline: db.Never,
	}
	return o, nil
}

// headOf returns the head of the notices about w.
func headOf(w outbox.Withdrawal) countersign.Head {
	return countersign.Head{
		RequestUUID: countersign.UnboundUUID, TrackingID: w.TrackingID, TenantUserID: w.TenantUserID, Business: w.Business,
	}
}

// reportWaiting queues one more callback with each call. Repeated requests need no id: the merchant takes the first
// callback of each type and answers the others as repetitions (PROTOCOL.md, Deposit identity).
func (s *Server) reportWaiting(c *api.Call, id string, in client.Waiting) (client.AcceptedWaiting, error) {
	w, err := s.Outbox.Withdrawal(c.R.Context(), id)
	if err != nil {
		return client.AcceptedWaiting{}, err
	}
	message := &countersign.WithdrawalNotice{Type: in.For.Type(), Head: headOf(w), CallBackID: w.CallBackID}
	payload, err := message.Marshal() // refuses any other type
	if err != nil {
		return client.AcceptedWaiting{}, err
	}
	w, notice, err := s.Outbox.RecordWaiting(c.R.Context(), id, outbox.NewCallback{
		Merchant: w.Merchant, Type: message.Type, TrackingID: w.TrackingID, Payload: payload, Due: c.Now, Deadline: db.Never,
	}, c.Now)
	if err != nil {
		return client.AcceptedWaiting{}, err
	}
	c.Trace(w.CallBackID, w.TrackingID)
	return client.AcceptedWaiting{Withdrawal: withdrawalOf(c, w), Notice: notice}, nil
}

// withdrawalOf returns w as the call's token may see it. Only the origin that released it sees the claim, and only if
// it may release: with the claim the permit can be had again.
func withdrawalOf(c *api.Call, w outbox.Withdrawal) client.Withdrawal {
	if !slices.Contains(api.Cores, c.Token.Role) || c.Token.Root != w.Origin {
		w.Holder = ""
	}
	w.ReleaseBy = db.Shown(w.ReleaseBy)
	return w.Withdrawal
}

func (s *Server) frozen(c *api.Call, _ api.None, _ api.None) (client.Freeze, error) {
	return s.Lists.Frozen(c.R.Context())
}

func (s *Server) freeze(c *api.Call, _ api.None, in client.NewFreeze) (client.Freeze, error) {
	return s.Outbox.Freeze(c.R.Context(), in.Reason, c.Token.ID, c.Now)
}

func (s *Server) thaw(c *api.Call, _ api.None, _ api.None) (client.Freeze, error) {
	return client.Freeze{}, s.Outbox.Thaw(c.R.Context(), c.Now)
}

func (s *Server) blockWithdrawal(c *api.Call, id string, in client.Block) (client.Withdrawal, error) {
	w, err := s.Outbox.BlockWithdrawal(c.R.Context(), id, in.Reason, c.Token.ID, c.Now)
	return withdrawalOf(c, w), err
}

// neededApprovals is how many persons of the provider must approve a large withdrawal. Together with the token that
// takes its permit, which must have another origin, they are two.
const neededApprovals = 1

// releaseAsked returns what people must agree to before a large withdrawal is released. Whoever added it asked for it,
// and so did by, who ask for its permit.
func releaseAsked(w outbox.Withdrawal, a outbox.Approval, at db.Millis, by ...string) api.Asked {
	return api.Asked{Needed: neededApprovals, By: append(by, a.By), At: at,
		Sees: func(t api.Token) bool { return t.Sees(w.Merchant) }, Otherwise: ", or block it (api blockWithdrawal)"}
}

// approvedFor returns the judge of the approvals of a withdrawal whose permit t asks for, by the tokens as they are
// now.
func approvedFor(t api.Token, now db.Millis) outbox.Judge {
	return func(ctx context.Context, q db.Querier, w outbox.Withdrawal, a outbox.Approval) (string, error) {
		people, err := api.ReadPeople(ctx, q)
		if err != nil {
			return "", err
		}
		agreed := people.Agree(releaseAsked(w, a, now), a.Approvals)
		if !agreed.Enough() {
			return cmp.Or(agreed.Nobody(), agreed.Short()), nil
		}
		if agreed = people.Agree(releaseAsked(w, a, now, t.ID), a.Approvals); !agreed.Enough() {
			return "who approved it may hold the token that asks for the permit; the token that added it gets one", nil
		}
		return "", nil
	}
}
