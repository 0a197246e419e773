package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// plainly returns the text of an error. For errors of encoding/json it names the member and the value, and no Go type.
func plainly(err error) string {
	text := err.Error()
	if kind := new(json.UnmarshalTypeError); errors.As(err, &kind) {
		came, _, _ := strings.Cut(kind.Value, " ") // the value itself follows a number
		text = strings.Replace(text, kind.Error(), fmt.Sprintf("%s: the type %s is not allowed here", cmp.Or(kind.Field, "all of it"), came), 1)
	}
	return strings.ReplaceAll(strings.TrimPrefix(text, "json: "), " json: ", " ") // a file's name may end with json
}
