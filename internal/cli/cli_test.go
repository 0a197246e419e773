package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"countersign/client"
	"countersign/internal/api"
)

// A made-up API: who adds an operation to a table of routes and its types to package client
// has these, and nothing else.
type parrotQuery struct {
	Kind  client.ChangeState `query:"kind" doc:"only of this kind"`
	Loud  string             `query:"loud" enum:"true" doc:"true: only loud ones; absent: all"`
	Since client.Time        `query:"since" doc:"only heard at this time or later, in RFC 3339"`
	After int64              `query:"after" doc:"seq of the last entry that the reader has; 0: none"`
	Limit int                `query:"limit" doc:"most entries"`
	Wait  client.Duration    `query:"wait" doc:"how long to wait"`
}

type parrotSound struct {
	Seq  int64                 `json:"seq"`
	Word string                `json:"word"`
	Cage struct{ Name string } `json:"cage"`
}

type parrotSounds struct {
	Sounds []parrotSound `json:"sounds"`
	Next   int64         `json:"next"`
}

type newParrot struct {
	Name  string          `json:"name" doc:"its name"`
	Cage  *cage           `json:"cage,omitempty"`
	Key   client.Secret   `json:"key,omitempty" doc:"what opens it"`
	Fed   client.Duration `json:"fed,omitzero" doc:"how often it is fed"`
	Tags  []string        `json:"tags,omitempty" doc:"what it is"`
	Sings *bool           `json:"sings,omitempty" doc:"whether it sings"`
}

type cage struct {
	Width int    `json:"width" doc:"in centimetres"`
	Place string `json:"place,omitempty" doc:"where it stands"`
}

type selection struct {
	Filter struct {
		Kind string `json:"kind,omitempty" query:"kind" doc:"only of this kind"`
	} `json:"filter"`
	DryRun bool `json:"dryRun,omitempty" doc:"only count"`
}

var parrots = []api.Operation{
	{ID: "sounds", Method: "GET", Path: "/v1/parrots/{id}/sounds", Summary: "List what a parrot said", Query: reflect.TypeFor[parrotQuery](), Out: reflect.TypeFor[parrotSounds]()},
	{ID: "addParrot", Method: "POST", Path: "/v1/parrots", Summary: "Add a parrot", In: reflect.TypeFor[newParrot](), Out: reflect.TypeFor[newParrot](), Waits: true},
	{ID: "changeParrot", Method: "PATCH", Path: "/v1/parrots", Summary: "Change a parrot", In: reflect.TypeFor[newParrot](), Out: reflect.TypeFor[newParrot](), Waits: true},
	{ID: "feed", Method: "POST", Path: "/v1/parrots/{id}/feed", Summary: "Feed one", In: reflect.TypeFor[struct {
		Twice bool `json:"twice,omitempty" doc:"again"`
	}]()},
	{ID: "teach", Method: "POST", Path: "/v1/parrots/{id}/teach", Summary: "Teach one", In: reflect.TypeFor[struct {
		Note string `json:"note,omitempty" doc:"what"`
	}]()},
	{ID: "teachAll", Method: "POST", Path: "/v1/parrots/teach", Summary: "Teach all that match", In: reflect.TypeFor[struct {
		selection
		Note string `json:"note,omitempty" doc:"what"`
	}]()},
	{ID: "feedAll", Method: "POST", Path: "/v1/parrots/feed", Summary: "Feed all that match", In: reflect.TypeFor[selection]()},
}

var words = append([]Command{
	{Words: "parrots", Help: "Parrots."},
	{Words: "parrots feed", Op: "feed", All: "feedAll", Flags: map[string]string{"filter-": ""}, Done: "fed %s"},
	{Words: "parrots teach", Op: "teach", All: "teachAll", Flags: map[string]string{"filter-": ""}},
	{Words: "parrots add", Op: "addParrot", Body: File},
	{Words: "parrots make", Op: "changeParrot", Args: []string{"name"}, Files: []string{"key", "place"}, Flags: map[string]string{"cage-": ""}, Out: &Output{
		Help: "Where it goes.",
		Prepare: func(place string) error {
			if filepath.Base(place) == "full" {
				return errors.New("it is full")
			}
			return nil
		},
		Write: func(_ context.Context, _ *client.Service, std Streams, place string, body, answer json.RawMessage) error {
			_, err := fmt.Fprintf(std.Out, "%s %s %s", filepath.Base(place), body, answer)
			return err
		}}},
	{Words: "parrots name", Op: "addParrot", Only: "name", Switches: []Switch{{Name: "all", Op: "sounds"}}},
	{Words: "parrots sounds", Op: "sounds", Columns: "WORD|CAGE=cage.Name|SEQ|NEVER", Lines: 3, Switches: []Switch{{Name: "new", Flag: "kind", Value: "waiting", Help: "New ones."}}},
	{Words: "api", Help: "Every operation."},
}, All("api", parrots, ServiceEnd)...)

