package main

import (
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"strings"

	"countersign/client"
)

var unknownMember = regexp.MustCompile(`json: unknown field ("[^"]*")`)

// plainly returns the text of an error, in which errors of encoding/json say what the APIs say of a
// body: the member, what came and what was expected, and no names of Go.
func plainly(err error) string {
	text := err.Error()
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		text = strings.Replace(text, kind.Error(), kindProblem(kind), 1)
	case errors.As(err, &syntax):
		text = strings.Replace(text, syntax.Error(), "is not JSON: "+strings.TrimPrefix(syntax.Error(), "json: "), 1)
	}
	return unknownMember.ReplaceAllString(text, "$1 is not known here")
}

func kindProblem(e *json.UnmarshalTypeError) string {
	came, _, _ := strings.Cut(e.Value, " ") // the value itself follows a number
	problem := "is " + withArticle(came) + ", not " + kindOf(e.Type)
	if came == "number" && kindOf(e.Type) == "a whole number" {
		problem = "is out of range, or not a whole number"
	}
	if e.Field == "" {
		return "it " + problem
	}
	return e.Field + " " + problem
}

func withArticle(kind string) string {
	switch kind {
	case "array", "object":
		return "an " + kind
	case "bool":
		return "true or false"
	}
	return "a " + kind
}

// kindOf names the JSON value that a Go type is read from.
func kindOf(t reflect.Type) string {
	if t == reflect.TypeFor[client.Duration]() {
		return "a duration such as 30s, 10m or 1h30m"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.String:
		return "a string"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number"
}
