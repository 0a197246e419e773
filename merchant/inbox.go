package merchant

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"time"

	"countersign"
)

// Inbox is what the merchant's end remembers: which callbacks were recorded,
// who is working on which, how they ended, and which first blocks were seen.
// Everything that happens at most once rests on it, so with several processes
// they share one Inbox, and it survives them.
//
// Each call is one transaction. Two calls for the same identifier, the same
// Transfer or the same first block take effect one after the other, in
// whichever processes they run; with SQL, a unique key or a lock on
// each of the three brings that about. What a call returned without an error
// is on disk. A call that failed may have taken effect or not; the Handler
// acts as if not and the rules below make that harmless. Calls heed their ctx.
//
// CheckInbox of package countersigntest tests an Inbox against these rules.
type Inbox interface {
	// Claim records e, if it is new, and says who is to act on it. In this
	// order:
	//
	//  1. Where e.Blocks is there and its First is known with another Whole, the
	//     state is Spliced. A First that is not known is remembered, for
	//     30 days or longer.
	//  2. Where e.ID is not known, e is recorded under the next number. It is
	//     a possible duplicate for ever if at that moment an entry with the
	//     same Transfer is known, unless both have a TxIndex of 0 or more and
	//     the two differ.
	//  3. Where e.ID is known with another Content, the state is
	//     OtherContent, and nothing changes.
	//  4. Where the entry is settled, the state is Settled, with the kept
	//     outcome.
	//  5. Where e.Lease is 0, the entry is settled now with the zero Outcome,
	//     errCode 0, and the state is Taken.
	//  6. Where a lease on the entry has not ended, the state is Busy.
	//  7. Otherwise the entry is leased for e.Lease from e.At or from the
	//     Inbox's own clock, its claims are counted up, and the state is
	//     Claimed.
	//
	// Identifiers are the pair of type and e.ID. Nothing is ever forgotten
	// except first blocks.
	Claim(ctx context.Context, e Entry) (Claimed, error)

	// Settle ends a claim and returns what stands from then on. In this order:
	//
	//  1. Where the entry is not known, the error is ErrNotClaimed.
	//  2. Where it is settled, nothing changes and the kept outcome stands.
	//  3. Where s.Final, s.Outcome is kept for ever and stands, even if the
	//     lease has been lost meanwhile: what happened has happened.
	//  4. Otherwise s.Outcome stands for this attempt alone, and the lease ends
	//     if it is still that of s.Claim.
	Settle(ctx context.Context, s Settlement) (Outcome, error)
}

// Errors of an Inbox.
var (
	// ErrNotClaimed means that Settle was called for what was never recorded.
	ErrNotClaimed = errors.New("inbox: not claimed")
	// ErrInboxFull means that there is no room for another entry. Forgetting an
	// old one instead would let its deposit be credited twice.
	ErrInboxFull = errors.New("inbox: full")
)

// Digest is a SHA-256.
type Digest [sha256.Size]byte

// IsZero reports whether d is no digest.
func (d Digest) IsZero() bool { return d == Digest{} }

// Entry is one callback as an Inbox sees it. NewEntry makes it.
type Entry struct {
	// Callback is what was parsed, for an Inbox that keeps more of it than
	// this package needs. It must not be changed.
	Callback countersign.Callback
	// ID identifies the callback among those of its type: trackingId, for
	// type 2 callBackId, for a type 4 without trackingId its requestUUID.
	ID string
	// Content is over the members that the effect rests on, so it stays the
	// same through all attempts of one callback.
	Content Digest
	// Transfer is over what moved to where (PROTOCOL.md, Deposit identity):
	// chainName, txId, symbol, toAddress. Zero for other types than 1.
	Transfer Digest
	// TxIndex tells transfers of one transaction apart; -1 tells nothing.
	TxIndex int64
	// Blocks is what the first-block rule remembers, nil where it does not
	// apply.
	Blocks *Blocks
	// At is the time at the caller.
	At time.Time
	// Lease is how long the caller may work on it before others may. 0 means
	// that recording is all that is to be done.
	Lease time.Duration
}

