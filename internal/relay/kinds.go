package relay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"countersign/client"
	"countersign/internal/web"
)

// The kinds of rows. The first three have the body that the API takes. The others are about one withdrawal, which their
// body names by merchant and callBackId beside the members that the API takes.
const (
	kindDeposit    = "deposit"
	kindWithdrawal = "withdrawal"
	kindAddress    = "address"
	kindRelease    = "release"
	kindWaiting    = "waiting"
	kindOutcome    = "outcome"
	kindCancel     = "cancel"
)

var kinds = []string{kindDeposit, kindWithdrawal, kindAddress, kindRelease, kindWaiting, kindOutcome, kindCancel}

// paths are where rows are posted whose path names no withdrawal. They are posted many at once.
var paths = map[string]string{kindDeposit: "/v1/deposits", kindWithdrawal: "/v1/withdrawals",
	kindAddress: "/v1/addresses", kindRelease: "/v1/withdrawals/release", kindOutcome: "/v1/withdrawals/outcome"}

// kindOther stands for the kinds that sendByKey sends.
const kindOther = ""

// groupOf returns what a row of a kind is sent with: rows of the same kind, or all others.
func groupOf(kind string) string {
	if kind == kindDeposit || kind == kindWithdrawal || kind == kindAddress {
		return kind
	}
	return kindOther
}

// Row is a row of countersign_outbox.
type Row struct {
	ID       int64
	Version  string // of the row as it was read: the transaction that wrote it
	Kind     string
	Merchant string // empty: the body names no possible one
	Body     []byte // nil: it is longer than maxBody
	Length   int    // of the body, in bytes
	Age      time.Duration

	about *about // what a row about one withdrawal says; nil: it is of another kind
}

// maxBody is the longest body in bytes that is sent; the longest valid one is shorter. A thousand bodies of a quarter
// of it fit into one request of the API.
const maxBody = 16 << 10

// about is what a row about one withdrawal says.
type about struct {
	callBackID string
	rest       json.RawMessage // the body of the call
}

// key returns what is held if the row cannot be taken now: its merchant or its withdrawal. No merchant id has a slash.
func (row Row) key() string {
	if row.about == nil {
		return row.Merchant
	}
	return row.Merchant + "/" + row.about.callBackID
}

// isAbout reports whether the row is about w.
func (row Row) isAbout(w client.Withdrawal) bool {
	return w.Merchant == row.Merchant && w.CallBackID == row.about.callBackID
}

// aboutOf reads the body of a row about one withdrawal. It returns a problem if the body is wrong.
func aboutOf(row Row) (*about, *client.Problem) {
	o, err := web.ParseObject(row.Body, maxBody)
	var bad *web.JSONError
	if errors.As(err, &bad) {
		return nil, wrong(bad.Where("body"), bad.Problem)
	}
	if err != nil {
		return nil, wrong("body", err.Error())
	}
	a := &about{}
	var rest []string
	for _, m := range o.Members {
		switch raw := o.Raw(m); m.Name {
		case "merchant": // the row's column has it
		case "callBackId":
			if json.Unmarshal([]byte(raw), &a.callBackID) != nil {
				return nil, wrong("body.callBackId", "is not a text")
			}
		default:
			rest = append(rest, string(row.Body[m.From:m.End]))
		}
	}
	switch {
	case row.Merchant == "":
		return nil, wrong("body.merchant", "is missing, or is no merchant's id")
	case a.callBackID == "":
		return nil, wrong("body.callBackId", "is missing; it names the withdrawal that the row is about")
	}
	a.rest = json.RawMessage("{" + strings.Join(rest, ",") + "}")
	return a, nil
}

// unsent returns the problem of a row that the relay does not send.
func unsent(status int, location, message string) *client.Problem {
	return &client.Problem{Title: http.StatusText(status), Status: status,
		Detail: "the relay did not send it", Faults: []client.Fault{{Location: location, Message: message}}}
}

// wrong is unsent for what is wrong in the row itself.
func wrong(location, message string) *client.Problem {
	return unsent(http.StatusUnprocessableEntity, location, message)
}

// unfit returns why a row cannot be sent at all, or nil. It sets the row's about.
func unfit(row *Row) (p *client.Problem) {
	switch {
	case !slices.Contains(kinds, row.Kind):
		return wrong("kind", "is not one of "+strings.Join(kinds, ", "))
	case row.Body == nil:
		return wrong("body", fmt.Sprintf("has %d bytes; at most %d are sent", row.Length, maxBody))
	case !json.Valid(row.Body) || !bytes.HasPrefix(bytes.TrimLeft(row.Body, " \t\r\n"), []byte("{")):
		return wrong("body", "is not a JSON object")
	case groupOf(row.Kind) == kindOther:
		row.about, p = aboutOf(*row)
	}
	return p
}

// permit is a permit to write into the core's database.
type permit struct {
	issued *client.Permit
	claim  string
	body   []byte // JSON: the details and the withdrawal
	answer []byte // JSON: signed by the merchant; nil: it does not sign
}

// permitSQL keeps the permit of a withdrawal. It changes a row only if the service lost the permit in a restore.
const permitSQL = `
INSERT INTO countersign_permits AS p (merchant, call_back_id, withdrawal, claim, permit, body, note, answer) VALUES ($1, $2, $3, $4, $5, $6::json, $7, $8::json)
ON CONFLICT (merchant, call_back_id) DO UPDATE SET withdrawal = excluded.withdrawal, claim = excluded.claim, permit = excluded.permit,
	body = excluded.body, note = excluded.note, answer = excluded.answer, written = clock_timestamp() WHERE p.permit <> excluded.permit`

// permitOf returns the permit that the service issued for a row.
func permitOf(row Row, issued *client.Permit) (permit, error) {
	var asked client.Claim
	if err := json.Unmarshal(row.about.rest, &asked); err != nil || issued.Permit == "" ||
		!row.isAbout(issued.Withdrawal) {
		return permit{}, fmt.Errorf("the answer to a release is not a permit of withdrawal %s: %v", row.key(), err)
	}
	shown, err := json.Marshal(struct {
		Details    client.Details    `json:"details"`
		Withdrawal client.Withdrawal `json:"withdrawal"`
	}{issued.Details, issued.Withdrawal})
	p := permit{issued: issued, claim: asked.Holder, body: shown}
	if err == nil && issued.Answer != nil {
		p.answer, err = json.Marshal(issued.Answer)
	}
	return p, err
}

// errNoPermits is returned because a relay without --decisions does not write permits.
var errNoPermits = errors.New("a row asks for a permit: run the relay with --decisions")

// missing is the error of a row whose withdrawal the service does not have.
var missing = unsent(http.StatusNotFound, "body.callBackId", "names no withdrawal that the service has")
