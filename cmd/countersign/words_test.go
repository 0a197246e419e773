package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"countersign/client"
	"countersign/internal/admin"
	"countersign/internal/api"
	"countersign/internal/cli"
	"countersign/internal/gateway"
	"countersign/internal/lab/dbtest"
	"countersign/internal/settings"
)

// TestEveryOperation: api reaches each operation of both ends, by a name that completes, and
// every operation is listed.
func TestEveryOperation(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	for end, operations := range map[string][]api.Operation{"": admin.Operations(), "--gateway": gateway.Operations()} {
		flags := strings.Fields(end)
		status, list, errOut := shell(t, "", append([]string{"api", "--list"}, flags...)...)
		if status != exitDone {
			t.Fatal(errOut)
		}
		_, words, _ := shell(t, "", append(append([]string{settings.CompleteWord}, flags...), "api")...)
		parser, err := newParser(streams{}, []string{"api"}, map[string]map[string]string{"": serviceEnd, "--gateway": gatewayEnd}[end], new(int), new(cli.Called))
		if err != nil {
			t.Fatal(err)
		}
		group := parser.Model.Children[slices.IndexFunc(parser.Model.Children, func(n *kong.Node) bool { return n.Name == "api" })]
		for _, o := range operations {
			at := slices.IndexFunc(group.Children, func(n *kong.Node) bool { return n.Name == o.ID })
			if !strings.Contains("\n"+list, "\n"+o.ID+" ") || !strings.Contains(words, o.ID+"\n") || at < 0 {
				t.Errorf("%s %s is not reached", end, o.ID)
				continue
			}
			if n := group.Children[at]; len(n.Positional) != strings.Count(o.Path, "{") || n.Help != o.Summary+"." {
				t.Errorf("%s %s: %d arguments, %s", end, o.ID, len(n.Positional), n.Help)
			}
		}
		if len(operations) < 50 {
			t.Errorf("%d operations", len(operations))
		}
	}
}

// TestEndsOfCommands: a command asks the API that has its operation.
func TestEndsOfCommands(t *testing.T) {
	parser, err := newParser(streams{}, nil, serviceEnd, new(int), new(cli.Called))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range slices.Concat(serviceWords, gatewayWords) {
		if c.Op == "" || c.End == cli.EitherEnd {
			continue
		}
		node := parser.Model.Node
		for word := range strings.FieldsSeq(c.Words) {
			node = node.Children[slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word })]
		}
		want := map[cli.End]kong.Vars{cli.ServiceEnd: serviceEnd, cli.GatewayEnd: gatewayEnd}[c.End]
		for _, f := range node.Flags {
			if f.Name == "api" && (!strings.Contains(f.Help, want["api"]) || !slices.Contains(f.Envs, "COUNTERSIGN_"+want["END"]+"_API")) {
				t.Errorf("%s is of the %s, and asks %v: %s", c.Words, want["end"], f.Envs, f.Help)
			}
		}
	}
}

// TestAPIFromTheShell: operations that have no words of their own, of a running service.
func TestAPIFromTheShell(t *testing.T) {
	data := t.TempDir()
	d := startDaemon(t, "serve", "--data", data, "--listen", "127.0.0.1:0", "--allow-private", "--allow-http")
	flags := []string{"--api", d.url, "--data", data}
	var m client.Merchant
	mustShell(t, &m, "", slices.Concat([]string{"api", "createMerchant", "--id", "shop", "--name", "Shop", "--notify-url", "http://127.0.0.1:1/n", "-d", `{"withdrawUrl":"http://127.0.0.1:1/w","key":{"bits":1024}}`}, flags)...)
	mustShell(t, &m, "", slices.Concat([]string{"api", "updateMerchant", "shop", "--confirm-within", "20m", "--concurrency", "7"}, flags)...)
	if m.ID != "shop" || m.ConfirmWithin.String() != "20m0s" || m.Concurrency != 7 {
		t.Errorf("%+v", m)
	}
	status, out, errOut := shell(t, `{"merchant":"shop","trackingId":"1","tenantUserId":"2","txId":"3","chainName":"TRON","symbol":"USDT","amount":"1.50","fromAddress":"","toAddress":"T","riskLevelFrom":0,"riskLevelTo":0,"txIndex":0}`,
		slices.Concat([]string{"api", "addDeposits", "-d", "@-"}, flags)...)
	if status != exitDone || !strings.Contains(out, `"trackingId":"1"`) {
		t.Errorf("%d %s%s", status, out, errOut)
	}
	status, out, errOut = shell(t, "", slices.Concat([]string{"api", "deposits", "--merchant", "shop", "--no-json"}, flags)...)
	if status != exitDone || !strings.Contains(out, "TRACKING ID") || !strings.Contains(out, "1.50") {
		t.Errorf("%d %s%s", status, out, errOut)
	}
	status, out, _ = shell(t, "", slices.Concat([]string{"api", "openapi"}, flags)...)
	if status != exitDone || !json.Valid([]byte(out)) {
		t.Errorf("%d %s", status, out)
	}
	if status, _, errOut := shell(t, "", slices.Concat([]string{"api", "pauseMerchant"}, flags)...); status != exitUsage || !strings.Contains(errOut, "<id>") {
		t.Errorf("without an id: %d %s", status, errOut)
	}
}
