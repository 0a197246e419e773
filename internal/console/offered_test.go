package console_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/merchant"
)

var (
	offeredForms = regexp.MustCompile(`(?s)<form method="post" action="([^"]+)"[^>]*>(.*?)</form>`)
	offeredLinks = regexp.MustCompile(`href="(/console/[^"]*)"`)
	inactive     = regexp.MustCompile(`<button[^>]* type="button"`)
	inputs       = regexp.MustCompile(`<(?:input|textarea)[^>]*>`)
	selects      = regexp.MustCompile(`(?s)<select[^>]*name="([^"]+)"[^>]*>(.*?)</select>`)
	options      = regexp.MustCompile(`<option( value="[^"]*")?( selected)?>([^<]*)`)
	confirms     = regexp.MustCompile(`Type <code>([^<]+)</code>`)
)

func attribute(tag, name string) string {
	m := regexp.MustCompile(` ` + name + `="([^"]*)"`).FindStringSubmatch(tag)
	if m == nil {
		return ""
	}
	return html.UnescapeString(m[1])
}

// filled fills the form as a person would who changes nothing that is filled in, and types
// what is asked for. typed has values for single fields.
func filled(form string, typed map[string]string) url.Values {
	values := url.Values{}
	for _, tag := range inputs.FindAllString(form, -1) {
		name, value := attribute(tag, "name"), attribute(tag, "value")
		switch kind := attribute(tag, "type"); {
		case name == "":
			continue
		case kind == "checkbox" && !strings.Contains(tag, " checked"):
			continue
		case name == "confirm":
			value = html.UnescapeString(confirms.FindStringSubmatch(form)[1])
		case name == "reason" || name == "note" || name == "text":
			value = "because of a test"
		}
		values.Set(name, value)
	}
	for _, s := range selects.FindAllStringSubmatch(form, -1) {
		for i, o := range options.FindAllStringSubmatch(s[2], -1) {
			value := html.UnescapeString(o[3])
			if o[1] != "" {
				value = attribute(o[1], "value")
			}
			if i == 0 || o[2] != "" || value == "1024" { // small keys are made fast
				values.Set(s[1], value)
			}
		}
	}
	for name, value := range typed {
		if values.Has(name) {
			values.Set(name, value)
		}
	}
	return values
}

// pressAll follows every link from the first page, one with a query once, and presses what the pages offer, each
// button once, and what late matches only when nothing else is left. Whatever is refused is
// an error: the pages offer only what the token may do.
func (s *site) pressAll(who string, typed map[string]string, skip, late *regexp.Regexp) (pressed map[string]bool) {
	s.t.Helper()
	pressed = map[string]bool{}
	press := func(from, action, form string) {
		pressed[action] = true
		p := s.post(action, filled(form, typed))
		if p.status == http.StatusSeeOther && strings.Contains(p.to(), "did=") || p.status == http.StatusOK && strings.Contains(p.body, "Shown this once") {
			return
		}
		if strings.Contains(saysOf(p.body), "is sending") || !strings.Contains(s.get(from).body, `action="`+html.EscapeString(action)+`"`) {
			return // the service decided between the page and the button
		}
		s.t.Errorf("%s: %s offers %s: %d to %q\n%s", who, from, action, p.status, p.to(), saysOf(p.body))
	}
	bad, asked := map[string]bool{}, map[string]bool{}
	for again, last := true, false; again; {
		again = false
		seen := map[string]bool{}
		for queue := []string{"/console/"}; len(queue) > 0; queue = queue[1:] {
			path := queue[0]
			if seen[path] {
				continue
			}
			seen[path] = true
			p := s.get(path)
			if p.status == http.StatusSeeOther {
				queue = append(queue, p.to())
				continue
			}
			if p.status >= 400 && path != "/console/" && !bad[path] { // a program's role has no page
				bad[path] = true
				s.t.Errorf("%s: a page links to %s: %d\n%s", who, path, p.status, saysOf(p.body))
			}
			if strings.HasPrefix(p.header.Get("Content-Type"), "text/html") && !strings.Contains(p.body, "<noscript>Times are UTC") {
				s.t.Errorf("%s: %s does not say how its times are meant where no script runs", who, path)
			}
			for _, link := range offeredLinks.FindAllStringSubmatch(p.body, -1) {
				to := html.UnescapeString(link[1])
				if strings.Contains(to, "?") && asked[to] || strings.HasPrefix(to, "/console/static/") {
					continue
				}
				asked[to] = true
				queue = append(queue, to)
			}
			for _, f := range offeredForms.FindAllStringSubmatch(p.body, -1) {
				action := html.UnescapeString(f[1])
				if pressed[action] || skip.MatchString(action) || late.MatchString(action) && !last {
					continue
				}
				press(path, action, f[2])
				if !strings.Contains(inactive.ReplaceAllString(f[2], ""), "<button") {
					s.t.Errorf("%s: without a script nothing sends the form %s at %s", who, action, path)
				}
				again = true
				queue = append([]string{path, path}, queue[1:]...) // the page is another one now
				delete(seen, path)
				break
			}
		}
		if !again && !last {
			again, last = true, true
		}
	}
	return pressed
}

