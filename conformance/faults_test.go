package conformance_test

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/merchant"
)

// fault is one fault of a merchant, or a liberty that is allowed, and the cases that must fail for it. At most one or two
// of its functions are set.
type fault struct {
	name  string
	cases string // regular expression over names

	// http changes a request before anything is read, or answers it and returns true.
	http func(g *rig, w http.ResponseWriter, r *http.Request) bool
	// refuses returns an errCode with which a callback is refused in place of the merchant; 0: none. It is asked about
	// what could not be read too if unread is set.
	refuses func(q *asked) int
	unread  bool
	// takes reports whether what the merchant refused with code is accepted.
	takes func(q *asked, code int) bool
	// confirms reports whether a question is confirmed in place of the merchant, with o.
	confirms func(q *asked, o *client.NewOrder) bool
	// answer changes an answer that accepts, also to a question if questions is set; response a whole response.
	answer    func(q *asked, a members)
	questions bool
	response  func(q *asked, status int, r, a members) int
	// entry changes what the memory is given. kill is what a kill loses.
	entry func(g *rig, e *merchant.Entry)
	kill  func(g *rig)
	// credits reports whether a possible duplicate is credited. amounts are what is credited in place of an amount.
	credits func(g *rig, d merchant.Deposit) bool
	amounts func(g *rig, amount string) []string
}

