// Package cli makes subcommands of the operations of an API: the parts of the path are
// arguments, the members of query and body are flags with their own texts, and answers are
// tables or JSON.
package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"countersign/client"
	"countersign/internal/api"
)

// End is whose API a subcommand speaks to.
type End int

// The ends. EitherEnd has the flag --gateway.
const (
	ServiceEnd End = iota
	GatewayEnd
	EitherEnd
)

// Command is a subcommand that calls an operation, a subcommand written by hand, or the name of
// a group of subcommands, which has neither Op nor By.
type Command struct {
	Words string   // what people type, such as "withdrawals release"
	Help  string   // empty: the operation's summary
	Tags  []string // more tags for kong: names and values in turn
	End   End
	By    any // written by hand: a pointer to a struct for kong. Op is empty then

	Op   string // operationId
	All  string // the operation where no id is given. Empty: an id is needed
	ID   string // what the argument is, for help. Empty: the path says it
	Body body

	// Flags gives flags other names; "-" leaves one out. A key that ends with a dash is a
	// prefix.
	Flags map[string]string
	// Switches are flags without a value that set another flag.
	Switches []Switch
	// Args are members that are arguments in place of flags. Files are flags that name a file
	// with the value.
	Args, Files []string
	// Out is the flag --out, for an answer that is shown only once. Nil: there is no such flag.
	Out *Output
	// Confirm is the error without the flag --yes; it may hold %s for the id. Empty: there is no
	// such flag.
	Confirm string
	// Find gives the id for an argument. Nil: the argument is the id.
	Find func(ctx context.Context, api *client.Service, text string) (string, error)

	// Columns are those of the table: titles that a | divides. A title is also the name of the
	// member, ID of id and TX ID of txId, unless TITLE=MEMBER names it, or several with commas
	// between them, of which the first that is there counts. Empty: the first members.
	Columns string
	// Cells compute the columns that are no member, by title.
	Cells map[string]func(Entry) string
	// Lines is the most lines of a list. 0: 100.
	Lines int
	// Array prints a list as one array of JSON, not as lines.
	Array bool
	// Only is the member of the answer that is printed, alone and as text. Empty: all.
	Only string
	// Done is printed if the answer is empty; it may hold %s for the id.
	Done string
	// Warn gives a warning about an answer, or nothing.
	Warn func(Entry) string
}

// Output writes an answer to the file or directory of --out.
type Output struct {
	Help    string
	Prepare func(place string) error // before the call
	Write   func(ctx context.Context, api *client.Service, std Streams, place string, body, answer json.RawMessage) error
}

// Switch is a flag without a value. It sets Flag to Value, or calls the operation Op, which has
// no members, in place of the command's.
type Switch struct{ Name, Help, Flag, Value, Op string }

// body is where the body of a request comes from, beside the flags.
type body int

// The bodies. Members are flags alone.
const (
	Members body = iota
	File         // the last argument names a file
	Given        // the flag -d has it
)

// Ends are what Plugin makes subcommands of.
type Ends struct {
	Service, Gateway []api.Operation
	// OfGateway: --gateway is on the command line.
	OfGateway bool
}

// Of returns the operations of an end.
func (e Ends) Of(end End) []api.Operation {
	if end == GatewayEnd || end == EitherEnd && e.OfGateway {
		return e.Gateway
	}
	return e.Service
}

// Plugin makes the subcommands, in their order, for kong.Plugins.
func (e Ends) Plugin(commands []Command) (any, error) {
	root := &node{}
	for i := range commands {
		at := root
		for word := range strings.FieldsSeq(commands[i].Words) {
			at = at.child(word)
		}
		at.command = &commands[i]
	}
	if err := e.build(root); err != nil {
		return nil, err
	}
	v := reflect.New(root.structure)
	root.fill(v.Elem())
	return v.Interface(), nil
}

// All makes a subcommand below word for each of the operations.
func All(word string, operations []api.Operation, end End) (all []Command) {
	for _, o := range operations {
		all = append(all, Command{Words: word + " " + o.ID, Op: o.ID, End: end, Body: Given})
	}
	return all
}

// node is a word of the command line.
type node struct {
	word      string
	command   *Command
	children  []*node
	structure reflect.Type
	call      *Call // of a subcommand that is made of an operation
}

func (n *node) child(word string) *node {
	for _, c := range n.children {
		if c.word == word {
			return c
		}
	}
	n.children = append(n.children, &node{word: word})
	return n.children[len(n.children)-1]
}

