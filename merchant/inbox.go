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

// Inbox is the memory of the merchant's end: which callbacks were recorded, which
// are being worked on, how they ended, and which blocks were seen. It is what
// makes every effect happen at most once, so all processes of a merchant share one
// Inbox, which outlives them.
//
// Each call is one transaction. Two calls for the same identifier, the same
// Transfer or the same block take effect one after the other, whichever
// processes they run in; in SQL, a unique key or a lock on each of the three
// ensures that. The result of a call without an error is on disk. A call that
// failed may have taken effect or not; the Handler acts as if not, and the rules
// below make that harmless. Calls end when their ctx ends.
//
// CheckInbox of package countersigntest tests an Inbox against these rules.
type Inbox interface {
	// Claim records e if it is new, and returns whether the caller is to act on it.
	// In this order:
	//
	//  1. If Entry.Judge finds FindingSpliced, by what is remembered of each block,
	//     the state is Spliced. Otherwise each block that is not known is remembered
	//     for at least 30 days, with its Owner and with Blocks.Body.
	//  2. If e.ID is not known, e is recorded under the next number. If Judge
	//     found FindingSuspect, e is suspect for ever. If another entry is known
	//     at that moment with the same Payment, or with the same Transfer and
	//     MayBeSame holds for the two TxIndex, e is a possible duplicate for ever. Rules 5 and 7 look
	//     again, at all other entries, and record e.TxIndex, if that is not the
	//     recorded one, so of two entries the one that got its index later is compared.
	//  3. If e.ID is known with another Content, the state is OtherContent, and nothing
	//     changes. But while the entry is neither settled nor leased, e takes the place of what
	//     was recorded and never accepted, and rule 2 compares it anew.
	//  4. If the entry is settled, the state is Settled, with the recorded
	//     Reply.
	//  5. If e.Lease is 0, the entry is settled now with the zero Reply,
	//     errCode 0, and the state is Taken.
	//  6. If a lease on the entry has not ended, the state is Busy.
	//  7. Otherwise the entry is leased for e.Lease from e.At or from the
	//     Inbox's own clock, its number of claims grows by one, and the state
	//     is Claimed.
	//
	// Type, e.ID and e.Order together identify an entry. Only blocks are ever forgotten.
	Claim(ctx context.Context, e Entry) (Claimed, error)

	// Settle ends a claim and returns the Reply to answer with. In this order:
	//
	//  1. If the entry is not known, the error is ErrNotClaimed.
	//  2. If the entry is settled, nothing changes, and the recorded Reply is
	//     returned. But of type 2 a final refusal may take the place of a
	//     confirmation, never the reverse.
	//  3. If s.Final, s.Reply is recorded for ever and returned, even if the
	//     lease was lost meanwhile: the function has done its work.
	//  4. Otherwise s.Reply is returned for this attempt alone, and the lease
	//     ends if it is still that of s.Claim.
	Settle(ctx context.Context, s Settlement) (Reply, error)
}

// Renewer is an Inbox that can renew a lease. While OnDeposit, OnPossibleDuplicate
// or OnNotice runs, the Handler renews its lease, even after the time-out if the
// function ignores its context, so that no other process calls it for the same
// callback. With an Inbox that is no Renewer another process may do so when the
// lease ends: twice Config.Timeout and 5 s after the claim. The lease of a process
// that died ends in any case.
//
// Leases of withdrawals are not renewed: several processes may call OnWithdrawal
// for one at once, and the first answer that is recorded stands.
type Renewer interface {
	// Renew makes the lease of r.Claim end r.Lease after r.At, or after the
	// Inbox's own clock. Where the entry is not known, is settled, or was
	// claimed again since, nothing changes and the error is ErrNotClaimed.
	Renew(ctx context.Context, r Renewal) error
}

// Renewal extends a lease.
type Renewal struct {
	Type  countersign.Type
	ID    string
	Order string
	Claim int64 // of the Claimed that is renewed
	At    time.Time
	Lease time.Duration
}