// faults are all faults. Faults of responses that every case judges alike are those of TestCallerJudges.
var faults = []fault{
	{name: "fixed order", cases: `deposit/json`, refuses: malformedIf(func(q *asked) bool {
		return q.kind == 1 && !bytes.HasPrefix(q.plain, []byte(`{"type":`)) && !bytes.ContainsAny(q.plain, " ")
	})},
	{name: "compact only", cases: `deposit/json`, refuses: malformedIf(func(q *asked) bool { return bytes.ContainsAny(q.plain, "\n") })},
	{name: "keeps escapes", cases: `deposit/json`, answer: func(q *asked, a members) {
		if bytes.Contains(q.plain, []byte(`S\u0044`)) {
			a["symbol"] = `\u0055S\u0044\u0054`
		}
	}},
	{name: "knows all members", cases: `deposit/(json|large)|http/largest`, refuses: depositIf(func(m members) bool { return len(m) > 15 })},
	{name: "blocks are texts", cases: `deposit/blocks`, unread: true, refuses: unopenedIf(func(q *asked) bool {
		return slices.ContainsFunc(q.blocks, func(b []byte) bool { return !bytes.Equal(bytes.ToValidUTF8(b, nil), b) })
	})},
	{name: "full blocks only", cases: `deposit/blocks`, unread: true, refuses: unopenedIf(func(q *asked) bool {
		return len(q.blocks) > 0 && len(q.blocks[0]) < 30 && !bytes.Contains(q.blocks[0], []byte("requestUUID"))
	})},
	{name: "empty is missing", cases: `deposit/edges`, refuses: depositIf(func(m members) bool { return m["fromAddress"] == "" })},
	{name: "no negative index", cases: `deposit/values|repeat/possible-duplicate`, refuses: depositIf(func(m members) bool {
		return strings.HasPrefix(m.str("txIndex"), "-")
	})},
	{name: "zero index is none", cases: `deposit/values`, answer: func(q *asked, a members) {
		if q.m.str("txIndex") == "0" {
			a["txIndex"] = -1
		}
	}},
	{name: "whole numbers 32 bit", cases: `deposit/edges`, refuses: depositIf(func(m members) bool {
		return len(m.str("txIndex")) > 10 || len(m.str("business")) > 10
	})},
	{name: "risk 1 to 99", cases: `deposit/values`, refuses: depositIf(func(m members) bool {
		return m.str("riskLevelFrom") == "0" || m.str("riskLevelTo") == "100"
	})},
	{name: "64 characters", cases: `deposit/large`, refuses: depositIf(func(m members) bool { return len(m.str("txId")) > 66 })},
	{name: "newAddress always counts", cases: `deposit/values`, answer: func(q *asked, a members) {
		a["toAddress"] = cmp.Or(q.m.str("newAddress"), q.m.str("toAddress"))
	}},
	{name: "lower-cases addresses", cases: `deposit/values`, answer: func(q *asked, a members) {
		a["fromAddress"] = strings.ToLower(q.m.str("fromAddress"))
	}},
	{name: "float amounts", cases: `deposit/(long-)?amounts`, answer: func(q *asked, a members) { a["amount"] = float(q.m.str("amount")) }},
	{name: "no trailing zeros", cases: `deposit/amounts`, refuses: depositIf(func(m members) bool {
		return strings.Contains(m.str("amount"), ".") && strings.HasSuffix(m.str("amount"), "0")
	})},
	{name: "trims all zeros", cases: `deposit/amounts`, answer: func(q *asked, a members) {
		a["amount"] = strings.TrimRight(q.m.str("amount"), "0.")
	}},
	{name: "amounts need a point", cases: `deposit/(long-)?amounts`, refuses: depositIf(func(m members) bool {
		return !strings.Contains(m.str("amount"), ".")
	})},
	{name: "an invented user", cases: `deposit/plain|response/deposit-members`, answer: func(_ *asked, a members) { a["tenantUserId"] = "somebody" }},

	{name: "refuses repeats", cases: `repeat/(new-request|same-body|at-once)`, refuses: func(q *asked) int {
		if q.kind == 1 && q.n > 1 {
			return 2002
		}
		return 0
	}},
	{name: "keeps its first answer", cases: `repeat/(new-request|at-once)|withdrawal/known(-at-once)?`,
		response: func(q *asked, status int, r, _ members) int {
			q.mu.Lock()
			defer q.mu.Unlock()
			if q.kept[q.key] == nil {
				q.kept[q.key], _ = json.Marshal(r)
			}
			r["raw"] = q.kept[q.key]
			return status
		}},
	{name: "refuses a seen requestUUID", cases: `repeat/same-body`, refuses: func(q *asked) int {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.counts[q.m.str("requestUUID")] > 1 {
			return 5000
		}
		return 0
	}},
	{name: "identifies by transaction", cases: `repeat/(two-transfers|possible-duplicate)`, refuses: func(q *asked) int {
		q.mu.Lock()
		defer q.mu.Unlock()
		for key, m := range q.firsts {
			if q.kind == 1 && key != q.key && m["txId"] == q.m["txId"] && m["toAddress"] == q.m["toAddress"] {
				return 2002
			}
		}
		return 0
	}},
	{name: "credits repeats", cases: `repeat/(new-request|at-once)`, answer: func(q *asked, _ members) {
		q.mu.Lock()
		defer q.mu.Unlock()
		if id := q.m.str("trackingId"); q.kind == 1 && q.n > 1 {
			q.rig.credits[id] = append(q.rig.credits[id], q.m.str("amount"))
		}
	}},
	{name: "credits nothing", cases: `deposit/plain|credit/later`, amounts: func(*rig, string) []string { return nil }},
	{name: "rounds credits", cases: `deposit/(long-)?amounts`, amounts: func(_ *rig, a string) []string {
		n, _ := strconv.ParseFloat(a, 64)
		return []string{strconv.FormatFloat(n, 'f', 8, 64)}
	}},
	{name: "credits the one before again", cases: `repeat/two-transfers|credit/later`, amounts: func(g *rig, a string) []string {
		if g.last != "" {
			g.credits[g.last] = append(g.credits[g.last], g.credits[g.last][0])
		}
		return []string{a}
	}},
	{name: "keeps nothing over a kill", cases: `restart/(accepted|withdrawal)`, kill: func(g *rig) { g.inbox = merchant.NewMemoryInbox() }},
	{name: "forgets transfers in a kill", cases: `restart/accepted`, entry: func(g *rig, e *merchant.Entry) {
		e.Transfer[0], e.Payment[0] = e.Transfer[0]^g.kills, e.Payment[0]^g.kills
	}},
	{name: "forgets blocks in a kill", cases: `binding/spliced-amount`, entry: func(g *rig, e *merchant.Entry) {
		if e.Blocks != nil {
			other := *e.Blocks
			other.List = slices.Clone(other.List)
			for i := range other.List {
				other.List[i].Digest[0] ^= g.kills
			}
			e.Blocks = &other
		}
	}},
	{name: "credits are lost in a kill", cases: `restart/accepted`, kill: func(g *rig) { clear(g.credits) }},
	{name: "answers before it keeps", cases: `restart/accepted`, kill: func(g *rig) {
		g.inbox = merchant.NewMemoryInbox()
		clear(g.credits)
	}},
	{name: "suspects nothing", cases: `repeat/possible-duplicate|restart/accepted`, credits: func(*rig, merchant.Deposit) bool { return true }},
	{name: "spelling counts", cases: `repeat/possible-duplicate`, refuses: first, credits: func(g *rig, d merchant.Deposit) bool {
		return !g.knows(d, func(m members) bool {
			return m["chainName"] == d.ChainName && m["txId"] == d.TxID && m["symbol"] == d.Symbol && m["toAddress"] == d.ToAddress
		})
	}},
	{name: "another index is another transfer", cases: `repeat/possible-duplicate`, refuses: first, credits: func(g *rig, d merchant.Deposit) bool {
		return d.TxIndex >= 0 && !g.knows(d, func(m members) bool { return m.str("txIndex") == "-1" || m.str("txIndex") == fmt.Sprint(d.TxIndex) })
	}},
	{name: "takes another amount", cases: `repeat/other-content|notice/other-content|restart/accepted`, takes: another("amount")},
	{name: "compares floats", cases: `repeat/other-content`, takes: func(q *asked, code int) bool {
		return code == 2002 && float(q.m.str("amount")) == float(q.first().str("amount"))
	}},
	{name: "takes another tenantUserId", cases: `repeat/other-content`, takes: another("tenantUserId")},
	{name: "takes another toAddress", cases: `repeat/other-content`, takes: another("toAddress")},
	{name: "takes another trackingId", cases: `withdrawal/second-tracking-id`, takes: func(q *asked, code int) bool { return q.kind == 2 && code == 2002 }},

	{name: "refuses notices", cases: `notice/(accepted|repeat)`, refuses: noticeIf(func(*asked) bool { return true })},
	{name: "needs a trackingId", cases: `notice/accepted`, refuses: noticeIf(func(q *asked) bool { return q.m["trackingId"] == nil })},
	{name: "needs all addresses", cases: `notice/accepted`, refuses: noticeIf(func(q *asked) bool {
		return (q.kind == 3 || q.kind == 5) && (q.m["toAddress"] == nil || q.kind == 3 && q.m["fromAddress"] == nil)
	})},
	{name: "refuses notices again", cases: `notice/repeat`, refuses: noticeIf(func(q *asked) bool { return q.n > 1 })},
	{name: "old address stays", cases: `notice/(accepted|repeat)`, answer: func(q *asked, a members) {
		if q.kind == 4 {
			a["toAddress"] = cmp.Or(q.m.str("toAddress"), "0x01")
		}
	}},
	{name: "acknowledges unknown types", cases: `notice/unknown-type`, takes: func(_ *asked, code int) bool { return code == 1003 }},

	{name: "no order book", cases: `withdrawal/(known|known-at-once|smuggled)`, refuses: questionIf(func(*asked) bool { return true })},
	{name: "another amount", cases: `withdrawal/(known|long-amount)`, confirms: confirm(func(q *asked, o *client.NewOrder) bool {
		o.Amount = amountOf("120.50000001")
		return q.m["callBackId"] == o.CallBackID
	})},
	{name: "its own callBackId", cases: `withdrawal/known`, questions: true, answer: func(q *asked, a members) {
		if q.kind == 2 {
			a["callBackId"] = "mine-1"
		}
	}},
	{name: "an order once", cases: `withdrawal/known(-at-once)?`, refuses: questionIf(func(q *asked) bool { return q.n > 1 })},
	{name: "confirms everything", cases: `withdrawal/(unknown|other-user|similar)`, confirms: confirm(func(*asked, *client.NewOrder) bool { return true })},
	{name: "confirms the second time", cases: `withdrawal/unknown`, confirms: confirm(func(q *asked, _ *client.NewOrder) bool { return q.n > 1 })},
	{name: "details in any block", cases: `withdrawal/details-bound`, questions: true, answer: func(*asked, members) {}}, // in another order
	{name: "any user", cases: `withdrawal/other-user`, confirms: confirm(func(q *asked, o *client.NewOrder) bool { return q.m["callBackId"] == o.CallBackID })},
	{name: "orders in any case", cases: `withdrawal/similar`, confirms: confirm(func(q *asked, o *client.NewOrder) bool {
		return strings.EqualFold(q.m.str("callBackId"), o.CallBackID)
	})},
	{name: "trims identifiers", cases: `withdrawal/similar`, confirms: confirm(func(q *asked, o *client.NewOrder) bool {
		return strings.TrimSpace(q.m.str("callBackId")) == o.CallBackID
	})},
	{name: "believes the request", cases: `withdrawal/(smuggled|unknown)`, confirms: confirm(func(q *asked, o *client.NewOrder) bool {
		o.Address, o.Amount = q.m.str("address"), amountOf(q.m.str("amount"))
		return o.Address != ""
	})},
	{name: "not understood", cases: `withdrawal/unknown`, response: unknownIs(1234)},
	{name: "a code of its own", response: unknownIs(404)}, // a liberty

	{name: "refusals are 400", cases: `withdrawal/unknown`, response: func(_ *asked, status int, r, _ members) int {
		if fmt.Sprint(r["errCode"]) != "0" {
			return http.StatusBadRequest
		}
		return status
	}},
	{name: "data in the clear", cases: `deposit/plain|response/nothing-in-the-clear`, response: says(func(_ *asked, r, a members) {
		b, _ := json.Marshal(a)
		r["data"] = string(b)
	})},
	{name: "long answers", cases: `deposit/plain`, answer: func(_ *asked, a members) { a["memo"] = strings.Repeat(" ", 5000) }},
	{name: "sparse answers", cases: `response/deposit-members`, answer: func(_ *asked, a members) { delete(a, "amount"); delete(a, "txId") }},
	{name: "no message on failure", cases: `notice/unknown-type|withdrawal/unknown`, response: says(func(_ *asked, r, _ members) { r["message"] = "" })},
	{name: "deposit in the clear", cases: `response/nothing-in-the-clear`, response: says(func(_ *asked, r, a members) { r["deposit"] = a })},
	{name: "numbers as texts", answer: func(_ *asked, a members) { a["type"] = fmt.Sprint(a["type"]) }}, // a liberty
	{name: "amounts as numbers", answer: func(q *asked, a members) { // a liberty: the digits are those that came
		if amount := q.m.str("amount"); amount != "" {
			a["amount"] = json.Number(amount)
		}
	}},
	{name: "knows its withdrawals", refuses: noticeCode(2001, func(q *asked) bool { return q.kind != 4 })},                             // a liberty: those of notices are made up
	{name: "hangs up on slow bodies", http: func(g *rig, w http.ResponseWriter, r *http.Request) bool { return halfBody(w, r, true) }}, // a liberty
	{name: "secrets in the message", response: says(func(_ *asked, r, _ members) {
		r["errCode"], r["message"] = 5001, testAPIKey+" "+testCallbackKey+" "+testKey().PublicBase64()
	})},
	{name: "compressed", cases: `deposit/plain`, http: func(g *rig, w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Encoding", "gzip") // it is not, which nobody reads
		return false
	}},

	{name: "any method", cases: `http/other-method`, http: func(_ *rig, _ http.ResponseWriter, r *http.Request) bool { r.Method = http.MethodPost; return false }},
	{name: "no key check", cases: `http/api-key`, http: keyIf(func(string) bool { return true })},
	{name: "key by prefix", cases: `http/api-key`, http: keyIf(func(got string) bool {
		return strings.HasPrefix(got, testCallbackKey) || got != "" && strings.HasPrefix(testCallbackKey, got)
	})},
	{name: "key in any case", cases: `http/api-key`, http: keyIf(func(got string) bool { return strings.EqualFold(got, testCallbackKey) })},
	{name: "no key check with its own pair", cases: `http/public-part-alone`, http: keyIf(func(string) bool { return true })},
	{name: "parses forms", cases: `http/any-content-type`, http: func(_ *rig, _ http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded; ") {
			_ = r.ParseForm()
		}
		return false
	}},
	{name: "needs a length", cases: `http/chunked`, http: func(_ *rig, w http.ResponseWriter, r *http.Request) bool {
		if r.ContentLength < 0 {
			w.WriteHeader(http.StatusLengthRequired)
		}
		return r.ContentLength < 0
	}},
	{name: "limit 65535", cases: `http/largest`, http: limit(65535)},
	{name: "limit 8192", cases: `http/largest`, http: limit(8192)},
	{name: "no limit", cases: `http/too-large|http/endless`, http: trimmed},
	{name: "no body time-out", cases: `http/slow-body`, http: trimmed},
	{name: "one at a time", cases: `http/slow-body`, http: func(g *rig, w http.ResponseWriter, r *http.Request) bool {
		// A busy machine may run the handler of the deposit beside a long body first.
		if r.ContentLength <= 16<<10 {
			select {
			case <-g.long:
			case <-r.Context().Done():
			}
		}
		g.turn.Lock()
		defer g.turn.Unlock()
		if r.ContentLength > 16<<10 {
			g.longFirst.Do(func() { close(g.long) })
		}
		return trimmed(g, w, r)
	}},
	{name: "takes half a body", cases: `http/slow-body`, http: func(_ *rig, w http.ResponseWriter, r *http.Request) bool { return halfBody(w, r, false) }},
	{name: "empty is fine", cases: `form/damaged`, takes: func(q *asked, _ int) bool { return len(q.body) == 0 }},
	{name: "one URL for all", cases: `http/wrong-url`, takes: func(_ *asked, code int) bool { return code == 1004 }},

	{name: "acknowledges what it cannot read", cases: `sealing/.*|form/damaged|message/duplicate-nested|binding/.*`, takes: func(_ *asked, code int) bool {
		return code == 1001 || code == 1002
	}},
	{name: "lax opener", cases: `sealing/(padding|blocks)`, takes: func(q *asked, code int) bool {
		return code == 1001 && bytes.HasPrefix(q.laxOpen(), []byte("{"))
	}},
	{name: "takes plain JSON", cases: `sealing/other-seal`, takes: func(q *asked, _ int) bool { return bytes.HasPrefix(q.body, []byte(`{"type"`)) }},
	{name: "bare only", cases: `form/other-forms`, unread: true, refuses: unopenedIf(func(q *asked) bool { return q.form != envelope.FormBare })},
	{name: "no line ends", cases: `form/other-forms`, unread: true, refuses: unopenedIf(func(q *asked) bool {
		return bytes.ContainsAny(q.body[:min(200, len(q.body))], "\r\n")
	})},
	{name: "mends plus", cases: `form/damaged`, takes: mends(func(body string) string { return strings.ReplaceAll(body, " ", "+") })},
	{name: "first of two", cases: `form/damaged`, takes: mends(func(body string) string {
		first, _, _ := strings.Cut(body, "&data=")
		if object, _, two := strings.Cut(body, `,"data":`); two {
			return object + "}"
		}
		return first
	})},
	{name: "lax Base64", cases: `form/damaged`, takes: mends(func(body string) string { return strings.ReplaceAll(body, "*", "") })},
	{name: "lax parser", cases: `message/(duplicate-member|other-case|missing-member|other-kind|number|amount.*|no-.*|loose-json|withdrawal-.*)`, takes: reads},
	{name: "lax parser of another provider", cases: `other/not-guessed`, takes: reads},
	{name: "no binding", cases: `binding/.*`, takes: func(q *asked, code int) bool {
		_, err := countersign.ParseCallback(q.plain, countersign.ParseOptions{})
		return err == nil && (code == 1002 || q.kind == 2)
	}, entry: func(_ *rig, e *merchant.Entry) { e.Blocks = nil }},
	{name: "first blocks only", cases: `binding/spliced-amount`, entry: func(_ *rig, e *merchant.Entry) {
		if e.Blocks != nil {
			other := *e.Blocks
			other.List = other.List[:min(1, len(other.List))]
			e.Blocks = &other
		}
	}},
	{name: "binding in any case", cases: `binding/absent`, takes: func(q *asked, _ int) bool {
		uuid := q.m.str("requestUUID")
		return countersign.CheckBinding(bytes.Replace(q.plain, []byte(uuid), []byte(strings.ToLower(uuid)), 1)) == countersign.BindingHolds
	}},

	{name: "strict", cases: `other/(members-absent|forms|amounts|answer-forms|repeat|notices|withdrawal)`, refuses: malformedIf(func(q *asked) bool {
		_, err := countersign.ParseCallback(q.plain, countersign.ParseOptions{})
		return err != nil
	})},
	{name: "identifiers are floats", cases: `other/forms`, answer: func(q *asked, a members) {
		if n, is := q.m["trackingId"].(json.Number); is {
			f, _ := n.Float64()
			a["trackingId"] = json.Number(strconv.FormatFloat(f, 'f', -1, 64))
		}
	}},
	{name: "amounts are floats", cases: `other/(amounts|repeat)`, answer: func(q *asked, a members) { a["amount"] = float(q.m.str("amount")) },
		takes: func(q *asked, code int) bool { return code == 2002 }},
	{name: "usual forms in answers", cases: `other/answer-forms`, answer: func(_ *asked, a members) {
		for _, name := range []string{"trackingId", "tenantUserId", "amount"} {
			a[name] = fmt.Sprint(a[name])
		}
	}},
	{name: "demands no signature", cases: `link/(refused|withdrawal)`},
	{name: "signs nothing", cases: `link/(signed|unreadable)`},
	{name: "repeats every member", cases: `other/withdrawal`, questions: true, answer: func(q *asked, a members) {
		if amount := q.m["amount"]; q.kind == 2 && amount != nil {
			a["amount"] = amount
		}
	}},
}

