package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"

	"countersign/client"
)

//go:embed templates
var templateFiles embed.FS

// parseTemplates reads the pages of one end: those in templates/, those in the end's own folder, named without it, and
// its lists. A page defines "main". That of a list is list.html, with "rows" of its own or of its table.
func parseTemplates(e end) (map[string]*template.Template, error) {
	shared, err := template.New("").Funcs(functions).ParseFS(templateFiles, "templates/layout/*.html")
	if err != nil {
		return nil, err
	}
	own := map[string][]string{} // the files of a page
	for _, folder := range []string{"templates", "templates/" + e.name} {
		files, err := fs.Glob(templateFiles, folder+"/*.html")
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			own[strings.TrimSuffix(path.Base(file), ".html")] = []string{file}
		}
	}
	rows := map[string]string{} // by the name of a list
	for _, part := range e.sections {
		for _, l := range part.lists {
			t := l.shape()
			name := t.name
			own[name] = append([]string{"templates/list.html"}, own[name]...)
			if t.columns == nil {
				continue
			}
			if _, err := shared.Parse(t.text()); err != nil {
				return nil, fmt.Errorf("the list %s: %w", name, err)
			}
			rows[name] = fmt.Sprintf(`{{define "rows"}}{{template %q .Of .Data.Rows}}{{end}}`, name+"-table")
		}
	}
	pages := map[string]*template.Template{}
	for name, files := range own {
		t, err := template.Must(shared.Clone()).ParseFS(templateFiles, files...)
		if err == nil {
			t, err = t.Parse(rows[name])
		}
		if err != nil {
			return nil, err
		}
		pages[name] = t
	}
	return pages, nil
}

// frame is the data of the layout and the pages. A page reads its own content from Data.
type frame struct {
	Title, End, EndTitle, Version string

	Path     string // of this page
	Sought   string // in the box of the header
	SignedIn bool
	Me       client.Self
	Nav      []navItem
	Alarms   string // how many are open; empty: none
	Tasks    string // likewise
	Freeze   client.Freeze
	Did      string   // what the post before this page did
	Problems []string // why the post before this page was refused
	Refused  string   // the last part of the path of that post: its form is open
	Data     any

	v *visit
}

// May reports whether the session's token may call an operation of the API.
func (f frame) May(operation string) bool { return f.v.may(operation) }

// rows are the rows of a table, with what its cells may ask of the page.
type rows struct {
	frame
	Rows any
}

// Of returns rows for the template of a table.
func (f frame) Of(list any) rows { return rows{f, list} }

// Self returns the address of this page, without a notice.
func (f frame) Self() string {
	q := f.v.r.URL.Query()
	q.Del("did")
	return f.Path + "?" + q.Encode()
}

// Here reports whether the page is in the part of the console that begins at path.
func (f frame) Here(path string) bool {
	return f.Path == path || path != root && strings.HasPrefix(f.Path, strings.TrimSuffix(path, "/")+"/")
}

func (v *visit) frame(title string, data any) (frame, error) {
	f := frame{Title: title, End: v.c.end.name, EndTitle: v.c.end.title, Version: v.c.Version, Path: v.r.URL.Path,
		Data: data, v: v}
	if v.me.ID == "" {
		return f, v.err
	}
	f.SignedIn, f.Me = true, v.me
	if v.r.URL.Path == "/console/search" {
		f.Sought = v.query("q")
	}
	f.Did, f.Problems, f.Refused = v.c.notices[v.query("did")], v.before.Problems, v.before.Act
	for _, part := range v.c.end.sections {
		if n := part.nav; n.Path != "" && v.may(n.May) {
			f.Nav = append(f.Nav, n)
		}
	}
	if v.may("alarms") {
		f.Alarms = count(fetchPage[client.Alarm](v, "/v1/alarms", 0, client.AlarmFilter{State: client.AlarmOpen}))
	}
	if v.may("tasks") {
		f.Tasks = count(fetchPage[client.Task](v, "/v1/tasks", 0))
	}
	if v.may("frozen") {
		f.Freeze = fetch[client.Freeze](v, "/v1/freeze")
	}
	return f, v.err
}

// count returns the number of entries in a list, or "" if there are none.
func count[T any](items []T, more bool) string {
	switch {
	case more:
		return strconv.Itoa(len(items)) + "+"
	case len(items) == 0:
		return ""
	}
	return strconv.Itoa(len(items))
}

// render answers with a page.
func (v *visit) render(name, title string, data any) error {
	return v.renderAs(http.StatusOK, name, title, data)
}

func (v *visit) renderAs(status int, name, title string, data any) error {
	f, err := v.frame(title, data)
	if err != nil && name != "error" { // an error page without its top is better than none
		return err
	}
	if len(v.before.Problems) > 0 && status == http.StatusOK {
		status = v.before.status
	}
	var b bytes.Buffer
	if err := v.c.pages[name].ExecuteTemplate(&b, "layout", f); err != nil {
		return fmt.Errorf("page %s: %w", name, err)
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(b.Bytes()) // the browser is gone
	return nil
}
