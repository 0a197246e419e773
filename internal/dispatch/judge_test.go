package dispatch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
)

const (
	testUUID  = "0f4f9a3e-7c1d-8a5b-9f00-5a7b3c1d2e4f"
	otherUUID = "1f4f9a3e-7c1d-8a5b-9f00-5a7b3c1d2e4f"
	testKey   = countersign.APIKey("the-merchant")

	deadline = db.Millis(1_000_000)
)

func mustAmount(s string) countersign.Amount {
	a, err := countersign.ParseAmount(s)
	if err != nil {
		panic(err)
	}
	return a
}

func testDetails() countersign.Details {
	return countersign.Details{
		Address: "0xab5801a7d398351b8be11c439e05c5b3259aec9b", ChainName: "ETH", Symbol: "USDT", Amount: mustAmount("2.5"),
	}
}

func testQuestion(ordered bool) Question {
	q := Question{
		APIKeys: []countersign.APIKey{testKey},
		Sent: &countersign.WithdrawalRequest{
			Head: countersign.Head{RequestUUID: testUUID, TrackingID: "track-1", TenantUserID: "user-1"}, CallBackID: "cb-1",
		},
		Deadline: deadline, FinalCodes: client.ProtocolCodes(),
	}
	if ordered {
		d := testDetails()
		q.Ordered = &d
	}
	return q
}

func testDeposit() *countersign.Deposit {
	return &countersign.Deposit{
		Head: countersign.Head{RequestUUID: testUUID, TrackingID: "track-1", TenantUserID: "user-1"}, TxID: "tx-1", ChainName: "TRON",
		Symbol: "USDT", Amount: mustAmount("2.500000000000"), FromAddress: "TFrom", ToAddress: "TTo", TxIndex: -1,
	}
}

// response writes the plain part; data is the plaintext itself, which the tests'
// open gives back.
func response(key, data string, code int) Response {
	message := ""
	if code != 0 {
		message = "because"
	}
	r := countersign.Response{APIKey: countersign.APIKey(key), Data: data, ErrCode: countersign.ErrCode(code), Message: message}
	body, err := r.Marshal()
	if err != nil {
		panic(err)
	}
	return Response{Status: 200, Body: body, Done: deadline - 1}
}

// answers has this plaintext as its data, and refuses an errCode and none.
func answers(data string) Response { return response(string(testKey), data, 0) }
func refuses(code int) Response    { return response(string(testKey), "", code) }

// openPlain is as if all of data had come in one block.
func openPlain(data string) ([]byte, []int, error) { return []byte(data), []int{len(data)}, nil }

const rightWithdrawal = `{"tenantUserId":"user-1","callBackId":"cb-1","address":"0xab5801a7d398351b8be11c439e05c5b3259aec9b",` +
	`"chainName":"ETH","symbol":"USDT","amount":"2.5","type":2,"requestUUID":"` + testUUID + `"}`

const rightDeposit = `{"type":1,"trackingId":"track-1","txId":"tx-1","txIndex":-1,"chainName":"TRON","symbol":"USDT",` +
	`"amount":"2.5","fromAddress":"TFrom","toAddress":"TTo","requestUUID":"` + testUUID + `","tenantUserId":"user-1",` +
	`"callBackId":null,"state":null,"tenantType":null}`

func swap(s, old, new string) string {
	if !strings.Contains(s, old) {
		panic("no " + old + " in " + s)
	}
	return strings.Replace(s, old, new, 1)
}

type judgeRow struct {
	name     string
	response Response
	open     func(string) ([]byte, []int, error) // nil: openPlain
	change   func(*Question)

	outcome  client.AttemptResult // empty: retry
	reason   client.Reason
	decision countersign.Decision
	alarm    client.AlarmKind
	down     bool // not reached
	failure  bool // OpenFailure
}

