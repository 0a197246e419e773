package client

// The fixed words of alarms, events and attempts. Later releases may add words: do
// not treat an unknown word as an error.

// ServiceAlarmKind is what an alarm of the service is about.
type ServiceAlarmKind string

// The kinds of alarms of the service.
const (
	AlarmWrongAPIKey     ServiceAlarmKind = "wrong_api_key"    // a response carries another API key than the merchant's, or none
	AlarmNotUnderstood   ServiceAlarmKind = "not_understood"   // the merchant does not understand a callback (errCode 1000 to 1999)
	AlarmAnswerDiffers   ServiceAlarmKind = "answer_differs"   // an answer contradicts its callback, or an earlier decision
	AlarmDetailsDiffer   ServiceAlarmKind = "details_differ"   // a confirmation has other details than were ordered
	AlarmAnswerUnbound   ServiceAlarmKind = "answer_unbound"   // a confirmation may come from another answer, and there are no details to compare it with
	AlarmHeldTooLong     ServiceAlarmKind = "held_too_long"    // the merchant held a callback until its schedule ended: it is exhausted
	AlarmExhausted       ServiceAlarmKind = "exhausted"        // callbacks of a merchant were given up; the subject is the reason of the last attempt
	AlarmBreakerOpen     ServiceAlarmKind = "breaker_open"     // no exchange of a merchant's lane reached it for ten minutes; the subject is the lane
	AlarmOverdue         ServiceAlarmKind = "overdue"          // callbacks of a merchant are due for a quarter of an hour and are not sent; the subject is the lane
	AlarmOpenFailures    ServiceAlarmKind = "open_failures"    // too many answers could not be opened: the merchant is paused
	AlarmFrozen          ServiceAlarmKind = "frozen"           // a person has frozen the service; the subject is the reason
	AlarmAuditBroken     ServiceAlarmKind = "audit_broken"     // the audit log was changed
	AlarmLapsed          ServiceAlarmKind = "lapsed"           // a confirmed withdrawal was not released in time
	AlarmMerchantChanged ServiceAlarmKind = "merchant_changed" // what could move a merchant's money was changed; the subject has the change and fingerprints of before and after
	AlarmTokenChanged    ServiceAlarmKind = "token_changed"    // a token of an approver or an admin was made, or one of an approver revoked
	AlarmRestored        ServiceAlarmKind = "restored"         // the database was restored from a backup: nothing is released until it is reconciled
	AlarmForeignClaim    ServiceAlarmKind = "foreign_claim"    // a claim asks for a withdrawal whose permit another claim holds: it may be executed twice
)

// Values lists every kind.
func (ServiceAlarmKind) Values() []ServiceAlarmKind {
	return []ServiceAlarmKind{AlarmWrongAPIKey, AlarmNotUnderstood, AlarmAnswerDiffers, AlarmDetailsDiffer, AlarmAnswerUnbound, AlarmOpenFailures,
		AlarmHeldTooLong, AlarmExhausted, AlarmBreakerOpen, AlarmOverdue, AlarmForeignClaim, AlarmFrozen, AlarmLapsed, AlarmAuditBroken, AlarmRestored, AlarmMerchantChanged, AlarmTokenChanged}
}

// GatewayAlarmKind is what an alarm of the gateway is about.
type GatewayAlarmKind string

