package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/conformance"
	"countersign/countersigntest"
	"countersign/internal/api"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
	"countersign/merchant"
)

// user is somebody at the API: a client, and what it is made of.
type user struct {
	*client.Gateway
	url   string
	token client.Secret
}

func newUser(t testing.TB, url string, token client.Secret) user {
	t.Helper()
	c := must(client.NewGateway(client.Config{URL: url, Token: token}))(t)
	return user{c, url, token}
}

// send makes a request with plain net/http and the user's own token.
func (u user) send(t testing.TB, method, path, contentType, body string) endtest.Answer {
	t.Helper()
	return endtest.Call(t, u.token.Reveal(), method, u.url+path, contentType, body)
}

const goodOrder = `{"callBackId":"c1","tenantUserId":"7","address":"TX","chainName":"TRON","symbol":"USDT","amount":"2.50"}`

// TestWrongRequests: what no schema of a body says gets a 4xx that names it and never repeats its value.
func TestWrongRequests(t *testing.T) {
	r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), nil)
	with := func(member, value string) string {
		var m map[string]json.RawMessage
		ok(t, json.Unmarshal([]byte(goodOrder), &m))
		m[member] = json.RawMessage(value)
		b := must(json.Marshal(m))(t)
		return string(b)
	}
	long := `"` + strings.Repeat("SECRETx", 50) + `"`
	type attempt struct {
		method, path, body string
		status             int
		location           string
	}
	attempts := []attempt{
		{"POST", "/v1/orders", strings.Repeat(" ", maxBody) + goodOrder, 413, "body"},
		{"POST", "/v1/orders", with("amount", `"SECRET"`), 422, "body.amount"},
		{"POST", "/v1/orders", with("amount", `"0.00"`), 422, "body.amount"},
		{"POST", "/v1/orders", with("amount", `"-1"`), 422, "body.amount"},
		{"POST", "/v1/orders", with("expiresAt", `"SECRET"`), 422, "body.expiresAt"},
		{"POST", "/v1/orders", with("expiresAt", `"2029-01-01T00:00:00Z"`), 422, "body.expiresAt"},
		{"POST", "/v1/orders", with("labels", `{"a":"b","a":"c"}`), 422, "body.labels"},
		{"POST", "/v1/orders", with("labels", `{"":"b"}`), 422, "body.labels"},
		{"POST", "/v1/orders", with("labels", `{"a":`+long+`}`), 422, "body.labels"},
		{"POST", "/v1/tasks/order.nope/approve", `{}`, 404, ""},
		{"GET", "/v1/orders/nope", "", 404, ""},
		{"GET", "/v1/deposits?wait=61s", "", 422, "query.wait"},
		{"GET", "/v1/deposits?reader=a&after=1", "", 422, "query.reader"},
		{"GET", "/v1/deposits/0", "", 404, ""},
		{"GET", "/v1/deposits/SECRET", "", 404, ""},
		{"POST", "/v1/tasks/deposit.1/approve", "", 404, ""},
		{"PUT", "/v1/cursors/a", `{"deposits":1}`, 409, "body.deposits"},
		{"POST", "/v1/tokens", `{"name":"x","role":"viewer","merchants":["SECRET"]}`, 422, "body.merchants"}, // a gateway has one merchant
		{"PUT", "/v1/cursors/" + strings.Repeat("a", 101), `{}`, 422, "path.name"},
	}
	for _, member := range []string{"callBackId", "tenantUserId", "address", "chainName", "symbol", "amount"} {
		for _, value := range []string{`null`, `""`, long} { // by hand: a schema that loses its bounds is found too
			attempts = append(attempts, attempt{"POST", "/v1/orders", with(member, value), 422, "body." + member})
		}
	}
	for _, a := range attempts {
		got, at := r.client.send(t, a.method, a.path, api.TypeJSON, a.body), ""
		p := got.Problem()
		if len(p.Faults) > 0 {
			at = p.Faults[0].Location
		}
		if got.Status != a.status || p.Status != a.status || !strings.HasPrefix(at, a.location) || a.location == "" && at != "" {
			t.Errorf("%s %s %.100s: %d %s", a.method, a.path, a.body, got.Status, got.Body)
		}
		if strings.Contains(got.Body, "SECRET") {
			t.Errorf("%s %s: the answer repeats the value: %s", a.method, a.path, got.Body)
		}
	}
	if s, err := r.client.Stats(t.Context()); err != nil || len(s.Orders) != 0 {
		t.Fatalf("something was added: %+v, %v", s, err)
	}
}

