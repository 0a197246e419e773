package console

import (
	"errors"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"countersign"
	"countersign/client"
)

// bulkPage says how much an act by a filter would change, before it does.
type bulkPage struct {
	Title      string
	Filter     []bulkMember // as people read it
	Hidden     []bulkMember // of the form
	Post, Back string       // where the form and the list are
	Count      int64
	LeftOut    int64  // possible duplicates that match too
	What       string // what is counted, as the beginning of a sentence
	Says       string // what the act does to them
	None       string // why there may be none
	Button     string
	Word       string // to type; empty: nothing is
	Reason     bool   // the act keeps one
	Values     map[string]string
}

type bulkMember struct{ Name, Value string }

// bulk fills in the filter of a page, and the fields that its form sends beside it.
func (v *visit) bulk(page bulkPage, filter url.Values, beside map[string]string) error {
	page.Values = v.values(nil)
	for name, values := range filter {
		page.Hidden = append(page.Hidden, bulkMember{name, values[0]})
		shown := values[0]
		if n, err := strconv.Atoi(shown); name == "type" && err == nil {
			shown = countersign.Type(n).Words()
		}
		page.Filter = append(page.Filter, bulkMember{name, shown})
	}
	for name, value := range beside {
		page.Hidden = append(page.Hidden, bulkMember{name, value})
	}
	for _, list := range [][]bulkMember{page.Filter, page.Hidden} {
		slices.SortFunc(list, func(a, b bulkMember) int {
			if a.Name < b.Name {
				return -1
			}
			return 1
		})
	}
	page.Back += "?" + filter.Encode()
	return v.render("bulk", page.Title, page)
}

// formNumber reads a number of the form that a bulkPage sent; 0: there is none.
func (v *visit) formNumber(name string) (int64, error) {
	text := v.form(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, refuse(name + " is no number")
	}
	return n, nil
}

// heldFilter reads the filter of the list of deposits from a query or a form.
func (v *visit) heldFilter(q url.Values) (client.DepositSearch, url.Values, error) {
	at := v.spanOf(q)
	text := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	f := client.DepositSearch{TrackingID: text("trackingId"), TxID: text("txId"), TenantUserID: text("tenantUserId"), Address: text("address"),
		State: client.DepositHeld, Since: at.since, Until: at.until}
	kept := url.Values{"state": {string(client.DepositHeld)}}
	for name, value := range map[string]string{"trackingId": f.TrackingID, "txId": f.TxID, "tenantUserId": f.TenantUserID, "address": f.Address} {
		if value != "" {
			kept.Set(name, value)
		}
	}
	at.in(kept)
	return f, kept, at.wrong()
}

// depositActs are what can be done with held deposits together.
var depositActs = map[string]bulkPage{
	"credit": {Title: "Credit all that match", Says: "They count from now on, and the application is told so. This cannot be undone.", Button: "Credit", Word: "credit"},
	"reject": {Title: "Reject all that match", Says: "They do not count, and the application is told so. This cannot be undone.", Button: "Reject", Word: "reject"},
}

func (v *visit) decideDeposits(d client.DecideDeposits) (client.Decided, error) {
	if path.Base(v.r.URL.Path) == "credit" {
		return v.gateway.CreditDeposits(v.r.Context(), d)
	}
	return v.gateway.RejectDeposits(v.r.Context(), d)
}

func (v *visit) depositsAll() error {
	page := depositActs[path.Base(v.r.URL.Path)]
	f, kept, err := v.heldFilter(v.r.URL.Query())
	if err != nil {
		return err
	}
	dry, err := v.decideDeposits(client.DecideDeposits{Filter: f, DryRun: true})
	if err != nil {
		return err
	}
	page.Post, page.Back, page.Count, page.LeftOut, page.What, page.Reason = v.r.URL.Path, "/console/deposits", dry.Count, dry.LeftOut, "Held deposits", true
	page.None = "No held deposit matches any more."
	return v.bulk(page, kept, map[string]string{"upTo": strconv.FormatInt(dry.UpTo, 10)})
}