func (row judgeRow) run(t *testing.T, q Question) Verdict {
	t.Helper()
	if row.open == nil {
		row.open = openPlain
	}
	if row.change != nil {
		row.change(&q)
	}
	v := Judge(q, row.response, row.open)
	if v.Result != cmp.Or(row.outcome, client.AttemptRetry) || v.Reason != row.reason || v.Decision != row.decision || v.Alarm != row.alarm ||
		v.Reached == row.down || v.OpenFailure != row.failure {
		t.Errorf("got outcome %q reason %q decision %q alarm %q reached %v open failure %v",
			v.Result, v.Reason, v.Decision, v.Alarm, v.Reached, v.OpenFailure)
	}
	if (v.Decision == countersign.DecisionConfirmed) != v.Details.Amount.IsSet() {
		t.Errorf("decision %q with details %v", v.Decision, v.Details)
	}
	if !slices.Contains(client.Values[client.Reason](), v.Reason) {
		t.Errorf("reason %q is not in the list", v.Reason)
	}
	return v
}

func bodyRow(name, body string, reason client.Reason, alarm client.AlarmKind) judgeRow {
	return judgeRow{name: name, response: Response{Status: 200, Body: []byte(body), Done: 1}, reason: reason, alarm: alarm}
}

// dataRow is an answer with this plaintext, after which the callback is sent again.
func dataRow(name, data string, reason client.Reason, alarm client.AlarmKind) judgeRow {
	return judgeRow{name: name, response: answers(data), reason: reason, alarm: alarm, failure: reason == client.ReasonDataUnreadable}
}

