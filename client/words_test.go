package client_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
)

// TestWordsAreThoseOfTheCode: each constant of a kind of word has its row in the table of
// that kind, and the code of the ends says each reason, result and kind of alarm.
func TestWordsAreThoseOfTheCode(t *testing.T) {
	rows(t, client.Values[client.AlarmKind]())
	rows(t, client.Values[client.Reason]())
	rows(t, client.Values[client.AttemptResult]())
	rows(t, client.Values[client.EventKind]())
	rows(t, client.Values[client.CallbackState]())
	rows(t, client.Values[client.WithdrawalState]())
	rows(t, client.Values[client.OrderState]())
	rows(t, client.Values[client.DepositState]())
	rows(t, client.Values[client.MerchantState]())
	rows(t, client.Values[client.RotationState]())
	rows(t, client.Values[client.Role]())
	rows(t, client.Values[client.FoundKind]())
	rows(t, client.Values[client.MatchedBy]())

	for _, s := range client.Values[client.OrderState]() { // book makes these kinds from the states
		if s != client.OrderOpen && !slices.Contains(client.Values[client.EventKind](), client.EventKind("order."+s)) {
			t.Errorf("no event says that an order is %s", s)
		}
	}
	said := map[string]bool{}
	for _, path := range sources(t) {
		for _, m := range regexp.MustCompile(`\bclient\.((?:Alarm|Reason|Attempt)[A-Z]\w*)`).FindAllSubmatch(must(os.ReadFile(path)), -1) {
			said[string(m[1])] = true
		}
	}
	for _, typ := range []string{"AlarmKind", "Reason", "AttemptResult"} {
		for name := range constantsOf(t, typ) {
			if !said[name] {
				t.Errorf("no code says client.%s", name)
			}
		}
	}
}

// TestWordsInSQL: a word that stands in a statement is one of the table's.
func TestWordsInSQL(t *testing.T) {
	words := map[string][]string{
		"state": slices.Concat(texts(client.Values[client.CallbackState]()), texts(client.Values[client.WithdrawalState]()), texts(client.Values[client.OrderState]()),
			texts(client.Values[client.DepositState]()), texts(client.Values[client.MerchantState]()), texts(client.Values[client.TaskState]())),
		"reason":   slices.Concat(texts(client.Values[client.Reason]()), texts(client.Values[client.RefusalReason]())),
		"result":   texts(client.Values[client.AttemptResult]()),
		"decision": {"confirmed", "declined", "expired", "cancelled"},
		"role":     texts(client.Values[client.Role]()),
		"kind":     texts(client.Values[client.AlarmKind]()),
	}
	words["last_reason"] = words["reason"]
	columns := regexp.MustCompile(`\b(state|(?:last_)?reason|result|decision|role|kind)(?: \|\| '')?,? (?:=|<>|IN)? ?\(?('[a-z_]+'(?:, '[a-z_]+')*)`)
	found := 0
	for _, path := range sources(t) {
		for _, m := range columns.FindAllStringSubmatch(string(must(os.ReadFile(path))), -1) {
			for _, word := range strings.Split(m[2], ", ") {
				found++
				if !slices.Contains(words[m[1]], strings.Trim(word, "'")) {
					t.Errorf("%s: %s says %s, which is no word of client", path, m[1], word)
				}
			}
		}
	}
	if found < 80 {
		t.Errorf("found only %d words in statements", found)
	}
}

// sources returns the files of both ends without their tests.
func sources(t *testing.T) (list []string) {
	t.Helper()
	err := filepath.WalkDir("../internal", func(path string, d fs.DirEntry, err error) error {
		if d.IsDir() && d.Name() == "lab" {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			list = append(list, path)
		}
		return err
	})
	if err != nil || len(list) == 0 {
		t.Fatalf("%d files, %v", len(list), err)
	}
	return list
}

func texts[T ~string](list []T) (texts []string) {
	for _, w := range list {
		texts = append(texts, string(w))
	}
	return texts
}

// rows fails where the constants of a kind of word and the rows of its table differ, and
// where a row says nothing.
func rows[T ~string](t *testing.T, list []T) {
	t.Helper()
	_, typ, _ := strings.Cut(fmt.Sprintf("%T", list[0]), ".")
	same(t, typ, list, slices.Collect(maps.Values(constantsOf(t, typ))))
	meanings(t, list)
}

// TestWordsHaveMeanings: each alarm says what to do and which end raises it, and each
// reason what helps, in whole sentences.
func TestWordsHaveMeanings(t *testing.T) {
	meanings(t, client.Values[client.RefusalReason]())
	for _, k := range client.Values[client.AlarmKind]() {
		if !slices.Contains(client.ValuesAt[client.AlarmKind](client.AtService), k) && !slices.Contains(client.ValuesAt[client.AlarmKind](client.AtGateway), k) {
			t.Errorf("no end raises %s", k)
		}
		if do := k.Do(); !sentence(do) || k.Text() != client.Means(k)+" "+do {
			t.Errorf("alarm %s: what to do: %q", k, do)
		}
	}
	for _, r := range client.Values[client.Reason]() {
		if do := r.Do(); do != "" && !sentence(do) || r.Text() != strings.TrimSpace(client.Means(r)+" "+do) {
			t.Errorf("reason %s: what to do: %q", r, do)
		}
	}
}

