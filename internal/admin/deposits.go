package admin

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

func (s *Server) depositsHandler() api.Handler {
	h := api.Handle(s.addDeposits)
	h.Lines, h.LineIn, h.LineOut = s.addDepositLines, reflect.TypeFor[client.NewDeposit](), reflect.TypeFor[client.AcceptedLine]()
	return h
}

// addDeposits accepts one deposit or an array, all or nothing.
func (s *Server) addDeposits(c *api.Call, _ api.None, in depositsBody) (client.AcceptedDeposits, error) {
	place := func(i int) string {
		if in.array {
			return fmt.Sprintf("body[%d]", i)
		}
		return "body"
	}
	batch := make([]outbox.NewCallback, len(in.list))
	var faults api.Faults
	for i := range in.list {
		c.Concerns(in.list[i].Merchant)
		var err error
		if batch[i], err = callbackOf(&in.list[i], c.Now); err != nil {
			faults = append(faults, memberFault(place(i), err))
		}
		if !c.Sees(in.list[i].Merchant) {
			faults.Add(place(i)+".merchant", notKnown)
		}
		if len(faults) == api.MaxFaults {
			break
		}
	}
	if err := faults.Err(); err != nil {
		return client.AcceptedDeposits{}, err
	}
	kept, err := s.Outbox.IngestWithin(c.R.Context(), batch, quotaOf(c), c.Now)
	if err != nil {
		if at, p := itemProblem(err, place); at >= 0 {
			return client.AcceptedDeposits{}, p
		}
		return client.AcceptedDeposits{}, err
	}
	c.Items = len(kept)
	out := client.AcceptedDeposits{Callbacks: make([]client.Accepted, len(kept))}
	for i, k := range kept {
		out.Callbacks[i] = acceptedOf(k)
		c.Trace(time.Time{}, api.Traced{Merchant: in.list[i].Merchant, TrackingID: k.TrackingID, First: !k.Duplicate})
	}
	return out, nil
}

func quotaOf(c *api.Call) outbox.Quota {
	return outbox.Quota{Token: c.Token.ID, Hourly: c.Token.Hourly}
}

// notKnown is the fault of a merchant that there is not, for the call's token.
const notKnown = "is not known"

func acceptedOf(k outbox.Ingested) client.Accepted {
	return client.Accepted{ID: k.ID, TrackingID: k.TrackingID, State: k.State, Duplicate: k.Duplicate}
}

// callbackOf makes the callback that tells the merchant of d. The payload is
// canonical and not bound yet: each attempt binds it to its own requestUUID.
func callbackOf(d *client.NewDeposit, now db.Millis) (outbox.NewCallback, error) {
	newAddress := d.ToAddress
	if d.NewAddress != nil {
		newAddress = *d.NewAddress
	}
	payload, err := (&countersign.Deposit{
		Head: countersign.Head{RequestUUID: countersign.UnboundUUID, TrackingID: d.TrackingID, TenantUserID: d.TenantUserID, Business: d.Business},
		TxID: d.TxID, ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount,
		FromAddress: d.FromAddress, ToAddress: d.ToAddress,
		RiskLevelFrom: d.RiskLevelFrom, RiskLevelTo: d.RiskLevelTo, TxIndex: d.TxIndex,
		NewAddress: newAddress,
	}).Marshal()
	if err != nil {
		return outbox.NewCallback{}, err
	}
	return outbox.NewCallback{
		Merchant: d.Merchant, Type: countersign.TypeDeposited, EventID: d.TrackingID,
		TrackingID: d.TrackingID, TxID: d.TxID, TenantUserID: d.TenantUserID, Address: d.ToAddress, Payload: payload, Due: now, Deadline: db.Never,
	}, nil
}

// memberFault names the member of the item at place that the protocol refuses.
func memberFault(place string, err error) client.Fault {
	var m *countersign.MemberError
	if errors.As(err, &m) {
		return api.At(place+"."+m.Member, m.Problem)
	}
	return api.At(place, err.Error())
}

// itemProblem finds the item that an error of Ingest is about; -1 if the error is
// about no item.
func itemProblem(err error, place func(int) string) (int, *client.Problem) {
	var conflict *db.ConflictError
	if errors.As(err, &conflict) {
		p := api.NewProblem(http.StatusConflict, conflict.Error())
		at := place(conflict.Item)
		if conflict.Member != "" {
			at += "." + conflict.Member
		}
		p.Faults = []client.Fault{api.At(at, conflict.Reason)}
		return conflict.Item, p
	}
	var item *db.ItemError
	if !errors.As(err, &item) {
		return -1, nil
	}
	at := place(item.Item)
	switch {
	case errors.Is(err, outbox.ErrMerchantDeleted):
		return item.Item, api.Invalid(api.At(at+".merchant", deleted))
	case errors.Is(err, db.ErrNotFound):
		return item.Item, api.Invalid(api.At(at+".merchant", notKnown))
	case errors.Is(err, db.ErrInvalid) && item.Member != "":
		return item.Item, api.Invalid(api.At(at+"."+item.Member, "cannot be stored"))
	case errors.Is(err, db.ErrInvalid):
		return item.Item, api.Invalid(api.At(at, "cannot be stored"))
	}
	return -1, nil
}

type toldQuery struct {
	client.DepositFilter
	api.Page
}

func (s *Server) toldDeposits(c *api.Call, q toldQuery, _ api.None) (client.ToldDeposits, error) {
	out := client.ToldDeposits{Deposits: []client.ToldDeposit{}}
	list, next, err := s.Lists.ToldDeposits(c.R.Context(), seen(c, q.Merchant), q.Cursor, q.Limit)
	for _, d := range list {
		out.Deposits = append(out.Deposits, client.ToldDeposit{ID: d.ID, Merchant: d.Merchant, TrackingID: d.TrackingID,
			Symbol: d.Symbol, Amount: d.Amount, State: d.State, Told: toldOf(d.Told)})
	}
	out.Next = nextOf(next)
	return out, cursorFault(err, q.Page)
}
