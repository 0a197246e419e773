package console

import (
	"crypto/rand"
	"encoding/base64"
	"html/template"
	"strconv"
)

// once is the answer to a form that makes keys or a token, which nobody can read again.
type once struct {
	Back     string // where to go on
	Warnings []string
	Items    []onceItem
}

type onceItem struct {
	Name string
	What string
	File string
	Text string
}

// Link returns the text as a file for the browser to save.
func (i onceItem) Link() template.URL {
	return template.URL("data:application/octet-stream;base64," + base64.StdEncoding.EncodeToString([]byte(i.Text+"\n")))
}

// handOver returns what a merchant must be given, without empty texts.
func handOver(publicKey, responseKey, apiKey, callbackAPIKey string) (items []onceItem) {
	for _, i := range []onceItem{
		{"Request key", "opens what the service sends", "service.b64", publicKey},
		{"Response key", "seals the merchant's answers", "response.b64", responseKey},
		{"API key", "the member apiKey of every response", "api.key", apiKey},
		{"Callback API key", "the header X-API-KEY of every request", "callback-api.key", callbackAPIKey},
	} {
		if i.Text != "" {
			items = append(items, i)
		}
	}
	return items
}

// formID returns the hidden field of a form that makes a secret.
func formID() template.HTML {
	return template.HTML(`<input type="hidden" name="form" value="` + rand.Text() + `">`)
}

// posted returns an error unless this form is posted for the first time, on any node: reloading the answer would make
// another key.
func (v *visit) posted() error {
	id := v.form("form")
	if len(id) != len(rand.Text()) {
		return refuse("the form is incomplete; open the page again")
	}
	first, err := v.c.Sealer.EndSession(v.r.Context(), "form-"+id, v.c.Now(), v.c.Now().Add(sessionLife))
	if err == nil && !first {
		err = refuse("this was done before, and what it showed cannot be read again; " +
			"if it was lost, make a new one in its place")
	}
	return err
}

// number returns a field of a form as a number, 0 if it is empty.
func (v *visit) number(field, what string) (int, error) {
	text := v.form(field)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, refuse("the " + what + " is not a whole number")
	}
	return n, nil
}