// saysOf returns what a page says was wrong.
func saysOf(body string) string {
	if m := regexp.MustCompile(`(?s)<div class="problems".*?</div>`).FindString(body); m != "" {
		return m
	}
	return body
}

// agreeable is a merchant that confirms every withdrawal with the same details.
func agreeable(t *testing.T, admin *client.Service, id string) {
	t.Helper()
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	made := addMerchant(t, admin, id, client.MerchantSettings{NotifyURL: server.URL + merchant.DefaultNotifyPath, WithdrawURL: server.URL + merchant.DefaultWithdrawPath})
	handler = must(merchant.New(merchant.Config{Key: must(envelope.ParseKey([]byte(made.PublicKey)))(t), APIKey: countersign.APIKey(made.APIKey.Reveal()), Inbox: merchant.NewMemoryInbox(),
		OnDeposit: func(context.Context, merchant.Deposit) error { return nil }, OnPossibleDuplicate: merchant.KeepForReview,
		OnWithdrawal: func(_ context.Context, w countersign.WithdrawalRequest) (merchant.Answer, error) {
			return merchant.Confirm(w.TenantUserID, countersign.Details{Address: "TTarget", ChainName: "TRON", Symbol: "USDT", Amount: amount(t, "1.5")}), nil
		}}))(t)
}

// serviceScene is a service with a merchant that answers, one that is away and one without
// work, an alarm, and changes that wait where there is an approver.
type serviceScene struct {
	t     *testing.T
	base  string
	first client.Secret
	admin *client.Service
}

func newServiceScene(t *testing.T) *serviceScene {
	base, first := node(t, nil)
	s, ctx := &serviceScene{t, base, first, serviceAPI(t, base, first)}, t.Context()
	agreeable(t, s.admin, "shop")
	addMerchant(t, s.admin, "away", client.MerchantSettings{})
	addMerchant(t, s.admin, "idle", client.MerchantSettings{})
	must(s.admin.AddDeposits(ctx, deposit(t, "away", "d-1"), deposit(t, "shop", "d-2")))(t)
	for id, sum := range map[string]string{"w-1": "1.5", "w-2": "1.50", "w-3": "99"} { // the answer to the last is about another amount: an alarm
		for _, m := range []string{"shop", "away"} {
			must(s.admin.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: m, CallBackID: id, TenantUserID: "u",
				Details: &client.Details{Address: "TTarget", ChainName: "TRON", Symbol: "USDT", Amount: amount(t, sum)}}))(t)
		}
	}
	dbtest.Until(t, "the withdrawals are decided", func() bool {
		list, err := s.admin.Withdrawals(ctx, client.WithdrawalFilter{Merchant: "shop", State: client.WithdrawalAwaiting}, client.PageOptions{})
		alarms, err2 := s.admin.Alarms(ctx, client.AlarmFilter{State: client.AlarmOpen}, client.PageOptions{})
		return err == nil && err2 == nil && len(list.Items) == 0 && len(alarms.Items) > 0
	})
	return s
}

// token makes a token. approver approves it, where it is not nil.
func (s *serviceScene) token(approver *client.Service, name string, role client.Role, merchants ...string) (client.CreatedToken, *client.Service) {
	s.t.Helper()
	made := must(s.admin.CreateToken(s.t.Context(), client.NewToken{Name: name, Role: role, Merchants: merchants}))(s.t)
	if approver != nil {
		must(approver.ApproveTask(s.t.Context(), made.Task, ""))(s.t)
	}
	return made, serviceAPI(s.t, s.base, made.Secret)
}

