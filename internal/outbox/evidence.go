package outbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"reflect"

	"countersign"
	"countersign/internal/audit"
	"countersign/internal/db"
)

// The kinds of records of the service's audit log.
const (
	recordMerchantCreated = "merchant.created"
	recordMerchantChanged = "merchant.changed"
	recordMerchantPaused  = "merchant.paused"
	recordMerchantResumed = "merchant.resumed"

	recordCreated      = "withdrawal.created"
	recordAnswered     = "withdrawal.answered" // an exchange whose response was an answer or decided
	recordDecided      = "withdrawal.decided"
	recordReleased     = "withdrawal.released"
	recordRepeated     = "withdrawal.released_again" // the same permit to the same holder
	recordForeignClaim = "withdrawal.claim_refused"
	recordWaits        = "withdrawal.waits"
	recordEnded        = "withdrawal.ended"

	recordFrozen  = "service.frozen"
	recordThawed  = "service.thawed"
	recordBlocked = "withdrawal.blocked"
	recordLapsed  = "withdrawal.lapsed"

	recordSettled = "attempts.settled" // of all other callbacks, as one
	recordResent  = "callbacks.resent"
)

// Exchange is what the audit log keeps of an attempt of type 2 whose response was an
// answer or made a decision.
type Exchange struct {
	Version        int64  // of the merchant
	URL            string // that was called
	RequestKey     string // fingerprints of the keys
	ResponseKey    string
	Request        string // the body that was sent
	RequestOpened  string // what was sealed in it
	Message        string // of the response; none of these without one
	Data           string // the sealed answer
	ResponseOpened string // what it opened to, if that was an answer
}

// ofWithdrawal is what records about a withdrawal have in common.
type ofWithdrawal struct {
	Merchant   string `json:"merchant"`
	CallBackID string `json:"callBackId,omitempty"`
}

// aboutFreezes is by what records of freezes are found.
const aboutFreezes = "freezes"

// record adds a record about one merchant, callback or withdrawal.
func record(ctx context.Context, t *db.Tx, kind, id string, now db.Millis, data any) error {
	return audit.Add(ctx, t, audit.Record{Kind: kind, At: now, About: []string{id}, Data: data})
}

type createdRecord struct {
	ofWithdrawal
	TenantUserID string         `json:"tenantUserId"`
	TrackingID   string         `json:"trackingId"`
	Business     int64          `json:"business"`
	Ordered      *audit.Details `json:"ordered,omitempty"` // absent: the service was told nothing
	Deadline     int64          `json:"deadline"`          // milliseconds since 1970, as all times below
}

type decidedRecord struct {
	Merchant string         `json:"merchant"`
	Decision string         `json:"decision"`
	Reason   string         `json:"reason"`
	Attempt  int            `json:"attempt,omitempty"` // absent: no answer decided
	Details  *audit.Details `json:"details,omitempty"`
}

// releasedRecord tells of a permit. The permit itself is a secret: its fingerprint is
// the beginning of its SHA-256.
type releasedRecord struct {
	ofWithdrawal
	Holder  string         `json:"holder"`
	Permit  string         `json:"permit"`
	Held    string         `json:"heldBy,omitempty"` // who has it, if the holder did not get it
	Details *audit.Details `json:"details,omitempty"`
}

// reasonRecord tells why a person stopped something.
type reasonRecord struct {
	Reason string `json:"reason,omitempty"`
}

type endedRecord struct {
	ofWithdrawal
	State  string `json:"state"`
	Permit string `json:"permit"`
	TxID   string `json:"txId,omitempty"`
	Reason string `json:"reason,omitempty"`
}

type waitsRecord struct {
	ofWithdrawal
	Type     int    `json:"type"`     // 6 or 7
	Callback string `json:"callback"` // that tells the merchant
}

// recordRelease tells of a call that asked for a permit. One for a withdrawal without a
// permit changed nothing.
func recordRelease(ctx context.Context, t *db.Tx, p *Permit, holder string, now db.Millis) error {
	w := &p.Withdrawal
	if p.Permit == "" {
		return nil
	}
	r := releasedRecord{ofWithdrawal: ofWithdrawal{w.Merchant, w.CallBackID}, Holder: holder, Permit: audit.Fingerprint(p.Permit), Details: audit.DetailsOf(w.Details)}
	kind := recordReleased
	switch {
	case w.Claim != holder:
		kind, r.Held = recordForeignClaim, w.Claim
	case p.Duplicate:
		kind = recordRepeated
	}
	return record(ctx, t, kind, w.ID, now, r)
}

