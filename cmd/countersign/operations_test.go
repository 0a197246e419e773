package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/lab/dbtest"
)

// TestEveryOperation: api lists each operation of both ends, and calls its path with its method and every part of the
// path.
func TestEveryOperation(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	var method, path string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method, path = r.Method, r.URL.Path
		_, _ = w.Write([]byte(`{}`))
	}))
	defer api.Close()
	c := must(client.NewService(client.Config{URL: api.URL, Token: "cst_0123456789012345678901234567890123456789"}))
	for _, e := range []end{serviceEnd, gatewayEnd} {
		status, list, errOut := shell(t, "", "api", "--"+string(e))
		if status != exitDone {
			t.Fatal(errOut)
		}
		if len(operations(e)) < 50 {
			t.Errorf("%d operations", len(operations(e)))
		}
		for _, o := range operations(e) {
			if !strings.Contains("\n"+list, "\n"+o.ID+" ") {
				t.Errorf("%s %s is not listed", e, o.ID)
			}
			r := must(newRequest(c, e, o.ID))
			flags, want := requestFlags{}, o.Path
			for _, m := range r.members {
				if m.place == "path" {
					flags.Set, want = append(flags.Set, m.name+"=17"), strings.Replace(want, "{"+m.name+"}", "17", 1)
				}
			}
			if o.Method == http.MethodPost && o.In != nil {
				flags.Body = "{}"
			}
			method, path = "", ""
			err := r.fill(streams{}, flags, "", "")
			if err == nil {
				_, err = r.send(t.Context())
			}
			if err != nil || method != o.Method || path != want {
				t.Errorf("%s %s: called %q %q, want %s %s: %v", e, o.ID, method, path, o.Method, want, err)
			}
		}
	}
	_, filters, _ := shell(t, "", "api", "searchDeposits", "--gateway", "--members")
	if !strings.Contains("\n"+filters, "\nstate ") {
		t.Errorf("a list has no filter by state: %s", filters)
	}
	_, members, _ := shell(t, "", "api", "createMerchant", "--service", "--members")
	for _, want := range []string{"id ", "key.bits ", "notifyUrl "} {
		if !strings.Contains("\n"+members, "\n"+want) {
			t.Errorf("--members does not have %s in\n%s", want, members)
		}
	}
}

// TestNumberOfCommands: a command is a word that does something, in place of a group. There are at most 60, and each
// has a help.
func TestNumberOfCommands(t *testing.T) {
	parser := must(newParser())
	var all []string
	var walk func(*kong.Node)
	walk = func(n *kong.Node) {
		if n.Help == "" && n.Parent != nil {
			t.Errorf("%s has no help", n.FullPath())
		}
		if len(n.Children) == 0 {
			all = append(all, n.Path())
		}
		for _, c := range n.Children {
			walk(c)
		}
	}
	walk(parser.Model.Node)
	if len(all) > 60 {
		t.Errorf("%d commands:\n%s", len(all), strings.Join(all, "\n"))
	}
}

// TestColumns: each column of a table is a member of what its operation lists.
func TestColumns(t *testing.T) {
	parser := must(newParser())
	n := 0
	for _, leaf := range parser.Model.Leaves(false) {
		columns := leaf.Tag.Get("columns")
		if columns == "" {
			continue
		}
		all := slices.Concat(operations(serviceEnd), operations(gatewayEnd)) // of both, the service's comes first
		o := all[slices.IndexFunc(all, func(o api.Operation) bool { return o.ID == leaf.Vars()["op"] })]
		has := func(name string) bool {
			name, _, _ = strings.Cut(name, ".")
			return slices.ContainsFunc(membersIn(o.Out, "json", ""), func(list member) bool {
				r := request{}
				if list.typ.Kind() == reflect.Slice {
					r.members = membersIn(list.typ.Elem(), "json", "")
				}
				_, is := r.member(name)
				return is
			})
		}
		for c := range strings.SplitSeq(columns, "|") {
			title, members, named := strings.Cut(c, "=")
			if !named {
				members = camel(title)
			}
			for m := range strings.SplitSeq(members, ",") {
				if n++; !has(m) {
					t.Errorf("%s: %s has no %s", leaf.FullPath(), o.ID, m)
				}
			}
		}
	}
	if n < 60 {
		t.Errorf("only %d columns", n)
	}
}

// TestTellWaiting: whoever changes what waits for an approver is told so.
func TestTellWaiting(t *testing.T) {
	var said strings.Builder
	tellWaiting(&said, []byte(`{"task":"change.1"}`))
	tellWaiting(&said, []byte(`{"id":"shop"}`))
	if said.String() != "countersign: nothing has changed yet: it waits for an approver; tasks approve change.1\n" {
		t.Errorf("%q", said.String())
	}
}

