package console

import (
	"cmp"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"countersign"
	"countersign/client"
)

// pageSize is the number of entries on a page of a list.
const pageSize = 50

// list is a list page of Ts. F is the client's filter, whose members are the parameters of the address.
type list[F, T any] struct {
	table
	at     string // its address, where that is not its name
	live   bool   // the first page is kept up to date
	hint   string // below the title
	fields []field
	folded []field                                                     // of the search, shown when they are asked for; a time follows them if F has one
	api    string                                                      // path of the API's list, where that is not its name
	read   func(*visit, F, client.PageOptions) (client.List[T], error) // nil: what the API answers there
	// acts returns links to actions on the matching entries. Nil: there are none.
	acts func(*visit, F, client.List[T]) []act
	form func(*visit) (any, error) // for "before" of its template; nil: it has none
}

// table describes how rows are shown, on a list page and on the pages of other items. A list without columns has its
// own template, which defines "rows".
type table struct {
	name    string // of the template, and the end of the address
	title   string
	empty   string // what is said where there are no rows
	columns []column
}

// column is one column. Its cells are a template of the row, in which $ is the frame of the page.
type column struct{ head, class, cell string }

// field is a field of a search, with its label. The member of the filter determines its type and its values.
type field struct {
	name, label, hint string
	options           func(*visit) []option // nil: those of the member's type
	end               string                // that alone has it; empty: both have
}

// option is a value to choose in a field.
type option struct{ Value, Text, Means string }

// act is a link to an action.
type act struct{ Text, Path string }

// listView is what the template of a list shows.
type listView struct {
	Title, Hint, Path string
	Fields, Folded    []fieldView
	Fold              string // what is folded
	Open              bool   // the folded fields have values
	Span              *listSpan
	Acts              []act
	Filter, Rows      any
	Form              any    // of "before"
	Live              bool   // it is kept up to date
	Next              string // the address of the next page
	Partial           bool   // the page ended before it was full
}

// fieldView is a field with its value.
type fieldView struct {
	Name, Label, Hint, Value, Max string
	Options                       []option
}

// text returns the template that shows rows, which defines the table's name.
func (t table) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, `{{define %q}}{{if .Rows}}<div class="scroll" role="region" aria-label="%s" tabindex="0">
<table class="list stack"><thead><tr>`, t.name+"-table", t.title)
	for _, c := range t.columns {
		class := "" // of numbers: they are on the right
		if strings.HasPrefix(c.class, "n") {
			class = ` class="n"`
		}
		fmt.Fprintf(&b, `<th scope="col"%s>%s</th>`, class, c.head)
	}
	b.WriteString("</tr></thead>\n<tbody>{{range .Rows}}<tr>\n")
	for _, c := range t.columns {
		label := c.head
		if strings.HasPrefix(label, "<") { // it is not shown
			label = ""
		}
		fmt.Fprintf(&b, "\t<td data-label=%q class=%q>%s</td>\n", label, c.class, c.cell)
	}
	fmt.Fprintf(&b, `</tr>{{end}}</tbody></table></div>{{else}}<p class="empty">%s</p>{{end}}{{end}}`, t.empty)
	return b.String()
}

func (l *list[F, T]) shape() table { return l.table }

func (l *list[F, T]) path() string { return cmp.Or(l.at, root+l.name) }

func (l *list[F, T]) page() page {
	if l.at == root {
		return page{"GET " + root + "{$}", l.serve}
	}
	return page{"GET " + l.path(), l.serve}
}

func (l *list[F, T]) serve(v *visit) error {
	if l.at == root && !v.may(l.name) {
		return v.elsewhere()
	}
	q := v.r.URL.Query()
	var at *listSpan
	if _, timed := membersOf(reflect.TypeFor[F]())["since"]; timed {
		at = v.spanOf(q)
	}
	f := filterOf[F](q, at)
	if !v.wantsSheet() {
		view, err := l.view(v, f, at)
		if err != nil {
			return err
		}
		return v.render(l.name, view.Title, view)
	}
	if at != nil && at.Wrong != "" { // a file cannot say so
		return refuse(at.Wrong)
	}
	return writeSheet(v, func(o client.PageOptions) (client.List[T], error) { return l.part(v, f, o) })
}

// part reads a page of the list.
func (l *list[F, T]) part(v *visit, f F, o client.PageOptions) (client.List[T], error) {
	if l.read != nil {
		return l.read(v, f, o)
	}
	return read[client.List[T]](v, cmp.Or(l.api, client.Path(l.name)), f, o)
}