// shell runs a command line against answers, and gives the requests that came: method, path
// and body.
func shell(t *testing.T, answers []string, stdin string, args ...string) (out, errOut string, requests []string, err error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests = append(requests, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+string(body)))
		if n := len(requests); n <= len(answers) {
			fmt.Fprint(w, answers[n-1])
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	plugin, err := Ends{Service: parrots}.Plugin(words)
	if err != nil {
		t.Fatal(err)
	}
	var b, e bytes.Buffer
	parser, err := kong.New(&struct{ kong.Plugins }{kong.Plugins{plugin}}, kong.Writers(&b, &b), kong.DefaultEnvars("PARROTS"), kong.Bind(&Called{}), kong.Vars{"end": "aviary", "END": "AVIARY", "api": "http://127.0.0.1:1", "data": "."}, kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	k, err := parser.Parse(args)
	if err != nil {
		return b.String(), "", nil, err
	}
	to, err := client.NewService(client.Config{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	err = Of(k.Selected()).Run(context.Background(), to, Streams{In: strings.NewReader(stdin), Out: &b, Err: &e})
	return b.String(), e.String(), requests, err
}

// TestNewOperation: an operation that is in a table of routes is a subcommand with nothing
// written for it.
func TestNewOperation(t *testing.T) {
	help, _, _, _ := shell(t, nil, "", "api", "sounds", "--help")
	for _, want := range []string{"List what a parrot said.", "Id of the parrot.", "--kind=KIND", "Only of this kind: waiting, approved, applied, rejected or stale.", "--loud ", "--since=TIME", "how long ago", "--limit=100", "--follow"} {
		if !strings.Contains(strings.Join(strings.Fields(help), " "), strings.TrimSpace(want)) {
			t.Errorf("no %q in\n%s", want, help)
		}
	}
	answers := []string{`{"sounds":[{"seq":1,"word":"hello","cage":{"Name":"a"}},{"seq":2,"word":"<b>","cage":{"Name":"b"}}],"next":2}`, `{"sounds":[],"next":2}`}
	out, _, requests, err := shell(t, answers, "", "api", "sounds", "polly/1", "--loud", "--since", "2027-01-31T01:00:00+01:00")
	if want := "GET /v1/parrots/polly%2F1/sounds?limit=1000&loud=true&since=2027-01-31T00%3A00%3A00.000Z"; err != nil || len(requests) != 2 || requests[0] != want || !strings.Contains(requests[1], "after=2") {
		t.Errorf("%v, %q", err, requests)
	}
	if want := `{"seq":1,"word":"hello","cage":{"Name":"a"}}` + "\n" + `{"seq":2,"word":"<b>","cage":{"Name":"b"}}` + "\n"; out != want {
		t.Errorf("%s", out)
	}
	out, _, _, _ = shell(t, answers, "", "api", "sounds", "polly", "--no-json")
	if want := "SEQ  WORD\n1    hello\n2    <b>\n"; out != want {
		t.Errorf("%s", out)
	}
	for _, bad := range [][]string{{"--kind", "blue"}, {"--since", "yesterday"}} {
		if _, _, requests, err := shell(t, nil, "", append([]string{"api", "sounds", "polly"}, bad...)...); err == nil || len(requests) > 0 {
			t.Errorf("%v: %v, %q", bad, err, requests)
		}
	}
}

// TestWords: what people type for an operation changes its flags and its table.
func TestWords(t *testing.T) {
	four := `{"sounds":[{"seq":1},{"seq":2},{"seq":3},{"seq":4,"word":"x"}],"next":4}`
	out, errOut, requests, err := shell(t, []string{four}, "", "parrots", "sounds", "polly", "--new", "--no-json")
	if want := "WORD  CAGE  SEQ\n-     -     1\n-     -     2\n-     -     3\n"; err != nil || out != want || !strings.Contains(errOut, "raise --limit") || !strings.Contains(requests[0], "kind=waiting") {
		t.Errorf("%v\n%s%s%q", err, out, errOut, requests)
	}
	// A feed that is followed waits, goes on after an empty part, and ends with an error.
	out, _, requests, err = shell(t, []string{four, `{"sounds":[],"next":4}`, `{"sounds":[{"seq":5}],"next":5}`, `nothing`}, "", "parrots", "sounds", "polly", "--follow")
	if err == nil || strings.Count(out, "\n") != 5 || len(requests) != 4 || !strings.Contains(requests[3], "after=5") || !strings.Contains(requests[3], "wait=30s") {
		t.Errorf("%v\n%s%q", err, out, requests)
	}
}

// TestCSV: a list as CSV has all members as columns, and nothing that a spreadsheet runs.
func TestCSV(t *testing.T) {
	answer := `{"sounds":[{"seq":1,"word":"=1+1","cage":{"Name":"a,b"}},{"seq":2,"word":"x"}],"next":2}`
	for _, args := range [][]string{{"api", "sounds", "polly", "--csv"}, {"parrots", "sounds", "polly", "--csv"}} {
		out, _, _, err := shell(t, []string{answer, `{"sounds":[],"next":2}`}, "", args...)
		if want := "seq,word,cage.Name\n1,'=1+1,\"a,b\"\n2,x,\n"; err != nil || out != want {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	if _, _, requests, err := shell(t, nil, "", "api", "sounds", "polly", "--csv", "--json"); err == nil || len(requests) > 0 {
		t.Errorf("two forms at once: %v, %q", err, requests)
	}
}

// TestBodies: a body comes from flags, a file or -d, and flags come before what it has.
func TestBodies(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("what opens\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const answer = `{"name":"polly","cage":{"width":3,"place":"\u001b[2J"},"amount":1.50,"tags":["a","b"]}`
	for _, tt := range []struct {
		args        []string
		stdin, want string
	}{
		{[]string{"api", "addParrot", "--name", "3", "--cage-width", "3", "--fed", "2h", "--tags", "a,b", "--no-sings", "--key", "@" + secret}, "",
			`{"cage":{"width":3},"fed":"2h","key":"what opens","name":"3","sings":false,"tags":["a","b"]}`},
		{[]string{"api", "addParrot", "-d", `{"name": "a"}`}, "", `{"name":"a"}`},
		{[]string{"api", "addParrot", "--request=@-", "--cage-place", "b"}, `{"amount":1.50,"cage":{"width":3}}`, `{"amount":1.50,"cage":{"place":"b","width":3}}`},
		{[]string{"parrots", "add", "-"}, `{"name":"a","name":"b"}`, `{"name":"a","name":"b"}`},
		{[]string{"parrots", "add", "-", "--name", "c"}, `{}`, `{"name":"c"}`},
	} {
		out, _, requests, err := shell(t, []string{answer}, tt.stdin, tt.args...)
		if err != nil || len(requests) != 1 || requests[0] != "POST /v1/parrots "+tt.want {
			t.Errorf("%v: %v\n%q\n%s", tt.args, err, requests, tt.want)
		}
		if !json.Valid([]byte(out)) || !strings.Contains(out, "1.50") {
			t.Errorf("%v: %s", tt.args, out)
		}
	}
	out, _, _, _ := shell(t, []string{answer}, "", "api", "addParrot", "-d", "{}", "--no-json")
	if want := "name        polly\ncage.width  3\ncage.place  \\u001b[2J\namount      1.50\ntags.1      a\ntags.2      b\n"; out != want {
		t.Errorf("%s", out)
	}
	out, errOut, _, _ := shell(t, []string{`{"change":{"id":"chg_1","proposedBy":"tok_1"}}`}, "", "api", "addParrot", "--name", "a")
	if !strings.HasPrefix(out, "{\n  \"id\": \"chg_1\"") || !strings.Contains(errOut, "chg_1 waits for an approver other than tok_1") {
		t.Errorf("%s%s", out, errOut)
	}
	for _, bad := range [][]string{{"api", "addParrot", "--cage-width", "wide"}, {"parrots", "add", "-"}, {"parrots", "add", "none/such"}, {"api", "addParrot", "-d", "[]", "--name", "a"}} {
		if _, _, requests, err := shell(t, nil, "{} {}", bad...); err == nil || len(requests) > 0 {
			t.Errorf("%v: %v, %q", bad, err, requests)
		}
	}
}

// TestFiles: arguments, values in files, what goes back to its default, and where an answer goes.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	secret, open := filepath.Join(dir, "secret"), filepath.Join(dir, "open")
	for path, mode := range map[string]os.FileMode{secret: 0o600, open: 0o644} {
		if err := os.WriteFile(path, []byte("in "+filepath.Base(path)), mode); err != nil {
			t.Fatal(err)
		}
	}
	out, errOut, _, err := shell(t, []string{`{"name":"polly"}`}, "", "parrots", "make", "polly", "--key", secret, "--place", open, "--clear", "sings", "--out", "here")
	if want := `here {"cage":{"place":"in open"},"key":"in secret","name":"polly","sings":null} {"name":"polly"}`; err != nil || out != want || !strings.Contains(errOut, "warning") {
		t.Errorf("%v %s%s", err, out, errOut)
	}
	for _, bad := range [][]string{{}, {"polly", "--key", open}, {"polly", "--out", "full"}, {"polly", "--clear", "name"}} {
		if _, _, requests, err := shell(t, nil, "", append([]string{"parrots", "make"}, bad...)...); err == nil || len(requests) > 0 {
			t.Errorf("%v: %v, %q", bad, err, requests)
		}
	}
}

// TestOneOrAll: with an id the one operation, without it the other, each with its own flags.
func TestOneOrAll(t *testing.T) {
	for _, tt := range []struct {
		args      string
		want, err string
	}{
		{"polly --twice", `POST /v1/parrots/polly/feed {"twice":true}`, ""},
		{"--kind blue --dry-run", `POST /v1/parrots/feed {"dryRun":true,"filter":{"kind":"blue"}}`, ""},
		{"--twice --kind blue", "", "--twice needs the id of one parrot"},
		{"polly --kind blue", "", "give an id or a selection, not both"},
		{"--dry-run", "", "give an id, or a selection such as --kind"},
		{"", "", "give an id, or a selection such as --kind"},
	} {
		out, _, requests, err := shell(t, nil, "", append([]string{"parrots", "feed"}, strings.Fields(tt.args)...)...)
		if tt.err != "" && (err == nil || err.Error() != tt.err || len(requests) > 0) || tt.err == "" && (err != nil || len(requests) != 1 || requests[0] != tt.want || !strings.HasPrefix(out, "fed")) {
			t.Errorf("%s: %v, %q, %s", tt.args, err, requests, out)
		}
	}
}

// TestSharedFlag: a member that both operations have is one flag, for either.
func TestSharedFlag(t *testing.T) {
	for _, tt := range []struct{ args, want, err string }{
		{"polly --note a", `POST /v1/parrots/polly/teach {"note":"a"}`, ""},
		{"--kind blue --note a", `POST /v1/parrots/teach {"filter":{"kind":"blue"},"note":"a"}`, ""},
		{"--note a", "", "give an id, or a selection such as --kind"},
	} {
		_, _, requests, err := shell(t, nil, "", append([]string{"parrots", "teach"}, strings.Fields(tt.args)...)...)
		if tt.err != "" && (err == nil || err.Error() != tt.err) || tt.err == "" && (err != nil || len(requests) != 1 || requests[0] != tt.want) {
			t.Errorf("%s: %v, %q", tt.args, err, requests)
		}
	}
}

// TestInstead: a switch calls another operation, which needs nothing of the first, and one member
// of an answer is printed alone.
func TestInstead(t *testing.T) {
	answers := []string{`{"name":"polly","fed":"1h"}`}
	if out, _, requests, err := shell(t, answers, "", "parrots", "name", "--name", "polly"); err != nil || out != "polly\n" || requests[0] != `POST /v1/parrots {"name":"polly"}` {
		t.Errorf("%v, %s, %q", err, out, requests)
	}
	if _, _, requests, err := shell(t, answers, "", "parrots", "name", "--all"); err != nil || requests[0] != "GET /v1/parrots/%7Bid%7D/sounds" {
		t.Errorf("%v, %q", err, requests)
	}
	if _, _, requests, err := shell(t, answers, "", "parrots", "name"); err == nil || err.Error() != "give --name, or --all" {
		t.Errorf("%v, %q", err, requests)
	}
}

// TestTimes: a time, or a length of time before or after now.
func TestTimes(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := member{in: inBody, kind: reflect.TypeFor[client.Time]()}
	for text, want := range map[string]string{"12h": "2026-01-02T15:04:05.000Z", "90d": "2026-04-02T03:04:05.000Z", "2027-01-31T00:00:00Z": "2027-01-31T00:00:00.000Z", "2027-01-31T01:00:00+01:00": "2027-01-31T00:00:00.000Z"} {
		if got, err := m.value(text, now); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "yesterday", "-1h", "0d", "d", "1.5d", "-3d", "99999999999999999d", "2027-01-31"} {
		if got, err := m.value(text, now); err == nil {
			t.Errorf("%s: %v", text, got)
		}
	}
	m.past = true
	if got, err := m.value("12h", now); err != nil || got != "2026-01-01T15:04:05.000Z" {
		t.Errorf("%v, %v", got, err)
	}
}

// TestCell: what others wrote cannot steer the terminal that it is shown on.
func TestCell(t *testing.T) {
	for text, want := range map[string]string{"": "-", "a\tb\nc": `a\u0009b\u000ac`, "\x1b[2Jgone\u202e": `\u001b[2Jgone\u202e`, "Zürich": "Zürich"} {
		if got := Cell(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
