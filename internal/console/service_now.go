package console

import (
	"encoding/json"
	"time"

	"countersign/client"
)

// nowSection says how the service does.
var nowSection = section{
	nav: navItem{"/console/now", "Now", "stats"},
	pages: []page{
		{"GET /console/now", (*visit).now},
		{"GET /console/live/now", (*visit).nowLive},
	},
}

// nowPage is how the service does.
type nowPage struct {
	Lanes       []laneRow
	Withdrawals []stateCount
	Alarms      []client.Alarm // the newest of those that are open
	MoreAlarms  bool
	Tasks       []client.Task // the newest of those that wait for a person
	MoreTasks   bool
	Breakers    []client.Breaker
	Failing     []client.FailingMerchant
	Hour        client.Hour
	Nodes       []client.Node
	Series      string // of the charts, as JSON
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
	page, err := v.nowPage()
	if err != nil {
		return err
	}
	return v.render("now", "Now", page)
}

func (v *visit) nowLive() error {
	return v.live(func() (string, error) {
		page, err := v.nowPage()
		if err != nil {
			return "", err
		}
		return v.part("now", "live", page)
	})
}

func (v *visit) nowPage() (page nowPage, err error) {
	ctx := v.r.Context()
	stats, err := v.service.Stats(ctx)
	if err != nil {
		return page, err
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
	page.Breakers, page.Failing = stats.Breakers, stats.Failing
	open, err := v.service.Alarms(ctx, client.AlarmFilter{State: client.AlarmOpen}, client.PageOptions{Limit: 5})
	if err != nil {
		return page, err
	}
	page.Alarms, page.MoreAlarms = open.Alarms, open.Next != nil
	tasks, err := v.service.Tasks(ctx, client.TaskFilter{}, client.PageOptions{Limit: 5})
	if err != nil {
		return page, err
	}
	page.Tasks, page.MoreTasks = tasks.Tasks, tasks.Next != nil
	if page.Hour, err = v.service.Hour(ctx); err != nil {
		return page, err
	}
	if page.Nodes, err = v.service.Nodes(ctx); err != nil {
		return page, err
	}
	page.Series = series(page.Hour, v.c.Now())
	return page, nil
}

// chartLeast is the shortest time that a chart shows.
const chartLeast = 5 * time.Minute

// series makes the columns of the charts: time in seconds, attempts a second, failures a
// second, and the percentiles in milliseconds, null where there was no attempt.
func series(h client.Hour, now time.Time) string {
	step := client.Time(time.Duration(h.Step).Milliseconds())
	end := client.TimeOf(now) / step * step
	var columns [5][]any
	i := 0
	// A node that is younger than an hour fills the chart with its own time.
	young := end - client.Time(chartLeast.Milliseconds())
	begin := max(end-client.Time(time.Hour.Milliseconds()), min(young, h.Started/step*step))
	for at := begin; at <= end; at += step {
		for i < len(h.Slices) && h.Slices[i].At < at {
			i++
		}
		var row [5]any
		row[0] = int64(at) / 1000
		if i < len(h.Slices) && h.Slices[i].At == at {
			s := h.Slices[i]
			seconds := time.Duration(h.Step).Seconds()
			row = [5]any{row[0], float64(s.Attempts) / seconds, float64(s.Failed) / seconds, s.P50Ms, s.P95Ms}
		} else if at >= h.Started/step*step {
			row[1], row[2] = 0, 0
		}
		for c := range row {
			columns[c] = append(columns[c], row[c])
		}
	}
	text, err := json.Marshal(columns)
	if err != nil {
		return "[]" // cannot fail: numbers
	}
	return string(text)
}
