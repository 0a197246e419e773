package countersign_test

import (
	"bytes"
	"crypto/rand"
	"fmt"

	"countersign"
)

// exampleDeposit is a message as a service writes it before it binds and seals.
func exampleDeposit() []byte {
	amount, _ := countersign.ParseAmount("2.50")
	plaintext, _ := (&countersign.Deposit{
		Head: countersign.Head{RequestUUID: countersign.UnboundUUID, TrackingID: "17173049-0001", TenantUserID: "65515"},
		TxID: "0xabc1", ChainName: "TRON", Symbol: "USDT", Amount: amount,
		FromAddress: "TFrom", ToAddress: "TTo", RiskLevelFrom: 10, TxIndex: -1, NewAddress: "TTo",
	}).Marshal()
	return plaintext
}

// The service binds every attempt anew. The merchant checks that the plaintext
// is the one that was bound.
func ExampleBind() {
	var random [6]byte
	_, _ = rand.Read(random[:]) // new for every attempt
	bound, requestUUID, err := countersign.Bind(exampleDeposit(), random)
	fmt.Println(len(requestUUID), err)
	fmt.Println(countersign.CheckBinding(bound))

	spliced := bytes.Replace(bound, []byte(`"2.50"`), []byte(`"9.99"`), 1)
	fmt.Println(countersign.CheckBinding(spliced))
	// Output:
	// 36 <nil>
	// holds
	// broken
}

// Amounts are kept as written and compared by value.
func ExampleAmount() {
	order, _ := countersign.ParseAmount("2.5")
	answer, _ := countersign.ParseAmount("2.500")
	fee, _ := countersign.ParseAmount("0.000000000000000001")
	sum, _ := order.Add(fee)
	fmt.Println(answer, answer.Canonical(), answer.Equal(order), sum)

	_, err := countersign.ParseAmount("1e3")
	fmt.Println(err)
	// Output:
	// 2.500 2.5 true 2.500000000000000001
	// amount has an exponent
}

// A merchant parses what it has opened. An error becomes the errCode of its
// response.
func ExampleParseCallback() {
	callback, err := countersign.ParseCallback(exampleDeposit(), countersign.ParseOptions{})
	if d, ok := callback.(*countersign.Deposit); ok {
		fmt.Println(d.TenantUserID, "gets", d.Amount, d.Symbol, err)
	}
	_, err = countersign.ParseCallback([]byte(`{"type":1,"type":1}`), countersign.ParseOptions{})
	fmt.Println(countersign.CodeOf(err), err)
	// Output:
	// 65515 gets 2.50 USDT <nil>
	// 1002 member "type" occurs twice
}
