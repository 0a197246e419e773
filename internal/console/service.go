package console

import (
	"errors"
	"net/http"
	"net/url"

	"countersign/client"
)

// NewService makes the console of the service. It starts nothing.
func NewService(c Config) (*Console, error) {
	return newConsole(c, end{
		name: "service", title: "countersign service",
		nav: []navItem{
			{root, "Now", "stats"},
			{"/console/merchants", "Merchants", "merchants"},
			{"/console/callbacks", "Callbacks", "callbacks"},
			{"/console/withdrawals", "Withdrawals", "withdrawals"},
			{"/console/changes", "Changes", "changes"},
			{"/console/alarms", "Alarms", "alarms"},
			{"/console/audit", "Audit", "audit"},
			{"/console/tokens", "Tokens", "tokens"},
			{"/console/stop", "Stop", "frozen"},
		},
		pages: []page{
			{"GET /console/{$}", (*visit).now},
			{"GET /console/live/now", (*visit).nowLive},

			{"GET /console/merchants", (*visit).merchants},
			{"GET /console/merchants/new", (*visit).merchantNew},
			{"POST /console/merchants/new", (*visit).merchantMake},
			{"GET /console/merchants/{id}", (*visit).merchant},
			{"POST /console/merchants/{id}/pause", (*visit).merchantPause},
			{"POST /console/merchants/{id}/resume", (*visit).merchantResume},
			{"GET /console/merchants/{id}/change", (*visit).merchantEdit},
			{"POST /console/merchants/{id}/change", (*visit).merchantChange},
			{"POST /console/merchants/{id}/keys", (*visit).merchantKeys},
			{"POST /console/merchants/{id}/rotation", (*visit).rotationStage},
			{"POST /console/merchants/{id}/rotation/activate", (*visit).rotationActivate},
			{"POST /console/merchants/{id}/rotation/finish", (*visit).rotationFinish},
			{"POST /console/merchants/{id}/rotation/cancel", (*visit).rotationCancel},
			{"POST /console/merchants/{id}/delete", (*visit).merchantDelete},

			{"GET /console/callbacks", (*visit).callbacks},
			{"GET /console/callbacks/{id}", (*visit).callback},
			{"POST /console/callbacks/{id}/resend", (*visit).callbackResend},
			{"GET /console/find/{id}", (*visit).find},
			{"GET /console/resend", (*visit).resend},
			{"POST /console/resend", (*visit).resendMatching},

			{"GET /console/withdrawals", (*visit).withdrawals},
			{"GET /console/withdrawals/{id}", (*visit).withdrawal},
			{"POST /console/withdrawals/{id}/cancel", (*visit).withdrawalCancel},
			{"POST /console/withdrawals/{id}/block", (*visit).withdrawalBlock},
			{"POST /console/withdrawals/{id}/resume", (*visit).withdrawalResume},
			{"POST /console/withdrawals/{id}/notes", (*visit).withdrawalNote},

			{"GET /console/stop", (*visit).stop},
			{"POST /console/freeze", (*visit).freeze},
			{"POST /console/thaw", (*visit).thaw},
		},
		connect: func(v *visit, c client.Config) (err error) { v.service, err = client.NewService(c); return err },
		top:     (*visit).serviceTop,
	})
}

// serviceTop is what every page of the service's console shows.
type serviceTop struct {
	Alarms  string // how many are open; empty: none
	Changes int    // that wait for an approver
	Freeze  client.Freeze
}

func (v *visit) serviceTop() (any, error) {
	var top serviceTop
	if v.may("alarms") {
		var err error
		if top.Alarms, err = v.openAlarms(); err != nil {
			return nil, err
		}
	}
	if v.may("changes") {
		var err error
		if top.Changes, err = v.waitingChanges(); err != nil {
			return nil, err
		}
	}
	if v.may("frozen") {
		var err error
		if top.Freeze, err = v.service.Frozen(v.r.Context()); err != nil {
			return nil, err
		}
	}
	return top, nil
}

// find leads to the callback or the withdrawal with an id.
func (v *visit) find() error {
	id := v.r.PathValue("id")
	to := "/console/callbacks/"
	_, err := v.service.Callback(v.r.Context(), id)
	if errors.Is(err, client.ErrNotFound) {
		to = "/console/withdrawals/"
		_, err = v.service.Withdrawal(v.r.Context(), id)
	}
	if err != nil {
		return err
	}
	http.Redirect(v.w, v.r, to+url.PathEscape(id), http.StatusSeeOther)
	return nil
}