// TestAPIFromTheShell: operations that have no command of their own, of a running service.
func TestAPIFromTheShell(t *testing.T) {
	flags := theService(t).flags
	var m client.Merchant
	mustShell(t, &m, "", slices.Concat([]string{"api", "createMerchant", "id=by-api", "name=Shop", "notifyUrl=http://127.0.0.1:1/n", "key.bits=1024", "-d", `{"withdrawUrl":"http://127.0.0.1:1/w"}`}, flags)...)
	mustShell(t, &m, "", slices.Concat([]string{"api", "updateMerchant", "by-api", "confirmWithin=20m", "concurrency=7"}, flags)...)
	if m.ID != "by-api" || m.ConfirmWithin.String() != "20m0s" || m.Concurrency != 7 {
		t.Errorf("%+v", m)
	}
	status, out, errOut := shell(t, `{"merchant":"by-api","trackingId":"1","tenantUserId":"2","txId":"3","chainName":"TRON","symbol":"USDT","amount":"1.50","fromAddress":"","toAddress":"T","riskLevelFrom":0,"riskLevelTo":0,"txIndex":0}`,
		slices.Concat([]string{"api", "addDeposits", "-d", "@-"}, flags)...)
	if status != exitDone || !strings.Contains(out, `"trackingId": "1"`) {
		t.Errorf("%d %s%s", status, out, errOut)
	}
	status, out, errOut = shell(t, "", slices.Concat([]string{"api", "deposits", "merchant=by-api"}, flags)...)
	if status != exitDone || !strings.Contains(out, "1.50") {
		t.Errorf("%d %s%s", status, out, errOut)
	}
	status, out, _ = shell(t, "", slices.Concat([]string{"api", "openapi"}, flags)...)
	if status != exitDone || !json.Valid([]byte(out)) {
		t.Errorf("%d %s", status, out)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no id":             {[]string{"pauseMerchant"}, "id is missing: give id=VALUE"},
		"a misspelt member": {[]string{"updateMerchant", "by-api", "concurency=7"}, "updateMerchant has no concurency\n  try: it has: id, name, "},
		"a wrong value":     {[]string{"updateMerchant", "by-api", "concurrency=many"}, "concurrency"},
		"a bare number":     {[]string{"updateMerchant", "by-api", "confirmWithin=60"}, "confirmWithin"},
		"nothing at all":    {[]string{"createWithdrawal"}, "merchant"},
		"no such operation": {[]string{"pause"}, "the service has no operation pause\n  try: countersign api --service lists them."},
		"the other end's":   {[]string{"addOrder"}, "is the data directory of a service, and the command is for the gateway"},
		"no value":          {[]string{"pauseMerchant", "by-api", "again"}, `"again": give NAME=VALUE`},
		"no JSON":           {[]string{"createMerchant", "-d", "{'id': 1}"}, "not one JSON value"},
		"an empty request":  {[]string{"createMerchant", "-d", "@-"}, "it must hold the request as JSON"},
	} {
		if status, _, errOut := shell(t, "", slices.Concat([]string{"api"}, c.args, flags)...); status != exitFailed || !strings.Contains(errOut, c.want) {
			t.Errorf("%s: status %d, want %q in\n%s", name, status, c.want, errOut)
		}
	}
}

// TestHelp: the help of a daemon has what a start needs on a screen or two, and --help-all every flag. The help of
// any other command has every flag.
func TestHelp(t *testing.T) {
	most := map[string]int{"serve": 60, "gateway": 80}
	parser := must(newParser())
	for _, command := range parser.Model.Leaves(true) {
		name := strings.Fields(command.Path())
		status, all, errOut := shell(t, "", append(name, "--help")...)
		if lines := most[command.Name]; lines > 0 {
			if n := strings.Count(all, "\n"); n > lines || !strings.Contains(all, " --listen=") || !strings.Contains(all, "countersign "+command.Name+" --help-all") {
				t.Errorf("%s --help: %d lines, at most %d: %s", command.Name, n, lines, all)
			}
			status, all, errOut = shell(t, "", command.Name, "--help-all")
		}
		if status != exitDone {
			t.Errorf("%s: %d %s", name, status, errOut)
		}
		for _, f := range command.Flags {
			if has := regexp.MustCompile(`--(\[no-\])?` + f.Name + `[^-a-z]`).MatchString(all); has == f.Hidden {
				t.Errorf("the help of %s has --%s: %v", name, f.Name, has)
			}
		}
	}
}
