package console

import (
	"context"
	"maps"
	"net/url"
	"slices"

	"countersign/client"
)

// changesSection has the changes that wait for an approver.
var changesSection = section{
	nav: navItem{"/console/changes", "Changes", "changes"},
	pages: []page{
		{"GET /console/changes", (*visit).changes},
		{"GET /console/changes/{id}", (*visit).change},
		{"POST /console/changes/{id}/approve", (*visit).changeApprove},
		{"POST /console/changes/{id}/reject", (*visit).changeReject},
	},
	deeds: map[string]string{
		"change-approved": "Approved: it is in force.",
		"change-later":    "Approved. It takes effect at its time.",
		"change-second":   "Your approval is kept. The page says who is missing.",
		"change-rejected": "Rejected: nothing has changed.",
	},
}

// changer has the calls about changes, which both clients have.
type changer interface {
	Changes(context.Context, client.ChangeFilter, client.PageOptions) (client.ChangePage, error)
	Change(context.Context, string) (client.ChangeEntry, error)
	ChangeApproval(context.Context, string) (client.MayApprove, error)
	ApproveChange(context.Context, string) (client.ChangeEntry, error)
	RejectChange(ctx context.Context, id, reason string) (client.ChangeEntry, error)
}

func (v *visit) changer() changer {
	if v.service != nil {
		return v.service
	}
	return v.gateway
}

// changesPage lists changes: those that wait, or all.
type changesPage struct {
	Changes []changeRow
	All     bool
	Next    string // the address of the next page
}

// changeRow is a change with its members before and after.
type changeRow struct {
	client.ChangeEntry
	Members []changedMember
	By      string // name of the token that proposed it, if it may be known
	Own     bool   // the session's token proposed it
	Open    bool   // it is not decided, or not applied yet
	Rejects bool   // the session's token may reject it: its own, or as who may approve

	Approval client.MayApprove
}

type changedMember struct{ Name, Before, After string }

func (v *visit) changeRow(c client.ChangeEntry, names map[string]string) changeRow {
	row := changeRow{ChangeEntry: c, By: names[c.ProposedBy], Own: c.ProposedBy == v.me.ID, Open: c.State == client.ChangeWaiting || c.State == client.ChangeApproved}
	row.Rejects = row.Open && v.may("rejectChange") && (row.Own || v.may("approveChange"))
	members := slices.Collect(maps.Keys(c.After))
	for name := range c.Before {
		if _, is := c.After[name]; !is {
			members = append(members, name)
		}
	}
	slices.Sort(members)
	for _, name := range members {
		row.Members = append(row.Members, changedMember{name, c.Before[name], c.After[name]})
	}
	return row
}

func (v *visit) changes() error {
	page := changesPage{All: v.query("all") != ""}
	filter := client.ChangeFilter{Merchant: v.query("merchant")}
	if !page.All {
		filter.State = client.ChangeWaiting
	}
	list, done, err := readList(v, func(o client.PageOptions) (client.ChangePage, error) {
		return v.changer().Changes(v.r.Context(), filter, o)
	})
	if err != nil || done {
		return err
	}
	names, err := v.names()
	if err != nil {
		return err
	}
	for _, c := range list.Changes {
		page.Changes = append(page.Changes, v.changeRow(c, names))
	}
	if list.Next != nil {
		q := url.Values{"cursor": {*list.Next}}
		if page.All {
			q.Set("all", "1")
		}
		page.Next = "/console/changes?" + q.Encode()
	}
	return v.render("changes", "Changes", page)
}

func (v *visit) change() error {
	c, err := v.changer().Change(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return err
	}
	names, err := v.names()
	if err != nil {
		return err
	}
	row := v.changeRow(c, names)
	if c.State == client.ChangeWaiting && c.Stale == "" && v.may("changeApproval") {
		if row.Approval, err = v.changer().ChangeApproval(v.r.Context(), c.ID); err != nil {
			return err
		}
	}
	return v.render("change", "Change", row)
}

// waitingChanges counts the changes that wait for an approver, a hundred at most.
func (v *visit) waitingChanges() (int, error) {
	list, err := v.changer().Changes(v.r.Context(), client.ChangeFilter{State: client.ChangeWaiting}, client.PageOptions{Limit: 100})
	return len(list.Changes), err
}

func changePath(id string) string { return "/console/changes/" + url.PathEscape(id) }

func (v *visit) changeApprove() error {
	c, err := v.changer().ApproveChange(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return err
	}
	switch c.State {
	case client.ChangeWaiting:
		return v.done(changePath(c.ID), "change-second")
	case client.ChangeApproved:
		return v.done(changePath(c.ID), "change-later")
	}
	return v.done(changePath(c.ID), "change-approved")
}

func (v *visit) changeReject() error {
	id := v.r.PathValue("id")
	if _, err := v.changer().RejectChange(v.r.Context(), id, v.form("reason")); err != nil {
		return err
	}
	return v.done(changePath(id), "change-rejected")
}
