package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"countersign/client"
	"countersign/internal/api"
)

// maxBody bounds a request that is read from a file, in bytes.
const maxBody = 4 << 20

// request is what a command line asks for.
type request struct {
	op    *api.Operation
	path  string
	id    string
	query url.Values
	body  json.RawMessage
}

// Run makes the call and prints its answer.
func (k *Call) Run(ctx context.Context, client *client.Service, std Streams) error {
	r, err := k.request(ctx, client, std)
	switch {
	case err != nil:
		return err
	case k.list != nil:
		return k.printList(ctx, client, std, r)
	}
	out := k.out()
	if out != "" {
		if err := k.c.Out.Prepare(out); err != nil {
			return err
		}
	}
	answer, err := client.Call(ctx, r.op.Method, r.path+encoded(r.query), r.body)
	if err != nil {
		return err
	}
	if len(answer) == 0 {
		if k.c.Done != "" {
			fmt.Fprintf(std.Out, k.c.Done+"\n", r.id)
		}
		return nil
	}
	if r.op.Waits {
		answer = Waiting(std.Err, answer)
	}
	if out != "" {
		return k.c.Out.Write(ctx, client, std, out, r.body, answer)
	}
	if k.c.Warn != nil {
		if text := k.c.Warn(entryOf(answer)); text != "" {
			fmt.Fprintln(std.Err, "countersign: warning:", text)
		}
	}
	switch {
	case k.c.Only != "":
		_, err := fmt.Fprintln(std.Out, entryOf(answer).Text(k.c.Only))
		return err
	case k.asTable(std):
		return printMembers(std.Out, answer)
	}
	return printJSON(std.Out, answer, "  ")
}

// out is where the answer goes, empty if it is printed.
func (k *Call) out() string {
	if k.c.Out == nil {
		return ""
	}
	return k.at.FieldByName("Out").String()
}

// Waiting tells on w that a change waits for an approver, if the answer has one. It gives what
// to print: the change alone, if the answer has no other member.
func Waiting(w io.Writer, answer json.RawMessage) json.RawMessage {
	var p client.Proposed
	if json.Unmarshal(answer, &p) != nil || p.Change.ID == "" {
		return answer
	}
	TellWaiting(w, p.Change)
	var members map[string]json.RawMessage
	if json.Unmarshal(answer, &members) == nil && len(members) == 1 {
		return members["change"]
	}
	return answer
}

// TellWaiting tells on w that a change waits for an approver.
func TellWaiting(w io.Writer, e client.ChangeEntry) {
	fmt.Fprintf(w, "countersign: nothing has changed yet: %s waits for an approver other than %s; tasks approve %s\n", e.ID, e.ProposedBy, client.TaskID(client.TaskChange, e.ID))
}

