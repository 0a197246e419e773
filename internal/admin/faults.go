package admin

import (
	"errors"
	"net/http"
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
func itemProblem(err error, place func(int) string) error {
	var conflict *db.ConflictError
	if errors.As(err, &conflict) {
		p := api.NewProblem(http.StatusConflict, conflict.Error())
		at := place(conflict.Item)
		if conflict.Member != "" {
			at += "." + conflict.Member
		}
		p.Faults = []client.Fault{api.At(at, conflict.Reason)}
		return p
	}
	var item *db.ItemError
	if !errors.As(err, &item) {
		return err
	}
	at := place(item.Item)
	switch {
	case errors.Is(err, db.ErrNotFound):
		return api.Invalid(api.At(at+".merchant", notKnown))
	case !errors.Is(err, db.ErrInvalid):
		return err
	case item.Member != "":
		at += "." + item.Member
	}
	return api.Invalid(api.At(at, "cannot be stored"))
}
