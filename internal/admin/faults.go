package admin

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// problemOf returns the answer to a call that exceeds a token's limit.
func problemOf(err error) *client.Problem {
	over := (*outbox.QuotaError)(nil)
	if !errors.As(err, &over) {
		return nil
	}
	p := api.NewProblem(http.StatusTooManyRequests, over.Error()+"; send fewer, or go on then",
		api.At("body", "has more new deposits than are left"))
	p.RetryAfter = time.Duration(over.Until-over.Now) * time.Millisecond
	return p
}

// notKnown is the fault of a merchant that does not exist for the call's token.
const notKnown = "is not known"

// memberFault names the member of the item at place that the protocol refuses.
func memberFault(place string, err error) client.Fault {
	var m *countersign.MemberError
	if errors.As(err, &m) {
		return api.At(place+"."+m.Member, m.Problem)
	}
	return api.At(place, err.Error())
}

// itemProblem returns the error of the outbox with the item that it is about. It returns any other error unchanged.
func itemProblem(c *api.Call, err error) error {
	var conflict *db.ConflictError
	var item *db.ItemError
	switch {
	case errors.As(err, &conflict):
		return problemAt(c, err, place(conflict.Item))
	case !errors.As(err, &item):
		return err
	case errors.Is(err, db.ErrNotFound):
		return api.Invalid(api.At(place(item.Item)+".merchant", notKnown))
	}
	return problemAt(c, err, place(item.Item))
}

// problemAt returns the problem of one item of a request, with its place in the names of the faults.
func problemAt(c *api.Call, err error, place string) *client.Problem {
	p := *c.Endpoint().ProblemOf(err) // a copy: some problems are shared
	p.Faults = slices.Clone(p.Faults)
	for i, f := range p.Faults {
		p.Faults[i].Location = place + strings.TrimPrefix(f.Location, "body")
	}
	return &p
}