// TestOfferedByService: whoever signs in, and whatever of the service's console is pressed, no
// button that is offered is refused, and no link.
func TestOfferedByService(t *testing.T) {
	dbtest.NotRaced(t, "one button is pressed after another, and other tests ask for the same pages")
	bound := []string{"shop", "away", "idle"}
	late := regexp.MustCompile(`/tokens/.*/revoke$|/console/stop/freeze$|/pause$`)
	for _, c := range []struct {
		role      client.Role
		merchants []string
		approver  bool // there is one, so changes wait
		short     bool // also in the short run
		offers    []string
	}{
		{client.RoleOperator, nil, false, false, []string{"/console/merchants/new", "/console/withdrawals/shop.*/block", "/console/alarms/ack"}},
		{client.RoleOperator, nil, true, true, []string{"/console/tokens$", "/console/tasks/change.*/decline"}},
		{client.RoleOperator, bound, true, false, []string{"/console/tokens$", "/console/tasks/change.*/decline"}},
		{client.RoleApprover, nil, true, true, []string{"/console/stop/freeze", "/console/stop/thaw", "/console/tasks/change.*/approve"}},
		{client.RoleApprover, bound, true, false, []string{"/console/tasks/change.*/approve"}},
		{client.RoleAdmin, nil, false, true, []string{"/console/tokens$", "/console/tokens/.*/revoke", "/console/withdrawals/away.*/cancel", "/console/stop/freeze", "/console/stop/thaw"}},
		{client.RoleAdmin, nil, true, false, []string{"/console/tasks/change.*/approve"}},
		{client.RoleAdmin, bound, true, false, []string{"/console/withdrawals/away.*/cancel"}},
		{client.RoleViewer, nil, true, false, nil},
		{client.RoleViewer, bound, true, false, nil},
		{client.RoleCore, nil, true, true, []string{"/console/withdrawals/away.*/cancel"}},
		{client.RoleIngest, nil, true, false, nil},
		{client.RoleMerchant, []string{"shop"}, true, true, []string{"/console/merchants/shop/test", "/console/callbacks/shop.*/resend"}},
	} {
		if !c.short && !dbtest.IsWhole() {
			continue
		}
		t.Run(strings.Join(append([]string{string(c.role), map[bool]string{true: "with an approver"}[c.approver]}, c.merchants...), " "), func(t *testing.T) {
			t.Parallel()
			s := newServiceScene(t)
			_, other := s.token(nil, "another operator", client.RoleOperator)
			var first *client.Service
			if c.role == client.RoleApprover && c.merchants != nil {
				_, first = s.token(nil, "the first approver", client.RoleApprover)
			}
			me, mine := s.token(first, "me", c.role, c.merchants...)
			if c.approver && c.role != client.RoleApprover {
				s.token(nil, "the approver", client.RoleApprover)
			}
			for id, by := range map[string]*client.Service{"shop": s.admin, "away": other, "idle": mine} {
				for _, to := range []string{"one", "two"} { // once one is approved, the other is stale
					if _, err := by.UpdateMerchant(t.Context(), id, client.MerchantPatch{MerchantSettings: client.MerchantSettings{NotifyURL: "http://127.0.0.1:1/" + to}}); err != nil && !errors.Is(err, client.ErrForbidden) {
						t.Fatal(err)
					}
				}
			}
			// Revoking me ends the session.
			skip := regexp.MustCompile(`/signout$|/tokens/` + me.ID + `/revoke|/merchants/fresh/change$`) // its form has what it was made with
			pressed := newSite(t, s.base).signIn(me.Secret).pressAll(string(c.role), map[string]string{"id": "fresh", "name": "a name",
				"notifyUrl": "http://127.0.0.1:1/n", "withdrawUrl": "http://127.0.0.1:1/w", "concurrency": "7"}, skip, late)
			offered(t, pressed, c.offers)
		})
	}
}

// TestOfferedByGateway is the same of the gateway.
func TestOfferedByGateway(t *testing.T) {
	dbtest.NotRaced(t, "one button is pressed after another, and other tests ask for the same pages")
	for _, role := range client.ValuesAt[client.Role](client.AtGateway) {
		t.Run(string(role), func(t *testing.T) { t.Parallel(); testOfferedByGateway(t, role, false) })
		t.Run(string(role)+" after a restore", func(t *testing.T) {
			dbtest.Whole(t, "another gateway for each role")
			t.Parallel()
			testOfferedByGateway(t, role, true)
		})
	}
}