// attemptRecord is an attempt as a record or an item has it.
type attemptRecord struct {
	Merchant     string `json:"merchant"`
	Callback     string `json:"callback"`
	Type         int    `json:"type"`
	EventID      string `json:"eventId"`
	AddedBy      string `json:"addedBy,omitempty"` // token
	Payload      string `json:"payload"`           // SHA-256 of the canonical payload
	Attempt      int    `json:"attempt"`
	RequestUUID  string `json:"requestUUID"`
	Started      int64  `json:"started"`
	Settled      int64  `json:"settled"`
	Node         string `json:"node"`
	Status       int    `json:"status"`
	ErrCode      *int64 `json:"errCode,omitempty"`
	Result       string `json:"result"`
	Reason       string `json:"reason"`
	RequestHash  string `json:"requestHash,omitempty"` // SHA-256 of the body
	ResponseHash string `json:"responseHash,omitempty"`
	Late         bool   `json:"late,omitempty"` // it came after its lease was lost and changed nothing
}

// item is an attempt as it is recorded. It is made again from the rows to prove it.
func (a *Attempt) item(merchant, callback string, typ countersign.Type, eventID, addedBy string, payload []byte, late bool, settled db.Millis) attemptRecord {
	sum := sha256.Sum256(payload)
	return attemptRecord{Merchant: merchant, Callback: callback, Type: int(typ), EventID: eventID, AddedBy: addedBy, Payload: hex.EncodeToString(sum[:]),
		Attempt: a.Number, RequestUUID: db.Clean(a.RequestUUID), Started: int64(a.Started), Settled: int64(settled), Node: db.Clean(a.Node),
		Status: a.HTTPStatus, ErrCode: a.ErrCode, Result: db.Clean(a.Result), Reason: db.Clean(a.Reason),
		RequestHash: hex.EncodeToString(unhex(a.RequestHash)), ResponseHash: hex.EncodeToString(unhex(a.ResponseHash)), Late: late}
}

type answeredRecord struct {
	attemptRecord
	Version        int64          `json:"merchantVersion"`
	URL            string         `json:"url"`
	RequestKey     string         `json:"requestKey"` // fingerprints
	ResponseKey    string         `json:"responseKey"`
	Request        string         `json:"request"`       // the body, as it was sent
	RequestOpened  string         `json:"requestOpened"` // the bytes that were sealed in it
	Message        string         `json:"message,omitempty"`
	Response       string         `json:"response,omitempty"`       // member data of the response: the sealed answer, as it came
	ResponseOpened string         `json:"responseOpened,omitempty"` // the bytes that it opened to
	Details        *audit.Details `json:"details,omitempty"`
	AfterDecision  bool           `json:"afterDecision,omitempty"` // there was a decision already
	Differs        bool           `json:"differs,omitempty"`       // and this answer contradicts it
	Alarm          string         `json:"alarm,omitempty"`
}

// recordBatch adds the records of a batch of settlements: one for each exchange that
// is told of apart and each decision, and one for all other attempts.
func (o *Outbox) recordBatch(ctx context.Context, t *db.Tx, batch []*settling, now db.Millis) error {
	var list []audit.Item
	for _, b := range batch {
		if b.fresh {
			item := b.Attempt.item(b.Merchant, b.CallbackID, b.Type, b.EventID, b.AddedBy, b.Payload, !b.found, now)
			if b.Exchange == nil {
				list = append(list, audit.Item{At: now, Item: item})
			} else if err := record(ctx, t, recordAnswered, b.CallbackID, now, b.answered(item)); err != nil {
				return err
			}
		}
		if b.awaiting == 1 {
			d := decidedRecord{Merchant: b.Merchant, Decision: string(b.decided), Reason: db.Clean(b.Attempt.Reason), Attempt: b.Attempt.Number}
			switch b.decided {
			case countersign.DecisionConfirmed:
				d.Details = audit.DetailsOf(&b.Details)
			case countersign.DecisionExpired:
				d.Reason = ReasonDeadline
			}
			if err := record(ctx, t, recordDecided, b.CallbackID, now, d); err != nil {
				return err
			}
		}
	}
	return audit.AddItems(ctx, t, audit.Record{Kind: recordSettled, At: now}, list)
}

