package client

import (
	"context"
	"strconv"
)

// AlarmKind is what an alarm is about.
type AlarmKind string

// The kinds of alarms.
const (
	AlarmApprovalWaits  AlarmKind = "approval_waits"
	AlarmAuditBroken    AlarmKind = "audit_broken"
	AlarmRestored       AlarmKind = "restored"
	AlarmControlChanged AlarmKind = "control_changed"
	AlarmAddressChanged AlarmKind = "address_changed"
	AlarmDepositRefused AlarmKind = "deposit_refused"

	AlarmAnswerUnusable  AlarmKind = "answer_unusable"
	AlarmAnswerDiffers   AlarmKind = "answer_differs"
	AlarmOpenFailures    AlarmKind = "open_failures"
	AlarmExhausted       AlarmKind = "exhausted"
	AlarmMerchantFailing AlarmKind = "merchant_failing"
	AlarmOverdue         AlarmKind = "overdue"
	AlarmWalletDiffers   AlarmKind = "wallet_differs"
	AlarmEvidenceDiffers AlarmKind = "evidence_differs"
	AlarmFrozen          AlarmKind = "frozen"
	AlarmLapsed          AlarmKind = "lapsed"

	AlarmOrderUnknown      AlarmKind = "order_unknown"
	AlarmEndedAgain        AlarmKind = "ended_again"
	AlarmExecutedDiffers   AlarmKind = "executed_differs"
	AlarmExecutedTwice     AlarmKind = "executed_twice"
	AlarmPossibleDuplicate AlarmKind = "possible_duplicate"
	AlarmRequestSuspect    AlarmKind = "request_suspect"
	AlarmAllRefused        AlarmKind = "all_refused"
	AlarmForwardFailing    AlarmKind = "forward_failing"
)

