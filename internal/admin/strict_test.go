package admin

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// depositsReader returns what checks and decodes requests with deposits.
func depositsReader(t testing.TB) func(body []byte, in *batch[client.NewDeposit]) error {
	s := must(New(Config{Outbox: &outbox.Outbox{DB: &db.DB{}}, Changes: &api.Changes{}, CheckURL: func(string, bool) error { return nil }}))(t)
	schema := s.Registry().Schema(reflect.TypeFor[batch[client.NewDeposit]](), true, "")
	return func(body []byte, in *batch[client.NewDeposit]) error { return s.Decode(schema, body, in) }
}

// What passes the check decodes, and names are exactly those of the schema:
// the check is what makes encoding/json safe here.
func FuzzCheckJSON(f *testing.F) {
	good, _ := json.Marshal(newDeposit("acme", 1))
	f.Add(good)
	f.Add([]byte("[" + string(good) + "]"))
	f.Add([]byte(`{"merchant":"a\ud83d","x":[{}],"amount":1e5}`))
	read := depositsReader(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		var in batch[client.NewDeposit]
		if err := read(body, &in); err != nil {
			if text := err.Error(); strings.HasSuffix(text, "does not fit its schema") || strings.HasSuffix(text, "is out of range") {
				t.Fatalf("passed the check and does not decode: %v", err)
			}
			return
		}
		for i := range in {
			if _, err := callbackOf(&in[i], 1); err != nil {
				t.Fatalf("passed the check and is no deposit: %v", err)
			}
		}
	})
}