// everyWayToBeWrong are rows that hold for every type of callback. right is a
// right answer's plaintext.
func everyWayToBeWrong(right string) []judgeRow {
	plain := fmt.Sprintf
	ok := answers(right)
	quoted := string(ok.Body[strings.Index(string(ok.Body), `"data":`)+7:])
	quoted = quoted[:strings.Index(quoted, `,"errCode"`)]
	rows := []judgeRow{
		bodyRow("empty body", ``, client.ReasonResponseMalformed, ""),
		bodyRow("cut off", string(ok.Body[:len(ok.Body)-1]), client.ReasonResponseMalformed, ""),
		bodyRow("errCode missing", plain(`{"apiKey":%q,"data":%s,"message":""}`, testKey.Reveal(), quoted), client.ReasonResponseMalformed, ""),
		bodyRow("apiKey missing", plain(`{"data":%s,"errCode":0,"message":""}`, quoted), client.ReasonResponseMalformed, ""),
		bodyRow("apiKey empty", plain(`{"apiKey":"","data":%s,"errCode":0,"message":""}`, quoted), client.ReasonWrongAPIKey, client.AlarmAnswerUnusable),
		bodyRow("apiKey in another case", plain(`{"apiKey":"THE-MERCHANT","data":%s,"errCode":0,"message":""}`, quoted), client.ReasonWrongAPIKey, client.AlarmAnswerUnusable),
		bodyRow("another merchant's refusal", `{"apiKey":"other","data":"","errCode":2001,"message":"no"}`, client.ReasonWrongAPIKey, client.AlarmAnswerUnusable),
		bodyRow("another merchant's hold", `{"apiKey":"other","data":"","errCode":3001,"message":"wait"}`, client.ReasonWrongAPIKey, client.AlarmAnswerUnusable),
		bodyRow("data empty", plain(`{"apiKey":%q,"data":"","errCode":0,"message":""}`, testKey.Reveal()), client.ReasonDataNotSealed, ""),
		bodyRow("data an object", plain(`{"apiKey":%q,"data":%s,"errCode":0,"message":""}`, testKey.Reveal(), right), client.ReasonDataNotSealed, ""),
	}
	for _, status := range []int{100, 201, 202, 204, 206, 301, 302, 307, 400, 401, 403, 404, 413, 429, 500, 503} {
		r := ok
		r.Status = status
		rows = append(rows, judgeRow{name: fmt.Sprint("right answer with status ", status), response: r, reason: client.ReasonStatus, down: true})
	}
	for _, failure := range []client.Reason{client.ReasonBlockedAddress, client.ReasonResolve, client.ReasonConnect, client.ReasonTLS, client.ReasonTimeout,
		client.ReasonClosed, client.ReasonHTTP, client.ReasonTooLarge} {
		rows = append(rows, judgeRow{name: "no response: " + string(failure), response: Response{Failure: failure, Done: 1}, reason: failure, down: true})
	}
	for _, code := range []int{1000, 1001, 1002, 1999} {
		rows = append(rows, judgeRow{name: fmt.Sprint("not understood ", code), response: refuses(code),
			reason: client.ReasonNotUnderstood, alarm: client.AlarmAnswerUnusable})
	}
	for _, code := range []int{3000, 3001, 3999} {
		rows = append(rows, judgeRow{name: fmt.Sprint("hold ", code), response: response(string(testKey), right, code),
			outcome: client.AttemptHold, reason: client.ReasonMerchantHold})
	}
	for _, code := range []int{-1, 1, 999, 4000, 5000, 1 << 40} {
		rows = append(rows, judgeRow{name: fmt.Sprint("failure ", code), response: response(string(testKey), right, code), reason: client.ReasonMerchantFailure})
	}
	unopened := func(name, data string, err error, reason client.Reason) judgeRow {
		row := dataRow(name, data, reason, "")
		row.open, row.failure = func(string) ([]byte, []int, error) { return nil, nil, err }, err == envelope.ErrOpen
		return row
	}
	return append(rows,
		judgeRow{name: "body too large", response: Response{Failure: client.ReasonTooLarge, Status: 200, Done: 1}, reason: client.ReasonTooLarge},
		judgeRow{name: "node stopped", response: Response{Failure: client.ReasonStopped, Done: 1}, reason: client.ReasonStopped},
		judgeRow{name: "node failed", response: Response{Failure: client.ReasonInternal, Done: 1}, reason: client.ReasonInternal},
		judgeRow{name: "no merchant key", response: response("", right, 0), change: func(q *Question) { q.APIKeys = nil },
			reason: client.ReasonWrongAPIKey, alarm: client.AlarmAnswerUnusable},
		judgeRow{name: "2001 not final for this merchant", response: refuses(2001), reason: client.ReasonMerchantFailure,
			change: func(q *Question) { q.FinalCodes = []client.CodeRange{{From: 70, To: 79}} }},
		judgeRow{name: "nothing final for this merchant", response: refuses(2001), reason: client.ReasonMerchantFailure,
			change: func(q *Question) { q.FinalCodes = nil }},
		unopened("plain JSON in data", right, envelope.ErrBase64, client.ReasonDataNotSealed),
		unopened("not Base64", "%%%", fmt.Errorf("opening: %w", envelope.ErrBase64), client.ReasonDataEncoding),
		unopened("not whole blocks", "QUJD", envelope.ErrLength, client.ReasonDataEncoding),
		unopened("blocks do not open", "QUJD", envelope.ErrOpen, client.ReasonDataUnreadable),
		unopened("blocks do not open with the public part", "QUJD", &envelope.BlockError{}, client.ReasonDataUnreadable),
		unopened("not looked at", "QUJD", errNotOpened, client.ReasonNotOpened),
		unopened("key cannot open", "QUJD", errors.New("other"), client.ReasonInternal),
		dataRow("garbage opened", "garbage", client.ReasonDataUnreadable, ""),
		dataRow("empty object opened", "{}", client.ReasonOtherType, client.AlarmAnswerDiffers),
		dataRow("requestUUID missing", swap(right, `"requestUUID"`, `"requestUuid2"`), client.ReasonDataUnreadable, ""),
		dataRow("requestUUID null", swap(right, `"`+testUUID+`"`, `null`), client.ReasonDataUnreadable, ""),
		dataRow("another attempt", swap(right, testUUID, otherUUID), client.ReasonOtherAttempt, client.AlarmAnswerDiffers),
		dataRow("requestUUID in upper case", swap(right, testUUID, strings.ToUpper(testUUID)), client.ReasonOtherAttempt, client.AlarmAnswerDiffers),
		dataRow("unbound requestUUID", swap(right, testUUID, countersign.UnboundUUID), client.ReasonOtherAttempt, client.AlarmAnswerDiffers),
	)
}

