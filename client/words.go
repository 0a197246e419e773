package client

import "reflect"

// The fixed words of the APIs: states, kinds, reasons, roles. Each kind of word has a
// constant and a row of one table for each word, and the table is the only place that
// says what the word means. The documents of the APIs, the consoles, the shell and the
// runbook take their lists and texts from here. Later releases may add words: do not treat an unknown
// word as an error.

// word is a fixed word.
type word[T ~string] struct {
	is    T
	means string // one or two sentences for people; empty: the word says it
	do    string // what helps; empty: the meaning says it, or there is nothing to do
	at    End    // the ends that use it; zero: every end that has such words

	// For AlarmKind.Urgent, BySubject and Ended.
	urgent, bySubject bool
	ended             string
}

// words is a kind of word, in the order in which lists show it.
type words[T ~string] []word[T]

// End is a set of ends.
type End int

// The ends.
const (
	AtService End = 1 << iota
	AtGateway
	AtBoth = AtService | AtGateway
)

// allWords has the table of each kind of word.
var allWords = map[reflect.Type]interface {
	textsAt(End) []string
	meansOf(text string) string
}{}

func newWords[T ~string](table words[T]) words[T] {
	allWords[reflect.TypeFor[T]()] = table
	return table
}

// plainWords makes the table of a kind of word that needs no meanings.
func plainWords[T ~string](list ...T) words[T] {
	var table words[T]
	for _, v := range list {
		table = append(table, word[T]{is: v})
	}
	return newWords(table)
}

// Values returns every word of a kind, in the order of lists.
func Values[T ~string]() []T { return ValuesAt[T](AtBoth) }

// ValuesAt returns the words of a kind that an end uses.
func ValuesAt[T ~string](at End) (list []T) {
	for _, text := range ValuesOf(reflect.TypeFor[T](), at) {
		list = append(list, T(text))
	}
	return list
}

// ValuesOf returns the words of type t that an end uses, nil if it is no type of words.
func ValuesOf(t reflect.Type, at End) []string {
	if table := allWords[t]; table != nil {
		return table.textsAt(at)
	}
	return nil
}

// Means returns what a word means, for people, or "" if it is unknown or needs no meaning.
func Means(word any) string {
	v := reflect.ValueOf(word)
	if table := allWords[v.Type()]; table != nil {
		return table.meansOf(v.String())
	}
	return ""
}

func (w words[T]) textsAt(at End) (list []string) {
	for _, row := range w {
		if row.at == 0 || row.at&at != 0 {
			list = append(list, string(row.is))
		}
	}
	return list
}

func (w words[T]) meansOf(text string) string { return w.of(T(text)).means }

// of returns the row of v; the zero word if there is none.
func (w words[T]) of(v T) word[T] {
	for _, row := range w {
		if row.is == v {
			return row
		}
	}
	return word[T]{}
}

// text returns what a word means and what helps.
func (w word[T]) text() string {
	if w.do == "" {
		return w.means
	}
	return w.means + " " + w.do
}

// RefusalReason says why the gateway refused a request to its public listener. The
// words are those of package merchant, and RefusalLearning.
type RefusalReason string

// RefusalLearning is the reason of whatever comes while the gateway learns.
const RefusalLearning RefusalReason = "learning"

var _ = newWords(words[RefusalReason]{
	// It was no callback.
	{is: "path", means: "Its path is neither of the two."},
	{is: "method", means: "Its method was not POST."},
	{is: "api_key", means: "Its X-API-KEY was not the service's."},
	{is: "too_large", means: "Its body was over the limit."},
	{is: "body_slow", means: "Its body was not complete in time."},
	{is: "body_cut", means: "Its body ended early."},
	{is: "body_consumed", means: "Something before the handler read or changed its body."},
	{is: "overload", means: "Too many requests waited to be opened."},
	{is: "not_opened", means: "It did not open with the key."},
	{is: "malformed", means: "It opened to no message of the protocol."},
	{is: "unsigned", means: "The service's key did not sign it, and --service-signing-key demands it."},
	{is: "signature_invalid", means: "Its signature is not that of the service's key for this very request."},
	{is: "signature_old", means: "It was signed more than five minutes before or after it came, by this clock."},

	// It was a callback, and nothing was done.
	{is: "unknown_type", means: "Its type is not one of the protocol."},
	{is: "wrong_url", means: "It came to the path of other types."},
	{is: "not_bound", means: "Its requestUUID is not bound."},
	{is: "binding_broken", means: "Its requestUUID is bound to other bytes."},
	{is: "spliced", means: "It has blocks of another."},
	{is: "other_content", means: "It repeats an identifier with other content."},
	{is: "details_change", means: "The gateway had confirmed other details before."},
	{is: "other_user", means: "The order is another user's."},
	{is: "unanswerable", means: "No answer to it fits into a response."},
	{is: "disproved", means: "The merchant's own check says that there is no such deposit."},
	{is: "unverified", means: "The merchant's own check has not said yes."},

	{is: RefusalLearning, means: "The gateway ran with --learn, which books nothing."},
})

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
	EventOrderWaiting    EventKind = "order.waiting"
	EventOrderExecuted   EventKind = "order.executed"
	EventOrderEnded      EventKind = "order.ended"
	EventAddressChanged  EventKind = "address.changed"
	EventAddressHeld     EventKind = "address.held"
	EventAddressRejected EventKind = "address.rejected"
	EventDepositCredited EventKind = "deposit.credited"
	EventDepositRejected EventKind = "deposit.rejected"
)

var _ = newWords(words[EventKind]{
	{is: EventOrderHeld, means: "An order awaits a person."},
	{is: EventOrderApproved, means: "A person approved an order."},
	{is: EventOrderConfirmed, means: "An order was confirmed to the service."},
	{is: EventOrderDeclined, means: "An order was declined."},
	{is: EventOrderCancelled, means: "An order was taken back."},
	{is: EventOrderExpired, means: "An order was not confirmed in time."},
	{is: EventOrderUnknown, means: "The service asked for a withdrawal that was not ordered."},
	{is: EventOrderWaiting, means: "The service is short of funds or fees for an order and tries again."},
	{is: EventOrderExecuted, means: "The service executed a withdrawal: the details and txId are what it said, also if the order says otherwise, had ended, or never was. Each transaction has one entry."},
	{is: EventOrderEnded, means: "The service ended an order without executing it."},
	{is: EventAddressChanged, means: "A user has a new deposit address. It may be said more than once."},
	{is: EventAddressHeld, means: "The service says that the deposit address of a user was replaced. It must not be shown before a person accepts it, which is an address.changed."},
	{is: EventAddressRejected, means: "A held address does not count."},
	{is: EventDepositCredited, means: "A held deposit counts."},
	{is: EventDepositRejected, means: "A held deposit does not count."},
})