// view reads the page that the address asks for.
func (l *list[F, T]) view(v *visit, f F, at *listSpan) (view listView, err error) {
	view = listView{Title: l.title, Hint: l.hint, Path: l.path(), Filter: f, Span: at}
	view.Live = l.live && v.query("cursor") == ""
	view.Fields, view.Folded = l.views(v, l.fields), l.views(v, l.folded)
	view.Open = at != nil && *at != listSpan{}
	var folded []string
	for _, w := range view.Folded {
		view.Open = view.Open || w.Value != ""
		folded = append(folded, strings.ToLower(w.Label))
	}
	if at != nil {
		folded = append(folded, "time")
	}
	view.Fold = strings.TrimSuffix(sentence(strings.Join(folded, ", ")), ".")
	if at != nil && at.Wrong != "" {
		return view, nil
	}
	page, err := l.part(v, f, client.PageOptions{Limit: pageSize, Cursor: v.query("cursor")})
	if err != nil {
		return view, err
	}
	view.Rows = page.Items
	if l.form != nil {
		if view.Form, err = l.form(v); err != nil {
			return view, err
		}
	}
	if l.acts != nil {
		view.Acts = l.acts(v, f, page)
	}
	if page.Next != nil {
		to := client.Query(f)
		to.Set("cursor", *page.Next)
		view.Next, view.Partial = view.Path+"?"+to.Encode(), len(page.Items) < pageSize
	}
	return view, nil
}

// views returns the fields with what was typed.
func (l *list[F, T]) views(v *visit, fields []field) (views []fieldView) {
	members := membersOf(reflect.TypeFor[F]())
	for _, f := range fields {
		m, is := members[f.name]
		if !is {
			panic(l.name + ": the filter has no " + f.name)
		}
		if f.end != "" && f.end != v.c.end.name {
			continue
		}
		w := fieldView{Name: f.name, Label: f.label, Hint: f.hint, Value: v.query(f.name),
			Max: cmp.Or(m.Tag.Get("maxLength"), "200")}
		if f.options != nil {
			w.Options = f.options(v)
		} else {
			w.Options = v.c.end.valuesOf(m.Type)
		}
		views = append(views, w)
	}
	return views
}

// valuesOf returns options for the words or types of callbacks that t has at the end, with "all" first, or nil for
// other types.
func (e end) valuesOf(t reflect.Type) []option {
	if t == reflect.TypeFor[countersign.Type]() {
		return optionsOf(countersign.TypeUnknown.Values(), "all")
	}
	words := client.ValuesOf(t, e.at)
	if words == nil {
		return nil
	}
	options := []option{{Text: "all"}}
	for _, text := range words {
		options = append(options, optionOf(reflect.ValueOf(text).Convert(t).Interface()))
	}
	return options
}

// optionsOf returns options for a slice of values. none names an empty option, which is left out if none is empty.
func optionsOf[T any](values []T, none string) (options []option) {
	if none != "" {
		options = append(options, option{Text: none})
	}
	for _, v := range values {
		options = append(options, optionOf(v))
	}
	return options
}

// optionOf returns the option for a value.
func optionOf(value any) option {
	o := option{Value: fmt.Sprint(value)}
	if t, is := value.(countersign.Type); is {
		return option{Value: strconv.Itoa(int(t)), Text: t.Words()}
	}
	o.Means, o.Text = client.Means(value), strings.ReplaceAll(o.Value, "_", " ")
	return o
}

// membersOf returns the members of a filter by parameter name.
func membersOf(filter reflect.Type) map[string]reflect.StructField {
	members := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(filter) {
		name := f.Tag.Get("query")
		if name == "" {
			name = strings.ToLower(f.Name[:1]) + f.Name[1:]
		}
		if !f.Anonymous && name != "-" {
			members[name] = f
		}
	}
	return members
}

// filterOf reads a filter from the parameters of an address or a form. A malformed number selects all.
func filterOf[F any](q url.Values, at *listSpan) (f F) {
	v := reflect.ValueOf(&f).Elem()
	for name, m := range membersOf(reflect.TypeFor[F]()) {
		switch text, member := strings.TrimSpace(q.Get(name)), v.FieldByIndex(m.Index); {
		case name == "since":
			member.SetInt(int64(at.since))
		case name == "until":
			member.SetInt(int64(at.until))
		case member.CanInt():
			n, _ := strconv.Atoi(text)
			member.SetInt(int64(n))
		default:
			member.SetString(text)
		}
	}
	return f
}