// Errors of an Inbox.
var (
	// ErrNotClaimed means that Settle was called for an entry that was never
	// recorded, or Renew for a lease that the caller does not hold.
	ErrNotClaimed = errors.New("inbox: not claimed")
	// ErrInboxFull means that the Inbox cannot take another entry. If it forgot
	// an old one, that deposit could be credited twice.
	ErrInboxFull = errors.New("inbox: full")
)

// Digest is a SHA-256.
type Digest [sha256.Size]byte

// IsZero reports whether d is the zero Digest.
func (d Digest) IsZero() bool { return d == Digest{} }

// Entry is one callback as an Inbox sees it. NewEntry makes it.
type Entry struct {
	// Callback is the parsed callback, for an Inbox that keeps more of it than
	// this package needs. It must not be changed.
	Callback countersign.Callback
	// ID identifies the callback among those of its type: trackingId, for
	// type 2 callBackId, for a type 4 without trackingId its requestUUID.
	ID string
	// Order is the callBackId of a report about a withdrawal (types 3, 5, 6 and 7), which is part of its identity,
	// because two withdrawals may have one trackingId. Empty for other types.
	Order string
	// Content is the digest of countersign.Callback.Content, so it is the same
	// for all attempts of one callback.
	Content Digest
	// Transfer is the digest of countersign.Deposit.Transfer: of chainName, txId,
	// symbol and toAddress in any spelling (PROTOCOL.md, I2). It is zero for
	// types other than 1.
	Transfer Digest
	// Payment is the digest of countersign.Deposit.Payment, which knows the amount.
	// Zero for types other than 1.
	Payment Digest
	// TxIndex distinguishes the transfers of one transaction. -1: not known.
	TxIndex int64
	// Blocks is what the rules for services that do not bind (PROTOCOL.md, B5 and
	// B7) remember, nil if they do not apply.
	Blocks *Blocks
	// At is the caller's time.
	At time.Time
	// Lease is how long the caller may work on the entry before others may. 0:
	// the entry is only recorded.
	Lease time.Duration
}

type entryKey struct {
	typ       countersign.Type
	id, order string
}

// MayBeSame reports whether two deposits with the same Entry.Transfer may be one, by their
// TxIndex: unless both are known (0 or more) and differ (PROTOCOL.md, I2).
func MayBeSame(index, other int64) bool { return index < 0 || other < 0 || index == other }

// BlockDigest is the first half of a SHA-256, which is enough to distinguish blocks
// and bodies.
type BlockDigest [sha256.Size / 2]byte

// IsZero reports whether d is the zero BlockDigest.
func (d BlockDigest) IsZero() bool { return d == BlockDigest{} }

// Blocks are the sealed blocks of one request, for the rules about requests of services
// that do not bind (PROTOCOL.md, B5 and B7).
type Blocks struct {
	Body BlockDigest // of all sealed blocks
	List []Block     // in their order
	// ByPerson says that a person had a refused request taken. A deposit that would be refused is then suspect, and
	// only a second decision credits it.
	ByPerson bool
}

// All returns the blocks of b, none for a nil b.
func (b *Blocks) All() []Block {
	if b == nil {
		return nil
	}
	return b.List
}

// Block is one sealed block of a request.
type Block struct {
	Digest BlockDigest
	// Own says that the block holds enough of the requestUUID to be in no other request.
	Own bool
	// Owner names what the block belongs to: no honest request with another owner
	// has this block. Zero: not known.
	Owner BlockDigest
}

// State says what an Inbox found, which decides what the caller does.
type State int

// The states. The zero State is none; a Handler treats it as an error.
const (
	StateNone         State = iota
	StateTaken              // recorded and settled by this call: nothing is left to do
	StateClaimed            // leased to the caller, which acts and then settles
	StateSettled            // ended before; the recorded Reply is the answer again
	StateBusy               // another caller has the lease
	StateOtherContent       // the identifier is known with other content
	StateSpliced            // it has blocks of another request
	StateOpen               // of a Transactor: the function ran, and nothing that it wrote is kept
)

