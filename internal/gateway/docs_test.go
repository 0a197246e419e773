package gateway

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"countersign/client"
)

// TestForwardingPage: docs/forwarding.md names every type of message.
func TestForwardingPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/forwarding.md")
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, v := range client.DepositMessage("").Values() {
		types = append(types, string(v))
	}
	for _, v := range client.EventKind("").Values() {
		types = append(types, string(v))
	}
	for _, v := range types {
		if !strings.Contains(string(page), "`"+v+"`") {
			t.Errorf("%s is not on the page", v)
		}
	}
}

// TestPolicyPage: docs/policy.md names every variable and key, and its recipes
// decide as they say.
func TestPolicyPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"default", "time-zone", "self-approval", "[lists]", "[hours]", "[[rule]]", "[[limit]]"}
	for name := range variables {
		names = append(names, name)
	}
	for _, name := range names {
		if !strings.Contains(string(page), "\n| `"+name+"` | ") {
			t.Errorf("%s has no row", name)
		}
	}
	for _, function := range regexp.MustCompile("(?m)^\\| `([a-z.]+\\(.*?\\))`").FindAllSubmatch(page, -1) {
		condition := strings.ReplaceAll(string(function[1]), "0x…", evmAddress)
		switch {
		case strings.HasPrefix(condition, "amount"), strings.HasPrefix(condition, "address"), strings.HasPrefix(condition, "size"):
			condition += " == " + condition
		case strings.HasPrefix(condition, "duration"), strings.HasPrefix(condition, "timestamp"):
			condition += " > " + condition
		}
		mustPolicy(t, withRule(condition))
	}

	const allow, ask, deny = Allow, Ask, Deny
	type order struct {
		want   Effect
		change []func(*Request)
	}
	old := func(r *Request) { r.Order.Created = r.Now.Add(-time.Hour) }
	young := func(r *Request) { r.Order.Created = r.Now.Add(-time.Minute) }
	day := spent(t, map[string]string{"USDT": "99950", "USDT user-9": "4950"})
	recipes := [][]order{
		{{allow, nil}},
		{{ask, nil}},
		{{allow, []func(*Request){ofAmount(t, "1000")}}, {ask, []func(*Request){ofAmount(t, "1000.000001")}}},
		{{allow, []func(*Request){ofAmount(t, "1000")}}, {ask, []func(*Request){ofAmount(t, "50000")}}, {deny, []func(*Request){ofAmount(t, "50000.1")}}},
		{{allow, nil}, {allow, []func(*Request){day, ofAmount(t, "50")}}, {deny, []func(*Request){day, ofAmount(t, "50.1")}},
			{ask, []func(*Request){spent(t, map[string]string{"USDT": "5000", "USDT user-9": "4950"}), ofAmount(t, "50.1")}}},
		{{allow, nil}, {deny, []func(*Request){func(r *Request) { r.Order.Details.Symbol = "SHIB" }}}},
		{{allow, nil}, {ask, []func(*Request){to(evmAddress)}}, {deny, []func(*Request){to(strings.ToLower(otherEVM))}}},
		{{allow, []func(*Request){ofAmount(t, "501")}}, {ask, []func(*Request){ofAmount(t, "501"), asOf(wednesday.Add(12 * time.Hour))}},
			{allow, []func(*Request){ofAmount(t, "500"), asOf(wednesday.Add(12 * time.Hour))}}},
		{{allow, nil}, {ask, []func(*Request){labelled()}}, {ask, []func(*Request){labelled("riskLevel", "30")}}, {deny, []func(*Request){labelled("riskLevel", "70")}}},
		{{allow, []func(*Request){old, labelled()}}, {ask, []func(*Request){young, labelled()}}, {allow, []func(*Request){young}}},
	}
	files := regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(files) != len(recipes) {
		t.Fatalf("%d recipes, %d are tested", len(files), len(recipes))
	}
	for i, orders := range recipes {
		p := mustPolicy(t, files[i][1])
		for k, o := range orders {
			if got := decide(t, p, someRequest(t, o.change...)); got.Effect != o.want {
				t.Errorf("recipe %d, order %d: %v (%s), want %v", i+1, k+1, got.Effect, got.Why(), o.want)
			}
		}
	}
}
