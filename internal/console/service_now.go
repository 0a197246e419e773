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
	client.ServiceStats
	Rows        []laneRow
	States      []client.WithdrawalState
	Alarms      []client.Alarm // the newest of those that are open
	MoreAlarms  bool
	Tasks       []client.Task // the newest of those that wait for a person
	MoreTasks   bool
	MoreFailing bool
	Nodes       []client.Node
}

// laneRow has the numbers of a lane.
type laneRow struct {
	Name, Type string // Type is for the link to the list; empty: all but withdrawals
	Counts     []client.LaneStats
	OldestDue  client.Time
}

func (v *visit) now() error {
	stats := fetch[client.ServiceStats](v, "/v1/stats")
	page := nowPage{ServiceStats: stats, States: client.Values[client.WithdrawalState](),
		MoreFailing: len(stats.Failing) == client.MostFailing}
	for _, lane := range client.Values[client.Lane]() {
		row := laneRow{Name: "Deposits and notices"}
		if lane == client.LaneWithdraw {
			row.Name, row.Type = "Questions about withdrawals", "2"
		}
		for _, l := range stats.Lanes {
			if l.Lane == lane {
				row.Counts, row.OldestDue = append(row.Counts, l), max(row.OldestDue, l.OldestDue)
			}
		}
		page.Rows = append(page.Rows, row)
	}
	page.Alarms, page.MoreAlarms = fetchPage[client.Alarm](v, "/v1/alarms", 5, client.AlarmFilter{State: client.AlarmOpen})
	page.Tasks, page.MoreTasks = fetchPage[client.Task](v, "/v1/tasks", 5)
	page.Nodes = fetch[client.List[client.Node]](v, "/v1/nodes").Items
	return v.render("now", "Now", page)
}
