package console

import (
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
