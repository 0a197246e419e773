package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"countersign/client"
	"countersign/internal/admin"
	"countersign/internal/api"
	"countersign/internal/gateway"
)

// maxBody bounds a request read from a file, in bytes.
const maxBody = 4 << 20

// requestFlags set the members of a request that have no flag of their own.
type requestFlags struct {
	Set  []string `arg:"" optional:"" name:"name=value" help:"Members of the request, such as confirmWithin=4h or key.bits=2048; @FILE reads a value, null takes a setting back to its default. countersign api ${op} --members lists them."`
	Body string   `name:"request" short:"d" placeholder:"JSON" env:"-" help:"The request as JSON, or @FILE to read it from there, @- from standard input. What is given as name=value wins."`
}

// request is a call of an operation that is being completed.
type request struct {
	op      api.Operation
	members []member
	api     *client.Service
	end     end
	path    map[string]string
	query   url.Values
	body    map[string]any
	whole   json.RawMessage // a body that is no object
}

// operations returns the operations of an end.
func operations(e end) []api.Operation {
	if e == gatewayEnd {
		return gateway.Operations()
	}
	return admin.Operations()
}

// newRequest returns a request of an end's operation, to be sent by the client.
func newRequest(c *client.Service, e end, operation string) (*request, error) {
	all := operations(e)
	i := slices.IndexFunc(all, func(o api.Operation) bool { return o.ID == operation })
	if i < 0 {
		return nil, &hintedError{fmt.Errorf("the %s has no operation %s", e, operation),
			[]string{fmt.Sprintf("countersign api --%s lists them.", e)}}
	}
	return &request{op: all[i], members: membersOf(all[i]), api: c, end: e, path: map[string]string{}, query: url.Values{},
		body: map[string]any{}}, nil
}

var pathMember = regexp.MustCompile(`\{(\w+)\}`)

// member is what an operation takes: a part of its path, a parameter of its query or a member of its body.
type member struct {
	name   string // dots lead into objects
	place  string // "path", "query" or "json"
	typ    reflect.Type
	doc    string
	object bool // its members follow
}

// membersOf returns what an operation takes.
func membersOf(o api.Operation) (all []member) {
	for _, m := range pathMember.FindAllStringSubmatch(o.Path, -1) {
		all = append(all, member{name: m[1], place: "path", doc: "of the path"})
	}
	in := o.In
	if isArray(in) {
		in = in.Elem()
	}
	return slices.Concat(all, membersIn(o.Query, "query", ""), membersIn(in, "json", ""))
}

// isArray reports whether a request is an array. The members of the command are then those of its one item.
func isArray(in reflect.Type) bool { return in != nil && in.Kind() == reflect.Slice }

// membersIn returns the members of a message.
func membersIn(t reflect.Type, place, around string) (all []member) {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get(place), ",")
		if name == "" && f.Type.Kind() == reflect.Struct && !f.Anonymous && f.IsExported() { // as the API reads a query
			all = append(all, membersIn(f.Type, place, around)...)
		}
		if name == "" || name == "-" || !f.IsExported() {
			continue
		}
		for f.Type.Kind() == reflect.Pointer {
			f.Type = f.Type.Elem()
		}
		inner := membersIn(f.Type, place, around+name+".")
		all = append(append(all, member{around + name, place, f.Type, f.Tag.Get("doc"), inner != nil}), inner...)
	}
	return all
}

// member returns the member with a name.
func (r *request) member(name string) (member, bool) {
	if i := slices.IndexFunc(r.members, func(m member) bool { return m.name == name }); i >= 0 {
		return r.members[i], true
	}
	if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
		if m, ok := r.member(name[:dot]); ok && m.typ.Kind() == reflect.Map {
			return member{name: name, place: m.place, typ: m.typ.Elem()}, true
		}
	}
	return member{}, false
}

