package console

import (
	"countersign/client"
)

// alarmsSection shows the alarms of an end.
var alarmsSection = section{
	nav:   navItem{"/console/alarms", "Alarms", "alarms"},
	lists: []lister{alarmsList},
	pages: []page{
		{"POST /console/alarms/ack", func(v *visit) error {
			for _, seq := range v.r.PostForm["seq"] {
				if _, err := send[client.Alarm](v, client.Path("alarms", seq, "ack"), client.Ack{Note: v.form("note")}); err != nil {
					return err
				}
			}
			return v.done(v.cameFrom(), "acknowledged")
		}},
	},
	notices: map[string]string{"acknowledged": "Acknowledged."},
}

// allAlarms is the page's value of state for all states. Without a state it shows open alarms.
const allAlarms = "all"

var alarmsList = &list[client.AlarmFilter, client.Alarm]{
	table: table{name: "alarms", title: "Alarms"},
	fields: []field{{name: "merchant", label: "Merchant", end: "service"}, {name: "kind", label: "Kind"},
		{name: "state", label: "State", options: func(*visit) []option {
			return append(optionsOf(client.Values[client.AlarmState](), ""), option{Value: allAlarms, Text: allAlarms})
		}}},
	read: func(v *visit, f client.AlarmFilter, o client.PageOptions) (client.List[client.Alarm], error) {
		switch f.State {
		case "":
			f.State = client.AlarmOpen
		case allAlarms:
			f.State = ""
		}
		return v.api.Alarms(v.r.Context(), f, o)
	},
}