// TestAddOrderAgain: the same again is the same order, other content is not.
func TestAddOrderAgain(t *testing.T) {
	eachRig(t, nil, func(t *testing.T, r *rig) {
		full := strings.TrimSuffix(goodOrder, "}") + `,"expiresAt":"2031-01-01T00:00:00Z","labels":{"a":"1","b":"2"}}`
		same := strings.NewReplacer("2.50", "2.5", `"a":"1","b":"2"`, `"b":"2","a":"1"`).Replace(full)
		for i, body := range []string{full, full, same} {
			a := r.client.send(t, "POST", "/v1/orders", api.TypeJSON, body)
			var o client.AddedOrder
			if err := json.Unmarshal([]byte(a.Body), &o); err != nil || o.Duplicate != (i > 0) || a.Status != []int{201, 200, 200}[i] || o.State != "open" {
				t.Fatalf("%d: %d %s", i, a.Status, a.Body)
			}
		}
		for member, change := range map[string][2]string{
			"tenantUserId": {`"7"`, `"8"`}, "address": {"TX", "TY"}, "chainName": {"TRON", "ETH"}, "symbol": {"USDT", "USDC"},
			"amount": {"2.50", "2.51"}, "expiresAt": {"2031", "2032"}, "labels.a": {`"1"`, `"3"`}, "labels.b": {`,"b":"2"`, ``}, "labels.c": {`"a"`, `"c":"0","a"`},
		} {
			a := r.client.send(t, "POST", "/v1/orders", api.TypeJSON, strings.Replace(full, change[0], change[1], 1))
			if a.Names(t, 409, "body.callBackId"); !strings.Contains(a.Body, "another "+member) || !strings.Contains(a.Body, "is known, and ") {
				t.Errorf("%s: %s", member, a.Body)
			}
		}
		if a := r.client.send(t, "GET", "/v1/orders/c1", "", ""); a.Status != 200 || !strings.Contains(a.Body, `"amount":"2.50"`) {
			t.Errorf("the order: %d %s", a.Status, a.Body)
		}
	})
}

func TestAccess(t *testing.T) {
	r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), nil)
	endtest.Access(t, r.end(), nil, nil, append(client.ValuesAt[client.Role](client.AtGateway), client.RoleCore)...) // core: of a service
}

// TestProbes: who reaches one listener alone learns there that the process runs, also while it learns.
func TestProbes(t *testing.T) {
	for _, learning := range []bool{false, true} {
		r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), func(c *Config) { c.Learn = learning })
		answers := func(want map[string]int) {
			t.Helper()
			for path, want := range want {
				if a := endtest.Call(t, "", "GET", r.client.url+path, "", nil); a.Status != want {
					t.Errorf("%s: %d %s", path, a.Status, a.Body)
				}
			}
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				w := httptest.NewRecorder()
				r.Callbacks().ServeHTTP(w, httptest.NewRequest(method, "/healthz", nil))
				if w.Code != 200 || w.Body.Len() > 0 || r.log.String() != "" {
					t.Errorf("callbacks, %s: %d %q, logged %q", method, w.Code, w.Body, r.log)
				}
			}
		}
		answers(map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 404})
		r.Stop()
		answers(map[string]int{"/healthz": 200, "/readyz": 503})
	}
}

// end is the gateway as the suite of both ends sees it. Its paths name what is not there.
func (r *rig) end() endtest.End {
	return endtest.End{API: r.base, URL: r.client.url, Tokens: api.NewTokens(r.db), Keep: r.keep, Pass: func() { r.clock.advance(2 * time.Second) },
		Path: func(rt *api.Endpoint) string { return regexp.MustCompile(`\{\w+\}`).ReplaceAllString(rt.Path, "77") }}
}

func TestOpenAPI(t *testing.T) {
	r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), func(c *Config) { c.Metrics = http.NotFoundHandler() })
	endtest.Document(t, r.end())
}

// TestEveryWrongMember: nothing that is refused adds anything.
func TestEveryWrongMember(t *testing.T) {
	r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), nil)
	order := map[string]any{"callBackId": "c1", "tenantUserId": "7", "address": "TX", "chainName": "TRON", "symbol": "USDT", "amount": "2.50",
		"expiresAt": "2031-01-01T00:00:00Z", "labels": map[string]any{"a": "b"}}
	try := maps.Clone(order)
	delete(try, "callBackId")
	try["at"] = "2030-01-01T00:00:00Z"
	endtest.WrongMembers(t, r.end(), r.client.token.Reveal(), map[string]any{"addOrder": order, "cancelOrder": map[string]any{"reason": "seen"},
		"moveCursor": map[string]any{"deposits": 1, "events": 1}, "tryPolicy": try})
	endtest.WrongQueries(t, r.end(), r.client.token.Reveal())
	if s, err := r.client.Stats(t.Context()); err != nil || len(s.Orders) != 0 {
		t.Fatalf("something was added: %+v, %v", s, err)
	}
}

