package merchant_test

import (
	"encoding/hex"
	"testing"

	"countersign"
	"countersign/merchant"
)

// TestEntry pins what inboxes keep of callbacks: with another digest every
// callback taken before would contradict its own repetition.
func TestEntry(t *testing.T) {
	const evm = `"0xAbCdef0000000000000000000000000000000001"`
	for _, tt := range []struct{ in, id, content, transfer string }{
		{`{"type":1,"trackingId":"t1","tenantUserId":"u","txId":"x","chainName":"ETH","symbol":"USDT","amount":"7.40","fromAddress":"F",` +
			`"toAddress":` + evm + `,"riskLevelFrom":1,"riskLevelTo":2,"txIndex":3,"newAddress":"N","business":0,"requestUUID":"q"}`,
			"t1", "23130e1b034b73d1dfd229ce9499ff33269a94a4b4fea5011d4d85b373b97d54",
			"92aa3aae0777e10110925841948296cd15b009ded876446473dc8f69eea386c6"},
		{`{"type":2,"trackingId":"t2","tenantUserId":"u","callBackId":"c","business":0,"requestUUID":"q"}`,
			"c", "c3d921ef7162aa3b7ff94adbd7aab52e434bab69d186bfab9b861386c0c96ab4", ""},
		{`{"type":3,"trackingId":"t3","tenantUserId":"u","callBackId":"c","txId":"x","chainName":"TRON","symbol":"USDT","amount":"2.50",` +
			`"fromAddress":"F","toAddress":` + evm + `,"newAddress":"N","business":0,"requestUUID":"q"}`,
			"t3", "e272b7038289eefdfaded1603aad803a58b7198509050a119636ffbbc7a72860", ""},
		{`{"type":4,"trackingId":null,"tenantUserId":"u","chainName":"TRON","symbol":"USDT","toAddress":` + evm + `,` +
			`"newAddress":"0xAbCdef0000000000000000000000000000000002","business":0,"requestUUID":"q"}`,
			"q", "03694767de8343cbe0f9b9818d0f9bd5450b5c282d82439bf73766e9318b0bd1", ""},
		{`{"type":5,"trackingId":"t5","tenantUserId":"u","callBackId":"c","toAddress":"T","business":0,"requestUUID":"q"}`,
			"t5", "bda8083467d345d59c44778b14ff4155f8c6c0eff3c1be2cb8d6909129e02459", ""},
		{`{"type":6,"trackingId":"t6","tenantUserId":"u","callBackId":"c","business":0,"requestUUID":"q"}`,
			"t6", "bda8083467d345d59c44778b14ff4155f8c6c0eff3c1be2cb8d6909129e02459", ""},
		{`{"type":7,"trackingId":"t6","tenantUserId":"u","callBackId":"c","business":0,"requestUUID":"q"}`,
			"t6", "bda8083467d345d59c44778b14ff4155f8c6c0eff3c1be2cb8d6909129e02459", ""},
	} {
		cb := must(countersign.ParseCallback([]byte(tt.in), countersign.ParseOptions{}))(t)
		e := merchant.NewEntry(cb)
		if e.ID != tt.id || hex.EncodeToString(e.Content[:]) != tt.content || e.Transfer.IsZero() != (tt.transfer == "") ||
			tt.transfer != "" && (hex.EncodeToString(e.Transfer[:]) != tt.transfer || e.TxIndex != 3) {
			t.Errorf("type %d: id %s, content %x, transfer %x, txIndex %d", cb.CallbackType(), e.ID, e.Content, e.Transfer, e.TxIndex)
		}
	}
}
