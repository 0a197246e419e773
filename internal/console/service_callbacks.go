package console

import (
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strconv"

	"countersign"
	"countersign/client"
)

// callbacksSection has the service's callbacks.
var callbacksSection = section{
	nav: navItem{"/console/callbacks", "Callbacks", "callbacks"},
	pages: []page{
		{"GET /console/callbacks", (*visit).callbacks},
		{"GET /console/callbacks/{id}", (*visit).callback},
		{"POST /console/callbacks/{id}/resend", (*visit).callbackResend},
		{"GET /console/find/{id}", (*visit).find},
		{"GET /console/resend", (*visit).resend},
		{"POST /console/resend", (*visit).resendMatching},
	},
	notices: map[string]string{
		"resent":     "Due now. It is sent as soon as there is room.",
		"resent-all": "All that matched are due now.",
	},
}

// callbacksPage is the search of callbacks.
type callbacksPage struct {
	Filter    client.CallbackFilter
	Span      listSpan
	More      bool // the search has values in the fields that are folded
	Types     []countersign.Type
	States    []client.CallbackState
	Told      []client.Told
	Callbacks []client.Callback
	Next      string       // the address of the next page
	Query     template.URL // the filter as a query, for sending what matches
	Sends     bool         // what matches could be sent
	Partial   bool         // the page ended before it was full
}

// callbackFilter reads the fields of the search from the query of a page.
func (v *visit) callbackFilter(q url.Values) (client.CallbackFilter, listSpan) {
	n, _ := strconv.Atoi(q.Get("type")) // anything else selects all
	at := v.spanOf(q)
	return client.CallbackFilter{
		Merchant: q.Get("merchant"), Type: countersign.Type(n), State: client.CallbackState(q.Get("state")),
		TrackingID: q.Get("trackingId"), TxID: q.Get("txId"), CallBackID: q.Get("callBackId"), Told: client.Told(q.Get("told")),
		TenantUserID: q.Get("tenantUserId"), Address: q.Get("address"), Since: at.since, Until: at.until,
	}, at
}

func queryOf(f client.CallbackFilter) url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"merchant": f.Merchant, "state": string(f.State), "trackingId": f.TrackingID, "txId": f.TxID, "callBackId": f.CallBackID, "told": string(f.Told),
		"tenantUserId": f.TenantUserID, "address": f.Address} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.Type != 0 {
		q.Set("type", strconv.Itoa(int(f.Type)))
	}
	listSpan{since: f.Since, until: f.Until}.in(q)
	return q
}

func (v *visit) callbacks() error {
	page := callbacksPage{Types: countersign.TypeUnknown.Values(), States: client.CallbackState("").Values(), Told: client.Told("").Values()}
	page.Filter, page.Span = v.callbackFilter(v.r.URL.Query())
	f := page.Filter
	page.More = f.TenantUserID != "" || f.Address != "" || f.Told != "" || page.Span != listSpan{}
	if page.Span.Wrong != "" {
		return v.renderWrong(page.Span, "callbacks", "Callbacks", page)
	}
	list, done, err := readList(v, func(o client.PageOptions) (client.CallbackPage, error) {
		return v.service.Callbacks(v.r.Context(), page.Filter, o)
	})
	if err != nil || done {
		return err
	}
	page.Callbacks = list.Callbacks
	q := queryOf(page.Filter)
	page.Query = template.URL(q.Encode())
	page.Sends = page.Query != "" && sendsAgain(page.Filter)
	if list.Next != nil {
		q.Set("cursor", *list.Next)
		page.Next = "/console/callbacks?" + q.Encode()
		page.Partial = len(list.Callbacks) < pageSize
	}
	return v.render("callbacks", "Callbacks", page)
}

// sendsAgain reports whether callbacks that match f could be sent again, or now: a question is
// asked once, and what was accepted or cancelled is not sent by a filter.
func sendsAgain(f client.CallbackFilter) bool {
	switch f.State {
	case "", client.CallbackPending:
		return true
	case client.CallbackRefused, client.CallbackExhausted:
		return f.Type.Effect() != countersign.EffectQuestion
	}
	return false
}

// callbackPage is one callback with its attempts.
type callbackPage struct {
	client.CallbackDetail
	Withdrawal *client.Withdrawal // that it is about
	Again      bool               // it can be sent again, or now
	Repeat     bool               // it can be sent again though the merchant has accepted it
	Blocks     *client.Blocks     // of the attempt that is asked for, or the last; nil: the key is erased
}

func (v *visit) callback() error {
	cb, err := v.service.Callback(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return err
	}
	page := callbackPage{CallbackDetail: cb}
	switch cb.State {
	case client.CallbackPending:
		page.Again = true
	case client.CallbackRefused, client.CallbackExhausted:
		page.Again = cb.Type.Effect() != countersign.EffectQuestion
	case client.CallbackAccepted:
		page.Repeat = cb.Type.Effect() != countersign.EffectQuestion
	}
	attempt, _ := strconv.Atoi(v.query("attempt")) // anything else is the last
	switch blocks, err := v.service.CallbackBlocks(v.r.Context(), cb.ID, attempt); {
	case err == nil:
		page.Blocks = &blocks
	case statusOf(err) == http.StatusGone: // the merchant was deleted, and its key erased
		page.Again, page.Repeat = false, false
	default:
		return err
	}
	if cb.CallBackID != "" {
		found, err := v.service.Withdrawals(v.r.Context(), client.WithdrawalFilter{Merchant: cb.Merchant, CallBackID: cb.CallBackID}, client.PageOptions{Limit: 1})
		if err != nil && !errors.Is(err, client.ErrNotFound) {
			return err
		}
		if len(found.Withdrawals) > 0 {
			page.Withdrawal = &found.Withdrawals[0]
		}
	}
	return v.render("callback", cb.Type.Words()+" "+cb.TrackingID, page)
}

func (v *visit) callbackResend() error {
	id := v.r.PathValue("id")
	resend := v.service.ResendCallback
	if v.form("accepted") != "" {
		resend = v.service.RepeatCallback
	}
	if _, err := resend(v.r.Context(), id); err != nil {
		return err
	}
	return v.done("/console/callbacks/"+id, "resent")
}

func (v *visit) resend() error {
	f, at := v.callbackFilter(v.r.URL.Query())
	if err := at.wrong(); err != nil {
		return err
	}
	dry, err := v.service.ResendCallbacks(v.r.Context(), client.Resend{Filter: f, DryRun: true})
	if err != nil {
		return err
	}
	return v.bulk(bulkPage{Title: "Send all that match", Post: "/console/resend", Back: "/console/callbacks", Count: dry.Count, What: "Callbacks", Button: "Send",
		Says: "Refused and exhausted ones are sent again, pending ones now. A merchant that has one already answers that it has.",
		None: "Nothing matches that could be sent: only pending, refused and exhausted callbacks can, and questions about withdrawals only while they are pending."}, queryOf(f), nil)
}

func (v *visit) resendMatching() error {
	f, at := v.callbackFilter(v.r.PostForm)
	if err := at.wrong(); err != nil { // a time that was not read would select all
		return err
	}
	if _, err := v.service.ResendCallbacks(v.r.Context(), client.Resend{Filter: f}); err != nil {
		return err
	}
	return v.done("/console/callbacks?"+queryOf(f).Encode(), "resent-all")
}
