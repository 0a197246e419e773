package admin

import (
	"net/http"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/outbox"
)

// A request about several withdrawals is one transaction. Each withdrawal has its own result: a core's withdrawals are
// independent of each other, so a refused one must not hold up the others.

// batchOf returns the withdrawals that a request names by their merchants and callBackIds. It returns the zero one for
// one that does not exist for the call's token. A withdrawal that is named twice is a fault: which one counts would be
// chance.
func (s *Server) batchOf(c *api.Call, n int, name func(int) outbox.CallBack) ([]outbox.Withdrawal, error) {
	names, first := make([]outbox.CallBack, n), make(map[outbox.CallBack]bool, n)
	var faults api.Faults
	for i := range n {
		names[i] = name(i)
		c.Concerns(names[i].Merchant)
		if first[names[i]] && len(faults) < api.MaxFaults {
			faults.Add(place(i)+".callBackId", "names a withdrawal that an earlier item of the request names")
		}
		first[names[i]] = true
	}
	if len(faults) > 0 {
		return nil, faults.Err()
	}
	list, err := s.Outbox.WithdrawalsCalled(c.R.Context(), names)
	for i := range list {
		if !c.Sees(names[i].Merchant) {
			list[i] = outbox.Withdrawal{}
		}
	}
	return list, err
}

// itemError is problemAt for an item that failed while others did not. The log has why this end failed.
func (s *Server) itemError(c *api.Call, err error, place string) *client.Problem {
	p := problemAt(c, err, place)
	if p.Status == http.StatusInternalServerError {
		s.Log.Error("request failed", "token", c.Token.ID, "route", c.Endpoint().Pattern(), "error", err.Error())
	}
	return p
}

// releaseWithdrawals returns the permits of an array of claims.
func (s *Server) releaseWithdrawals(c *api.Call, _ api.None,
	in batch[client.WithdrawalClaim]) (client.List[client.Release], error) {
	list, err := s.batchOf(c, len(in), func(i int) outbox.CallBack {
		return outbox.CallBack{Merchant: in[i].Merchant, ID: in[i].CallBackID}
	})
	if err != nil {
		return client.List[client.Release]{}, err
	}
	asked := make([]outbox.ReleaseRequest, len(list))
	for i, w := range list {
		asked[i] = releaseOf(c, w.ID, in[i].Claim)
	}
	done, err := s.Outbox.ReleaseMany(c.R.Context(), asked, approvedFor(c.Token, c.Now), c.Now)
	if err != nil {
		return client.List[client.Release]{}, err
	}
	out := client.List[client.Release]{Items: make([]client.Release, len(done))}
	for i, r := range done {
		p, err := s.permitOf(c, r)
		if err != nil {
			out.Items[i].Error = s.itemError(c, err, place(i))
			continue
		}
		c.Items++
		out.Items[i].Issued = &p
	}
	return out, nil
}

// reportOutcomes records an array of outcomes.
func (s *Server) reportOutcomes(c *api.Call, _ api.None,
	in batch[client.WithdrawalOutcome]) (client.List[client.ReportedOutcome], error) {
	var faults api.Faults
	for i := range in {
		if faults = append(faults, outcomeFaults(in[i].Outcome, place(i))...); len(faults) >= api.MaxFaults {
			break
		}
	}
	if len(faults) > 0 {
		return client.List[client.ReportedOutcome]{}, faults.Err()
	}
	list, err := s.batchOf(c, len(in), func(i int) outbox.CallBack {
		return outbox.CallBack{Merchant: in[i].Merchant, ID: in[i].CallBackID}
	})
	if err != nil {
		return client.List[client.ReportedOutcome]{}, err
	}
	done, errs, err := s.recordOutcomes(c, list, func(i int) client.Outcome { return in[i].Outcome })
	if err != nil {
		return client.List[client.ReportedOutcome]{}, err
	}
	out := client.List[client.ReportedOutcome]{Items: make([]client.ReportedOutcome, len(list))}
	for i := range list {
		if errs[i] != nil {
			out.Items[i].Error = s.itemError(c, errs[i], place(i))
			continue
		}
		c.Items++
		out.Items[i].Ended = &done[i]
	}
	return out, nil
}
