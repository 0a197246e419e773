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

	"countersign"
	"countersign/client"
)

// TestWordsAreThoseOfTheCode: what the APIs promise to say is what the code
// that raises alarms, settles attempts, writes events and keeps states says,
// neither more nor less.
func TestWordsAreThoseOfTheCode(t *testing.T) {
	const dispatch, outbox, book, audit, api = "../internal/dispatch", "../internal/outbox", "../internal/book", "../internal/audit", "../internal/api"
	lost := constants(t, "ResultLost", outbox)
	same(t, "kinds of the service's alarms", client.ServiceAlarmKinds(), constants(t, "Alarm", dispatch, outbox, audit, api))
	same(t, "reasons", client.Reason("").Values(), append(constants(t, "Reason", dispatch, outbox), lost...))
	same(t, "results", client.AttemptResult("").Values(), append(constantsOf(t, "Result", dispatch), lost...))
	same(t, "states of a merchant", client.MerchantState("").Values(), constantsOf(t, "MerchantState", outbox))
	same(t, "collect", client.Collect("").Values(), constantsOf(t, "Collect", outbox))
	same(t, "schemes", client.Scheme("").Values(), constantsOf(t, "Scheme", outbox))
	same(t, "states of a callback", client.CallbackState("").Values(), constantsOf(t, "CallbackState", outbox))
	same(t, "states of a withdrawal", client.WithdrawalState("").Values(), constantsOf(t, "WithdrawalState", outbox))

	same(t, "kinds of the gateway's alarms", client.GatewayAlarmKinds(), append(constants(t, "Alarm", book, audit), constants(t, "AlarmTokenChanged", api)...))
	same(t, "kinds of events", client.EventKind("").Values(), constants(t, "Event", book))
	same(t, "states of an order", client.OrderState("").Values(), constantsOf(t, "OrderState", book))
	same(t, "states of a deposit", client.DepositState("").Values(), constantsOf(t, "DepositState", book))

}

// TestWordsHaveMeanings: each word says what it means in whole sentences, and each alarm
// what to do and which end raises it.
func TestWordsHaveMeanings(t *testing.T) {
	meanings(t, client.Reason("").Values())
	meanings(t, client.AttemptResult("").Values())
	meanings(t, client.RefusalReason("").Values())
	meanings(t, client.EventKind("").Values())
	alarms := append(client.ServiceAlarmKinds(), client.GatewayAlarmKinds()...)
	meanings(t, alarms)
	for _, k := range alarms {
		if do := k.Do(); !sentence(do) || k.Text() != k.Means()+" "+do {
			t.Errorf("alarm %s: what to do: %q", k, do)
		}
	}
	for _, r := range client.Reason("").Values() {
		if do := r.Do(); do != "" && !sentence(do) || r.Text() != strings.TrimSpace(r.Means()+" "+do) {
			t.Errorf("reason %s: what to do: %q", r, do)
		}
	}
}

// meanings fails where a word has no meaning.
func meanings[T interface {
	~string
	Means() string
}](t *testing.T, list []T) {
	t.Helper()
	for _, w := range list {
		if !sentence(w.Means()) {
			t.Errorf("%T %s: %q is no sentence", w, w, w.Means())
		}
	}
	if T("no such word").Means() != "" {
		t.Errorf("%T: an unknown word has a meaning", list)
	}
}

func sentence(s string) bool { return regexp.MustCompile(`^[A-Z].*\.$`).MatchString(s) }

// TestWaitingFor: the words of reports are those of the callback types.
func TestWaitingFor(t *testing.T) {
	words := client.WaitingFor("").Values()
	for _, w := range append(words, client.WaitingForFunds, client.WaitingForFees) {
		if typ := w.Type(); typ.Report() != string(w) || w == "" {
			t.Errorf("%q is of type %d, which is reported by %q", w, typ, typ.Report())
		}
	}
	if got := client.WaitingFor("rain").Type(); got != countersign.TypeUnknown {
		t.Errorf("rain is of type %d", got)
	}
}

// TestRunbookAlarms: docs/runbook.md has one section for each kind of alarm, under its
// end or under both, and none for a kind that is gone. It begins with what the kind
// means, and says what to do; it may say more.
func TestRunbookAlarms(t *testing.T) {
	page, err := os.ReadFile("../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	plain := func(text string) string {
		text = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`).ReplaceAllString(text, "$1")
		return strings.Join(strings.Fields(strings.ReplaceAll(text, "`", "")), " ")
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
			kinds = append(kinds, m[1])
			kind := client.AlarmKind(m[1])
			text := plain(m[2])
			if means := plain(kind.Means()); !strings.HasPrefix(text, means) {
				t.Errorf("docs/runbook.md, %s: begin with %q", kind, means)
			}
			if do := strings.ReplaceAll(plain(kind.Do()), "docs/", ""); !strings.Contains(text, " - Do: "+do) {
				t.Errorf("docs/runbook.md, %s: say \"- Do: %s\"", kind, do)
			}
		}
		return kinds
	}
	both := kinds("both ends")
	same(t, "docs/runbook.md, the service", client.ServiceAlarmKinds(), append(kinds("the service"), both...))
	same(t, "docs/runbook.md, the gateway", client.GatewayAlarmKinds(), append(kinds("the gateway"), both...))
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
