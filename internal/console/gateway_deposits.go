package console

import (
	"html/template"
	"net/url"
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
		{"GET /console/deposits/{seq}", (*visit).deposit},
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

	Held template.URL // the held ones as a query, for deciding on all of this page; empty: there are none
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
	held := url.Values{}
	for _, d := range page.Deposits {
		if d.State == client.DepositHeld {
			held.Add("id", client.DepositTask(d.Seq))
		}
	}
	page.Held = template.URL(held.Encode())
	page.Next, page.Partial = v.nextPage(list.Next, len(list.Deposits), at, "trackingId", "txId", "tenantUserId", "address", "state")
	return v.render("deposits", "Deposits", page)
}

// depositPage is one deposit, with its task if it was held.
type depositPage struct {
	client.DepositEntry
	Callbacks []inboxRow
	Names     map[string]string // of tokens
	Task      *taskView
}

// inboxRow is a callback of the inbox, with its errCode once it is settled.
type inboxRow struct {
	client.InboxEntry
	Code int64
}

// inboxRows returns the oldest first.
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
	page := depositPage{DepositEntry: d}
	if page.Names, err = v.names(); err != nil {
		return err
	}
	if page.Task, err = v.taskOf(client.TaskDeposit, strconv.FormatInt(d.Seq, 10)); err != nil {
		return err
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
