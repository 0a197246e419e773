// Package countersigntest is the other end of the wire for tests: a service that
// sends callbacks and a merchant that answers them. Each is honest, and faulty in
// the way that a test chooses.
//
// To test a merchant's endpoint, let a [Service] deliver to it:
//
//	service := countersigntest.NewService(t)
//	config := service.MerchantConfig() // keys and API keys of this service
//	config.Inbox = merchant.NewMemoryInbox()
//	config.OnDeposit, config.OnPossibleDuplicate = credit, merchant.KeepForReview
//	handler, err := merchant.New(config)
//	result := service.Deliver(ctx, countersigntest.ToHandler(handler), countersigntest.Deposit(1))
//	if result.Err != nil { … }
//
// To test a service, let it call a [Merchant]. Its Fault chooses for every callback
// what is wrong with the answer.
//
// [CheckInbox] tests an implementation of merchant.Inbox against its rules.
package countersigntest
