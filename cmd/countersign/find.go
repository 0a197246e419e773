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

// named are the members by which a command finds the item that it shows or decides on: those that alarms, logs and the
// other end use. Users, addresses and transactions belong to many items.
var named = []client.MatchedBy{client.MatchedID, client.MatchedTrackingID, client.MatchedCallBackID}

// find returns the id for what a person has typed.
type find = func(ctx context.Context, api *client.Service, text string) (string, error)

// finds returns the find of commands about one kind of item. The argument is the item's id, or an identifier that the
// API's search finds by one of the members. A text that own matches is always an id, whatever identifiers the other end
// chose.
func finds(kind client.FoundKind, own *regexp.Regexp, members ...client.MatchedBy) find {
	return func(ctx context.Context, api *client.Service, text string) (string, error) {
		if own.MatchString(text) {
			return text, nil
		}
		result, err := api.Search(ctx, text)
		if err != nil && !refused(err) { // an application's token does not search
			return "", err
		}
		return single(text, slices.DeleteFunc(result.Found, func(f client.Found) bool {
			return f.Kind != kind || !slices.Contains(members, f.Matched)
		}))
	}
}

// single returns the id of the only item in list, which text names. If list is empty it returns text: the operation
// then reports that there is none.
func single(text string, list []client.Found) (string, error) {
	switch len(list) {
	case 0:
		return text, nil
	case 1:
		return list[0].ID, nil
	}
	e := &hintedError{err: fmt.Errorf("%s names %d of them: give the id of one", text, len(list))}
	for _, f := range list {
		e.hints = append(e.hints, fmt.Sprintf("%s (%s, %s)", f.ID, f.State, f.At.Time().UTC().Format(time.RFC3339)))
	}
	return "", e
}

// refused reports whether the API refused a search. The operation itself then says what is wrong.
func refused(err error) bool {
	var p *client.Problem
	return errors.As(err, &p) && p.Status < http.StatusInternalServerError
}

var (
	serviceID    = regexp.MustCompile(`^[a-z0-9_-]+\.[0-9a-hjkmnp-tv-z]{26}$`) // of callbacks and withdrawals
	withdrawalID = regexp.MustCompile(serviceID.String() + `|/`)               // or MERCHANT/CALLBACKID, which the API takes too
	number       = regexp.MustCompile(`^[0-9]+$`)
)

// finders find an item of a collection of the API. Orders have none: the other end chose their other identifiers, and a
// person approves an order by its callBackId.
var finders = map[string]find{
	"withdrawals": finds(client.FoundWithdrawal, withdrawalID, named...),
	"callbacks":   findCallback,
	"deposits":    finds(client.FoundDeposit, number, named...),
	"addresses":   finds(client.FoundAddress, number, append([]client.MatchedBy{client.MatchedUser}, named...)...), // alarms name the user
	"refused":     finds(client.FoundRefused, number, named...),
}

// taskThings are the collections of the subjects of tasks. Orders and changes are found only by their ids.
var taskThings = map[client.TaskKind]string{client.TaskDeposit: "deposits", client.TaskAddress: "addresses", client.TaskRefused: "refused",
	client.TaskRelease: "withdrawals", client.TaskRestored: "withdrawals"}

// findTask returns the id of a task. Its subject may be named by any identifier that finds it, as in
// deposit.TRACKINGID.
func findTask(ctx context.Context, api *client.Service, text string) (string, error) {
	kind, about, _ := strings.Cut(text, ".")
	thing := finders[taskThings[client.TaskKind(kind)]]
	if thing == nil || about == "" {
		return text, nil
	}
	about, err := thing(ctx, api, about)
	return client.TaskID(client.TaskKind(kind), about), err
}

// findCallback finds a callback by its trackingId, or else by its callBackId. The prefix MERCHANT/ leaves out other
// merchants. It reads the list, because the search leaves out callbacks of withdrawals.
func findCallback(ctx context.Context, api *client.Service, text string) (string, error) {
	if serviceID.MatchString(text) {
		return text, nil
	}
	merchant, id, is := strings.Cut(text, "/")
	if !is {
		merchant, id = "", text
	}
	var list []client.Found
	for _, filter := range []client.CallbackFilter{{Merchant: merchant, TrackingID: id}, {Merchant: merchant, CallBackID: id}} {
		page, err := api.Callbacks(ctx, filter, client.PageOptions{Limit: client.MostFound})
		if err != nil && !refused(err) {
			return "", err
		}
		for _, c := range page.Callbacks {
			list = append(list, client.Found{ID: c.ID, State: string(c.State), At: c.Created})
		}
		if len(list) > 0 {
			break
		}
	}
	return single(text, list)
}