// sharedPages are those of both ends.
var sharedPages = []page{
	{"GET /console/search", (*visit).search},
	{"POST /console/views", (*visit).viewSave},
	{"GET /console/passkeys", (*visit).passkeys},
	{"POST /console/passkeys", (*visit).passkeyAdd},
	{"POST /console/passkeys/{id}/remove", (*visit).passkeyRemove},
	{"GET /console/shown", (*visit).shownOnce},
	{"GET /console/tokens", (*visit).tokens},
	{"POST /console/tokens", (*visit).tokenMake},
	{"POST /console/tokens/{id}/revoke", (*visit).tokenRevoke},
	{"GET /console/alarms", (*visit).alarms},
	{"GET /console/alarms/ack", (*visit).alarmsToAck},
	{"POST /console/alarms/ack", (*visit).alarmsAck},
	{"POST /console/alarms/{seq}/ack", (*visit).alarmAck},
	{"GET /console/changes", (*visit).changes},
	{"GET /console/changes/{id}", (*visit).change},
	{"POST /console/changes/{id}/approve", (*visit).changeApprove},
	{"POST /console/changes/{id}/reject", (*visit).changeReject},
	{"GET /console/audit", (*visit).audit},
	{"GET /console/audit/checkpoint", (*visit).checkpointFile},
	{"GET /console/audit/evidence/{id}", (*visit).auditFile},
}

// deeds are what a page says after a post, by the word in its address. The address holds
// no text, so that a link cannot put words into the console's mouth.
var deeds = map[string]string{
	"paused":           "Paused: callbacks are accepted and not sent.",
	"resumed":          "Resumed.",
	"changed":          "Changed. The next attempt uses it.",
	"activated":        "Activated: requests are sealed with the newer keys, and answers under the older ones still count.",
	"finished":         "Finished: the older keys have ended.",
	"went-back":        "The newer keys have ended. The older ones seal, alone.",
	"deleted":          "Deleted: its keys are erased. What happened stays here.",
	"resent":           "Due now. It is sent as soon as there is room.",
	"resent-all":       "All that matched are due now.",
	"frozen":           "Frozen: nothing is sent, decided or released, on any node.",
	"thawed":           "Thawed: everything goes on.",
	"blocked":          "Blocked: it is never released.",
	"resumed-restored": "Resumed: it is decided as any other.",
	"cancelled":        "Cancelled. The merchant cannot confirm it any more.",
	"approved":         "Approved. The service is told when it asks again.",
	"declined":         "Declined. The service is told so when it asks again.",
	"cancelled-order":  "Cancelled. The service is told so when it asks.",
	"credited":         "Credited: the deposit counts, and the application is told.",
	"rejected":         "Rejected: the deposit does not count.",
	"address-accepted": "Accepted: the application is told to show it.",
	"address-rejected": "Rejected: the application goes on with the old address.",
	"retried":          "Taken: it counts as if it had come now.",
	"dismissed":        "Dismissed: nothing is done about it.",
	"view-saved":       "Saved: this browser offers it on this list, as long as you sign in with this token.",
	"view-removed":     "Removed: the view is not offered any more.",
	"noted":            "Noted.",
	"some":             "Some are done, and more match: go on.",
	"credit-all":       "Credited: all that matched count, and the application is told.",
	"reject-all":       "Rejected: none that matched counts.",
	"retry-all":        "Tried again: those that were taken count. These are still refused.",
	"dismiss-all":      "Dismissed: nothing is done about those that matched.",
	"sent-again":       "Due now.",
	"skipped":          "Given up: the application is not told of it.",
	"passkey-added":    "Registered. What you approve must be signed from now on.",
	"passkey-removed":  "Removed.",
	"acknowledged":     "Acknowledged.",
	"acknowledged-all": "All that matched are acknowledged.",
	"change-approved":  "Approved: it is in force.",
	"change-later":     "Approved. It takes effect at its time.",
	"change-rejected":  "Rejected: nothing has changed.",
	"waits":            "Proposed: nothing has changed yet, it waits for an approver.",
	"revoked":          "Revoked: at once on this node, within a second on the others.",
}