func refuseIf(code int, is func(q *asked) bool) func(*asked) int {
	return func(q *asked) int {
		if is(q) {
			return code
		}
		return 0
	}
}

func unopenedIf(is func(q *asked) bool) func(*asked) int  { return refuseIf(1001, is) }
func malformedIf(is func(q *asked) bool) func(*asked) int { return refuseIf(1002, is) }

func depositIf(is func(m members) bool) func(*asked) int {
	return refuseIf(5000, func(q *asked) bool { return q.kind == 1 && is(q.m) })
}

func questionIf(is func(q *asked) bool) func(*asked) int {
	return refuseIf(2001, func(q *asked) bool { return q.kind == 2 && is(q) })
}

func noticeIf(is func(q *asked) bool) func(*asked) int { return noticeCode(5000, is) }

func noticeCode(code int, is func(q *asked) bool) func(*asked) int {
	return refuseIf(code, func(q *asked) bool { return q.kind > 2 && q.kind < 8 && is(q) })
}

// confirm confirms a question, whoever its user is.
func confirm(is func(q *asked, o *client.NewOrder) bool) func(*asked, *client.NewOrder) bool {
	return func(q *asked, o *client.NewOrder) bool { return q.m != nil && is(q, o) }
}

// first makes the rig read bodies, for what they said first.
func first(*asked) int { return 0 }