// TestSearch: one text finds whatever has it, each thing once.
func TestSearch(t *testing.T) {
	eachRig(t, func(c *Config) { c.Callbacks.Profile.Lenient = true }, func(t *testing.T, r *rig) {
		ctx := t.Context()
		x := countersigntest.Deposit(1)
		x.TrackingID, x.TxID, x.TenantUserID, x.ToAddress, x.Amount = "t-1", "0xt1", "u-1", "TOne", amount(t, "7.10")
		r.answers(x, countersign.CodeAccepted)
		r.clock.advance(time.Minute)
		must(r.app.AddOrder(ctx, client.NewOrder{CallBackID: "o/1", TenantUserID: "u-1", Address: "TOut", ChainName: "TRON", Symbol: "USDT", Amount: amount(t, "7.1")}))(t)
		r.clock.advance(time.Minute)
		r.answers(told("c1", "u-2", "TRON", "TOld", "TNew"), countersign.CodeAccepted)
		refused := countersigntest.Deposit(1)
		refused.TrackingID, refused.TxID = "t-1", "0xother" // other content
		r.deliver(refused)
		for _, c := range []struct {
			text string
			want []string
		}{
			{" t-1\t", []string{"refused 1 trackingId", "deposit 1 trackingId"}}, {"0xt1", []string{"deposit 1 txId"}}, {"TOne", []string{"deposit 1 address"}},
			{"u-1", []string{"order o/1 tenantUserId", "deposit 1 tenantUserId"}}, {"o/1", []string{"order o/1 id"}}, {"TOut", []string{"order o/1 address"}},
			{"07.1", nil}, {"TNew", []string{"address 1 address"}}, {"TOld", []string{"address 1 address"}},
			{"1", []string{"refused 1 id", "address 1 id", "deposit 1 id"}}, {"01", nil}, {"+1", nil},
			{"nothing", nil}, {"%", nil}, {"' OR 1=1 --", nil}, {strings.Repeat("ü", 512), nil}, {"99999999999999999999", nil},
		} {
			got := endtest.Searched(t, r.client, c.text)
			if want := c.want; !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
				t.Errorf("%q finds %q, want %q", c.text, got, want)
			}
		}
	})
}

// TestConformance holds the gateway to every case that a merchant's endpoint
// must pass, and to the feed's count of what was credited.
func TestConformance(t *testing.T) {
	t.Parallel()
	for i, d := range dialects { // countersigntest.CheckInbox has both kinds of services on both
		unbound := i == 0
		t.Run(fmt.Sprintf("%s, unbound %v", d.name, unbound), func(t *testing.T) {
			t.Parallel()
			service := newService(t, countersigntest.ServiceConfig{Unbound: unbound})
			r := newRig(t, d.url(t), service, func(c *Config) {
				c.Grace = -1
				c.Callbacks.BodyTimeout = 3 * time.Second // also for a busy machine
			})
			r.order(1)
			server := httptest.NewServer(r.Callbacks())
			defer server.Close()
			o := newOrder(1)
			only := regexp.MustCompile("")
			if unbound && !dbtest.IsWhole() { // the cases that may show a difference
				only = regexp.MustCompile(`^(repeat|withdrawal|binding)/|^deposit/(plain|json|blocks)$`)
			}
			checker := must(conformance.New(conformance.Config{
				Only:      func(k conformance.Case) bool { return only.MatchString(k.Name) },
				NotifyURL: server.URL + merchant.DefaultNotifyPath, WithdrawURL: server.URL + merchant.DefaultWithdrawPath,
				Key: testPair(), APIKey: service.APIKey(), CallbackAPIKey: service.CallbackAPIKey(), Unbound: unbound,
				Order: &o,
				Effects: func(context.Context, []string) (credits []conformance.Credit, _ error) {
					for _, d := range r.allDeposits() {
						if d.State == "taken" {
							credits = append(credits, conformance.Credit{TrackingID: d.TrackingID, Amount: d.Amount.String()})
						}
					}
					return credits, nil
				},
			}))(t)
			summary, err := checker.Run(t.Context(), func(res conformance.Result) {
				if res.Ending == conformance.Fail {
					t.Errorf("%s: %s", res.Name, res.Problem)
				}
			})
			if err != nil || !summary.OK() {
				t.Fatalf("%v, %v", summary, err)
			}
			t.Log(summary)
		})
	}
}
