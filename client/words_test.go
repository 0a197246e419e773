package client_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"countersign/client"
)

// TestWordsAreThoseOfTheCode: what the APIs promise to say is what the code
// that raises alarms, settles attempts, writes events and keeps states says,
// neither more nor less.
func TestWordsAreThoseOfTheCode(t *testing.T) {
	const dispatch, outbox, book, audit, control = "../internal/dispatch", "../internal/outbox", "../internal/book", "../internal/audit", "../internal/control"
	lost := constants(t, "ResultLost", outbox)
	same(t, "kinds of the service's alarms", client.ServiceAlarmKind("").Values(), constants(t, "Alarm", dispatch, outbox, audit, control))
	same(t, "reasons", client.Reason("").Values(), append(constants(t, "Reason", dispatch, outbox), lost...))
	same(t, "results", client.AttemptResult("").Values(), append(constantsOf(t, "Result", dispatch), lost...))
	same(t, "states of a merchant", client.MerchantState("").Values(), constantsOf(t, "MerchantState", outbox))
	same(t, "collect", client.Collect("").Values(), constantsOf(t, "Collect", outbox))
	same(t, "schemes", client.Scheme("").Values(), constantsOf(t, "Scheme", outbox))
	same(t, "states of a callback", client.CallbackState("").Values(), constantsOf(t, "CallbackState", outbox))
	same(t, "states of a withdrawal", client.WithdrawalState("").Values(), constantsOf(t, "WithdrawalState", outbox))

	same(t, "kinds of the gateway's alarms", client.GatewayAlarmKind("").Values(), append(constants(t, "Alarm", book, audit), constants(t, "AlarmTokenChanged", control)...))
	same(t, "kinds of events", client.EventKind("").Values(), constants(t, "Event", book))
	same(t, "states of an order", client.OrderState("").Values(), constantsOf(t, "OrderState", book))
	same(t, "states of a deposit", client.DepositState("").Values(), constantsOf(t, "DepositState", book))

}

// TestRunbookAlarms: docs/runbook.md has one section for each kind of alarm, under its
// end or under both, with what to do, and none for a kind that is gone.
func TestRunbookAlarms(t *testing.T) {
	page, err := os.ReadFile("../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	heading := regexp.MustCompile("(?m)^### `([a-z_]+)`\n\n([^#]+)")
	kinds := func(of string) (kinds []string) {
		_, part, found := strings.Cut(string(page), "\n## Alarms of "+of+"\n")
		if !found {
			t.Fatalf("docs/runbook.md lacks the alarms of %s", of)
		}
		part, _, _ = strings.Cut(part, "\n## ")
		for _, m := range heading.FindAllStringSubmatch(part, -1) {
			if slices.Contains(kinds, m[1]) {
				t.Errorf("docs/runbook.md has %s of %s twice", m[1], of)
			}
			if !strings.Contains(m[2], "\n- Do: ") {
				t.Errorf("docs/runbook.md does not say what to do about %s", m[1])
			}
			kinds = append(kinds, m[1])
		}
		return kinds
	}
	both := kinds("both ends")
	same(t, "docs/runbook.md, the service", client.ServiceAlarmKind("").Values(), append(kinds("the service"), both...))
	same(t, "docs/runbook.md, the gateway", client.GatewayAlarmKind("").Values(), append(kinds("the gateway"), both...))
}

// same fails where the words of the API and those of the code differ, or where
// one of the API is there twice.
func same[T ~string](t *testing.T, what string, words []T, want []string) {
	t.Helper()
	var got []string
	for _, w := range words {
		got = append(got, string(w))
	}
	if len(want) < 2 {
		t.Fatalf("%s: found %q in the code", what, want)
	}
	for i, v := range got {
		if !slices.Contains(want, v) {
			t.Errorf("%s: the code does not say %q", what, v)
		}
		if slices.Contains(got[:i], v) {
			t.Errorf("%s: %q is there twice", what, v)
		}
	}
	for _, v := range want {
		if !slices.Contains(got, v) {
			t.Errorf("%s: the clients do not know %q", what, v)
		}
	}
}

// constants gives the values of the text constants whose names begin with
// prefix. Names that begin with a small letter are parts of others.
func constants(t *testing.T, prefix string, dirs ...string) []string {
	t.Helper()
	return find(t, dirs, func(name string, _ ast.Expr) bool { return strings.HasPrefix(name, prefix) })
}

// constantsOf gives the values of the text constants of a type.
func constantsOf(t *testing.T, of string, dirs ...string) []string {
	t.Helper()
	return find(t, dirs, func(_ string, typ ast.Expr) bool {
		name, ok := typ.(*ast.Ident)
		return ok && name.Name == of
	})
}

func find(t *testing.T, dirs []string, wanted func(name string, typ ast.Expr) bool) []string {
	t.Helper()
	values := map[string]bool{}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files: %v", dir, err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				decl, ok := n.(*ast.GenDecl)
				if !ok || decl.Tok != token.CONST {
					return true
				}
				for _, spec := range decl.Specs {
					spec := spec.(*ast.ValueSpec)
					for i, name := range spec.Names {
						if i >= len(spec.Values) || !wanted(name.Name, spec.Type) {
							continue
						}
						if lit, ok := spec.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
							text, err := strconv.Unquote(lit.Value)
							if err != nil {
								t.Fatal(err)
							}
							values[text] = true
						}
					}
				}
				return false
			})
		}
	}
	return slices.Collect(maps.Keys(values))
}
