package console

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"countersign/client"
)

// alarmsPage lists alarms.
type alarmsPage struct {
	Alarms []alarmRow
	All    bool   // those that were acknowledged too
	Next   string // the address of the next page
}

// alarmRow is an alarm of either end.
type alarmRow struct {
	Seq                           int64
	Merchant, Kind, Text, Subject string
	At, Acked                     client.Time
	AckedBy, AckedName, AckedNote string
	Link                          string // the page of the subject
}

func (v *visit) alarms() error {
	after, _ := strconv.ParseInt(v.query("after"), 10, 64) // anything else begins at the first
	page := alarmsPage{All: v.query("all") != ""}
	rows, next, err := v.readAlarms(page.All, client.FeedOptions{After: after, Limit: pageSize})
	if err != nil {
		return err
	}
	page.Alarms = rows
	if len(rows) == pageSize {
		page.Next = "/console/alarms?after=" + strconv.FormatInt(next, 10)
		if page.All {
			page.Next += "&all=1"
		}
	}
	slices.Reverse(page.Alarms)
	return v.render("alarms", "Alarms", page)
}

func (v *visit) readAlarms(all bool, o client.FeedOptions) (rows []alarmRow, next int64, err error) {
	ctx := v.r.Context()
	if v.service != nil {
		read := v.service.OpenAlarms
		if all {
			read = v.service.Alarms
		}
		part, err := read(ctx, o)
		for _, a := range part.Alarms {
			row := alarmRow{a.Seq, a.Merchant, string(a.Kind), a.Text, a.Subject, a.At, a.Acked, a.AckedBy, a.AckedName, a.AckedNote, serviceSubject(a)}
			rows = append(rows, row)
		}
		return rows, part.Next, err
	}
	read := v.gateway.OpenAlarms
	if all {
		read = v.gateway.Alarms
	}
	part, err := read(ctx, o)
	for _, a := range part.Alarms {
		rows = append(rows, alarmRow{a.Seq, "", string(a.Kind), sentence(a.Advice), a.Subject, a.At, a.Acked, a.AckedBy, a.AckedName, a.AckedNote, gatewaySubject(string(a.Kind), a.Subject)})
	}
	return rows, part.Next, err
}

// serviceSubject is the page of what an alarm of the service is about; empty: it has none.
func serviceSubject(a client.ServiceAlarm) string {
	id, more, _ := strings.Cut(a.Subject, " ")
	switch {
	case a.Kind == "frozen", a.Kind == "resumed" && a.Merchant == "":
		return "/console/stop"
	case strings.HasPrefix(id, "chg_"): // the change and what it changed
		return changePath(id)
	case a.Merchant != "" && strings.HasPrefix(id, a.Merchant+".") && more == "":
		return "/console/find/" + url.PathEscape(id)
	}
	return ""
}

// gatewaySubject is serviceSubject for an alarm of the gateway.
func gatewaySubject(kind, subject string) string {
	switch {
	case kind == "possible_duplicate":
		return "/console/deposits?trackingId=" + url.QueryEscape(subject)
	case kind == "order_unknown", strings.HasPrefix(kind, "executed_"), kind == "ended_after_execution", kind == "user_differs":
		return "/console/orders?callBackId=" + url.QueryEscape(subject)
	}
	return ""
}

func (v *visit) alarmAck() error {
	seq, err := strconv.ParseInt(v.r.PathValue("seq"), 10, 64)
	if err != nil {
		return v.notFound()
	}
	ack := client.Ack{Note: v.r.PostFormValue("note")}
	if v.service != nil {
		_, err = v.service.AckAlarm(v.r.Context(), seq, ack)
	} else {
		_, err = v.gateway.AckAlarm(v.r.Context(), seq, ack)
	}
	if err != nil {
		return err
	}
	return v.done("/console/alarms", "acknowledged")
}
