package console

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"countersign/client"
)

// auditSection has the audit log of an end.
var auditSection = section{
	nav: navItem{"/console/audit", "Audit", "audit"},
	pages: []page{
		{"GET /console/audit", (*visit).audit},
		{"GET /console/audit/checkpoint", (*visit).checkpointFile},
		{"GET /console/audit/evidence/{id}", (*visit).auditFile},
	},
}

// auditPage shows the audit log, the newest records first.
type auditPage struct {
	Text    string // that the records have
	Subject string // that they are about
	Records []auditRow
	First   int64  // the first record that the log has
	Size    int64  // records of the log
	From    int64  // the oldest record that was looked at
	Older   string // the address of the page before
	Key     string // of the log's verifier
	Peers   []client.AuditPeer
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

// auditRecord is a record as the log has it.
type auditRecord struct {
	auditRow
	Private auditRow
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
	if page.Subject != "" {
		return v.auditOf(page)
	}
	// Not by a checkpoint: that hashes what came since the last one, and signs and keeps it.
	head, err := v.readAudit(client.FeedOptions{After: math.MaxInt64})
	if err != nil {
		return err
	}
	page.First, page.Size = head.First, head.Size
	look := int64(auditLook)
	if page.Text != "" {
		look = auditSearch
	}
	before, err := strconv.ParseInt(v.query("before"), 10, 64)
	if err != nil || before <= head.First || before > page.Size+1 {
		before = page.Size + 1
	}
	after := max(head.First-1, before-1-look)
	part, err := v.readAudit(client.FeedOptions{After: after, Limit: int(max(1, before-1-after))})
	if err != nil {
		return err
	}
	for _, e := range part.Entries {
		if page.Text == "" || containsFold(e.Record, page.Text) {
			page.Records = append(page.Records, auditRowOf(e.Seq, e.Record))
		}
	}
	slices.Reverse(page.Records)
	page.From = after + 1
	if after >= head.First {
		page.Older = "/console/audit?before=" + strconv.FormatInt(page.From, 10)
		if page.Text != "" {
			page.Older += "&text=" + url.QueryEscape(page.Text)
		}
	}
	if page.Text == "" && v.query("before") == "" && v.may("auditPeers") {
		list, err := v.auditPeers()
		if err != nil {
			return err
		}
		page.Peers = list.Peers
	}
	return v.render("audit", "Audit", page)
}

func (v *visit) auditPeers() (client.AuditPeers, error) {
	if v.service != nil {
		return v.service.AuditPeers(v.r.Context())
	}
	return v.gateway.AuditPeers(v.r.Context())
}

// auditOf shows what the log has about one withdrawal or callback.
func (v *visit) auditOf(page auditPage) error {
	proof, err := v.evidenceOf(page.Subject, false)
	if err != nil {
		return err
	}
	page.Size, page.Key = checkpointSize(proof.Checkpoint), proof.Key
	for _, r := range proof.Records {
		page.Records = append(page.Records, auditRowOf(r.Seq, r.Record))
	}
	slices.Reverse(page.Records)
	return v.render("audit", "Audit", page)
}

// evidenceOf proves all records about a withdrawal or, if it is none, a callback; for an outsider,
// what is not for others is left out.
func (v *visit) evidenceOf(id string, outsider bool) (client.AuditProof, error) {
	read := v.readEvidence
	proof, err := read(client.AuditOptions{Withdrawal: id, Outsider: outsider})
	if err != nil && statusOf(err) < 500 {
		proof, err = read(client.AuditOptions{Callback: id, Outsider: outsider})
	}
	return proof, err
}

func (v *visit) readEvidence(o client.AuditOptions) (client.AuditProof, error) {
	if v.service != nil {
		return v.service.AuditEvidence(v.r.Context(), o)
	}
	return v.gateway.AuditEvidence(v.r.Context(), o)
}

func (v *visit) readAudit(o client.FeedOptions) (client.AuditPage, error) {
	if v.service != nil {
		return v.service.Audit(v.r.Context(), o)
	}
	return v.gateway.Audit(v.r.Context(), o)
}

func (v *visit) checkpoint(from int64) (client.AuditProof, error) {
	if v.service != nil {
		return v.service.AuditCheckpoint(v.r.Context(), from)
	}
	return v.gateway.AuditCheckpoint(v.r.Context(), from)
}

// checkpointSize reads the number of records from the second line of a checkpoint.
func checkpointSize(note string) int64 {
	lines := strings.SplitN(note, "\n", 3)
	if len(lines) < 3 {
		return 0
	}
	n, _ := strconv.ParseInt(lines[1], 10, 64) // 0: shows nothing
	return n
}

func auditRowOf(seq int64, record json.RawMessage) (row auditRow) {
	var r auditRecord
	if json.Unmarshal(record, &r) != nil {
		return auditRow{Seq: seq, Kind: "unreadable", Data: record}
	}
	row = r.auditRow
	row.Seq, row.By, row.Node = seq, r.Private.By, r.Private.Node
	if r.Private.About != nil {
		row.About = r.Private.About
	}
	row.Data = slices.Concat(row.Data, r.Private.Data)
	if i := len(r.Data) - 1; i > 0 && len(row.Data) > i+1 { // both are objects
		row.Data = slices.Concat(r.Data[:i], []byte(","), r.Private.Data[1:])
	}
	return row
}

func containsFold(record []byte, text string) bool {
	return bytes.Contains(bytes.ToLower(record), bytes.ToLower([]byte(text)))
}

// auditFile is the proof of the records about a withdrawal or callback, for outsiders, to be verified
// with countersign audit verify.
func (v *visit) auditFile() error {
	id := v.r.PathValue("id")
	proof, err := v.evidenceOf(id, true)
	if err != nil {
		return err
	}
	return v.file("evidence-"+id+".json", proof)
}

// checkpointFile is the log's signed head.
func (v *visit) checkpointFile() error {
	head, err := v.checkpoint(0)
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