// meanings fails where a word has no meaning.
func meanings[T ~string](t *testing.T, list []T) {
	t.Helper()
	for _, w := range list {
		if !sentence(client.Means(w)) {
			t.Errorf("%T %s: %q is no sentence", w, w, client.Means(w))
		}
	}
	if client.Means(T("no such word")) != "" {
		t.Errorf("%T: an unknown word has a meaning", list)
	}
}

func sentence(s string) bool { return regexp.MustCompile(`^[A-Z].*\.$`).MatchString(s) }

// TestWaitingFor: the words of reports are those of the callback types.
func TestWaitingFor(t *testing.T) {
	words := client.Values[client.WaitingFor]()
	for _, typ := range countersign.TypeUnknown.Values() {
		if word := typ.Report(); word != "" && !slices.Contains(words, client.WaitingFor(word)) {
			t.Errorf("%q of type %d is no word of client", word, typ)
		}
	}
	for _, w := range append(words, client.WaitingForFunds, client.WaitingForFees) {
		if typ := w.Type(); typ.Report() != string(w) || w == "" {
			t.Errorf("%q is of type %d, which is reported by %q", w, typ, typ.Report())
		}
	}
	if got := client.WaitingFor("rain").Type(); got != countersign.TypeUnknown {
		t.Errorf("rain is of type %d", got)
	}
}

// TestRunbookAlarms: docs/operator/runbook.md has one section for each kind of alarm, under its
// end or under both, and none for a kind that is gone. It begins with what the kind
// means, and says what to do; it may say more.
func TestRunbookAlarms(t *testing.T) {
	page := string(must(os.ReadFile("../docs/operator/runbook.md")))
	plain := func(text string) string {
		text = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`).ReplaceAllString(text, "$1")
		return strings.Join(strings.Fields(strings.ReplaceAll(text, "`", "")), " ")
	}
	heading := regexp.MustCompile("(?m)^### `([a-z_]+)`\n\n([^#]+)")
	kinds := func(of string) (kinds []string) {
		_, part, found := strings.Cut(page, "\n## Alarms of "+of+"\n")
		if !found {
			t.Fatalf("docs/operator/runbook.md lacks the alarms of %s", of)
		}
		part, _, _ = strings.Cut(part, "\n## ")
		for _, m := range heading.FindAllStringSubmatch(part, -1) {
			if slices.Contains(kinds, m[1]) {
				t.Errorf("docs/operator/runbook.md has %s of %s twice", m[1], of)
			}
			kinds = append(kinds, m[1])
			kind := client.AlarmKind(m[1])
			text := plain(m[2])
			if means := plain(client.Means(kind)); !strings.HasPrefix(text, means) {
				t.Errorf("docs/operator/runbook.md, %s: begin with %q", kind, means)
			}
			if do := strings.NewReplacer("docs/operator/", "", "docs/", "").Replace(plain(kind.Do())); !strings.Contains(text, " - Do: "+do) {
				t.Errorf("docs/operator/runbook.md, %s: say \"- Do: %s\"", kind, do)
			}
			if n := len(strings.FieldsFunc(m[2], func(r rune) bool { return r == '\n' })); n > 10 {
				t.Errorf("docs/operator/runbook.md, %s has %d lines, want at most 10", kind, n)
			}
			if kind.Ended() == "" && !strings.Contains(text, "- Over when ") {
				t.Errorf("docs/operator/runbook.md, %s: say \"- Over when …\"", kind)
			}
			if ended := kind.Ended(); ended != "" && !strings.Contains(text, "- Ends by itself: "+ended) || ended == "" && strings.Contains(text, "- Ends by itself") {
				t.Errorf("docs/operator/runbook.md, %s: say \"- Ends by itself: %s\" or nothing of it", kind, ended)
			}
		}
		return kinds
	}
	both := kinds("both ends")
	same(t, "docs/operator/runbook.md, the service", client.ValuesAt[client.AlarmKind](client.AtService), append(kinds("the service"), both...))
	if n := len(client.Values[client.AlarmKind]()); n > 25 {
		t.Errorf("%d kinds of alarms, want at most 25", n)
	}
	same(t, "docs/operator/runbook.md, the gateway", client.ValuesAt[client.AlarmKind](client.AtGateway), append(kinds("the gateway"), both...))
}

// same fails where the words of the API and those of the code or of a page differ, or where one occurs twice.
func same[T ~string](t *testing.T, what string, words []T, want []string) {
	t.Helper()
	got := slices.Sorted(slices.Values(texts(words)))
	if want = slices.Sorted(slices.Values(want)); len(want) < 2 || !slices.Equal(got, want) {
		t.Errorf("%s: the clients know %q, and there are %q", what, got, want)
	}
}

// constantsOf returns the constants of a type of package client, by name.
func constantsOf(t *testing.T, of string) map[string]string {
	t.Helper()
	values := map[string]string{}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, path := range files {
		for _, m := range regexp.MustCompile(`(?m)^\t(\w+) +`+of+` += "([^"]+)"`).FindAllStringSubmatch(string(must(os.ReadFile(path))), -1) {
			values[m[1]] = m[2]
		}
	}
	return values
}