// The kinds of alarms of the gateway.
const (
	AlarmUserDiffers         GatewayAlarmKind = "user_differs"          // a callback names another tenantUserId than its order
	AlarmOrderUnknown        GatewayAlarmKind = "order_unknown"         // the service asks for or executed a withdrawal that was never ordered
	AlarmExecutedUnconfirmed GatewayAlarmKind = "executed_unconfirmed"  // the service executed a withdrawal that was not confirmed
	AlarmExecutedDiffers     GatewayAlarmKind = "executed_differs"      // it executed other details than those confirmed
	AlarmExecutedTwice       GatewayAlarmKind = "executed_twice"        // it names two transactions for one order
	AlarmExecutedAfterEnd    GatewayAlarmKind = "executed_after_end"    // it executed an order (type 3) after it had ended it (type 5)
	AlarmEndedAfterExecution GatewayAlarmKind = "ended_after_execution" // it ended an order (type 5) after it had executed it (type 3)
	AlarmPossibleDuplicate   GatewayAlarmKind = "possible_duplicate"    // a deposit awaits a person's decision
	AlarmNotBound            GatewayAlarmKind = "not_bound"             // a callback was refused because it is not bound: see --binding
	AlarmBindingBroken       GatewayAlarmKind = "binding_broken"        // a callback was refused because it is bound to other bytes
	AlarmSpliced             GatewayAlarmKind = "spliced"               // a callback has blocks of another: it was refused, or a deposit is held as suspect
	AlarmOtherContent        GatewayAlarmKind = "other_content"         // a callback was refused because it repeats an identifier with other content
	AlarmDisproved           GatewayAlarmKind = "disproved"             // a deposit was refused because the merchant's own check said no
	AlarmUnverified          GatewayAlarmKind = "unverified"            // a deposit was refused because the merchant's own check did not say yes in time
	AlarmBookRestored        GatewayAlarmKind = "restored"              // the database was restored from a backup: deposits are held until it is reconciled
	GatewayAlarmTokenChanged GatewayAlarmKind = "token_changed"         // a token of an approver or an admin was made, or one of an approver revoked
	AlarmAllRefused          GatewayAlarmKind = "all_refused"           // all callbacks of ten minutes were refused; the subject is the commonest reason
)

// AlarmLogBroken: the gateway's audit log was changed.
const AlarmLogBroken GatewayAlarmKind = "audit_broken"

// Values lists every kind.
func (GatewayAlarmKind) Values() []GatewayAlarmKind {
	return []GatewayAlarmKind{AlarmUserDiffers, AlarmOrderUnknown, AlarmExecutedUnconfirmed, AlarmExecutedDiffers,
		AlarmExecutedTwice, AlarmExecutedAfterEnd, AlarmEndedAfterExecution, AlarmPossibleDuplicate,
		AlarmNotBound, AlarmBindingBroken, AlarmSpliced, AlarmOtherContent, AlarmDisproved, AlarmUnverified, AlarmAllRefused, AlarmLogBroken, AlarmBookRestored, GatewayAlarmTokenChanged}
}

// RefusalReason says why the gateway refused a request to its public listener.
// Values lists them with what they mean.
type RefusalReason string

// Values lists every reason.
func (RefusalReason) Values() []RefusalReason {
	return []RefusalReason{
		// It was no callback.
		"path",          // its path is neither of the two
		"method",        // its method was not POST
		"api_key",       // its X-API-KEY was not the service's
		"too_large",     // its body was over the limit
		"body_slow",     // its body was not complete in time
		"body_cut",      // its body ended early
		"body_consumed", // something before the handler read or changed its body
		"overload",      // too many requests waited to be opened
		"not_opened",    // it did not open with the key
		"malformed",     // it opened to no message of the protocol

		// It was a callback, and nothing was done.
		"unknown_type",   // its type is not 1 to 7
		"wrong_url",      // it came to the path of other types
		"not_bound",      // its requestUUID is not bound
		"binding_broken", // its requestUUID is bound to other bytes
		"spliced",        // it has blocks of another
		"other_content",  // it repeats an identifier with other content
		"details_change", // the gateway had confirmed other details before
		"other_user",     // the order is another user's
		"unanswerable",   // no answer to it fits into a response
		"disproved",      // the merchant's own check says that there is no such deposit
		"unverified",     // the merchant's own check did not say yes in time
	}
}

// EventKind is the kind of an entry of the gateway's feed of events.
type EventKind string

