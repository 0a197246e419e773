package api

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"countersign"
	"countersign/client"
)

// item is a body of these tests, and batch one or many of them.
type item struct {
	Merchant      string             `json:"merchant" minLength:"1" maxLength:"64"`
	TxID          string             `json:"txId" minLength:"1" maxLength:"200"`
	Amount        countersign.Amount `json:"amount"`
	FromAddress   string             `json:"fromAddress" minLength:"1"`
	RiskLevelFrom int64              `json:"riskLevelFrom" minimum:"0" maximum:"100"`
	RiskLevelTo   int64              `json:"riskLevelTo" minimum:"0" maximum:"100"`
	TxIndex       int64              `json:"txIndex" minimum:"-1" maximum:"9007199254740991"`
	At            client.Time        `json:"at,omitzero"`
	Within        client.Duration    `json:"within,omitzero"`
	Labels        map[string]string  `json:"labels,omitempty"`
}

type batch struct{}

func (batch) Schema(r huma.Registry) *huma.Schema {
	one, least := r.Schema(reflect.TypeFor[item](), true, ""), 1
	return &huma.Schema{OneOf: []*huma.Schema{one, {Type: huma.TypeArray, Items: one, MinItems: &least}}}
}

type anyAmount struct{}

func (anyAmount) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: formatDecimal}
}

const sample = `{"merchant":"acme","txId":"0xabc1","amount":"2.500000","fromAddress":"TFrom","riskLevelFrom":10,"riskLevelTo":0,"txIndex":-1}`

func schemaFor[T any]() (huma.Registry, *huma.Schema) {
	reg := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	reg.RegisterTypeAlias(reflect.TypeFor[countersign.Amount](), reflect.TypeFor[anyAmount]())
	for t, alias := range aliasesAt(client.AtService) {
		reg.RegisterTypeAlias(t, alias)
	}
	return reg, reg.Schema(reflect.TypeFor[T](), true, "")
}

// faultsOf returns what the answer to body would name.
func faultsOf(reg huma.Registry, s *huma.Schema, body string) []client.Fault {
	a := &API{c: Config{MaxBody: 1 << 20}, registry: reg}
	var p *client.Problem
	if errors.As(a.Decode(s, []byte(body), new(None)), &p) {
		return p.Faults
	}
	return nil
}

func TestCheckJSON(t *testing.T) {
	reg, s := schemaFor[batch]()
	good := sample
	with := func(from, to string) string {
		out := strings.Replace(good, from, to, 1)
		if out == good {
			t.Fatalf("%s is not in %s", from, good)
		}
		return out
	}
	for name, c := range map[string]struct{ body, location, message string }{
		"good":                  {good, "", ""},
		"array":                 {"[" + good + " ,\n" + good + "]", "", ""},
		"amount as number":      {with(`"2.500000"`, `2.50`), "body.amount", `is a number; amounts are texts, such as "1.50"`},
		"empty":                 {" \n", "body", "is empty"},
		"not JSON":              {`{"a":`, "body", "is not JSON: no value at byte 5"},
		"text":                  {`"a"`, "body", "is a string, not an object or an array"},
		"null":                  {`null`, "body", "is null"},
		"empty array":           {`[]`, "body", "has 0 items: give at least 1"},
		"item of another kind":  {"[" + good + ",7]", "body[1]", "is a number, not an object"},
		"missing":               {with(`"txId":"0xabc1",`, ``), "body.txId", "is missing"},
		"twice":                 {with(`"txId"`, `"txId":"x","txId"`), "body.txId", "occurs twice"},
		"other case":            {with(`"txId"`, `"TxID"`), "body.TxID", "is not known; it is written txId"},
		"unknown":               {with(`"txId"`, `"note":{"a":[1,{"b":"}"}]},"txId"`), "body.note", "is not known here"},
		"null member":           {with(`"0xabc1"`, `null`), "body.txId", "is null"},
		"wrong kind":            {with(`"0xabc1"`, `["a"]`), "body.txId", "is an array, not a string"},
		"empty text":            {with(`"0xabc1"`, `""`), "body.txId", "is empty"},
		"NUL":                   {with(`0xabc1`, `a\u0000`), "body.txId", "holds U+0000"},
		"whole number as float": {with(`"txIndex":-1`, `"txIndex":1.0`), "body.txIndex", "is not a whole number"},
		"exponent":              {with(`"txIndex":-1`, `"txIndex":1e2`), "body.txIndex", "is not a whole number"},
		"huge":                  {with(`"txIndex":-1`, `"txIndex":99999999999999999999`), "body.txIndex", "is not a whole number"},
		"below":                 {with(`"txIndex":-1`, `"txIndex":-2`), "body.txIndex", "is not between -1 and 9007199254740991"},
		"above":                 {with(`"riskLevelFrom":10`, `"riskLevelFrom":101`), "body.riskLevelFrom", "is not between 0 and 100"},
		"amount exponent":       {with(`"2.500000"`, `"2e5"`), "body.amount", "has an exponent"},
		"amount sign":           {with(`"2.500000"`, `"-2"`), "body.amount", "has a sign"},
		"amount kind":           {with(`"2.500000"`, `true`), "body.amount", "is a boolean, not a string"},
		"amount length":         {with(`2.500000`, strings.Repeat("9", 79)), "body.amount", "has more than 78 digits"},
		"name with a line feed": {with(`"txId"`, `"a\nb":1,"txId"`), "body.a?b", "is not known here"},
		"in an item":            {"[" + good + "," + with(`"0xabc1"`, `7`) + "]", "body[1].txId", "is a number, not a string"},
		"deep":                  {with(`"txId"`, `"x":`+strings.Repeat("[", 14)+strings.Repeat("]", 14)+`,"txId"`), "body.x", "is not known here"},
		"deep unknown":          {with(`"txId"`, `"x":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+`,"txId"`), "body.x", "is not known here"},
		"time":                  {with(`"txId"`, `"at":"2030-01-31T12:00:00+02:00","txId"`), "", ""},
		"no time":               {with(`"txId"`, `"at":"tomorrow","txId"`), "body.at", "is not a time"},
		"time of no use":        {with(`"txId"`, `"at":"1970-12-31T12:00:00Z","txId"`), "body.at", "is not a time"},
		"span":                  {with(`"txId"`, `"within":"1m30s","txId"`), "", ""},
		"no span":               {with(`"txId"`, `"within":"90","txId"`), "body.within", "is not a duration"},
		"span as number":        {with(`"txId"`, `"within":90,"txId"`), "body.within", `is a number; durations are texts, such as "30s"`},
		"labels":                {with(`"txId"`, `"labels":{"a":"1","b":"1"},"txId"`), "", ""},
		"label of another kind": {with(`"txId"`, `"labels":{"a":1},"txId"`), "body.labels.a", "is a number, not a string"},
	} {
		t.Run(name, func(t *testing.T) {
			faults := faultsOf(reg, s, c.body)
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
	reg, s := schemaFor[batch]()
	body := "[" + strings.Repeat(`{"a":1},`, 999) + `{}]`
	if n := len(faultsOf(reg, s, body)); n != MaxFaults {
		t.Errorf("%d faults, want %d", n, MaxFaults)
	}
	body = strings.NewReplacer(`"acme"`, `""`, `"0xabc1"`, `7`).Replace(sample)
	if faults := faultsOf(reg, s, body); len(faults) != 2 {
		t.Errorf("of two wrong members it names %v", faults)
	}
}