// first returns the first callback with the identifier of q.
func (q *asked) first() members {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.firsts[q.key]
}

// knows reports whether another deposit than d is so.
func (g *rig) knows(d merchant.Deposit, is func(m members) bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, m := range g.firsts {
		if strings.HasPrefix(key, "1 ") && m["trackingId"] != d.TrackingID && m.sameTransaction(d.TxID) && is(m) {
			return true
		}
	}
	return false
}

// sameTransaction compares the last digits of a txId, whatever its spelling.
func (m members) sameTransaction(id string) bool {
	own := strings.ToLower(m.str("txId"))
	return len(own) >= 40 && strings.HasSuffix(strings.ToLower(id), own[len(own)-40:])
}

// another takes other content in one member under a known identifier.
func another(name string) func(*asked, int) bool {
	return func(q *asked, code int) bool { return code == 2002 && q.m.str(name) != q.first().str(name) }
}

// reads takes what a lenient reader of JSON reads.
func reads(q *asked, code int) bool { return code == 1002 && q.m != nil }

// mends takes a body that opens once it is mended.
func mends(mend func(body string) string) func(*asked, int) bool {
	return func(q *asked, _ int) bool {
		inner, _, err := envelope.Unwrap([]byte(mend(string(q.body))))
		if err != nil || len(inner) == 0 {
			return false
		}
		raw, err := base64.StdEncoding.DecodeString(string(inner))
		return err == nil && len(raw) > 0 // its blocks are those that were damaged
	}
}