// build makes the structs of n and of all below it.
func (e Ends) build(n *node) error {
	switch c := n.command; {
	case len(n.children) > 0 || c == nil:
	case c.By != nil:
		n.structure = reflect.TypeOf(c.By).Elem()
		return nil
	default:
		var err error
		if n.call, err = e.call(c); err == nil {
			n.structure = reflect.StructOf(n.call.fields)
		}
		return err
	}
	var fields []reflect.StructField
	for i, child := range n.children {
		if err := e.build(child); err != nil {
			return err
		}
		if child.command == nil {
			return fmt.Errorf("%s has no help", child.word)
		}
		help := child.command.Help
		if help == "" {
			help = child.call.op.Summary + "."
		}
		fields = append(fields, field(fmt.Sprintf("C%d", i), child.structure, append([]string{"cmd", "", "name", child.word, "help", help}, child.command.Tags...)...))
	}
	n.structure = reflect.StructOf(fields)
	return nil
}

// fill gives the structs of operations their calls.
func (n *node) fill(v reflect.Value) {
	if n.call != nil {
		n.call.at = v
		v.Field(0).Set(reflect.ValueOf(n.call))
		return
	}
	for i, child := range n.children {
		if child.call != nil || len(child.children) > 0 {
			child.fill(v.Field(i))
		}
	}
}

// field is an exported field with tags: names and values in turn.
func field(name string, t reflect.Type, tags ...string) reflect.StructField {
	var b strings.Builder
	for i := 0; i < len(tags); i += 2 {
		fmt.Fprintf(&b, " %s:%s", tags[i], strconv.Quote(tags[i+1]))
	}
	return reflect.StructField{Name: name, Type: t, Tag: reflect.StructTag(strings.TrimSpace(b.String()))}
}

// Call is a subcommand that is made of an operation.
type Call struct {
	c       *Command
	op, all *api.Operation // all: nil where an id is needed
	instead *api.Operation // of a switch; nil: none has one
	fields  []reflect.StructField
	at      reflect.Value // the struct with the fields, which kong fills
	flags   []flag
	ids     int // how many parts of the path are arguments; they begin at field firstID
	list    *list
}

// flag is a member of Call.op, or of Call.all, and the field that has its text.
type flag struct {
	member
	name  string
	field int
	all   bool
	both  bool // the other operation has the same member
}

const firstID = 2 // after the Call and where the API is

var pathMember = regexp.MustCompile(`\{(\w+)\}`)

// Of returns the Call of a parsed command line, nil if its subcommand was written by hand.
func Of(n *kong.Node) *Call {
	if n == nil || n.Target.Kind() != reflect.Struct || n.Target.NumField() == 0 || n.Target.Type().Field(0).Type != reflect.TypeFor[*Call]() {
		return nil
	}
	return n.Target.Field(0).Interface().(*Call)
}

