package admin

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"countersign"
)

func schemaFor[T any]() (huma.Registry, *huma.Schema) {
	reg := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	reg.RegisterTypeAlias(reflect.TypeFor[countersign.Amount](), reflect.TypeFor[amountSchema]())
	return reg, reg.Schema(reflect.TypeFor[T](), true, "")
}

func TestCheckJSON(t *testing.T) {
	reg, s := schemaFor[depositsBody]()
	good, err := json.Marshal(newDeposit("acme", 1))
	if err != nil {
		t.Fatal(err)
	}
	with := func(from, to string) string {
		out := strings.Replace(string(good), from, to, 1)
		if out == string(good) {
			t.Fatalf("%s is not in %s", from, good)
		}
		return out
	}
	for name, c := range map[string]struct{ body, location, message string }{
		"good":                  {string(good), "", ""},
		"array":                 {"[" + string(good) + " ,\n" + string(good) + "]", "", ""},
		"amount as number":      {with(`"2.500000"`, `2.50`), "", ""},
		"empty":                 {" \n", "body", "is empty"},
		"not JSON":              {`{"a":`, "body", "is not JSON: fault near byte 5"},
		"more after":            {string(good) + "{}", "body", "is not JSON"},
		"not UTF-8":             {with("TFrom", "T\xff"), "body", "is not valid UTF-8"},
		"text":                  {`"a"`, "body", "is a string, not an object or an array"},
		"null":                  {`null`, "body", "is null"},
		"empty array":           {`[]`, "body", "has 0 items; the least is 1"},
		"item of another kind":  {"[" + string(good) + ",7]", "body[1]", "is a number, not an object"},
		"missing":               {with(`"txId":"0xabc1",`, ``), "body.txId", "is missing"},
		"twice":                 {with(`"txId"`, `"txId":"x","txId"`), "body.txId", "is there twice"},
		"twice by escape":       {with(`"txId"`, `"tx\u0049d":"x","txId"`), "body.txId", "is there twice"},
		"other case":            {with(`"txId"`, `"TxID"`), "body.TxID", "is not known; it is written txId"},
		"unknown":               {with(`"txId"`, `"note":{"a":[1,{"b":"}"}]},"txId"`), "body.note", "is not known here"},
		"null member":           {with(`"0xabc1"`, `null`), "body.txId", "is null"},
		"wrong kind":            {with(`"0xabc1"`, `["a"]`), "body.txId", "is an array, not a string"},
		"empty text":            {with(`"0xabc1"`, `""`), "body.txId", "is empty"},
		"NUL":                   {with(`0xabc1`, `a\u0000`), "body.txId", "holds U+0000"},
		"half a pair":           {with(`0xabc1`, `a\ud83d.`), "body.txId", "holds half of a surrogate pair"},
		"second half alone":     {with(`0xabc1`, `\ude00a`), "body.txId", "holds half of a surrogate pair"},
		"pair":                  {with(`0xabc1`, `a\ud83d\ude00`), "", ""},
		"escaped backslash":     {with(`0xabc1`, `\\ud83d\ufffd`), "", ""},
		"whole number as float": {with(`"txIndex":-1`, `"txIndex":1.0`), "body.txIndex", "is not a whole number"},
		"exponent":              {with(`"txIndex":-1`, `"txIndex":1e2`), "body.txIndex", "is not a whole number"},
		"huge":                  {with(`"txIndex":-1`, `"txIndex":99999999999999999999`), "body.txIndex", "is not a whole number"},
		"below":                 {with(`"txIndex":-1`, `"txIndex":-2`), "body.txIndex", "is not between -1 and 9007199254740991"},
		"above":                 {with(`"riskLevelFrom":10`, `"riskLevelFrom":101`), "body.riskLevelFrom", "is not between 0 and 100"},
		"minus nought":          {with(`"riskLevelTo":0`, `"riskLevelTo":-0`), "body.riskLevelTo", "is not a whole number"},
		"amount exponent":       {with(`"2.500000"`, `2e5`), "body.amount", "has an exponent"},
		"amount sign":           {with(`"2.500000"`, `"-2"`), "body.amount", "has a sign"},
		"amount kind":           {with(`"2.500000"`, `true`), "body.amount", "is a boolean, not a string or a number"},
		"amount length":         {with(`2.500000`, strings.Repeat("9", 79)), "body.amount", "has more than 78 digits"},
		"name with a line feed": {with(`"txId"`, `"a\nb":1,"txId"`), "body.a?b", "is not known here"},
		"in an item":            {"[" + string(good) + "," + with(`"0xabc1"`, `7`) + "]", "body[1].txId", "is a number, not a string"},
		"deep unknown":          {with(`"txId"`, `"x":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+`,"txId"`), "body.x", "is not known here"},
	} {
		t.Run(name, func(t *testing.T) {
			faults := checkJSON(reg, s, []byte(c.body), "body")
			if c.location == "" {
				if len(faults) > 0 {
					t.Errorf("faults %v, want none", faults)
				}
				return
			}
			if len(faults) == 0 || faults[0].Location != c.location || !strings.HasPrefix(faults[0].Message, c.message) {
				t.Errorf("faults %v, want %s %s", faults, c.location, c.message)
			}
		})
	}
}

func TestCheckJSONBoundsItsFaults(t *testing.T) {
	reg, s := schemaFor[depositsBody]()
	body := "[" + strings.Repeat(`{"a":1},`, 999) + `{}]`
	if n := len(checkJSON(reg, s, []byte(body), "body")); n != maxFaults {
		t.Errorf("%d faults, want %d", n, maxFaults)
	}
}

// What passes the check decodes, and names are exactly those of the schema:
// the check is what makes encoding/json safe here.
func FuzzCheckJSON(f *testing.F) {
	good, _ := json.Marshal(newDeposit("acme", 1))
	f.Add(good)
	f.Add([]byte("[" + string(good) + "]"))
	f.Add([]byte(`{"merchant":"a\ud83d","x":[{}],"amount":1e5}`))
	reg, s := schemaFor[depositsBody]()
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(checkJSON(reg, s, body, "body")) > 0 {
			return
		}
		var in depositsBody
		if err := json.Unmarshal(body, &in); err != nil {
			t.Fatalf("passed the check and does not decode: %v", err)
		}
		for i := range in.list {
			if _, err := callbackOf(&in.list[i], 1); err != nil {
				t.Fatalf("passed the check and is no deposit: %v", err)
			}
		}
	})
}

func BenchmarkCheckAndDecodeBatch(b *testing.B) {
	reg, s := schemaFor[depositsBody]()
	list := make([]NewDeposit, maxBatch)
	for i := range list {
		list[i] = newDeposit("acme", i)
	}
	body, err := json.Marshal(list)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if faults := checkJSON(reg, s, body, "body"); len(faults) > 0 {
			b.Fatal(faults)
		}
		var in depositsBody
		if err := json.Unmarshal(body, &in); err != nil {
			b.Fatal(err)
		}
		for i := range in.list {
			if _, err := callbackOf(&in.list[i], 1); err != nil {
				b.Fatal(err)
			}
		}
	}
}