func encoded(q url.Values) string {
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// asTable says whether the answer is a table, not JSON.
func (k *Call) asTable(std Streams) bool {
	if given := k.at.FieldByName("JSON"); given.IsValid() && !given.IsNil() {
		return !given.Elem().Bool()
	}
	return std.Terminal
}

// request reads the command line.
func (k *Call) request(ctx context.Context, client *client.Service, std Streams) (r request, err error) {
	r = request{op: k.op, path: k.op.Path, query: url.Values{}}
	if k.c.Confirm != "" && !k.at.FieldByName("Yes").Bool() {
		return r, fmt.Errorf(k.c.Confirm, k.at.Field(firstID).String())
	}
	for i, name := range pathMember.FindAllString(k.op.Path, -1) {
		text := k.at.Field(firstID + i).String()
		if text != "" && k.c.Find != nil && i == 0 {
			if text, err = k.c.Find(ctx, client, text); err != nil {
				return r, err
			}
		}
		r.path = strings.Replace(r.path, name, url.PathEscape(text), 1)
		r.id = cmp.Or(r.id, text)
	}
	if k.all != nil && r.id == "" {
		r.op, r.path = k.all, k.all.Path
	}
	for i, s := range k.c.Switches {
		if s.Op != "" && k.at.FieldByName(fmt.Sprintf("Switch%d", i)).Bool() {
			return request{op: k.instead, path: k.instead.Path}, nil
		}
	}
	given, err := k.given(std)
	if err != nil {
		return r, err
	}
	for i := range k.flags {
		if f := &k.flags[i]; k.instead != nil && f.required && given[f] == nil {
			name := "--" + f.name
			if slices.Contains(k.c.Args, f.name) {
				name = "a " + f.name
			}
			return r, fmt.Errorf("give %s, or --%s", name, k.c.Switches[0].Name)
		}
	}
	if err := k.fits(r, given); err != nil {
		return r, err
	}
	body, err := k.body(std)
	if err != nil {
		return r, err
	}
	members := map[string]any{}
	for f, v := range given {
		switch f.in {
		case inQuery:
			r.query.Set(f.path[0], fmt.Sprint(v))
		default:
			set(members, f.path, v)
		}
	}
	r.body, err = merged(body, members)
	if len(r.body) == 0 && r.op.In != nil && r.op.Method != http.MethodGet {
		r.body = json.RawMessage("{}")
	}
	return r, err
}

// given returns the flags of the command line with their values.
func (k *Call) given(std Streams) (map[*flag]any, error) {
	given := map[*flag]any{}
	for i := range k.flags {
		f := &k.flags[i]
		v := k.at.Field(f.field)
		if v.IsNil() {
			continue
		}
		switch {
		case f.isSwitch() && len(f.enum) == 1:
			given[f] = f.enum[0]
		case f.isSwitch():
			given[f] = v.Elem().Bool()
		case v.Kind() == reflect.Slice:
			given[f] = v.Interface()
		default:
			text, err := f.read(f.name, v.Elem().String(), std)
			if err != nil {
				return nil, err
			}
			if given[f], err = f.value(text, time.Now()); err != nil {
				return nil, fmt.Errorf("--%s: %w", f.name, err)
			}
		}
	}
	if clear := k.at.FieldByName("Clear"); clear.IsValid() {
		for i := range k.flags {
			if slices.Contains(clear.Interface().([]string), k.flags[i].name) {
				given[&k.flags[i]] = nil
			}
		}
	}
	for i, s := range k.c.Switches {
		if !k.at.FieldByName(fmt.Sprintf("Switch%d", i)).Bool() {
			continue
		}
		for j := range k.flags {
			if k.flags[j].name == s.Flag {
				given[&k.flags[j]] = s.Value
			}
		}
	}
	return given, nil
}

// fits refuses flags of the operation that is not called, for a command with one operation for
// an id and one for all.
func (k *Call) fits(r request, given map[*flag]any) error {
	if k.all == nil {
		return nil
	}
	needs := ""
	for i := range k.flags {
		f := &k.flags[i]
		_, is := given[f]
		switch {
		case is && r.op == k.all && !f.all && !f.both:
			return fmt.Errorf("--%s needs the id of one %s", f.name, k.thing())
		case is && r.op == k.op && f.all:
			return errors.New("give an id or a selection, not both")
		case f.all && len(f.path) > 1 && needs == "":
			needs = f.name
		}
	}
	if r.op == k.all && needs != "" && !slices.ContainsFunc(slices.Collect(maps.Keys(given)), func(f *flag) bool { return len(f.path) > 1 }) {
		return fmt.Errorf("give an id, or a selection such as --%s", needs)
	}
	return nil
}

// body returns the request from a file or the flag -d, nil if there is none.
func (k *Call) body(std Streams) (json.RawMessage, error) {
	name := ""
	if f := k.at.FieldByName("File"); f.IsValid() {
		name = f.String()
	}
	if f := k.at.FieldByName("Body"); f.IsValid() && f.String() != "" {
		file, is := strings.CutPrefix(f.String(), "@")
		if !is {
			return json.RawMessage(file), nil
		}
		name = file
	}
	if name == "" {
		return nil, nil
	}
	in := std.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	b, err := ReadAll(in, maxBody, "request")
	if err == nil && !json.Valid(b) {
		err = fmt.Errorf("reading %s: it is not one value of JSON", name)
	}
	return b, err
}

// set puts a value into an object at a path, and makes the objects on the way.
func set(object map[string]any, path []string, v any) {
	for ; len(path) > 1; path = path[1:] {
		inner, ok := object[path[0]].(map[string]any)
		if !ok {
			inner = map[string]any{}
			object[path[0]] = inner
		}
		object = inner
	}
	object[path[0]] = v
}

// merged returns body with members, which win over its own. Without members it gives body
// unchanged.
func merged(body json.RawMessage, members map[string]any) (json.RawMessage, error) {
	if len(members) == 0 {
		return body, nil
	}
	object := map[string]any{}
	if body != nil {
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber() // keeps the digits of amounts
		if err := d.Decode(&object); err != nil {
			return nil, errors.New("the request is no object, so flags cannot be added to it")
		}
	}
	merge(object, members)
	return json.Marshal(object)
}

func merge(object, more map[string]any) {
	for name, v := range more {
		if inner, ok := v.(map[string]any); ok {
			if old, ok := object[name].(map[string]any); ok {
				merge(old, inner)
				continue
			}
		}
		object[name] = v
	}
}

// ReadAll reads at most limit bytes and fails rather than cut.
func ReadAll(r io.Reader, limit int, what string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("reading the %s: %w", what, err)
	}
	if len(b) > limit {
		return nil, fmt.Errorf("reading the %s: it is longer than %d bytes", what, limit)
	}
	return b, nil
}