// alarmKinds says of each kind what happened and what helps, in the words of docs/operator/runbook.md. Alarms that ask
// the same of a person are one kind; the subject says the cause. A kind is urgent if it may be about money, about who
// decides on it, or about the evidence. A kind about one withdrawal, address or change has a row for each subject,
// since a person decides on each; for any other, one row counts all.
var alarmKinds = newWords(words[AlarmKind]{
	{is: AlarmApprovalWaits, at: AtBoth, bySubject: true,
		means: "Something has waited for an approver for over an hour, or there is nobody who can approve it. It is " +
			"not done meanwhile.",
		do:    "Open its task (tasks list), which says who can decide, or what to do if nobody can.",
		ended: "It was decided."},
	{is: AlarmAuditBroken, at: AtBoth, urgent: true,
		means: "The audit log does not continue what a node has signed, and that node has stopped. What the database " +
			"says of money may be false: it was changed past the program, damaged, or set back while in use.",
		do: "Keep a copy of the database. Compare it with an export and with the last checkpoint in the program's " +
			"log (audit verify --since). Find out who can write to the database."},
	{is: AlarmRestored, at: AtBoth, urgent: true,
		means: "The database was restored from a backup. The service releases and ends nothing; the gateway holds " +
			"every deposit and decides no order.",
		do: "Reconcile as docs/operator/backup.md says, with --settle at the end. What no file speaks for stays restored " +
			"until a person resumes it.",
		ended: "The restore was reconciled."},
	{is: AlarmControlChanged, at: AtBoth, urgent: true, bySubject: true,
		means: "Somebody changed who decides, where a merchant's money goes, or what is stopped, and may now move " +
			"money: a token that decides was made or an approver's revoked; an approver or admin signed in " +
			"(person); all approvers were ended at the machine; a merchant was changed; a freeze or pause was " +
			"ended.",
		do: "Find out who did it (tasks show change.ID, api tokens, audit about ID). If nobody meant it, freeze " +
			"the service, and revoke the token."},
	{is: AlarmAddressChanged, at: AtBoth, urgent: true, bySubject: true,
		means: "A user's deposit address was replaced. If nobody meant it, the user's deposits go to somebody else. " +
			"The service tells the merchant. The gateway holds the new one; the application keeps the old one.",
		do: "Find out who replaced it: at the service by api callback ID, at the gateway from the service, by " +
			"another channel. At the gateway approve or decline its task (tasks list --gateway kind=address). If " +
			"nobody meant it, pause the merchant, revoke the token that added the callback, and have the address " +
			"not used.",
		ended: "The gateway's task was decided."},
	{is: AlarmDepositRefused, at: AtBoth, urgent: true, bySubject: true,
		means: "A deposit was refused for good and is not credited; at the service perhaps the report of a " +
			"withdrawal's end, at the gateway any malformed callback. The subject is the errCode or reason; " +
			"disproved and unverified: the check at --verify-url said no, or not yes in time.",
		do: "At the service, ask the merchant what the code means. If it means \"later\", correct its final codes " +
			"and resend (callbacks list state=refused, callbacks resend). At the gateway, read what is wrong " +
			"(api refusedCallback), mend it or have the service mend it, and approve its task (tasks list " +
			"--gateway kind=refused). Credit no deposit that the chain has not: ask the service who made it up.",
		ended: "Each of them was taken, resent or dismissed."},

	{is: AlarmAnswerUnusable, at: AtService,
		means: "A response decided nothing, and the merchant is asked again: it cannot read the callback " +
			"(not_understood), its API key is wrong (wrong_api_key), or it does not show which withdrawal it " +
			"confirms (answer_unbound). Deposits wait, and withdrawals may expire.",
		do: "Check that both ends have the same keys and API key, and let the merchant run countersign check. If " +
			"they are right, find out what answers at the merchant's URLs. For answer_unbound, give details with " +
			"each withdrawal.",
		ended: "Nothing like it came for an hour, and the merchant accepts callbacks."},
	{is: AlarmAnswerDiffers, at: AtService, urgent: true,
		means: "An answer contradicts its question or an earlier decision, or the merchant's answerKey did not sign " +
			"it (unsigned, signature_invalid, signature_old). It changed nothing. With details_differ the " +
			"merchant confirmed other details than were ordered, and the withdrawal is declined.",
		do: "Compare both orders, the answerKey with the merchant's signing key, and both clocks. Ask the " +
			"merchant what it meant. If it did not send this answer, somebody else answers for it: pause the " +
			"merchant. If the merchant's order is right, somebody changed the service's."},
	{is: AlarmOpenFailures, at: AtService, urgent: true,
		means: "Within an hour, ten answers of the merchant did not open or were no answers. The merchant is paused: " +
			"its deposits wait, and its withdrawals may expire.",
		do: "Check its response key. If that is right, somebody tries out blocks on the service. Resume the " +
			"merchant when you know the cause.",
		ended: "The merchant was resumed."},
	{is: AlarmExhausted, at: AtService,
		means: "Callbacks of a merchant were given up: their schedule or deadline ended, or the merchant held them " +
			"until then (merchant_hold). A deposit among them may not be credited.",
		do:    "When the merchant can take them, resend them (callbacks list state=exhausted, callbacks resend).",
		ended: "None of the callbacks is exhausted any more."},
	{is: AlarmMerchantFailing, at: AtService,
		means: "A merchant accepts nothing or refuses much, or no exchange reaches it. Its deposits wait, and its " +
			"withdrawals may expire.",
		do:    "Tell the merchant what it must mend: merchants show ID says why it fails and since when.",
		ended: "The merchant accepts callbacks again, and each lane reaches it."},
	{is: AlarmOverdue, at: AtService, bySubject: true,
		means: "Callbacks of a reachable merchant have been due for a quarter of an hour. Deposits are credited " +
			"late, and withdrawals may expire.",
		do: "After an outage, wait while the number of pending callbacks falls. Otherwise raise the merchant's " +
			"rate or concurrency, ask it to answer faster, or add a node.",
		ended: "Nothing in the lane is overdue any more."},
	{is: AlarmWalletDiffers, at: AtService, urgent: true, bySubject: true,
		means: "The wallet contradicts itself about a released withdrawal: funds may have moved twice. " +
			"foreign_claim: another claim asked for the permit, and did not get it. outcome_differs: the report " +
			"differs from the outcome that stands; nothing was changed, and the merchant is told of a transaction " +
			"that it names.",
		do: "Look at the chain for what was executed. If funds moved twice, or although failed stands, tell the " +
			"merchant. Find out who asked or reported (audit about ID); if it was not the wallet, revoke the " +
			"token."},
	{is: AlarmEvidenceDiffers, at: AtService, urgent: true, bySubject: true,
		means: "A withdrawal is confirmed or released, but no kept answer signed by the merchant's answerKey " +
			"confirms these details. No permit is given or repeated. The database was changed or damaged, or the " +
			"merchant's key was replaced since.",
		do: "If the merchant replaced its key, put the earlier one back beside the new one. Otherwise freeze the " +
			"service, and find out who can write to the database. Compare the withdrawal with the audit log " +
			"(audit about ID) and the chain. If nothing was executed, block it and have a new one ordered."},
	{is: AlarmFrozen, at: AtService,
		means: "A person froze the service: nothing is sent, decided or released. Withdrawals that reach their " +
			"deadlines expire.",
		do:    "Thaw it when the cause is gone (api frozen).",
		ended: "The freeze was ended."},
	{is: AlarmLapsed, at: AtService,
		means: "A confirmed withdrawal was not released within its merchant's releaseWithin. It never will be, so " +
			"the user is not paid. The merchant is told.",
		do: "Find out why the wallet did not take it. If it is still wanted, the merchant orders a new one."},

	{is: AlarmOrderUnknown, at: AtGateway, urgent: true, bySubject: true,
		means: "The service asked about a withdrawal, or executed one, that was never ordered or is another " +
			"tenantUserId's. Nothing was confirmed; what was executed moved funds without an order.",
		do: "Ask the service who started it. If your own systems did, they must order it at the gateway first. If it " +
			"was executed, look at the chain."},
	{is: AlarmEndedAgain, at: AtGateway, urgent: true, bySubject: true,
		means: "The service asked again about a withdrawal that was confirmed and has ended. It was not confirmed " +
			"again (errCode 2005).",
		do: "Ask the service why it asks after the end, and compare its list of withdrawals with yours."},
	{is: AlarmExecutedDiffers, at: AtGateway, urgent: true, bySubject: true,
		means: "The service executed an order that was not confirmed, or other details than were confirmed. Funds " +
			"may have gone to the wrong address.",
		do: "Compare with the chain and with the answers in the gateway's audit log, and order nothing more until " +
			"the service explains it."},
	{is: AlarmExecutedTwice, at: AtGateway, urgent: true, bySubject: true,
		means: "The service names two transactions for one order, or says both that it was executed (type 3) and " +
			"that it ended (type 5). The user may have the funds twice. What type 3 booked stands.",
		do: "Look at each transaction on the chain, correct the books, and order nothing more until the service " +
			"explains it."},
	{is: AlarmPossibleDuplicate, at: AtGateway,
		means: "A deposit may be one that came before under another trackingId. It is held, so that it is not " +
			"credited twice.",
		do:    "Compare both with the chain, then approve or decline its task (tasks list --gateway kind=deposit).",
		ended: "No deposit is held any more."},
	{is: AlarmRequestSuspect, at: AtGateway, urgent: true,
		means: "A callback may not be what the service sent. Nothing is credited or confirmed by it: it was refused, " +
			"or is held if it is a deposit with blocks of another callback (spliced). Others are bound to other " +
			"bytes (binding_broken), not bound or not signed although required, or repeat an identifier with " +
			"other content.",
		do: "Ask the service, by another channel, what it sent and which key it signs with, and compare both " +
			"clocks. Give a new key beside the old one. If this service never binds, start the gateway with " +
			"--provider other or --binding seen. Credit a held deposit only if the chain has it."},
	{is: AlarmAllRefused, at: AtGateway,
		means: "Three callbacks were refused and none was taken, or all of ten minutes were refused. No deposit is " +
			"booked meanwhile.",
		do:    "Run countersign gateway --learn for a while, and countersign provider show.",
		ended: "A callback was taken."},
	{is: AlarmForwardFailing, at: AtGateway,
		means: "The application does not take what the gateway forwards. Deposits are kept here and not credited " +
			"there.",
		do:    "Look at the application and at --forward-url (api forwarding). Entries are sent until taken.",
		ended: "The application has taken everything that had failed."},
})