func withdrawalRows() []judgeRow {
	wrong := func(name, old, new string, reason client.Reason, alarm client.AlarmKind) judgeRow {
		return dataRow(name, swap(rightWithdrawal, old, new), reason, alarm)
	}
	differs := func(name, old, new string) judgeRow {
		row := wrong(name, old, new, client.ReasonDetailsDiffer, client.AlarmAnswerDiffers)
		row.outcome, row.decision = client.AttemptRefused, countersign.DecisionDeclined
		return row
	}
	right := func(name, old, new string) judgeRow {
		return judgeRow{name: name, response: answers(swap(rightWithdrawal, old, new)),
			outcome: client.AttemptAccepted, reason: client.ReasonAccepted, decision: countersign.DecisionConfirmed}
	}
	late := func(name string, done db.Millis, r Response, alarm client.AlarmKind) judgeRow {
		r.Done = done
		return judgeRow{name: name, response: r, reason: client.ReasonLate, decision: countersign.DecisionExpired, alarm: alarm}
	}
	ok := answers(rightWithdrawal)
	rows := []judgeRow{
		right("as asked", "2.5", "2.5"),
		right("more zeros", `"2.5"`, `"2.500000000000"`),
		right("amount as number", `"2.5"`, `2.50`),
		right("type as text", `"type":2`, `"type":"2"`),
		right("checksum case", `0xab5801a7d398351b8be11c439e05c5b3259aec9b`, `0xAb5801a7D398351b8bE11C439e05C5B3259aeC9B`),
		right("unknown member", `"type":2`, `"type":2,"note":"hello"`),

		wrong("another withdrawal", `"cb-1"`, `"cb-2"`, client.ReasonOtherCallback, client.AlarmAnswerDiffers),
		wrong("another user", `"user-1"`, `"user-2"`, client.ReasonOtherCallback, client.AlarmAnswerDiffers),
		wrong("callBackId in another case", `"cb-1"`, `"CB-1"`, client.ReasonOtherCallback, client.AlarmAnswerDiffers),
		wrong("type 1", `"type":2`, `"type":1`, client.ReasonOtherType, client.AlarmAnswerDiffers),
		wrong("type missing", `"type":2`, `"kind":2`, client.ReasonOtherType, client.AlarmAnswerDiffers),
		wrong("no address", `"address":"0xab5801a7d398351b8be11c439e05c5b3259aec9b",`, ``, client.ReasonDataUnreadable, ""),
		wrong("no amount", `"amount":"2.5",`, ``, client.ReasonDataUnreadable, ""),
		wrong("amount 0", `"2.5"`, `"0.00"`, client.ReasonDataUnreadable, ""),
		wrong("amount with exponent", `"2.5"`, `2.5e0`, client.ReasonDataUnreadable, ""),
		wrong("amount twice", `"amount":"2.5"`, `"amount":"9","amount":"2.5"`, client.ReasonDataUnreadable, ""),
		wrong("no callBackId", `"callBackId":"cb-1",`, ``, client.ReasonDataUnreadable, ""),
		dataRow("the deposit's answer", rightDeposit, client.ReasonOtherType, client.AlarmAnswerDiffers),

		late("at the deadline", deadline, ok, ""),
		late("after the deadline", deadline+1, ok, ""),
		{name: "no deadline known", response: ok, change: func(q *Question) { q.Deadline = 0 }, reason: client.ReasonLate, decision: countersign.DecisionExpired},
		late("refused too late", deadline, refuses(2001), ""),
		late("held too late", deadline, refuses(3001), ""),
		late("wrong key, too late", deadline, response("other", "", 2001), client.AlarmAnswerUnusable),

		{name: "held code named final", response: refuses(3001),
			change:  func(q *Question) { q.FinalCodes = []client.CodeRange{{From: 3000, To: 3001}} },
			outcome: client.AttemptRefused, reason: client.ReasonMerchantRefused, decision: countersign.DecisionDeclined},
		{name: "0 cannot be final", response: ok,
			change:  func(q *Question) { q.FinalCodes = []client.CodeRange{{From: -10, To: 10}} },
			outcome: client.AttemptAccepted, reason: client.ReasonAccepted, decision: countersign.DecisionConfirmed},
	}
	for _, code := range []int{2000, 2001, 2002, 2003, 2004, 2005, 2999} {
		rows = append(rows, judgeRow{name: fmt.Sprint("declined ", code), response: refuses(code),
			outcome: client.AttemptRefused, reason: client.ReasonMerchantRefused, decision: countersign.DecisionDeclined})
	}
	return append(rows,
		differs("another address", "0xab5801a7d398351b8be11c439e05c5b3259aec9b", "0xab5801a7d398351b8be11c439e05c5b3259aec9c"),
		differs("another chain", "ETH", "BSC"),
		differs("chain in lower case", "ETH", "eth"),
		differs("another symbol", "USDT", "USDC"),
		differs("more", `"2.5"`, `"2.50000000000000000001"`),
		differs("ten times", `"2.5"`, `"25"`),
		differs("less", `"2.5"`, `"2.4999"`),
	)
}