// The kinds of events. An event of an order names its new state.
const (
	EventOrderHeld       EventKind = "order.held"
	EventOrderApproved   EventKind = "order.approved"
	EventOrderConfirmed  EventKind = "order.confirmed"
	EventOrderDeclined   EventKind = "order.declined"
	EventOrderCancelled  EventKind = "order.cancelled"
	EventOrderExpired    EventKind = "order.expired"
	EventOrderUnknown    EventKind = "order.unknown"
	EventOrderWaiting    EventKind = "order.waiting" // the service is short of funds and tries again
	EventOrderExecuted   EventKind = "order.executed"
	EventOrderEnded      EventKind = "order.ended"
	EventAddressChanged  EventKind = "address.changed"  // a user has a new deposit address; may come more than once
	EventDepositCredited EventKind = "deposit.credited" // a held deposit counts
	EventDepositRejected EventKind = "deposit.rejected" // a held deposit does not count
)

// Values lists every kind.
func (EventKind) Values() []EventKind {
	return []EventKind{EventOrderHeld, EventOrderApproved, EventOrderConfirmed, EventOrderDeclined, EventOrderCancelled,
		EventOrderExpired, EventOrderUnknown, EventOrderWaiting, EventOrderExecuted, EventOrderEnded,
		EventAddressChanged, EventDepositCredited, EventDepositRejected}
}

// AttemptResult is the effect of an attempt on its callback.
type AttemptResult string

// The effects of an attempt.
const (
	AttemptAccepted AttemptResult = "accepted" // the merchant took it, or confirmed
	AttemptRefused  AttemptResult = "refused"  // the merchant will never take it
	AttemptHold     AttemptResult = "hold"     // asked again later; the schedule does not move on
	AttemptRetry    AttemptResult = "retry"    // tried again by the schedule
	AttemptLost     AttemptResult = "lost"     // its node stopped before the end; tried again
)

// Values lists every result.
func (AttemptResult) Values() []AttemptResult {
	return []AttemptResult{AttemptAccepted, AttemptRefused, AttemptHold, AttemptRetry, AttemptLost}
}

// Reason says why an attempt ended as it did, or why something ended without an
// attempt. Values lists the reasons with their meanings.
type Reason string

// Values lists every reason.
func (Reason) Values() []Reason {
	return []Reason{
		// There was no complete response:
		"blocked_address", // the service does not call the URL's address
		"resolve",         // the URL's host has no address
		"connect",         // there was no connection
		"tls",             // there was no trusted TLS session
		"timeout",         // it was not complete in time
		"closed",          // the connection closed before it was complete
		"http",            // it was not valid HTTP/1.1
		"too_large",       // its header or body was over the limit
		"stopped",         // the node stopped or stalled
		"open_files",      // the node had too many open files; it does not count against the merchant
		"internal",        // the node's own failure
		"lost",            // the node stopped during the attempt

		// There was a complete response:
		"status",             // its HTTP status was not 200
		"response_malformed", // it did not fit the protocol
		"wrong_api_key",      // it carried another API key, or none
		"not_understood",     // errCode 1000 to 1999
		"key_refused",        // while keys are replaced, the merchant did not take the one that seals; asked again at once under the other one
		"merchant_refused",   // an errCode that refuses finally
		"merchant_hold",      // errCode 3000 to 3999
		"merchant_failure",   // any other errCode
		"data_not_sealed",    // plain JSON, or nothing, in place of the sealed answer
		"data_encoding",      // the sealed answer was not Base64 of whole blocks
		"data_unopened",      // the sealed answer could not be opened, or the opened text did not fit the protocol
		"not_opened",         // not opened, because too many answers of the merchant could not be opened
		"other_type",         // the answer was to another type of callback
		"other_attempt",      // the answer carried another attempt's requestUUID
		"other_callback",     // the answer named another withdrawal or user
		"answer_differs",     // the answer contradicted the callback
		"details_differ",     // the answer confirmed other details than were ordered
		"answer_unbound",     // nothing was ordered to compare it with, and it may come from another answer
		"late",               // it was complete at the deadline or later
		"accepted",           // every member was right
		"frozen",             // it decided nothing: the service was frozen
		"paused",             // it decided nothing: the merchant was paused
		"older_version",      // it decided nothing: the merchant was changed after the question was asked

		// It ended without a response:
		"deadline",  // the deadline passed
		"cancelled", // the service cancelled it
		"restored",  // the wallet had its permit before the database was restored
	}
}