// String returns the name of s for logs.
func (s State) String() string { return stateNames.of("State", int(s)) }

var stateNames = names{"none", "taken", "claimed", "settled", "busy", "other content", "spliced", "open"}

// Claimed is what Claim found.
type Claimed struct {
	State State
	// Seq is the number of the entry: above 0, and higher for every later entry.
	// It is 0 if the state is Spliced, and if it is Open and nothing was recorded.
	Seq int64
	// Claim identifies the lease if the state is Claimed.
	Claim int64
	// PossibleDuplicate says that the entry was a possible duplicate when it got its
	// TxIndex.
	PossibleDuplicate bool
	// Suspect says that the entry shared blocks with another request when it was
	// recorded, as an honest one cannot (PROTOCOL.md, B7).
	Suspect bool
	// Replaced says that this call recorded other content in place of what was never accepted.
	Replaced bool
	// Revoked says that this call recorded a refusal in place of the confirmation of a
	// withdrawal, which has ended.
	Revoked bool
	// Recorded is the Entry.At with which the entry was recorded first. Zero: the Inbox
	// does not say.
	Recorded time.Time
	// Reply is the recorded one if the state is Settled or, of a Transactor, Taken.
	Reply Reply
}

// Settlement is how the work on a claimed entry ended.
type Settlement struct {
	Type  countersign.Type
	ID    string
	Order string
	Claim int64 // of the Claimed that is settled
	Reply Reply
	Final bool // record it for ever
	At    time.Time
}

// Revokes reports whether s refuses for ever a withdrawal that kept confirmed.
func (s Settlement) Revokes(kept Reply) bool {
	return s.Type == countersign.TypeRequestWithdraw && s.Final && s.Reply.Code != countersign.CodeAccepted &&
		kept.Code == countersign.CodeAccepted
}

// Reply is what the service gets for every attempt of one callback. It is
// not the sealed answer, because that holds the requestUUID of the attempt; the
// rest of the answer follows from the request and Details. The zero Reply is
// errCode 0.
type Reply struct {
	Code    countersign.ErrCode `json:"code"`
	Message string              `json:"message,omitempty"` // not empty if Code is not 0
	Details countersign.Details `json:"details,omitzero"`  // of a confirmed withdrawal
	// TenantUserID is the user of the order, if a withdrawal was confirmed whose
	// request named none. Otherwise empty.
	TenantUserID string `json:"tenantUserId,omitempty"`
}

// Same reports whether o and p say the same thing to the service.
func (o Reply) Same(p Reply) bool {
	if o.Code != p.Code {
		return false
	}
	return o.TenantUserID == p.TenantUserID && (o.Details == p.Details || o.Details.Differs(p.Details) == "")
}

// NewEntry makes the Entry of cb. The caller sets Blocks, At and Lease.
func NewEntry(cb countersign.Callback) Entry {
	e := Entry{Callback: cb, ID: cb.EventID(), TxIndex: -1}
	if e.ID == "" {
		e.ID = cb.UUID()
	}
	if cb.CallbackType() != countersign.TypeRequestWithdraw {
		e.Order = cb.OrderID()
	}
	content := digestOf("countersign inbox content 1")
	content.text(cb.Content()...)
	e.Content = content.sum()
	if d, ok := cb.(*countersign.Deposit); ok {
		transfer, payment := digestOf("countersign inbox transfer 3"), digestOf("countersign inbox payment 1")
		transfer.text(d.Transfer()...)
		payment.text(d.Payment()...)
		e.Transfer, e.Payment, e.TxIndex = transfer.sum(), payment.sum(), d.TxIndex
	}
	return e
}

// digester writes texts with their lengths, so that two different lists of texts
// never have the same bytes.
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
