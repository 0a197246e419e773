package console

import (
	"net/url"

	"countersign"
	"countersign/client"
)

// callbacksSection shows the service's callbacks.
var callbacksSection = section{
	nav:   navItem{"/console/callbacks", "Callbacks", "callbacks"},
	lists: []lister{callbacksList},
	pages: []page{
		{"GET /console/callbacks/{id}", (*visit).callback},
		{"POST /console/callbacks/{id}/resend", call("resent", "POST /v1/callbacks/{id}/resend", "accepted?")},
		{"GET /console/resend", func(v *visit) error {
			p, err := v.resendMatching(v.r.URL.Query(), true)
			if err != nil {
				return err
			}
			return v.render("resend", "Send all that match", p)
		}},
		{"POST /console/resend", func(v *visit) error {
			p, err := v.resendMatching(v.r.PostForm, false)
			if err != nil {
				return err
			}
			return v.done(p.Back, "resent-all")
		}},
	},
	notices: map[string]string{
		"resent":     "Due now. It is sent as soon as there is room.",
		"resent-all": "All that matched are due now.",
	},
}

var callbacksList = &list[client.CallbackFilter, client.Callback]{
	table: table{"callbacks", "Callbacks",
		"No callback is here. Each deposit, each question about a withdrawal and each notice of its end is one.",
		[]column{
			{"Taken", "", `{{when .Created}}`},
			{"Merchant", "long slim", `<a href="/console/merchants/{{path .Merchant}}">{{.Merchant}}</a>`},
			{"What", "", `{{kind .Type}}`},
			{"Tracking id", "long", `<a href="/console/callbacks/{{path .ID}}">{{text (or .TrackingID .ID)}}</a>`},
			{"State", "", `{{state .State}}`},
			{"Attempts", "n", `{{.Attempt}}`},
			{"Last", "", `{{with .LastReason}}{{words .}}{{else}}{{text ""}}{{end}}`},
			{"Next", "", `{{with .Due}}{{from .}}{{else}}{{text ""}}{{end}}`},
		}},
	fields: []field{{name: "merchant", label: "Merchant"}, {name: "type", label: "What"}, {name: "state", label: "State"},
		{name: "trackingId", label: "Tracking id"}, {name: "txId", label: "Transaction"},
		{name: "callBackId", label: "callBackId"}},
	folded: []field{{name: "tenantUserId", label: "User"}, {name: "address", label: "To address"}},
	acts: func(v *visit, f client.CallbackFilter, page client.List[client.Callback]) []act {
		q := client.Query(f)
		if len(q) == 0 || !sendsAgain(f) || !v.may("resendCallbacks") || len(page.Items) == 0 && page.Next == nil {
			return nil
		}
		return []act{{"Send all that match…", "/console/resend?" + q.Encode()}}
	},
}

// sendsAgain reports whether callbacks that match f could be sent again, or sent now. A question is asked once, and a
// filter does not resend what was accepted or cancelled.
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
}

func (v *visit) callback() error {
	cb := fetch[client.CallbackDetail](v, client.Path("callbacks", v.r.PathValue("id")))
	page := callbackPage{CallbackDetail: cb, Again: sendsAgain(client.CallbackFilter{State: cb.State, Type: cb.Type}),
		Repeat: cb.State == client.CallbackAccepted && cb.Type.Effect() != countersign.EffectQuestion}
	if cb.CallBackID != "" && v.may("withdrawals") {
		found, _ := fetchPage[client.Withdrawal](v, "/v1/withdrawals", 1,
			client.WithdrawalFilter{Merchant: cb.Merchant, CallBackID: cb.CallBackID})
		if len(found) > 0 {
			page.Withdrawal = &found[0]
		}
	}
	return v.render("callback", cb.Type.Words()+" "+cb.TrackingID, page)
}

// resendPage asks for confirmation before it resends what a filter selects.
type resendPage struct {
	Filter url.Values
	Count  int64
	Back   string // the list
}

// resendMatching resends what the members of an address or a form select, or only counts it.
func (v *visit) resendMatching(q url.Values, dry bool) (resendPage, error) {
	at := v.spanOf(q)
	if at.Wrong != "" { // a time that was not read would select all
		return resendPage{}, refuse(at.Wrong)
	}
	f := filterOf[client.CallbackFilter](q, at)
	found, err := send[client.Resent](v, "/v1/callbacks/resend", client.Resend{Filter: f, DryRun: dry})
	filter := client.Query(f)
	return resendPage{filter, found.Count, "/console/callbacks?" + filter.Encode()}, err
}
