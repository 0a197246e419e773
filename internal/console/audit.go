package console

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"countersign/client"
)

// auditSection shows the audit log of an end.
var auditSection = section{nav: navItem{"/console/audit", "Audit", "audit"}, lists: []lister{auditList}}

// auditFilter selects records by their subject or by a text in them.
type auditFilter struct{ Subject, Text string }

// auditRow is one record in a readable form.
type auditRow struct {
	Seq   int64           `json:"seq"`
	At    client.Time     `json:"at"`
	Kind  string          `json:"kind"`
	By    *auditActor     `json:"by,omitempty"` // nil: the end did it by itself
	Node  string          `json:"node"`
	About []string        `json:"about"`
	Data  json.RawMessage `json:"data"`
}

type auditActor struct {
	Token   string `json:"token"`
	Name    string `json:"name"`
	Role    string `json:"role"`
	Address string `json:"address"`
}

// auditSearch is how many records are read for a page of those that contain a text: most do not.
const auditSearch = 1000

var auditList = &list[auditFilter, auditRow]{
	table: table{"audit", "Audit", "No record is here. Each act on the API, each decision and each release becomes one.",
		[]column{
			{"No.", "n", `{{number .Seq}}`},
			{"When", "", `{{when .At}}`},
			{"What", "", `{{words .Kind}}`},
			{"Who", "", `{{with .By}}{{text .Name}} <span class="hint">{{.Role}}{{with .Address}}, from {{text .}}{{end}}</span>
{{- else}}<span class="hint">the {{$.End}}{{with .Node}} on {{text .}}{{end}}</span>{{end}}`},
			{"About", "long", `{{range .About}}<div>{{text .}}</div>{{end}}`},
			{"More", "long", `{{if .Data}}<details><summary>data</summary><pre><code>{{pretty .Data}}</code></pre></details>{{else}}{{text ""}}{{end}}`},
		}},
	hint: "Every act and every decision is a record that nobody can change unnoticed.",
	fields: []field{{name: "subject", label: "About", hint: "an id of anything"},
		{name: "text", label: "Text", hint: "a token, a kind…"}},
	read: (*visit).records,
}

func (v *visit) records(f auditFilter, o client.PageOptions) (page client.List[auditRow], err error) {
	before, _ := strconv.ParseInt(o.Cursor, 10, 64) // 0: the newest
	var entries []client.AuditEntry
	var from int64 // the oldest record that was looked at; 0 or 1: there is no older one
	if f.Subject != "" {
		found, err := read[client.List[client.AuditEntry]](v, "/v1/audit/about",
			client.AuditAboutOptions{ID: f.Subject, Before: before, Limit: o.Limit})
		if err != nil {
			return page, err
		}
		if entries = found.Items; len(entries) == o.Limit {
			from = entries[o.Limit-1].Seq
		}
	} else {
		if before < 1 {
			head, err := v.api.Audit(v.r.Context(), client.FeedOptions{After: math.MaxInt64})
			if err != nil {
				return page, err
			}
			before = head.Size + 1
		}
		look := o.Limit
		if f.Text != "" {
			look = auditSearch
		}
		after := max(0, before-1-int64(look))
		part, err := v.api.Audit(v.r.Context(), client.FeedOptions{After: after, Limit: int(max(1, before-1-after))})
		if err != nil {
			return page, err
		}
		entries, from = part.Entries, after+1
		slices.Reverse(entries)
	}
	for _, e := range entries {
		if f.Text == "" || bytes.Contains(bytes.ToLower(e.Record), bytes.ToLower([]byte(f.Text))) {
			row := auditRow{Kind: "unreadable", Data: e.Record}
			_ = json.Unmarshal(e.Record, &row) // what cannot be read is shown as it is
			row.Seq = e.Seq
			page.Items = append(page.Items, row)
		}
	}
	if from > 1 {
		next := strconv.FormatInt(from, 10)
		page.Next = &next
	}
	return page, nil
}
