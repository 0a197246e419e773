// Package countersigntest is the other end of the wire for tests: a service
// that sends callbacks and a merchant that answers them, each honest by itself
// and faulty in a chosen way where a test wants that.
//
// To test a merchant's endpoint, let a [Service] deliver to it:
//
//	service := countersigntest.NewService(t)
//	config := service.MerchantConfig() // keys and API keys of this service
//	config.OnDeposit = credit
//	handler, err := merchant.New(config)
//	result := service.Deliver(ctx, countersigntest.ToHandler(handler), countersigntest.Deposit(1))
//	if result.Err != nil { … }
//
// To test a service, let it call a [Merchant], whose Fault hook chooses, callback
// by callback, one of the ways in which answers go wrong.
//
// [CheckInbox] tests an implementation of merchant.Inbox against its rules.
package countersigntest
