package console

import (
	"maps"
	"net/url"
	"slices"
	"strconv"

	"countersign/client"
)

// alarmsSection has the alarms of an end.
var alarmsSection = section{
	nav:   navItem{"/console/alarms", "Alarms", "alarms"},
	lists: []lister{alarmsList},
	pages: []page{
		{"GET /console/alarms/ack", ackMatching.ask},
		{"POST /console/alarms/ack", ackMatching.do},
		{"POST /console/alarms/{seq}/ack", post("acknowledged", func(v *visit, _ string) (any, error) {
			return v.api.AckAlarm(v.r.Context(), v.seq(), client.Ack{Note: v.r.PostFormValue("note")})
		})},
	},
	notices: map[string]string{
		"acknowledged":     "Acknowledged.",
		"acknowledged-all": "All that matched are acknowledged.",
	},
}

// allAlarms is the state that the page has for all states. Without any it shows open ones.
const allAlarms = "all"

var alarmsList = &list[client.AlarmFilter, client.AlarmPage]{
	table: table{name: "alarms", title: "Alarms"},
	fields: []field{{name: "merchant", label: "Merchant", end: "service"}, {name: "kind", label: "Kind",
		options: func(v *visit) []option {
			return optionsOf(atEnd(v, client.AlarmKind("").AtService(), client.AlarmKind("").AtGateway()), "all")
		}}, {name: "state", label: "State", options: func(*visit) []option {
		return append(optionsOf(client.AlarmState("").Values(), ""), option{Value: allAlarms, Text: allAlarms})
	}}},
	read: func(v *visit, f client.AlarmFilter, o client.PageOptions) (client.AlarmPage, error) {
		switch f.State {
		case "":
			f.State = client.AlarmOpen
		case allAlarms:
			f.State = ""
		}
		return v.api.Alarms(v.r.Context(), f, o)
	},
	acts: func(v *visit, f client.AlarmFilter, page client.AlarmPage) []act {
		all := f.State != "" && f.State != client.AlarmOpen || f.Merchant == "" && f.Kind == ""
		if all || len(page.Alarms) < 2 || !v.may("ackAlarms") {
			return nil
		}
		f.State = ""
		return []act{{"Acknowledge all that match…", "/console/alarms/ack?" + client.Query(f).Encode()}}
	},
}

var ackMatching = &bulk{
	Title: "Acknowledge all that match", What: "open alarm", Button: "Acknowledge", Note: "What was found or done",
	Says: "What was raised since this page was shown stays open, and what is raised later opens anew.",
	None: "No open alarm matches.",
	list: "/console/alarms", did: "acknowledged-all",
	act: func(v *visit, q url.Values, dry bool) (s selected, err error) {
		in := client.AckAlarms{Filter: client.AlarmSelection{Merchant: q.Get("merchant"), Kind: client.AlarmKind(q.Get("kind"))}, DryRun: dry}
		if !dry {
			in.Note = v.form("note")
			if in.UpTo, err = strconv.ParseInt(q.Get("upTo"), 10, 64); err != nil { // what nobody has seen would be acknowledged
				return s, v.notFound()
			}
		}
		found, err := v.api.AckAlarms(v.r.Context(), in)
		s = selected{Filter: client.Query(in.Filter), Count: found.Count, UpTo: found.UpTo}
		for _, k := range slices.Sorted(maps.Keys(found.Kinds)) {
			s.Tally = append(s.Tally, stateCount{string(k), found.Kinds[k]})
		}
		return s, err
	},
}