func TestJudgeWithdrawal(t *testing.T) {
	for _, row := range append(withdrawalRows(), everyWayToBeWrong(rightWithdrawal)...) {
		t.Run(row.name, func(t *testing.T) { row.run(t, testQuestion(true)) })
		t.Run(row.name+", without the order", func(t *testing.T) {
			if row.reason == client.ReasonDetailsDiffer { // nothing to differ from
				row.outcome, row.reason, row.alarm = client.AttemptAccepted, client.ReasonAccepted, ""
				row.decision = countersign.DecisionConfirmed
			}
			row.run(t, testQuestion(false))
		})
	}
	v := judgeRow{response: answers(rightWithdrawal), outcome: client.AttemptAccepted, reason: client.ReasonAccepted,
		decision: countersign.DecisionConfirmed}.run(t, testQuestion(false))
	if v.Details.Differs(testDetails()) != "" {
		t.Errorf("details %v are not the answer's", v.Details)
	}
}

func TestJudgeDeposit(t *testing.T) {
	q := Question{APIKeys: []countersign.APIKey{testKey}, Sent: testDeposit(), Deadline: db.Never, FinalCodes: client.ProtocolCodes()}
	row := func(name, old, new string, reason client.Reason) judgeRow {
		r := dataRow(name, swap(rightDeposit, old, new), reason, client.AlarmAnswerDiffers)
		if reason == client.ReasonAccepted {
			r.outcome, r.alarm = client.AttemptAccepted, ""
		}
		return r
	}
	rows := []judgeRow{
		row("as said", "2.5", "2.5", client.ReasonAccepted),
		row("amount as number", `"2.5"`, "2.5000", client.ReasonAccepted),
		row("another txIndex", `"txIndex":-1`, `"txIndex":7`, client.ReasonAccepted),
		row("no trackingId", `"trackingId":"track-1",`, ``, client.ReasonAccepted),
		row("null members", `"callBackId":null,"state":null`, `"callBackId":7,"state":"x"`, client.ReasonAccepted),
		{name: "least answer", response: answers(`{"type":"1","requestUUID":"` + testUUID + `"}`),
			outcome: client.AttemptAccepted, reason: client.ReasonAccepted},
		row("another trackingId", "track-1", "track-2", client.ReasonAnswerDiffers),
		row("another amount", `"2.5"`, `"2.51"`, client.ReasonAnswerDiffers),
		row("another user", "user-1", "user-2", client.ReasonAnswerDiffers),
		row("type 2", `"type":1`, `"type":2`, client.ReasonOtherType),
		dataRow("amount no number", swap(rightDeposit, `"2.5"`, `"lots"`), client.ReasonDataUnreadable, ""),
		{name: "refused", response: refuses(2003), outcome: client.AttemptRefused, reason: client.ReasonMerchantRefused},
		{name: "own final code", response: refuses(77), outcome: client.AttemptRefused, reason: client.ReasonMerchantRefused,
			change: func(q *Question) { q.FinalCodes = []client.CodeRange{{From: 70, To: 79}} }},
	}
	for _, row := range append(rows, everyWayToBeWrong(rightDeposit)...) {
		t.Run(row.name, func(t *testing.T) {
			if v := row.run(t, q); v.Decision != countersign.DecisionNone {
				t.Errorf("a deposit decided %q", v.Decision)
			}
		})
	}
}