// call describes the subcommand of an operation.
func (e Ends) call(c *Command) (*Call, error) {
	operations, conn := e.Of(c.End), reflect.TypeFor[Connection]()
	if c.End == EitherEnd {
		conn = reflect.TypeFor[Either]()
	}
	find := func(id string) (*api.Operation, error) {
		i := slices.IndexFunc(operations, func(o api.Operation) bool { return o.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("there is no operation %s for %s", id, c.Words)
		}
		return &operations[i], nil
	}
	k := &Call{c: c}
	var err error
	if k.op, err = find(c.Op); err != nil {
		return nil, err
	}
	if c.All != "" {
		if k.all, err = find(c.All); err != nil {
			return nil, err
		}
	}
	for _, s := range c.Switches {
		if s.Op == "" {
			continue
		}
		if k.instead, err = find(s.Op); err != nil {
			return nil, err
		}
	}
	k.add(reflect.TypeFor[*Call](), "kong", "-")
	k.add(conn, "embed", "")
	for _, m := range pathMember.FindAllStringSubmatch(k.op.Path, -1) {
		help := c.ID
		if help == "" {
			help = sentence(m[1] + " of the " + k.thing())
		}
		optional := "arg"
		if k.all != nil {
			optional = "optional"
		}
		k.add(reflect.TypeFor[string](), "arg", "", optional, "", "name", m[1], "help", help)
		k.ids++
	}
	k.list = listOf(k.op)
	if err := k.addFlags(k.op, false); err != nil {
		return nil, err
	}
	if k.all != nil {
		err = k.addFlags(k.all, true)
	}
	k.addOwn()
	return k, err
}

// thing is what the operation is about.
func (k *Call) thing() string {
	_, rest, _ := strings.Cut(strings.TrimPrefix(k.op.Path, "/"), "/")
	collection, _, _ := strings.Cut(rest, "/")
	return strings.TrimSuffix(collection, "s")
}

// add adds a field and gives its index.
func (k *Call) add(t reflect.Type, tags ...string) int {
	k.fields = append(k.fields, field(fmt.Sprintf("F%d", len(k.fields)), t, tags...))
	return len(k.fields) - 1
}

// addFlags adds a flag for each member of the query and the body of o.
func (k *Call) addFlags(o *api.Operation, all bool) error {
	for _, m := range append(membersOf(o.Query, inQuery), membersOf(o.In, inBody)...) {
		patch := o.Method == http.MethodPatch && m.in == inBody
		m.required, m.clears = m.required && !patch, m.clears && patch && len(m.path) == 1
		if m.absent != "" && !patch {
			m.text += "; absent: " + m.absent
		}
		name := k.nameOf(m)
		if name == "-" || m.in == inQuery && k.list != nil && k.list.pages(m.path[0]) {
			continue
		}
		if i := slices.IndexFunc(k.flags, func(f flag) bool { return f.name == name }); i >= 0 {
			if of := &k.flags[i]; all && !of.all && of.in == m.in && of.kind == m.kind && slices.Equal(of.path, m.path) {
				of.both = true
				continue
			}
			return fmt.Errorf("%s: two members are the flag --%s", k.c.Words, name)
		}
		if slices.Contains(k.c.Files, name) {
			m.text, m.flag, m.enum = "file with "+strings.TrimSuffix(m.text, "."), "file", nil
			m.file = true
		}
		tags := append([]string{"name", name, "help", m.help()}, m.tags()...)
		switch {
		case slices.Contains(k.c.Args, name) && k.instead != nil:
			tags = append(tags, "arg", "", "optional", "")
		case slices.Contains(k.c.Args, name):
			tags = append(tags, "arg", "")
		case m.required && k.c.Body == Members && k.all == nil && k.instead == nil:
			tags = append(tags, "env", "-", "required", "")
		default:
			tags = append(tags, "env", "-")
		}
		k.flags = append(k.flags, flag{m, name, k.add(m.field(), tags...), all, false})
	}
	return nil
}

// nameOf is the name of a member's flag.
func (k *Call) nameOf(m member) string {
	if name, ok := k.c.Flags[m.flag]; ok {
		return name
	}
	for from, to := range k.c.Flags {
		if rest, ok := strings.CutPrefix(m.flag, from); ok && strings.HasSuffix(from, "-") {
			return to + rest
		}
	}
	return m.flag
}

const jsonHelp = "Print JSON as it came, or with --no-json a table. Default: a table on a terminal, JSON elsewhere."

// addOwn adds the flags that are no members: switches, the body, and how the answer is printed.
// Run finds them by their names.
func (k *Call) addOwn() {
	own := func(name string, t reflect.Type, tags ...string) {
		if !slices.Contains(tags, "arg") {
			tags = append(tags, "env", "-")
		}
		k.fields = append(k.fields, field(name, t, tags...))
	}
	for i, s := range k.c.Switches {
		own(fmt.Sprintf("Switch%d", i), reflect.TypeFor[bool](), "name", s.Name, "help", s.Help, "xor", s.Flag+s.Op)
	}
	switch {
	case k.c.Body == File:
		own("File", reflect.TypeFor[string](), "arg", "", "optional", "", "name", "file",
			"help", "File with the request as JSON, as the API takes it; - for standard input. Flags come before its members.")
	case k.c.Body == Given && k.op.In != nil:
		own("Body", reflect.TypeFor[string](), "name", "request", "short", "d", "placeholder", "JSON",
			"help", "The request as JSON, or @FILE to read it from there, @- from standard input. Flags come before its members.")
	}
	var clear []string
	for _, f := range k.flags {
		if f.clears {
			clear = append(clear, f.name)
		}
	}
	if len(clear) > 0 {
		own("Clear", reflect.TypeFor[[]string](), "enum", strings.Join(clear, ","), "placeholder", "SETTING",
			"help", "Set these back to their defaults: "+strings.Join(clear, ", ")+".")
	}
	if k.c.Out != nil {
		own("Out", reflect.TypeFor[string](), "help", k.c.Out.Help, "type", "path", "placeholder", "DIR")
	}
	if k.c.Confirm != "" {
		own("Yes", reflect.TypeFor[bool](), "help", "Required: it cannot be undone.")
	}
	if k.list != nil && k.list.paged() {
		own("Limit", reflect.TypeFor[int](), "help", "Most lines.", "default", strconv.Itoa(cmp.Or(k.c.Lines, 100)))
	}
	if k.list != nil && k.list.feed {
		own("Follow", reflect.TypeFor[bool](), "help", "Go on with new entries as they come, without an end.")
	}
	switch {
	case k.op.Out == nil:
	case k.list != nil:
		own("JSON", reflect.TypeFor[*bool](), "name", "json", "negatable", "", "xor", "form", "help", jsonHelp)
		own("CSV", reflect.TypeFor[bool](), "name", "csv", "xor", "form", "help", "Print CSV with all members, which a spreadsheet opens without running any of it.")
	default:
		own("JSON", reflect.TypeFor[*bool](), "name", "json", "negatable", "", "help", jsonHelp)
	}
}

// Streams are what a subcommand reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Terminal bool // a person sees Out
}