func testOfferedByGateway(t *testing.T, role client.Role, restored bool) {
	s, ctx := newShop(t), t.Context()
	me := s.token(role)
	mine := s.as(me.Secret)
	for i := range 4 {
		s.held("theirs-" + string(rune('1'+i)))
	}
	own := largeOrder(t, "own")
	_, err := mine.AddOrder(ctx, own)
	if err != nil && !errors.Is(err, client.ErrForbidden) {
		t.Fatal(err)
	}
	ordered := err == nil
	if ordered {
		s.ask(own)
	}
	for n := range 2 {
		s.twice(1 + n)
		s.moved(fmt.Sprint("user-", n))
		s.misdirected(1 + n)
	}
	s.token(client.RoleApprover)
	must(s.admin.CreateToken(ctx, client.NewToken{Name: "proposed", Role: client.RoleViewer}))(t)
	if role == client.RoleAdmin {
		must(mine.CreateToken(ctx, client.NewToken{Name: "proposed by me", Role: client.RoleViewer}))(t)
	}
	if restored {
		must(s.book.Restored(ctx, 0, db.MillisOf(time.Now())))(t)
		must(s.app.AddOrder(ctx, largeOrder(t, "after")))(t)
	}
	site := newSite(t, s.base).signIn(me.Secret)
	if ordered && role == client.RoleAdmin && !restored {
		p := site.get("/console/orders/own")
		if !strings.Contains(p.body, "You cannot approve it: it asked for this itself") || strings.Contains(p.body, "order.own/approve") {
			t.Error(p.body)
		}
	}
	pressed := site.pressAll(string(role), map[string]string{"name": "a name"}, regexp.MustCompile(`/signout$|/forwarding/|/tokens/`+me.ID+`/revoke`), regexp.MustCompile(`/tokens/.*/revoke$`))
	offers := map[client.Role][]string{
		client.RoleApprover: {"/order.theirs-1/approve", "/order.theirs-1/decline", "/deposit.*/approve", "/address.*/approve", "/refused.*/approve", "/change.*/approve", "/alarms/ack"},
		client.RoleAdmin:    {"/order.theirs-1/approve", "/order.own/decline", "/tokens/.*/revoke", "/change.*/decline"},
		client.RoleApp:      {"/orders/own/cancel"},
	}
	if restored {
		offers = map[client.Role][]string{client.RoleApprover: {"/address.*/approve"}}
		for action := range pressed {
			if regexp.MustCompile("/(order|deposit).*/decline$|/cancel$|/deposit.*/approve$|/(order|restored).theirs.*/(approve|decline|cancel)$").MatchString(action) {
				t.Errorf("%s is offered before the restore is reconciled", action)
			}
		}
	}
	if len(offers[role]) > 0 || role == client.RoleViewer {
		offered(t, pressed, offers[role])
	}
}

// offered fails unless what was pressed has all of these; none: nothing was pressed.
func offered(t *testing.T, pressed map[string]bool, offers []string) {
	t.Helper()
	all := slices.Collect(maps.Keys(pressed))
	for _, want := range offers {
		if !slices.ContainsFunc(all, regexp.MustCompile(want).MatchString) {
			t.Errorf("%s is not offered, but %q", want, all)
		}
	}
	if len(offers) == 0 && len(all) > 0 {
		t.Errorf("it is offered %q", all)
	}
}

// TestWhatFails: the page Now lists a merchant that fails, with the reason, and the pages of a callback and a withdrawal
// say what was wrong with the attempts.
func TestWhatFails(t *testing.T) {
	s := newServiceScene(t)
	b := newSite(t, s.base).signIn(s.first)
	dbtest.Until(t, "the first exchange has failed", func() bool {
		m, err := s.admin.Merchant(t.Context(), "away")
		return err == nil && m.Health != nil && m.Health.LastFailure != nil
	})
	_, part, found := strings.Cut(b.get("/console/now").body, `id="failing-away"`)
	part, _, _ = strings.Cut(part, "</p>")
	if !found || !strings.Contains(part, "connection refused") || !strings.Contains(part, "since") {
		t.Errorf("the page Now says %q", part)
	}
	differs := must(s.admin.Withdrawals(t.Context(), client.WithdrawalFilter{Merchant: "shop", CallBackID: "w-3"}, client.PageOptions{}))(t)
	waits := must(s.admin.Callbacks(t.Context(), client.CallbackFilter{Merchant: "away", TrackingID: "d-1"}, client.PageOptions{}))(t)
	for path, says := range map[string][]string{
		"/console/withdrawals/" + differs.Items[0].ID: {"The merchant has confirmed nothing.", "details differ", "Compare both orders", "amount: “99” was expected, “1.5"},
		"/console/callbacks/" + waits.Items[0].ID:     {"connection refused", "The merchant must run its server"},
	} {
		p := b.get(path)
		for _, text := range says {
			if !strings.Contains(p.body, text) {
				t.Errorf("%s lacks %q\n%s", path, text, p.body)
			}
		}
	}
}