func says(change func(q *asked, r, a members)) func(*asked, int, members, members) int {
	return func(q *asked, status int, r, a members) int {
		if fmt.Sprint(r["errCode"]) == "0" || status == http.StatusOK {
			change(q, r, a)
		}
		return status
	}
}

// unknownIs puts a code in place of that of an unknown order.
func unknownIs(code int) func(*asked, int, members, members) int {
	return says(func(q *asked, r, _ members) {
		if q.kind == 2 && fmt.Sprint(r["errCode"]) == "2001" {
			r["errCode"] = code
		}
	})
}

// float is an amount as a floating-point number prints it.
func float(amount string) string {
	v, _ := strconv.ParseFloat(amount, 64)
	return fmt.Sprint(v)
}

func keyIf(right func(got string) bool) func(*rig, http.ResponseWriter, *http.Request) bool {
	return func(_ *rig, _ http.ResponseWriter, r *http.Request) bool {
		if right(r.Header.Get("X-API-KEY")) {
			r.Header.Set("X-API-KEY", testCallbackKey)
		}
		return false
	}
}

// limit answers a body of more than n bytes with 413.
func limit(n int64) func(*rig, http.ResponseWriter, *http.Request) bool {
	return func(_ *rig, w http.ResponseWriter, r *http.Request) bool {
		body, _ := io.ReadAll(io.LimitReader(r.Body, n+1))
		if int64(len(body)) > n {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return true
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		return false
	}
}

// trimmed reads all of a body, however long it is or takes, and drops the white space around it.
func trimmed(_ *rig, _ http.ResponseWriter, r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	if body = bytes.TrimSpace(body); err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return false
}

// halfBody waits for a body as long as merchants do, and then hangs up or takes what there is.
func halfBody(w http.ResponseWriter, r *http.Request, hangUp bool) bool {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(stall))
	body, err := io.ReadAll(r.Body)
	if err != nil && hangUp {
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		body = bytes.TrimSpace(body)
		w.Header().Set("Connection", "close") // else the server waits for the other half before it answers
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return false
}
