package countersigntest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"

	"countersign"
	"countersign/envelope"
)

// TB is the part of testing.TB that the helpers use.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// keyBits is the size of the pairs made here: the smallest that the protocol allows,
// which is fast to make and enough for tests.
const keyBits = 1024

func newPair() (*envelope.Key, error) { return envelope.GenerateKey(keyBits) }

// newAPIKey makes a key that no other text of a test holds, so that a test can
// search logs for it.
func newAPIKey() countersign.APIKey {
	return countersign.APIKey("test-" + rand.Text())
}

func hexOf(kind string, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", kind, n))
	return hex.EncodeToString(sum[:])
}

// Deposit returns the n-th of a list of different deposits. It has no requestUUID; Service.Deliver sets it.
func Deposit(n int) *countersign.Deposit {
	amount, _ := countersign.ParseAmount(fmt.Sprintf("%d.%02d", n/100+1, n%100))
	return &countersign.Deposit{
		Head: countersign.Head{TrackingID: fmt.Sprintf("deposit-%d", n), TenantUserID: fmt.Sprint(60000 + n)},
		TxID: "0x" + hexOf("transaction", n), ChainName: "ETH", Symbol: "USDT", Amount: amount,
		FromAddress: "0x" + hexOf("from", n)[:40], ToAddress: "0x" + hexOf("to", n)[:40],
		RiskLevelFrom: 10, RiskLevelTo: 5, TxIndex: int64(n % 7),
	}
}

// Withdrawal returns the n-th of a list of different withdrawal requests. Order(n) is its order.
func Withdrawal(n int) *countersign.WithdrawalRequest {
	return &countersign.WithdrawalRequest{
		Head:       countersign.Head{TrackingID: fmt.Sprintf("withdrawal-%d", n), TenantUserID: fmt.Sprint(60000 + n)},
		CallBackID: fmt.Sprintf("order-%d", n),
	}
}

// Order returns the details of Withdrawal(n).
func Order(n int) countersign.Details {
	amount, _ := countersign.ParseAmount(fmt.Sprintf("%d.5", n+1))
	return countersign.Details{
		Address: "0x" + hexOf("target", n)[:40], ChainName: "ETH", Symbol: "USDT", Amount: amount,
	}
}

// Notice returns a notice of type t about Withdrawal(n), or for type 4 about an address of its user. It returns nil if
// t is not the type of a notice.
func Notice(t countersign.Type, n int) countersign.Callback {
	w, o := Withdrawal(n), Order(n)
	switch {
	case t.Report() != "":
		return &countersign.WithdrawalNotice{Type: t, Head: countersign.Head{TrackingID: w.TrackingID,
			TenantUserID: w.TenantUserID}, CallBackID: w.CallBackID}
	case t == countersign.TypeWithdraw:
		return &countersign.WithdrawalDone{
			Head: countersign.Head{TrackingID: w.TrackingID, TenantUserID: w.TenantUserID}, CallBackID: w.CallBackID,
			TxID: "0x" + hexOf("executed", n), ChainName: o.ChainName, Symbol: o.Symbol, Amount: o.Amount, ToAddress: o.Address,
		}
	case t == countersign.TypeAddress:
		return &countersign.AddressChange{
			Head: countersign.Head{TenantUserID: w.TenantUserID}, ChainName: "ETH", Symbol: "USDT",
			ToAddress: "0x" + hexOf("to", n)[:40], NewAddress: "0x" + hexOf("new", n)[:40],
		}
	case t == countersign.TypeInvalidAddress:
		return &countersign.WithdrawalEnded{Head: countersign.Head{TrackingID: w.TrackingID, TenantUserID: w.TenantUserID},
			CallBackID: w.CallBackID}
	}
	return nil
}

// Sample returns the n-th of a list of different callbacks of type t: Deposit, Withdrawal or Notice.
func Sample(t countersign.Type, n int) countersign.Callback {
	switch t {
	case countersign.TypeDeposited:
		return Deposit(n)
	case countersign.TypeRequestWithdraw:
		return Withdrawal(n)
	}
	return Notice(t, n)
}

// withUUID returns a copy of cb that carries id.
func withUUID(cb countersign.Callback, id string) countersign.Callback {
	c := reflect.New(reflect.TypeOf(cb).Elem())
	c.Elem().Set(reflect.ValueOf(cb).Elem())
	again := c.Interface().(countersign.Callback)
	again.Common().RequestUUID = id
	return again
}
