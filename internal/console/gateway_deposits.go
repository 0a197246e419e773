package console

import (
	"context"
	"errors"
	"html/template"
	"slices"
	"strconv"

	"countersign"
	"countersign/client"
)

// depositsSection has the deposits that the gateway took.
var depositsSection = section{
	nav: navItem{"/console/deposits", "Deposits", "deposits"},
	pages: []page{
		{"GET /console/deposits", (*visit).deposits},
		{"GET /console/deposits/credit", (*visit).depositsAll},
		{"POST /console/deposits/credit", (*visit).depositsAllDone},
		{"GET /console/deposits/reject", (*visit).depositsAll},
		{"POST /console/deposits/reject", (*visit).depositsAllDone},
		{"GET /console/deposits/{seq}", (*visit).deposit},
		{"POST /console/deposits/{seq}/credit", (*visit).depositCredit},
		{"POST /console/deposits/{seq}/reject", (*visit).depositReject},
		{"POST /console/deposits/{seq}/notes", (*visit).depositNote},
	},
	deeds: map[string]string{
		"credited":   "Credited: the deposit counts, and the application is told.",
		"rejected":   "Rejected: the deposit does not count.",
		"credit-all": "Credited: all that matched count, and the application is told.",
		"reject-all": "Rejected: none that matched counts.",
	},
}

// depositsPage is the search of deposits.
type depositsPage struct {
	Filter   client.DepositSearch
	Span     listSpan
	More     bool // the search has values in the fields that are folded
	States   []client.DepositState
	Deposits []client.DepositEntry
	Next     string // the address of the next page
	Partial  bool   // the page ended before it was full

	Query   template.URL // the filter as a query, for deciding on all that match
	Stopped bool         // nothing is decided until a restore is reconciled
}

func (v *visit) deposits() error {
	at := v.spanOf(v.r.URL.Query())
	page := depositsPage{States: client.DepositState("").Values(), Span: at, Filter: client.DepositSearch{
		TrackingID: v.query("trackingId"), TxID: v.query("txId"), TenantUserID: v.query("tenantUserId"), State: client.DepositState(v.query("state")),
		Address: v.query("address"), Since: at.since, Until: at.until}}
	page.More = page.Filter.Address != "" || at != listSpan{}
	if at.Wrong != "" {
		return v.renderWrong(at, "deposits", "Deposits", page)
	}
	list, done, err := readList(v, func(o client.PageOptions) (client.DepositsPage, error) {
		return v.gateway.SearchDeposits(v.r.Context(), page.Filter, o)
	})
	if err != nil || done {
		return err
	}
	page.Deposits = list.Deposits
	_, kept, err := v.heldFilter(v.r.URL.Query())
	if err != nil {
		return err
	}
	page.Query = template.URL(kept.Encode())
	if page.Filter.State == client.DepositHeld {
		if page.Stopped, err = v.unreconciled(); err != nil {
			return err
		}
	}
	page.Next, page.Partial = v.nextPage(list.Next, len(list.Deposits), at, "trackingId", "txId", "tenantUserId", "address", "state")
	return v.render("deposits", "Deposits", page)
}

// depositPage is one deposit, beside the first of its transfer if it may be a duplicate.
type depositPage struct {
	Stopped bool // nothing is decided until a restore is reconciled
	client.DepositEntry
	First     *client.DepositEntry
	Members   []pairOfMembers
	Callbacks []inboxRow
	Noted     []client.Note
	Names     map[string]string // of tokens
	Values    map[string]string
}

// pairOfMembers is one member of two deposits.
type pairOfMembers struct {
	Name        string
	This, First string
	Differs     bool
}

// inboxRow is a callback of the inbox, with its errCode once it is settled.
type inboxRow struct {
	client.InboxEntry
	Code int64
}

// inboxRows gives the oldest first.
func inboxRows(list []client.InboxEntry) (rows []inboxRow) {
	for _, e := range slices.Backward(list) {
		row := inboxRow{InboxEntry: e}
		if e.ErrCode != nil {
			row.Code = *e.ErrCode
		}
		rows = append(rows, row)
	}
	return rows
}

// compareDeposits puts two deposits side by side.
func compareDeposits(this, first client.DepositEntry) []pairOfMembers {
	var list []pairOfMembers
	add := func(name, a, b string) {
		list = append(list, pairOfMembers{Name: name, This: a, First: b, Differs: a != b})
	}
	add("trackingId", this.TrackingID, first.TrackingID)
	add("Amount", this.Amount.String(), first.Amount.String())
	list[1].Differs = this.Amount.Cmp(first.Amount) != 0
	add("Symbol", this.Symbol, first.Symbol)
	add("Chain", this.ChainName, first.ChainName)
	add("User", this.TenantUserID, first.TenantUserID)
	add("To", this.ToAddress, first.ToAddress)
	add("From", this.FromAddress, first.FromAddress)
	add("Transaction", this.TxID, first.TxID)
	add("Transfer no.", strconv.FormatInt(this.TxIndex, 10), strconv.FormatInt(first.TxIndex, 10))
	add("Business", strconv.FormatInt(this.Business, 10), strconv.FormatInt(first.Business, 10))
	return list
}

// seq reads the number in the path; 0 is none.
func (v *visit) seq() int64 {
	n, _ := strconv.ParseInt(v.r.PathValue("seq"), 10, 64)
	return n
}

func (v *visit) deposit() error {
	ctx := v.r.Context()
	d, err := v.gateway.Deposit(ctx, v.seq())
	if err != nil {
		return err
	}
	page := depositPage{DepositEntry: d, Values: v.values(nil)}
	if page.Names, err = v.names(); err != nil {
		return err
	}
	if v.may("depositNotes") {
		notes, err := v.gateway.DepositNotes(ctx, d.Seq)
		if err != nil {
			return err
		}
		page.Noted = notes.Notes
	}
	if d.PossibleDuplicate {
		first, err := v.gateway.FirstDeposit(ctx, d.Seq)
		switch {
		case err == nil:
			page.First, page.Members = &first, compareDeposits(d, first)
		case !errors.Is(err, client.ErrNotFound):
			return err
		}
	}
	if d.State == client.DepositHeld {
		if page.Stopped, err = v.unreconciled(); err != nil {
			return err
		}
	}
	if v.may("callbacks") {
		found, err := v.gateway.Callbacks(ctx, client.InboxFilter{Type: countersign.TypeDeposited, ID: d.TrackingID}, client.PageOptions{Limit: pageSize})
		if err != nil {
			return err
		}
		page.Callbacks = inboxRows(found.Callbacks)
	}
	return v.render("deposit", "Deposit "+d.TrackingID, page)
}

func (v *visit) depositCredit() error {
	return decideOn(v, "deposits", func(ctx context.Context, seq int64, reason string) (client.DepositEntry, error) {
		return v.gateway.CreditDeposit(ctx, seq, reason)
	}, "credited")
}

func (v *visit) depositReject() error {
	return decideOn(v, "deposits", v.gateway.RejectDeposit, "rejected")
}

// decideOn does what the form of one row of a list asks for.
func decideOn[Row any](v *visit, list string, act func(ctx context.Context, seq int64, reason string) (Row, error), did string) error {
	if _, err := act(v.r.Context(), v.seq(), v.form("reason")); err != nil {
		return err
	}
	return v.done("/console/"+list+"/"+strconv.FormatInt(v.seq(), 10), did)
}