func (b *settling) answered(item attemptRecord) answeredRecord {
	e := b.Exchange
	return answeredRecord{attemptRecord: item, Version: e.Version, URL: e.URL, RequestKey: e.RequestKey, ResponseKey: e.ResponseKey,
		Request: e.Request, RequestOpened: e.RequestOpened, Message: e.Message, Response: e.Data, ResponseOpened: e.ResponseOpened,
		Details: audit.DetailsOf(&b.Details), AfterDecision: b.out.Late, Differs: b.out.Differs, Alarm: b.Alarm}
}

const itemsOfSQL = `
SELECT c.type, c.event_id, c.added_by, c.payload, a.number, a.request_uuid, a.started, a.http_status, a.err_code, a.outcome, a.reason, a.node,
	a.request_hash, a.response_hash, a.late, a.settled
FROM attempts a JOIN callbacks c ON c.merchant = '' || a.merchant AND c.id = a.callback
WHERE a.merchant = $1 AND a.callback = $2 ORDER BY a.number`

// Subject is what the audit log has about a callback or a withdrawal, both of which
// have the same id.
func (o *Outbox) Subject(ctx context.Context, id string) (audit.Subject, error) {
	merchant, rest, err := splitID(id)
	if err != nil {
		return audit.Subject{}, err
	}
	s := audit.Subject{IDs: []string{id}, Context: []string{merchant, aboutFreezes, audit.AboutStarts}}
	err = db.Each(ctx, o, itemsOfSQL, []any{merchant, rest}, func(r db.Rows) error {
		var a Attempt
		var typ countersign.Type
		var eventID, addedBy string
		var payload, request, response []byte
		var late int64
		var settled db.Millis
		err := r.Scan(&typ, &eventID, &addedBy, &payload, &a.Number, &a.RequestUUID, &a.Started, &a.HTTPStatus, &a.ErrCode, &a.Result, &a.Reason, &a.Node,
			&request, &response, &late, &settled)
		a.RequestHash, a.ResponseHash = hex.EncodeToString(request), hex.EncodeToString(response)
		s.Items = append(s.Items, audit.Item{At: settled, Item: a.item(merchant, id, typ, eventID, addedBy, payload, late == 1, settled)})
		return err
	})
	return s, err
}

// recordResends tells of the callbacks of list that were made due.
func recordResends(ctx context.Context, t *db.Tx, list []swept, resent []int64, now db.Millis) error {
	r := audit.Record{Kind: recordResent, At: now}
	for i, f := range list {
		if resent[i] == 1 {
			r.About = append(r.About, joinID(f.merchant, f.id))
		}
	}
	return audit.Add(ctx, t, r)
}

// merchantRecord is a merchant as records have it: secrets by their fingerprints.
func merchantRecord(m *Merchant) map[string]any {
	return map[string]any{"name": m.Name, "state": string(m.State), "pausedReason": m.PausedReason, "notifyUrl": m.NotifyURL, "withdrawUrl": m.WithdrawURL,
		"scheme": string(m.Scheme), "settings": m.Settings, "concurrency": m.Concurrency, "ratePerSecond": m.RatePerSecond,
		"confirmWithin": m.ConfirmWithin.String(), "releaseWithin": m.ReleaseWithin.String(), "requestKey": m.Fingerprint, "responseKey": m.ResponseFingerprint,
		"apiKey": audit.Fingerprint(m.APIKey.Reveal()), "callbackApiKey": audit.Fingerprint(m.CallbackAPIKey.Reveal())}
}

// changedRecord tells of the members of a merchant that are others than before.
type changedRecord struct {
	Version int64          `json:"version"`
	Before  map[string]any `json:"before,omitempty"`
	After   map[string]any `json:"after"`
}

// recordMerchant adds a record about a merchant that was was; nil: it is new.
func recordMerchant(ctx context.Context, t *db.Tx, was, is *Merchant, now db.Millis) error {
	c := changedRecord{Version: is.Version, After: merchantRecord(is)}
	kind := recordMerchantCreated
	if was != nil {
		kind, c.Before = recordMerchantChanged, merchantRecord(was)
		for member, value := range c.After {
			if reflect.DeepEqual(value, c.Before[member]) {
				delete(c.After, member)
				delete(c.Before, member)
			}
		}
	}
	return record(ctx, t, kind, is.ID, now, c)
}
