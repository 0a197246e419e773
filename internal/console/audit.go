package console

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"countersign/client"
)

// auditSection has the audit log of an end.
var auditSection = section{
	nav: navItem{"/console/audit", "Audit", "audit"},
	pages: []page{
		{"GET /console/audit", (*visit).audit},
		{"GET /console/audit/checkpoint", (*visit).checkpointFile},
		{"GET /console/audit/records/{seq}", (*visit).recordFile},
	},
}

// auditPage shows the audit log, the newest records first.
type auditPage struct {
	Text    string // that the records have
	Subject string // that they are about
	Records []auditRow
	Size    int64  // records of the log; 0: not asked
	From    int64  // the oldest record that was looked at
	Older   string // the address of the page before
}

// auditRow is one record as a person reads it.
type auditRow struct {
	Seq   int64
	At    client.Time
	Kind  string
	By    *auditActor // nil: the end did it by itself
	Node  string
	About []string
	Data  json.RawMessage
}

type auditActor struct{ Token, Name, Role, Address string }

// auditLook is how many records a page of the log looks at: with a search, many of them
// do not match.
const (
	auditLook   = 50
	auditSearch = 1000
)

func (v *visit) audit() error {
	page := auditPage{Text: v.query("text"), Subject: v.query("subject")}
	before, _ := strconv.ParseInt(v.query("before"), 10, 64) // 0: the newest
	var entries []client.AuditEntry
	older := url.Values{}
	if page.Subject != "" {
		list, err := v.api.AuditAbout(v.r.Context(),
			client.AuditAboutOptions{ID: page.Subject, Before: before, Limit: auditLook})
		if err != nil {
			return err
		}
		if entries = list.Entries; len(entries) == auditLook {
			page.From = entries[auditLook-1].Seq
			older.Set("subject", page.Subject)
		}
	} else {
		head, err := v.api.Audit(v.r.Context(), client.FeedOptions{After: math.MaxInt64})
		if err != nil {
			return err
		}
		page.Size = head.Size
		look := int64(auditLook)
		if page.Text != "" {
			look = auditSearch
			older.Set("text", page.Text)
		}
		if before <= 1 || before > page.Size+1 {
			before = page.Size + 1
		}
		after := max(0, before-1-look)
		part, err := v.api.Audit(v.r.Context(), client.FeedOptions{After: after, Limit: int(max(1, before-1-after))})
		if err != nil {
			return err
		}
		entries = part.Entries
		slices.Reverse(entries)
		page.From = after + 1
	}
	for _, e := range entries {
		if page.Text == "" || containsFold(e.Record, page.Text) {
			page.Records = append(page.Records, auditRowOf(e.Seq, e.Record))
		}
	}
	if page.From > 1 {
		older.Set("before", strconv.FormatInt(page.From, 10))
		page.Older = "/console/audit?" + older.Encode()
	}
	return v.render("audit", "Audit", page)
}

func auditRowOf(seq int64, record json.RawMessage) (row auditRow) {
	if json.Unmarshal(record, &row) != nil {
		return auditRow{Seq: seq, Kind: "unreadable", Data: record}
	}
	row.Seq = seq
	return row
}

func containsFold(record []byte, text string) bool {
	return bytes.Contains(bytes.ToLower(record), bytes.ToLower([]byte(text)))
}

// recordFile is one whole record with its proof, to be verified with countersign audit verify.
func (v *visit) recordFile() error {
	seq, err := strconv.ParseInt(v.r.PathValue("seq"), 10, 64)
	if err != nil {
		return v.notFound()
	}
	proof, err := v.api.AuditProve(v.r.Context(), seq)
	if err != nil {
		return err
	}
	return v.file("record-"+strconv.FormatInt(seq, 10)+".json", proof)
}

// checkpointFile is the log's signed head.
func (v *visit) checkpointFile() error {
	head, err := v.api.AuditCheckpoint(v.r.Context(), 0)
	if err != nil {
		return err
	}
	return v.file("checkpoint.json", head)
}

// file answers with JSON that the browser saves. Records keep their bytes.
func (v *visit) file(name string, content any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(content); err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "application/json")
	v.w.Header().Set("Content-Disposition", `attachment; filename="`+url.QueryEscape(name)+`"`)
	v.w.WriteHeader(http.StatusOK)
	_, _ = v.w.Write(b.Bytes()) // the browser is gone
	return nil
}
