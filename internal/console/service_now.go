package console

import "countersign/client"

// nowSection shows the present state of the service.
var nowSection = section{
	nav: navItem{"/console/now", "Now", "stats"},
	pages: []page{
		{"GET /console/now", (*visit).now},
	},
}

// nowPage is the present state of the service.
type nowPage struct {
	Lanes       []laneRow
	Withdrawals []stateCount
	Alarms      []client.Alarm // the newest of those that are open
	MoreAlarms  bool
	Tasks       []client.Task // the newest of those that wait for a person
	MoreTasks   bool
	Failing     []client.FailingMerchant
	MoreFailing bool
	Nodes       []client.Node
}

type laneRow struct {
	Name, What string
	Type       string // for the link to the list; empty: all but withdrawals
	Counts     []stateCount
	OldestDue  client.Time
}

type stateCount struct {
	State string
	Count int64
}

func (v *visit) now() error {
	var page nowPage
	ctx := v.r.Context()
	stats, err := v.service.Stats(ctx)
	if err != nil {
		return err
	}
	for _, lane := range (client.Lane("")).Values() {
		row := laneRow{Name: "Deposits and notices", What: string(lane)}
		if lane == client.LaneWithdraw {
			row.Name, row.Type = "Questions about withdrawals", "2"
		}
		for _, l := range stats.Lanes {
			if l.Lane != lane {
				continue
			}
			row.Counts = append(row.Counts, stateCount{string(l.State), l.Count})
			if l.State == client.CallbackPending && l.Count > 0 {
				row.OldestDue = l.OldestDue
			}
		}
		page.Lanes = append(page.Lanes, row)
	}
	for _, state := range (client.WithdrawalState("")).Values() {
		page.Withdrawals = append(page.Withdrawals, stateCount{string(state), stats.Withdrawals[state]})
	}
	page.Failing, page.MoreFailing = stats.Failing, len(stats.Failing) == client.MostFailing
	open, err := v.service.Alarms(ctx, client.AlarmFilter{State: client.AlarmOpen}, client.PageOptions{Limit: 5})
	if err != nil {
		return err
	}
	page.Alarms, page.MoreAlarms = open.Alarms, open.Next != nil
	tasks, err := v.service.Tasks(ctx, client.TaskFilter{}, client.PageOptions{Limit: 5})
	if err != nil {
		return err
	}
	page.Tasks, page.MoreTasks = tasks.Tasks, tasks.Next != nil
	if page.Nodes, err = v.service.Nodes(ctx); err != nil {
		return err
	}
	return v.render("now", "Now", page)
}