// Blocks are the digests of the first-block rule (PROTOCOL.md, Binding): against
// a service that does not bind, one first block never has two rests.
type Blocks struct {
	First Digest // of the first sealed block
	Whole Digest // of all sealed blocks
}

// State says what an Inbox found, and with that what the caller is to do.
type State int

// The states. The zero State is none; a Handler acts on it as on an error.
const (
	StateNone         State = iota
	StateTaken              // recorded and settled by this very call: nothing is left to do
	StateClaimed            // leased to the caller, who acts and then settles
	StateSettled            // ended before; the kept outcome is said again
	StateBusy               // another caller has the lease
	StateOtherContent       // the identifier is known with other content
	StateSpliced            // the first block is known with another rest
)

// String names s for logs.
func (s State) String() string {
	switch s {
	case StateTaken:
		return "taken"
	case StateClaimed:
		return "claimed"
	case StateSettled:
		return "settled"
	case StateBusy:
		return "busy"
	case StateOtherContent:
		return "other content"
	case StateSpliced:
		return "spliced"
	}
	return "none"
}

// Claimed is what Claim found.
type Claimed struct {
	State State
	// Seq is the number of the entry, above 0 and rising from record to
	// record. 0 where the state is Spliced.
	Seq int64
	// Claim names the lease where the state is Claimed.
	Claim int64
	// PossibleDuplicate is what was found when the entry was recorded.
	PossibleDuplicate bool
	// Outcome is the kept one where the state is Settled.
	Outcome Outcome
}

// Settlement is how the work on a claimed entry ended.
type Settlement struct {
	Type    countersign.Type
	ID      string
	Claim   int64 // of the Claimed that is settled
	Outcome Outcome
	Final   bool // keep it for ever
	At      time.Time
}

// Outcome is what the service was told and will be told again. It is not the
// sealed answer, because each attempt needs its own requestUUID in there; the
// rest of the answer follows from the request and Details. The zero Outcome is
// errCode 0.
type Outcome struct {
	Code    countersign.ErrCode
	Message string              // not empty where Code is not 0
	Details countersign.Details // of a confirmed withdrawal
}

// Same reports whether o and p tell the service the same thing.
func (o Outcome) Same(p Outcome) bool {
	if o.Code != p.Code {
		return false
	}
	return o.Details == p.Details || o.Details.Differs(p.Details) == ""
}

// NewEntry describes cb to an Inbox, without Blocks, At and Lease, which are
// not the callback's own.
func NewEntry(cb countersign.Callback) Entry {
	e := Entry{Callback: cb, ID: cb.EventID(), TxIndex: -1}
	if e.ID == "" {
		e.ID = cb.UUID()
	}
	content := digestOf("countersign inbox content 1")
	content.text(cb.Content()...)
	e.Content = content.sum()
	if d, ok := cb.(*countersign.Deposit); ok {
		transfer := digestOf("countersign inbox transfer 1")
		transfer.text(d.ChainName, d.TxID, d.Symbol, countersign.AddressKey(d.ToAddress))
		e.Transfer, e.TxIndex = transfer.sum(), d.TxIndex
	}
	return e
}

// digester writes texts with their lengths, so that no two lists of texts are
// the same bytes.
type digester struct{ h hash.Hash }

func digestOf(label string) digester {
	d := digester{sha256.New()}
	d.text(label)
	return d
}

func (d digester) text(texts ...string) {
	var n [4]byte
	for _, t := range texts {
		binary.BigEndian.PutUint32(n[:], uint32(len(t)))
		d.h.Write(n[:])
		d.h.Write([]byte(t))
	}
}

func (d digester) sum() (sum Digest) {
	d.h.Sum(sum[:0])
	return sum
}