// Do returns what helps.
func (k AlarmKind) Do() string { return alarmKinds.of(k).do }

// Text returns what happened and what helps.
func (k AlarmKind) Text() string { return alarmKinds.of(k).text() }

// Urgent reports whether a person must look at it at once, at night too: it may be about money, about who decides on
// it, or about the evidence.
func (k AlarmKind) Urgent() bool { return alarmKinds.of(k).urgent }

// BySubject reports whether each subject has a row of its own. Otherwise one row counts
// all alarms of the kind about a merchant.
func (k AlarmKind) BySubject() bool { return alarmKinds.of(k).bySubject }

// Ended returns why an alarm of the kind ends by itself, or "" if it does not.
func (k AlarmKind) Ended() string { return alarmKinds.of(k).ended }

// AlarmState is what AlarmFilter selects by.
type AlarmState string

// The states of an alarm. It is open until a person acknowledges it, or until what it is about has ended. One that was
// acknowledged before it ended is acked and ended.
const (
	AlarmOpen  AlarmState = "open"
	AlarmAcked AlarmState = "acked"
	AlarmEnded AlarmState = "ended"
)

var _ = newWords(words[AlarmState]{
	{is: AlarmOpen, means: "Nobody has acknowledged it, and what it is about goes on."},
	{is: AlarmAcked, means: "A person has acknowledged it."},
	{is: AlarmEnded, means: "What it is about has ended."},
})

