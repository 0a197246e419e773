package console

import (
	"context"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"countersign/client"
)

// alarmsSection has the alarms of an end.
var alarmsSection = section{
	nav: navItem{"/console/alarms", "Alarms", "alarms"},
	pages: []page{
		{"GET /console/alarms", (*visit).alarms},
		{"GET /console/alarms/ack", (*visit).alarmsToAck},
		{"POST /console/alarms/ack", (*visit).alarmsAck},
		{"POST /console/alarms/{seq}/ack", (*visit).alarmAck},
	},
	notices: map[string]string{
		"acknowledged":     "Acknowledged.",
		"acknowledged-all": "All that matched are acknowledged.",
	},
}

// alarmer has the calls about alarms, which both clients have.
type alarmer interface {
	Alarms(context.Context, client.AlarmFilter, client.PageOptions) (client.AlarmPage, error)
	AckAlarm(ctx context.Context, seq int64, a client.Ack) (client.Alarm, error)
	AckAlarms(context.Context, client.AckAlarms) (client.AckedAlarms, error)
}

func (v *visit) alarmer() alarmer {
	if v.service != nil {
		return v.service
	}
	return v.gateway
}

// allAlarms is the state that the page has for all states. Without any it shows open ones.
const allAlarms = "all"

// alarmsPage lists alarms.
type alarmsPage struct {
	Filter  client.AlarmFilter
	State   string // as the page has it
	States  []client.AlarmState
	Kinds   []client.AlarmKind
	Service bool
	Alarms  []alarmRow
	Query   template.URL // of the open ones that match, to acknowledge them all; empty: the filter selects no kind and no merchant
	Next    string       // the address of the next page
	Partial bool         // the page ended before it was full
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

// alarmFilter reads the filter of a page or of a form.
func (v *visit) alarmFilter(value func(string) string) (f client.AlarmFilter, state string) {
	f = client.AlarmFilter{Merchant: value("merchant"), Kind: client.AlarmKind(value("kind"))}
	switch state = value("state"); state {
	case "":
		state, f.State = string(client.AlarmOpen), client.AlarmOpen
	case allAlarms:
	default:
		f.State = client.AlarmState(state)
	}
	return f, state
}

func (v *visit) alarms() error {
	page := alarmsPage{States: client.AlarmState("").Values(), Kinds: client.AlarmKind("").AtGateway(), Service: v.service != nil}
	if page.Service {
		page.Kinds = client.AlarmKind("").AtService()
	}
	page.Filter, page.State = v.alarmFilter(v.query)
	list, done, err := readList(v, func(o client.PageOptions) (client.AlarmPage, error) {
		return v.alarmer().Alarms(v.r.Context(), page.Filter, o)
	})
	if err != nil || done {
		return err
	}
	for _, a := range list.Alarms {
		page.Alarms = append(page.Alarms, v.alarmRow(a))
	}
	if f := page.Filter; f.State == client.AlarmOpen && (f.Merchant != "" || f.Kind != "") {
		page.Query = alarmQuery(f)
	}
	page.Next, page.Partial = v.nextPage(list.Next, len(list.Alarms), listSpan{}, "merchant", "kind", "state")
	return v.render("alarms", "Alarms", page)
}

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
	open, err := v.alarmer().Alarms(v.r.Context(), client.AlarmFilter{State: client.AlarmOpen}, client.PageOptions{Limit: 100})
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

func alarmQuery(f client.AlarmFilter) template.URL {
	return template.URL(url.Values{"merchant": {f.Merchant}, "kind": {string(f.Kind)}}.Encode())
}

// alarmsAckPage says how many alarms would be acknowledged, before they are.
type alarmsAckPage struct {
	Filter client.AlarmFilter
	Query  template.URL
	Count  int64
	Kinds  []stateCount
	UpTo   int64
}

func (v *visit) alarmsToAck() error {
	f, _ := v.alarmFilter(v.query)
	dry, err := v.alarmer().AckAlarms(v.r.Context(), client.AckAlarms{Filter: client.AlarmSelection{Merchant: f.Merchant, Kind: f.Kind}, DryRun: true})
	if err != nil {
		return err
	}
	page := alarmsAckPage{Filter: f, Query: alarmQuery(f), Count: dry.Count, UpTo: dry.UpTo}
	for _, k := range slices.Sorted(maps.Keys(dry.Kinds)) {
		page.Kinds = append(page.Kinds, stateCount{string(k), dry.Kinds[k]})
	}
	return v.render("alarmsack", "Acknowledge all that match", page)
}

func (v *visit) alarmsAck() error {
	f, _ := v.alarmFilter(v.form)
	upTo, err := strconv.ParseInt(v.form("upTo"), 10, 64)
	if err != nil { // without it, what nobody has seen would be acknowledged
		return v.notFound()
	}
	in := client.AckAlarms{Filter: client.AlarmSelection{Merchant: f.Merchant, Kind: f.Kind}, Note: v.form("note"), UpTo: upTo}
	if _, err := v.alarmer().AckAlarms(v.r.Context(), in); err != nil {
		return err
	}
	return v.done("/console/alarms", "acknowledged-all")
}

func (v *visit) alarmAck() error {
	seq, err := strconv.ParseInt(v.r.PathValue("seq"), 10, 64)
	if err != nil {
		return v.notFound()
	}
	if _, err = v.alarmer().AckAlarm(v.r.Context(), seq, client.Ack{Note: v.r.PostFormValue("note")}); err != nil {
		return err
	}
	return v.done("/console/alarms", "acknowledged")
}
