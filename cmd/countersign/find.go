package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"countersign/client"
)

// shown are the members by which a command finds what it shows: those that alarms, logs and the
// other end name, and no user, address or amount, which many things have. acted are those for
// commands that decide: a txId is in the other end's hands, and may be on several things.
var (
	shown = []client.MatchedBy{client.MatchedID, client.MatchedNumber, client.MatchedTrackingID, client.MatchedCallBackID, client.MatchedWebhookID,
		client.MatchedRequestUUID, client.MatchedTxID}
	acted = []client.MatchedBy{client.MatchedID, client.MatchedNumber, client.MatchedTrackingID, client.MatchedCallBackID, client.MatchedWebhookID}
)

// find gives the id for what a person has typed.
type find = func(ctx context.Context, api *client.Service, text string) (string, error)

// finds makes the find of commands about one kind of thing: the argument is its id, or an
// identifier that the API's search finds by one of the members. What has the argument as its id
// comes first. own matches ids, which need no search; nil: none.
func finds(kind client.FoundKind, own *regexp.Regexp, members []client.MatchedBy) find {
	return func(ctx context.Context, api *client.Service, text string) (string, error) {
		if own != nil && own.MatchString(text) {
			return text, nil
		}
		result, err := api.Search(ctx, text)
		switch {
		case refused(err): // an application's token does not search
			return text, nil
		case err != nil:
			return "", err
		}
		var list []client.Found
		for _, f := range result.Found {
			if f.Kind != kind || !slices.Contains(members, f.Matched) {
				continue
			}
			if f.ID == text {
				return text, nil
			}
			list = append(list, f)
		}
		switch len(list) {
		case 0:
			return text, nil // the operation says that there is none
		case 1:
			return list[0].ID, nil
		}
		return "", several(text, list)
	}
}

// refused reports whether the API refused a search. The operation itself then says what is wrong.
func refused(err error) bool {
	var p *client.Problem
	return errors.As(err, &p) && p.Status < http.StatusInternalServerError
}

// several is the error where an identifier names more than one thing.
func several(text string, list []client.Found) error {
	e := &hintedError{err: fmt.Errorf("%s names %d of them: give the id of one", text, len(list))}
	for _, f := range list {
		at := ""
		if f.At != 0 {
			at = ", " + f.At.Time().UTC().Format(time.RFC3339)
		}
		e.hints = append(e.hints, fmt.Sprintf("%s (%s%s)", f.ID, strings.TrimSpace(f.State+" by its "+string(f.Matched)), at))
	}
	return e
}

var (
	serviceID    = regexp.MustCompile(`^[a-z0-9_-]+\.[0-9a-hjkmnp-tv-z]{26}$`) // of callbacks and withdrawals
	withdrawalID = regexp.MustCompile(serviceID.String() + `|/`)               // or MERCHANT/CALLBACKID, which the API takes too
	number       = regexp.MustCompile(`^[0-9]+$`)
	forwardEntry = regexp.MustCompile(`^(deposit|event)_[0-9]+$`)
)

// What is decided by number stays decided by number, whatever identifiers the other end chose.
var (
	showDeposit, actDeposit = finds(client.FoundDeposit, nil, shown), finds(client.FoundDeposit, number, acted)
	// Alarms name the user of an address.
	showAddress             = finds(client.FoundAddress, nil, append([]client.MatchedBy{client.MatchedUser, client.MatchedAddress}, shown...))
	actAddress              = finds(client.FoundAddress, number, append([]client.MatchedBy{client.MatchedUser}, acted...))
	showRefused, actRefused = finds(client.FoundRefused, nil, shown), finds(client.FoundRefused, number, acted)

	// The trackingId of an order is the other end's: a person approves by the callBackId.
	showOrder = finds(client.FoundOrder, nil, shown)

	showWithdrawal = finds(client.FoundWithdrawal, withdrawalID, shown)
	actWithdrawal  = finds(client.FoundWithdrawal, withdrawalID, []client.MatchedBy{client.MatchedID, client.MatchedCallBackID, client.MatchedTrackingID})
)

// taskThings find what a task is about, by its kind. An order is approved by its callBackId alone.
var taskThings = map[client.TaskKind]find{client.TaskDeposit: actDeposit, client.TaskAddress: actAddress, client.TaskRefused: actRefused,
	client.TaskRelease: actWithdrawal, client.TaskRestored: actWithdrawal}

// findTask takes in place of the id of what a task is about an identifier that finds it, such as
// deposit.TRACKINGID.
func findTask(ctx context.Context, api *client.Service, text string) (string, error) {
	kind, about, _ := strings.Cut(text, ".")
	thing := taskThings[client.TaskKind(kind)]
	if thing == nil || about == "" {
		return text, nil
	}
	about, err := thing(ctx, api, about)
	return client.TaskID(client.TaskKind(kind), about), err
}

// findCallback returns the id of a callback. MERCHANT/ before an identifier leaves out those of other merchants. The search leaves out those of a withdrawal, so the
// list is asked.
func findCallback(ctx context.Context, api *client.Service, text string) (string, error) {
	if serviceID.MatchString(text) {
		return text, nil
	}
	whole, merchant := text, ""
	if m, rest, is := strings.Cut(text, "/"); is {
		merchant, text = m, rest
	}
	for _, by := range []struct {
		member client.MatchedBy
		filter client.CallbackFilter
	}{{client.MatchedTrackingID, client.CallbackFilter{TrackingID: text}}, {client.MatchedCallBackID, client.CallbackFilter{CallBackID: text}}, {client.MatchedTxID, client.CallbackFilter{TxID: text}}} {
		by.filter.Merchant = merchant
		p, err := api.Callbacks(ctx, by.filter, client.PageOptions{Limit: client.MostFound})
		if refused(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		var list []client.Found
		for _, c := range p.Callbacks {
			list = append(list, client.Found{ID: c.ID, State: string(c.State), Matched: by.member, At: c.Created})
		}
		switch len(list) {
		case 0:
		case 1:
			return list[0].ID, nil
		default:
			return "", several(text, list)
		}
	}
	return whole, nil
}

// findEntry returns an entry that is forwarded: its own id, or that of a deposit.
func findEntry(ctx context.Context, api *client.Service, text string) (string, error) {
	if forwardEntry.MatchString(text) || number.MatchString(text) { // a number alone is that of no feed
		return text, nil
	}
	seq, err := actDeposit(ctx, api, text)
	if err != nil || !number.MatchString(seq) {
		return text, err
	}
	return "deposit_" + seq, nil
}