func TestJudgeNotices(t *testing.T) {
	head := countersign.Head{RequestUUID: testUUID, TrackingID: "t", TenantUserID: "u"}
	done := &countersign.WithdrawalDone{Head: head, CallBackID: "c", TxID: "x", ChainName: "ETH", Symbol: "USDT", Amount: mustAmount("1"), ToAddress: "to"}
	short := &countersign.WithdrawalNotice{Type: countersign.TypeNotEnoughMoney, Head: head, CallBackID: "c"}
	const differs = client.AlarmAnswerDiffers
	for _, c := range []struct {
		sent   countersign.Callback
		change func(*countersign.NoticeAnswer)
		alarm  client.AlarmKind
	}{
		{done, func(*countersign.NoticeAnswer) {}, ""},
		{done, func(a *countersign.NoticeAnswer) { a.TxID = "y" }, differs},
		{short, func(*countersign.NoticeAnswer) {}, ""},
		{short, func(a *countersign.NoticeAnswer) { a.RequestUUID = otherUUID }, differs},
		{short, func(a *countersign.NoticeAnswer) { a.Type = countersign.TypeNotEnoughHotMoney }, differs},
	} {
		a := c.sent.Accept(countersign.Details{}).(countersign.NoticeAnswer)
		c.change(&a)
		plaintext := must(a.Marshal())
		v := Judge(Question{APIKeys: []countersign.APIKey{testKey}, Sent: c.sent}, answers(string(plaintext)), openPlain)
		if (v.Result == client.AttemptAccepted) != (c.alarm == "") || v.Alarm != c.alarm || v.Decision != "" {
			t.Errorf("%s: %+v", plaintext, v)
		}
	}
}

func TestJudgeOpensOnlyWhatMatters(t *testing.T) {
	opened := 0
	open := func(data string) ([]byte, []int, error) { opened++; return openPlain(data) }
	for _, r := range []Response{
		response("other", rightWithdrawal, 0), response(string(testKey), rightWithdrawal, 2001),
		response(string(testKey), rightWithdrawal, 3001), {Status: 500}, {Failure: client.ReasonTimeout},
	} {
		Judge(testQuestion(true), r, open)
	}
	if opened != 0 {
		t.Errorf("opened %d times what no answer could come of", opened)
	}
	Judge(testQuestion(true), answers(rightWithdrawal), open)
	if opened != 1 {
		t.Errorf("opened %d times", opened)
	}
}

func TestZeroVerdictAndQuestionConfirmNothing(t *testing.T) {
	if (Verdict{}).Decision != countersign.DecisionNone {
		t.Error("the zero Verdict decides")
	}
	q := Question{Sent: &countersign.WithdrawalRequest{}}
	if v := Judge(q, response("", rightWithdrawal, 0), openPlain); v.Decision == countersign.DecisionConfirmed {
		t.Error("the zero Question is confirmed")
	}
}