// Alarm is something that a person should look at. One row stands for all of its kind about a
// merchant, or about a subject, until a person acknowledges it or it ends by itself. What is
// raised after that opens another row.
type Alarm struct {
	Seq      int64     `json:"seq" minimum:"1" doc:"number of the row; later rows have higher ones"`
	Merchant string    `json:"merchant,omitempty" doc:"id of the merchant that it is about; absent: none, as always at the gateway"`
	Kind     AlarmKind `json:"kind" doc:"what the alarm is about"`
	Text     string    `json:"text,omitempty" doc:"what it means and what helps, for people"`
	Subject  string    `json:"subject,omitempty" doc:"what it is about, such as the id of a callback, an order or a user; of a row that counts several, what was raised last"`
	Number   int64     `json:"number" minimum:"1" doc:"how often it was raised"`
	First    Time      `json:"first" doc:"when it was raised first"`
	Last     Time      `json:"last" doc:"when it was raised last"`
	Examples []string  `json:"examples" nullable:"false" doc:"subjects of this row, at most 5, the last first, each cut at 500 characters"`
	Acked    Time      `json:"acked,omitzero" doc:"when it was acknowledged; absent: nobody has"`
	AckedBy  string    `json:"ackedBy,omitempty" doc:"id of the token that acknowledged it"`

	AckedName string `json:"ackedName,omitempty" doc:"name of the token that acknowledged it"`
	AckedNote string `json:"ackedNote,omitempty" doc:"what the person noted"`

	Ended     Time   `json:"ended,omitzero" doc:"when it ended by itself; absent: it has not"`
	EndedText string `json:"endedText,omitempty" doc:"why it ended"`
}

// Open reports whether a is open.
func (a Alarm) Open() bool { return a.Acked == 0 && a.Ended == 0 }

// AlarmFilter selects alarms of either end. Empty members select all.
type AlarmFilter struct {
	Merchant string     `query:"merchant" minLength:"1" maxLength:"64" doc:"only about this merchant; at the gateway none is"`
	Kind     AlarmKind  `query:"kind" doc:"only of this kind"`
	State    AlarmState `query:"state" doc:"open: only alarms that nobody has acknowledged and that have not ended; acked: only those that somebody has acknowledged; ended: only those that have ended by themselves"`
}

// Alarms returns a page of alarms, the newest first.
func (c *Common) Alarms(ctx context.Context, f AlarmFilter, o PageOptions) (List[Alarm], error) {
	return Get[List[Alarm]](ctx, c, "/v1/alarms", f, o)
}

// Ack acknowledges an alarm.
type Ack struct {
	Note string `json:"note,omitempty" minLength:"1" maxLength:"1000" doc:"what was found or done, 1 to 1,000 characters; absent: nothing is noted"`
}

// AckAlarm acknowledges an alarm. Repeating it changes nothing: the first acknowledgement
// stands.
func (c *Common) AckAlarm(ctx context.Context, seq int64, a Ack) (Alarm, error) {
	return Post[Alarm](ctx, c, Path("alarms", strconv.FormatInt(seq, 10), "ack"), a)
}

// AlarmMessage is the type of a message about an alarm.
type AlarmMessage string

// The types of messages about alarms.
const (
	MessageAlarmRaised AlarmMessage = "alarm.raised" // a row of alarms has opened
	MessageAlarmGrown  AlarmMessage = "alarm.grown"  // its number has grown tenfold since the last message
	MessageAlarmEnded  AlarmMessage = "alarm.ended"  // it has ended by itself
	MessageAlarmTest   AlarmMessage = "alarm.test"   // a person tries whether messages arrive; there is no alarm
)

// PostedAlarm is the body of the message that is posted to --alarm-url. It has no member type,
// because Mattermost refuses a post with a type that it does not know.
type PostedAlarm struct {
	Event     AlarmMessage `json:"event" doc:"what is told of the alarm: that it was raised, that its number grew tenfold, or that it ended; or a test"`
	Timestamp Time         `json:"timestamp" doc:"when that was"`
	Text      string       `json:"text" doc:"the same for people, in plain text: what Slack, Mattermost and Google Chat show"`
	Content   string       `json:"content" doc:"text again: what Discord shows"`
	Data      Alarm        `json:"data,omitzero" doc:"the alarm as it is when it is posted, without who has acknowledged it; absent in a test"`
	// Whoever controls the database cannot change a checkpoint that was posted.
	Checkpoint string `json:"checkpoint,omitempty" doc:"the newest checkpoint of the audit log, a signed note: audit verify --since takes this message as a file. Absent: there was none"`
}

// AlarmTest is how a test of --alarm-url ended.
type AlarmTest struct {
	Taken  bool   `json:"taken" doc:"whether the URL answered with a status 2xx"`
	Status int    `json:"status" doc:"status of the answer; 0: there was none"`
	Error  string `json:"error,omitempty" doc:"why there was no answer"`
}
