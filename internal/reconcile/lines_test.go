package reconcile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A line says each member once, in its own spelling, and an amount as a text: a program that writes
// numbers may have rounded it.
func TestLinesAreStrict(t *testing.T) {
	for text, want := range map[string]string{
		`{"trackingId":"a","amount":0.30000000000000004}`: "amount is not a text",
		`{"trackingId":"a","Amount":"1"}`:                 "write amount",
		`{"trackingId":"a","amount":"1","amount":"1"}`:    "occurs twice",
		`{"trackingId":"a","x":{"y":1,"y":1}}`:            "occurs twice",
		`{"trackingId":"a","CallBackId":"a"}`:             "write callBackId",
		`{"trackingId":"a","details":{"amount":"1"}}`:     "beside callBackId",
		`{"trackingId":"a"} {"trackingId":"a"}`:           "line 1",
		`{"trackingId":"a","x":{"y":1},"details":null}`:   "",
		`{"trackingId":"a","amount":true}`:                "amount is not a text",
		`{"trackingId":"a","amount":"1e3"}`:               "amount",
		`{"trackingId":"a","amount":"7.40"}`:              "",
		`{"trackingId":"a"}`:                              "",
	} {
		path := filepath.Join(t.TempDir(), "lines")
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var got Line
		err := Lines(path, func(l Line) error { got = l; return nil })
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "line 1")) {
			t.Errorf("%s: %v", text, err)
		}
		if err == nil && (got.TrackingID != "a" || strings.Contains(text, "7.40") != (got.Amount.String() == "7.40")) {
			t.Errorf("%s is %+v", text, got)
		}
	}
}