func (v *visit) depositsAllDone() error {
	act := path.Base(v.r.URL.Path)
	page := depositActs[act]
	f, kept, err := v.heldFilter(v.r.PostForm)
	upTo, wrong := v.formNumber("upTo")
	if err := errors.Join(err, wrong); err != nil { // a time that was not read would select all
		return err
	}
	if err := v.typed(page.Word); err != nil {
		return err
	}
	done, err := v.decideDeposits(client.DecideDeposits{Filter: f, Reason: v.form("reason"), UpTo: upTo})
	if err != nil {
		return err
	}
	if done.More {
		return v.done(v.r.URL.Path+"?"+kept.Encode(), "some")
	}
	return v.done("/console/deposits?"+kept.Encode(), act+"-all")
}

// refusedActs are what can be done with refused callbacks together.
var refusedActs = map[string]bulkPage{
	"retry":   {Title: "Try all that match again", Says: "They are taken under the present settings, as if they came now, the first first. What is refused again stays open.", Button: "Try again"},
	"dismiss": {Title: "Dismiss all that match", Says: "They leave the open ones, and nothing is done about them.", Button: "Dismiss", Word: "dismiss"},
}

// refusedFilter reads the filter of the list of refused callbacks from a query or a form.
func refusedFilter(q url.Values) (client.RefusedFilter, url.Values) {
	f := client.RefusedFilter{State: client.RefusedOpen, Reason: client.RefusalReason(q.Get("reason")), CallbackID: strings.TrimSpace(q.Get("callbackId"))}
	kept := url.Values{"state": {string(client.RefusedOpen)}}
	for name, value := range map[string]string{"reason": string(f.Reason), "callbackId": f.CallbackID} {
		if value != "" {
			kept.Set(name, value)
		}
	}
	return f, kept
}

func (v *visit) refusedAll() error {
	act := path.Base(v.r.URL.Path)
	page := refusedActs[act]
	f, kept := refusedFilter(v.r.URL.Query())
	after, _ := strconv.ParseInt(v.query("after"), 10, 64) // anything else begins at the first
	beside := map[string]string{}
	var err error
	if act == "retry" {
		var dry client.RetriedRefused
		dry, err = v.gateway.RetryAllRefused(v.r.Context(), client.RetryRefused{Filter: f, DryRun: true, After: max(after, 0)})
		page.Count, beside["upTo"], beside["after"] = dry.Count, strconv.FormatInt(dry.UpTo, 10), strconv.FormatInt(max(after, 0), 10)
	} else {
		var dry client.Decided
		dry, err = v.gateway.DismissAllRefused(v.r.Context(), client.DismissRefused{Filter: f, DryRun: true})
		page.Count, beside["upTo"] = dry.Count, strconv.FormatInt(dry.UpTo, 10)
	}
	if err != nil {
		return err
	}
	page.Post, page.Back, page.What, page.Reason = v.r.URL.Path, "/console/refused", "Open ones", true
	page.None = "No open one matches any more. Questions about withdrawals are not tried again: the service asks again."
	return v.bulk(page, kept, beside)
}

func (v *visit) refusedAllDone() error {
	act := path.Base(v.r.URL.Path)
	page := refusedActs[act]
	f, kept := refusedFilter(v.r.PostForm)
	upTo, err := v.formNumber("upTo")
	after, wrong := v.formNumber("after")
	if err := errors.Join(err, wrong); err != nil {
		return err
	}
	if page.Word != "" {
		if err := v.typed(page.Word); err != nil {
			return err
		}
	}
	if act == "dismiss" {
		_, err = v.gateway.DismissAllRefused(v.r.Context(), client.DismissRefused{Filter: f, Reason: v.form("reason"), UpTo: upTo})
	} else {
		var done client.RetriedRefused
		done, err = v.gateway.RetryAllRefused(v.r.Context(), client.RetryRefused{Filter: f, Reason: v.form("reason"), UpTo: upTo, After: after})
		if err == nil && done.Next != 0 {
			kept.Set("after", strconv.FormatInt(done.Next, 10))
			return v.done(v.r.URL.Path+"?"+kept.Encode(), "some")
		}
	}
	if err != nil {
		return err
	}
	return v.done("/console/refused?"+kept.Encode(), act+"-all")
}