// fill sets what the person gave: first the body, then what, as the member is, then the other members. A member without
// a name is the next part of the path.
func (r *request) fill(std streams, flags requestFlags, is, what string) error {
	if !strings.Contains(r.op.Path, "{") && r.op.In != nil { // a word alone is the file of the request
		i := slices.IndexFunc(flags.Set, func(word string) bool { return !strings.Contains(word, "=") })
		switch {
		case i >= 0 && flags.Body != "":
			return errors.New("give the request as a file or with -d, not both")
		case i >= 0:
			flags.Body, flags.Set = "@"+flags.Set[i], slices.Delete(slices.Clone(flags.Set), i, i+1)
		}
	}
	if err := r.read(std, flags.Body); err != nil {
		return err
	}
	if what != "" {
		if err := r.set(cmp.Or(is, r.missing()), what); err != nil {
			return err
		}
	}
	for _, word := range flags.Set {
		name, value, named := strings.Cut(word, "=")
		if !named {
			if name, value = r.missing(), word; name == "" {
				return fmt.Errorf("%q: give NAME=VALUE", word)
			}
		}
		if err := r.set(name, value); err != nil {
			return err
		}
	}
	if p := r.missing(); p != "" {
		return fmt.Errorf("%s is missing: give %s=VALUE", p, p)
	}
	return nil
}

// missing returns the next part of the path that was not given, or "".
func (r *request) missing() string {
	for _, m := range r.members {
		if m.place == "path" && r.path[m.name] == "" {
			return m.name
		}
	}
	return ""
}

// read reads the body of -d.
func (r *request) read(std streams, text string) error {
	raw := []byte(text)
	if name, isFile := strings.CutPrefix(text, "@"); isFile {
		var err error
		if raw, err = readInput(std, name, maxBody, "request"); err != nil {
			return err
		}
		if len(bytes.TrimSpace(raw)) == 0 {
			return fmt.Errorf("%s is empty: it must hold the request as JSON", name)
		}
	}
	if len(raw) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // keeps the digits of amounts
	if raw[0] != '[' && d.Decode(&r.body) == nil && !d.More() {
		return nil
	}
	if !json.Valid(raw) {
		return fmt.Errorf("the request is not one JSON value: %w", json.Unmarshal(raw, new(any)))
	}
	r.whole = raw
	return nil
}

// set sets a member in the path, the query or the body.
func (r *request) set(name, text string) error {
	m, ok := r.member(name)
	switch {
	case !ok:
		return &hintedError{fmt.Errorf("%s has no %s", r.op.ID, name),
			[]string{fmt.Sprintf("it has: %s.", strings.Join(r.names(), ", "))}}
	case m.place == "path":
		r.path[name] = text
		return nil
	case m.place == "query":
		if at, is := instant(m.typ, text, -1); is {
			text = at
		}
		r.query.Set(name, text)
		return nil
	case r.whole != nil:
		return fmt.Errorf("the request of -d is not an object, so %s cannot be added to it", name)
	}
	v, err := valueOf(m.typ, name, text)
	if err != nil {
		return err
	}
	object, path := r.body, strings.Split(name, ".")
	for ; len(path) > 1; path = path[1:] {
		inner, ok := object[path[0]].(map[string]any)
		if !ok {
			inner = map[string]any{}
			object[path[0]] = inner
		}
		object = inner
	}
	object[path[0]] = v
	return nil
}

// names returns the names of what the operation takes, without the members of objects.
func (r *request) names() (all []string) {
	for _, m := range r.members {
		if !strings.Contains(m.name, ".") {
			all = append(all, m.name)
		}
	}
	return all
}

// instant returns the time that is text from now, such as 7d. sign -1 means before now.
func instant(t reflect.Type, text string, sign time.Duration) (string, bool) {
	span, ok := client.Span(text)
	if !ok || t != reflect.TypeFor[client.Time]() {
		return "", false
	}
	return client.TimeOf(time.Now().Add(sign * span)).String(), true
}

// valueOf turns what was typed into the member's JSON.
func valueOf(t reflect.Type, name, text string) (any, error) {
	if at, is := instant(t, text, 1); is {
		return at, nil
	}
	switch {
	case text == "null":
		return nil, nil
	case t == reflect.TypeFor[client.Secret](),
		strings.HasSuffix(name, "publicKey"): // either part is a secret (PROTOCOL.md, Keys)
		return secret(text).reveal(name)
	}
	text, err := textOrFile(name, text)
	switch {
	case err != nil:
		return nil, err
	case t.Kind() == reflect.String:
		return text, nil
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String && !strings.HasPrefix(text, "["):
		return strings.Split(text, ","), nil
	}
	quoted, _ := json.Marshal(text)
	if raw := json.RawMessage(client.SettingJSON(t, text)); json.Unmarshal(quoted, reflect.New(t).Interface()) != nil &&
		json.Valid(raw) {
		return raw, nil
	}
	return text, nil // the API says what is wrong with it
}

