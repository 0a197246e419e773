package conformance

import "testing"

// TestEdit: what a message has stands in an edit as it is, whatever characters it has.
func TestEdit(t *testing.T) {
	m := message{{Name: "callBackId", Value: `"A \"x\" & é"`}, {Name: "trackingId", Value: `"t"`}, {Name: "requestUUID", Value: `"u"`}}
	got := m.edit(`callBackId "{CASE}" & +callBackId "{order} " & ~txId 1 & ~trackingId "{id}-2" & trackingId & memo {"a b":1}`)
	if want := `{"callBackId":"a \"X\" \u0026 É","callBackId":"A \"x\" & é ","memo":{"a b":1},"requestUUID":"u"}`; string(got.bytes()) != want {
		t.Errorf("%s", got.bytes())
	}
	m = message{{Name: "trackingId", Value: `"t"`}, {Name: "txId", Value: `"0x"`}, {Name: "requestUUID", Value: `"u"`}}
	if twin := m.twin(); len(twin.bytes()) != len(m.bytes()) || twin.str("trackingId") == "t" || twin.str("txId") == "0x" {
		t.Errorf("%s", twin.bytes())
	}
}
