package deploy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logLine is one call that writes a line of the log.
type logLine struct {
	at     string
	level  string // empty: the call decides
	fields []string
	open   bool // it may have more fields
}

// madeOf are the messages of calls that do not have them as a text: they come from the
// callers, by the name of the function or its variable.
var madeOf = map[string][]string{
	"internal/dispatch/exchange.go":  {"the merchant cannot be loaded", "the callback cannot be sent", "sealing failed"},
	"internal/dispatch/settler.go":   {"settling failed", "giving back claimed callbacks failed"},
	"internal/gateway/run.go":        {"ending orders failed", "forgetting blocks failed", "raising alarms failed"},
	"internal/gateway/forwarding.go": {"forwarded", "not forwarded"},
	"internal/api/call.go":           {"request", "request failed", "request refused"},
}

var levelOf = map[string]string{"Debug": "debug", "Info": "info", "Warn": "warn", "Error": "error"}

// logLines returns what the source of the daemons logs, by message.
func logLines(t *testing.T) map[string][]logLine {
	t.Helper()
	lines := map[string][]logLine{}
	var files []string
	for _, dir := range []string{"cmd/countersign", "merchant", "internal"} {
		if err := filepath.WalkDir(filepath.Join("..", dir), func(path string, d os.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") &&
				!strings.Contains(path, "internal/bench") && !strings.Contains(path, "internal/demo") && !strings.Contains(path, "internal/lab/") {
				files = append(files, path)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range files {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, 0)
		ok(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !isLog(method.X) {
				return true
			}
			l := logLine{at: strings.TrimPrefix(path, "../"), level: levelOf[method.Sel.Name]}
			args := call.Args
			switch {
			case l.level != "":
			case method.Sel.Name == "LogAttrs":
				if level, ok := args[1].(*ast.SelectorExpr); ok {
					l.level = levelOf[strings.TrimPrefix(level.Sel.Name, "Level")]
				}
				args = args[2:]
			default:
				return true
			}
			l.fields, l.open = fieldsOf(args[1:], call.Ellipsis.IsValid())
			messages := madeOf[l.at]
			if text, whole := textOf(args[0]); whole {
				messages = []string{text}
			}
			if len(messages) == 0 {
				t.Errorf("%s: the test cannot see what is logged", set.Position(call.Pos()))
			}
			for _, m := range messages {
				lines[m] = append(lines[m], l)
			}
			return true
		})
	}
	return lines
}

// isLog says whether x is a logger, by its name.
func isLog(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return strings.EqualFold(x.Name, "log")
	case *ast.SelectorExpr:
		return strings.EqualFold(x.Sel.Name, "log")
	case *ast.CallExpr:
		return isLog(x.Fun)
	}
	return false
}

// textOf returns a text, also one that is joined of several.
func textOf(x ast.Expr) (text string, whole bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(x.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, ok := textOf(x.X)
		right, too := textOf(x.Y)
		return left + right, ok && too
	}
	return "", false
}

// fieldsOf returns the names of the attributes.
func fieldsOf(args []ast.Expr, more bool) (names []string, open bool) {
	open = more
	for i := 0; i < len(args); i++ {
		arg := args[i]
		call, made := arg.(*ast.CallExpr)
		if made && len(call.Args) > 0 { // as by slog.String
			arg = call.Args[0]
		}
		name, is := textOf(arg)
		if !is {
			open = true
			continue
		}
		names = append(names, name)
		if !made {
			i++ // its value
		}
	}
	return names, open
}

// TestLogsPage: docs/reference/logs.md has each message of level warn or error of the daemons with its level
// and its fields, once, and none that is gone. A long message ends there with …, and the field
// error is not repeated.
func TestLogsPage(t *testing.T) {
	lines := logLines(t)
	if len(lines) < 40 {
		t.Fatalf("found %d messages", len(lines))
	}
	row := regexp.MustCompile("(?m)^- `([^`]+)` \\(([a-z, ]+)(?:: ([^)]*))?\\)\\. .{10,}$")
	field := regexp.MustCompile("`([A-Za-z]+)`")
	seen := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(read(t, "../docs/reference/logs.md"), -1) {
		message, levels := whole(m[1], lines), strings.Split(m[2], ", ")
		if seen[message] || lines[message] == nil {
			t.Errorf("docs/reference/logs.md has %q too often, or nothing logs it", message)
		}
		seen[message] = true
		var fields []string
		for _, f := range field.FindAllStringSubmatch(m[3], -1) {
			fields = append(fields, f[1])
		}
		all, open := []string{}, false
		for _, l := range lines[message] {
			if l.level != "" && !slices.Contains(levels, l.level) {
				t.Errorf("docs/reference/logs.md: %q is of level %s at %s", message, l.level, l.at)
			}
			all, open = append(all, l.fields...), open || l.open
		}
		for _, name := range all {
			if name != "error" && !slices.Contains(fields, name) {
				t.Errorf("docs/reference/logs.md: %q has the field %s too", message, name)
			}
		}
		for _, name := range fields {
			if !open && !slices.Contains(all, name) {
				t.Errorf("docs/reference/logs.md: %q has no field %s", message, name)
			}
		}
	}
	for message, l := range lines {
		if ordinary := !slices.ContainsFunc(l, func(l logLine) bool { return l.level != "info" && l.level != "debug" }); ordinary == seen[message] {
			t.Errorf("docs/reference/logs.md lacks, or need not have, - `%s` (%s: `%s`), of %s", message, l[0].level, strings.Join(l[0].fields, "` `"), l[0].at)
		}
	}
}

// whole returns the message that begins like one of the page which ends with …, if it is
// the only one.
func whole(onPage string, lines map[string][]logLine) string {
	begins, cut := strings.CutSuffix(onPage, "…")
	found := onPage
	for message := range lines {
		if cut && strings.HasPrefix(message, begins) {
			if found != onPage {
				return onPage
			}
			found = message
		}
	}
	return found
}
