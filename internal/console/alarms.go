package console

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"countersign/client"
)

// alarmsSection has the alarms of an end.
var alarmsSection = section{
	nav:   navItem{"/console/alarms", "Alarms", "alarms"},
	lists: []lister{alarmsList},
	pages: []page{
		{"GET /console/alarms/ack", (*visit).alarmsToAck},
		{"POST /console/alarms/ack", (*visit).alarmsAck},
		{"POST /console/alarms/{seq}/ack", (*visit).alarmAck},
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
			if v.service != nil {
				return optionsOf(client.AlarmKind("").AtService(), "all")
			}
			return optionsOf(client.AlarmKind("").AtGateway(), "all")
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
	rows: func(v *visit, page client.AlarmPage) (any, error) {
		var rows []alarmRow
		for _, a := range page.Alarms {
			rows = append(rows, v.alarmRow(a))
		}
		return rows, nil
	},
	acts: func(v *visit, f client.AlarmFilter, page client.AlarmPage) []act {
		all := f.State != "" && f.State != client.AlarmOpen || f.Merchant == "" && f.Kind == ""
		if all || len(page.Alarms) < 2 || !v.may("ackAlarms") {
			return nil
		}
		f.State = ""
		return []act{{"Acknowledge all that match…", "/console/alarms/ack?" + queryFor(f).Encode()}}
	},
}

// alarmRow is an alarm of either end.
type alarmRow struct {
	client.Alarm
	Examples []subject
	More     bool // it counts others too
	Ends     bool // its kind ends by itself
}

// subject is what an alarm is about, with its page.
type subject struct{ Text, Link string }

func (v *visit) alarmRow(a client.Alarm) alarmRow {
	row := alarmRow{Alarm: a, Ends: a.Kind.Ended() != ""}
	link := gatewaySubject
	if v.service != nil {
		link = serviceSubject
	}
	row.More = !a.Kind.BySubject() && len(a.Examples) > 1 && a.Number > int64(len(a.Examples))
	for _, text := range a.Examples {
		row.Examples = append(row.Examples, subject{text, link(a, text)})
	}
	return row
}

// openAlarms counts the open rows of alarms, as far as a badge shows them.
func (v *visit) openAlarms() (string, error) {
	open, err := v.api.Alarms(v.r.Context(), client.AlarmFilter{State: client.AlarmOpen}, client.PageOptions{Limit: 100})
	switch n := strconv.Itoa(len(open.Alarms)); {
	case err != nil || n == "0" && open.Next == nil:
		return "", err
	case open.Next != nil:
		return n + "+", nil
	default:
		return n, nil
	}
}

// serviceSubject is the page of what an alarm of the service is about; empty: it has none.
func serviceSubject(a client.Alarm, text string) string {
	id, more, _ := strings.Cut(text, " ")
	switch {
	case a.Kind == client.AlarmFrozen, a.Kind == client.AlarmResumed && a.Merchant == "":
		return "/console/stop"
	case strings.HasPrefix(id, "chg_"): // the change and what it changed
		return taskPath(client.TaskID(client.TaskChange, id))
	case a.Merchant != "" && strings.HasPrefix(id, a.Merchant+".") && (more == "" || a.Kind == client.AlarmExhausted):
		return "/console/find/" + url.PathEscape(id)
	}
	return ""
}

// gatewaySubject is serviceSubject for an alarm of the gateway.
func gatewaySubject(a client.Alarm, text string) string {
	switch kind := string(a.Kind); {
	case a.Kind == client.AlarmPossibleDuplicate:
		return "/console/deposits?trackingId=" + url.QueryEscape(text)
	case a.Kind == client.AlarmDepositRefused:
		return "/console/?kind=" + string(client.TaskRefused)
	case a.Kind == client.AlarmOrderUnknown, strings.HasPrefix(kind, "executed_"), a.Kind == client.AlarmEndedAfterExecution, a.Kind == client.AlarmUserDiffers:
		return "/console/orders?callBackId=" + url.QueryEscape(text)
	}
	return ""
}

// alarmSelection reads which alarms are to be acknowledged.
func alarmSelection(q url.Values) client.AlarmSelection {
	return client.AlarmSelection{Merchant: q.Get("merchant"), Kind: client.AlarmKind(q.Get("kind"))}
}

func (v *visit) alarmsToAck() error {
	f := alarmSelection(v.r.URL.Query())
	dry, err := v.api.AckAlarms(v.r.Context(), client.AckAlarms{Filter: f, DryRun: true})
	if err != nil {
		return err
	}
	page := bulkPage{Title: "Acknowledge all that match", Post: "/console/alarms/ack", Back: "/console/alarms",
		Count: dry.Count, What: "open alarm", Button: "Acknowledge", Note: "What was found or done",
		Says: "What was raised since this page was shown stays open, and what is raised later opens anew.",
		None: "No open alarm matches."}
	for _, k := range slices.Sorted(maps.Keys(dry.Kinds)) {
		page.Tally = append(page.Tally, stateCount{string(k), dry.Kinds[k]})
	}
	filter := queryFor(client.AlarmFilter{Merchant: f.Merchant, Kind: f.Kind})
	return v.bulk(page, filter, map[string]string{"upTo": strconv.FormatInt(dry.UpTo, 10)})
}

func (v *visit) alarmsAck() error {
	upTo, err := strconv.ParseInt(v.form("upTo"), 10, 64)
	if err != nil { // without it, what nobody has seen would be acknowledged
		return v.notFound()
	}
	in := client.AckAlarms{Filter: alarmSelection(v.r.PostForm), Note: v.form("note"), UpTo: upTo}
	if _, err := v.api.AckAlarms(v.r.Context(), in); err != nil {
		return err
	}
	return v.done("/console/alarms", "acknowledged-all")
}

func (v *visit) alarmAck() error {
	seq, err := strconv.ParseInt(v.r.PathValue("seq"), 10, 64)
	if err != nil {
		return v.notFound()
	}
	if _, err = v.api.AckAlarm(v.r.Context(), seq, client.Ack{Note: v.r.PostFormValue("note")}); err != nil {
		return err
	}
	return v.done("/console/alarms", "acknowledged")
}