// send makes the call and returns its answer.
func (r *request) send(ctx context.Context) (json.RawMessage, error) {
	path := r.op.Path
	for name, value := range r.path {
		path = strings.Replace(path, "{"+name+"}", url.PathEscape(value), 1)
	}
	if len(r.query) > 0 {
		path += "?" + r.query.Encode()
	}
	body := r.whole
	if body == nil && (len(r.body) > 0 || r.op.In != nil && r.op.Method != http.MethodGet) {
		var in any = r.body
		if isArray(r.op.In) {
			in = []any{in}
		}
		var err error
		if body, err = json.Marshal(in); err != nil {
			return nil, err
		}
	}
	return r.api.Call(ctx, r.op.Method, path, body)
}

// begin completes a request with what, as the member is, and with flags.
func (f connection) begin(std streams, of end, operation string, flags requestFlags, is,
	what string) (*request, error) {
	api, e, err := f.client(std, of)
	if err != nil {
		return nil, err
	}
	r, err := newRequest(api, e, operation)
	if err != nil {
		return nil, err
	}
	return r, r.fill(std, flags, is, what)
}

// call begins a request and sends it. If the answer waits for an approver, it says so on standard error.
func (f connection) call(ctx context.Context, std streams, of end, operation string, flags requestFlags, is,
	what string) (*request, json.RawMessage, error) {
	r, err := f.begin(std, of, operation, flags, is, what)
	if err != nil {
		return nil, nil, err
	}
	answer, err := r.send(ctx)
	if err == nil && r.op.Waits {
		tellWaiting(std.err, answer)
	}
	return r, answer, err
}

// print makes a call and prints the answer.
func (f connection) print(ctx context.Context, std streams, of end, operation string, flags requestFlags, is,
	what string) error {
	_, answer, err := f.call(ctx, std, of, operation, flags, is, what)
	if err != nil || len(answer) == 0 {
		return err
	}
	return printJSON(std.out, answer, "  ")
}

// tellWaiting writes to w that a change waits for an approver, if the answer says so.
func tellWaiting(w io.Writer, answer json.RawMessage) {
	var waits struct{ Task string }
	if json.Unmarshal(answer, &waits) == nil && waits.Task != "" {
		fmt.Fprintf(w, "countersign: nothing has changed yet: it waits for an approver; tasks approve %s\n", waits.Task)
	}
}

// listFlags are the flags of every list.
type listFlags struct {
	Set   []string `arg:"" optional:"" name:"name=value" help:"Filter, such as merchant=shop, state=open or since=7d. countersign api OPERATION --members lists the parameters."`
	Limit int      `help:"Largest number of lines." default:"100" env:"-"`
	JSON  *bool    `name:"json" negatable:"" env:"-" help:"Print a line of JSON for each, or with --no-json a table. Default: a table on a terminal, JSON elsewhere."`
}

// mostEntries bounds the entries of a page.
const mostEntries = 1000

// list prints the entries of an operation page by page. columns are the columns of the table, separated by |. A title
// is also the name of its member (TRACKING ID of trackingId), unless TITLE=MEMBER names another. Of several members,
// separated by commas, the first that is present counts.
func (f connection) list(ctx context.Context, std streams, of end, operation, columns string, flags listFlags, is,
	what string) error {
	r, err := f.begin(std, of, operation, requestFlags{Set: flags.Set}, is, what)
	if err != nil {
		return err
	}
	_, paged := r.member("limit")
	if paged {
		r.query.Set("limit", strconv.Itoa(min(mostEntries, flags.Limit+1)))
	}
	table := isTerminal(std.out)
	if flags.JSON != nil {
		table = !*flags.JSON
	}
	var rows [][]string
	if table {
		rows = append(rows, cells(columns, nil))
	}
	for n := 0; ; {
		answer, err := r.send(ctx)
		if err != nil {
			return err
		}
		var page client.List[json.RawMessage]
		if err := json.Unmarshal(answer, &page); err != nil {
			return err
		}
		for _, e := range page.Items {
			if n++; paged && n > flags.Limit {
				fmt.Fprintf(std.err, "countersign: there are more; raise --limit\n")
				return writeTable(std.out, rows)
			}
			if table {
				rows = append(rows, cells(columns, e))
			} else if err := printJSON(std.out, e, ""); err != nil {
				return err
			}
		}
		if page.Next == nil {
			return writeTable(std.out, rows)
		}
		r.query.Set("cursor", *page.Next)
	}
}
