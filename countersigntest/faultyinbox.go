package countersigntest

import (
	"context"
	"errors"

	"countersign/merchant"
)

// InboxFault is one way in which a store fails.
type InboxFault int

// The ways. The zero InboxFault is none.
const (
	NoInboxFault      InboxFault = iota
	InboxNotDone                 // it fails, and nothing has happened
	InboxDoneButFails            // it fails, and it has happened
	InboxPanics                  // it panics, and nothing has happened
)

// ErrInboxFault is the error of a FaultyInbox that fails.
var ErrInboxFault = errors.New("countersigntest: the inbox fails on purpose")

// FaultyInbox is an Inbox that fails on request.
type FaultyInbox struct {
	Inbox merchant.Inbox
	// Fault chooses the fault of the next call, "claim", "settle" or "renew". Nil:
	// no call fails. Several goroutines may call it at once.
	Fault func(call string) InboxFault
}

// Claim implements merchant.Inbox.
func (f *FaultyInbox) Claim(ctx context.Context, e merchant.Entry) (merchant.Claimed, error) {
	return faulty(f, "claim", func() (merchant.Claimed, error) { return f.Inbox.Claim(ctx, e) })
}

// Settle implements merchant.Inbox.
func (f *FaultyInbox) Settle(ctx context.Context, s merchant.Settlement) (merchant.Reply, error) {
	return faulty(f, "settle", func() (merchant.Reply, error) { return f.Inbox.Settle(ctx, s) })
}

// Renew implements merchant.Renewer where Inbox does, and fails with
// errors.ErrUnsupported where it does not.
func (f *FaultyInbox) Renew(ctx context.Context, r merchant.Renewal) error {
	inbox, ok := f.Inbox.(merchant.Renewer)
	if !ok {
		return errors.ErrUnsupported
	}
	_, err := faulty(f, "renew", func() (struct{}, error) { return struct{}{}, inbox.Renew(ctx, r) })
	return err
}

func faulty[T any](f *FaultyInbox, call string, do func() (T, error)) (T, error) {
	var none T
	fault := NoInboxFault
	if f.Fault != nil {
		fault = f.Fault(call)
	}
	switch fault {
	case InboxNotDone:
		return none, ErrInboxFault
	case InboxPanics:
		panic(ErrInboxFault)
	case InboxDoneButFails:
		if _, err := do(); err != nil {
			return none, err
		}
		return none, ErrInboxFault
	}
	return do()
}
