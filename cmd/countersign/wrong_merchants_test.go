package main

import (
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/internal/db"
	"countersign/merchant"
)

const shopAPIKey countersign.APIKey = "the-api-key-of-the-shop"

const foreignKey = "the-api-key-of-somebody-else"

// wrongMerchant is a merchant with one fault, and what the service says of it. Without a fault nobody is there.
type wrongMerchant struct {
	name      string
	fault     countersigntest.MerchantFault
	old, with string           // or what stands in its answers in place of what old matches,
	page      http.HandlerFunc // or what it says to everything
	typ       countersign.Type // 0: a deposit
	reason    client.Reason
	facts     string   // a part of what is shown
	logged    []string // parts of the line of the log
}

var wrongMerchants = []wrongMerchant{
	{name: "refused", reason: client.ReasonConnect, facts: "connection refused", logged: []string{`cause="connection refused"`}},
	{name: "slow", fault: countersigntest.FaultHang, reason: client.ReasonTimeout, facts: "the time ran out before a response came"},
	{name: "redirect", reason: client.ReasonStatus, facts: "HTTP 302 Found, to elsewhere.example/pay",
		logged: []string{`cause="HTTP 302 Found, to elsewhere.example/pay"`},
		page:   http.RedirectHandler("https://user:hunter2@elsewhere.example/pay?token=hunter2", http.StatusFound).ServeHTTP},
	{name: "status", reason: client.ReasonStatus, facts: "HTTP 500 Internal Server Error: stack trace of the shop [apiKey] came",
		page: pageOf(http.StatusInternalServerError, "stack trace of the shop "+shopAPIKey.Reveal())},
	{name: "huge", fault: countersigntest.FaultForever, reason: client.ReasonTooLarge, facts: "the body is longer than 65536 bytes"},
	{name: "text", reason: client.ReasonResponseMalformed, facts: "not a JSON object: Welcome to the shop came",
		page: pageOf(http.StatusOK, "<h1>Welcome to the shop</h1>")},
	{name: "missing", typ: countersign.TypeRequestWithdraw, reason: client.ReasonDataUnreadable, facts: "amount is missing",
		logged: []string{`member=amount`, `cause="is missing"`}, old: `,"amount":"[^"]*"|"amount":"[^"]*",`},
	{name: "null", fault: countersigntest.FaultNoAmount, typ: countersign.TypeRequestWithdraw, reason: client.ReasonDataUnreadable, facts: "amount is null"},
	{name: "amount", fault: countersigntest.FaultDetailsDiffer, typ: countersign.TypeRequestWithdraw, reason: client.ReasonDetailsDiffer,
		facts: "amount: “2.5” was expected, “", logged: []string{`member=amount`}},
	{name: "address", reason: client.ReasonAnswerDiffers, facts: "toAddress: “" + countersigntest.Deposit(1).ToAddress + "” was expected, “TElsewhere” came",
		logged: []string{`member=toAddress`}, old: countersigntest.Deposit(1).ToAddress, with: "TElsewhere"},
	{name: "user", fault: countersigntest.FaultOtherUser, reason: client.ReasonAnswerDiffers, facts: "tenantUserId: “" + countersigntest.Deposit(1).TenantUserID + "” was expected"},
	{name: "uuid", reason: client.ReasonOtherAttempt, facts: "came", logged: []string{`member=requestUUID`, `came=00000000-0000-8000-8000-00000000000`},
		old: `"requestUUID":"[^"]*"`, with: `"requestUUID":"00000000-0000-8000-8000-000000000001"`},
	{name: "seal", fault: countersigntest.FaultCutData, reason: client.ReasonDataEncoding, facts: "data is not "},
	{name: "other-key", fault: countersigntest.FaultOtherSeal, reason: client.ReasonDataUnreadable, facts: "data does not open with the response key"},
	{name: "api-key", reason: client.ReasonWrongAPIKey, facts: "apiKey is not the merchant's", page: refusalOf(foreignKey, "no")},
	{name: "err-code", fault: countersigntest.FaultTextErrCode, reason: client.ReasonResponseMalformed, facts: "errCode is not a whole number: a text came",
		logged: []string{`member=errCode`, `came="a text"`}},
	{name: "message", reason: client.ReasonMerchantRefused, facts: "the merchant says: “our compliance  refuses [apiKey]”", logged: []string{`message="our compliance  refuses [apiKey]"`},
		page: refusalOf(shopAPIKey, "our compliance\x1b\nrefuses "+shopAPIKey.Reveal())},
}

func pageOf(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, status) }
}

func refusalOf(key countersign.APIKey, message string) http.HandlerFunc {
	body := must(countersign.Response{APIKey: key, ErrCode: countersign.CodeRefusedPolicy, Message: message}.Marshal())
	return pageOf(http.StatusOK, string(body))
}

// start runs m and gives where it listens. key is the merchant's part of the pair, own the service's.
func (m *wrongMerchant) start(t *testing.T, key, own *envelope.Key) (url string) {
	t.Helper()
	honest := must(countersigntest.MakeMerchant(countersigntest.MerchantConfig{Key: key, APIKey: shopAPIKey, Orders: countersigntest.SampleOrders,
		Fault: func(int, countersign.Callback) countersigntest.MerchantFault { return m.fault }}))
	t.Cleanup(honest.Close)
	handler := http.Handler(honest)
	switch {
	case m.page != nil:
		handler = m.page
	case m.old != "":
		handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			right := httptest.NewRecorder()
			honest.ServeHTTP(right, r)
			response := must(countersign.ParseResponse(right.Body.Bytes()))
			answer := regexp.MustCompile(m.old).ReplaceAll(must(envelope.Open(own, envelope.PKCS1v15, []byte(response.Data))), []byte(m.with))
			response.Data = string(must(envelope.Seal(key, envelope.PKCS1v15, answer)))
			_, _ = w.Write(must(response.Marshal()))
		})
	}
	s := httptest.NewServer(handler)
	if m.fault == "" && m.page == nil && m.old == "" { // nobody is there
		s.Close()
	}
	t.Cleanup(s.Close)
	return s.URL
}

// TestWrongMerchants: of each way in which a merchant can be wrong the API, the log, the shell
// and the merchant's page say what it must mend, and none has a key.
func TestWrongMerchants(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	token := ""
	dir := t.TempDir()
	service, stop, err := startService(daemon.ServiceConfig{Common: daemon.Common{Storage: daemon.Storage{Dir: dir},
		ShowToken: func(first, _ string) { token = first }, Log: slog.New(slog.NewTextHandler(&log, nil))}, ExchangeTimeout: time.Second})
	ok(t, err)
	defer func() { ok(t, stop()) }()
	ctx := t.Context()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	call := func(token client.Secret) *client.Service {
		return must(client.NewService(client.Config{URL: service.URL(), Token: token, HTTPClient: &http.Client{Transport: transport}}))
	}
	admin := call(client.Secret(token))
	viewer := call(must(admin.CreateToken(ctx, client.NewToken{Name: "viewer", Role: client.RoleViewer})).Secret)
	key, private := pairOf(t)
	own := must(envelope.ParseKey([]byte(private)))
	ids := map[string]string{}
	d, w := countersigntest.Deposit(1), countersigntest.Withdrawal(1)
	order := countersigntest.Order(1)
	for i := range wrongMerchants {
		m := &wrongMerchants[i]
		url := m.start(t, key, own)
		must(admin.CreateMerchant(ctx, client.NewMerchant{ID: m.name, Key: &client.KeySpec{PrivateKey: client.Secret(private)},
			MerchantSettings: client.MerchantSettings{FinalCodes: client.ProtocolCodes(), Name: m.name, NotifyURL: url + merchant.DefaultNotifyPath, WithdrawURL: url + merchant.DefaultWithdrawPath},
			MerchantSecrets:  client.MerchantSecrets{APIKey: client.Secret(shopAPIKey.Reveal())}}))
		if m.typ == countersign.TypeRequestWithdraw {
			ids[m.name] = must(admin.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: m.name, CallBackID: w.CallBackID, TenantUserID: w.TenantUserID,
				Details: &order})).Callback
			continue
		}
		ids[m.name] = must(admin.AddDeposits(ctx, client.NewDeposit{Merchant: m.name, TrackingID: d.TrackingID, TenantUserID: d.TenantUserID, TxID: d.TxID,
			ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount, FromAddress: d.FromAddress, ToAddress: d.ToAddress, TxIndex: d.TxIndex}))[0].ID
	}
	tokenFile := filepath.Join(dir, "first.token")
	ok(t, os.WriteFile(tokenFile, []byte(token), 0o600))
	page := signedIn(t, service.URL(), token)
	for _, m := range wrongMerchants {
		var shown client.Attempt
		waitUntil(t, m.name+": "+m.facts, log.String, func() bool {
			for _, a := range must(admin.Callback(ctx, ids[m.name])).Attempts { // on a slow machine another may have timed out
				if a.Facts != nil && strings.Contains(a.Facts.Text(), m.facts) {
					shown = a
					return true
				}
				if a.Reason == m.reason {
					t.Fatalf("%s: %+v", m.name, a.Facts)
				}
			}
			return false
		})
		if shown.Reason != m.reason {
			t.Errorf("%s: reason %s", m.name, shown.Reason)
		}
		others, err := viewer.Callback(ctx, ids[m.name])
		if err != nil || others.Attempts[shown.Number-1].Facts == nil {
			t.Errorf("%s: a viewer sees %+v, %v", m.name, others.Attempts, err)
		}
		for _, secret := range []string{shopAPIKey.Reveal(), foreignKey, "hunter2"} {
			if text := shown.Facts.Text(); strings.Contains(text, secret) {
				t.Errorf("%s: %q is in %q", m.name, secret, text)
			}
		}
		line := ""
		waitUntil(t, m.name+": its line of the log", log.String, func() bool {
			for l := range strings.Lines(log.String()) {
				if strings.Contains(l, "msg=attempt") && strings.Contains(l, "merchant="+m.name+" ") && strings.Contains(l, "reason="+string(m.reason)) {
					line = l
				}
			}
			return line != ""
		})
		for _, want := range append(m.logged, "level=INFO") {
			if !strings.Contains(line, want) {
				t.Errorf("%s: no %s in %s", m.name, want, line)
			}
		}
	}
	// look returns where nothing is said of whom. On a slow machine the newest attempt of one may have timed out.
	look := func() (silent []string) {
		// Each has failed for longer than ten minutes.
		must(service.Outbox().Sweep(ctx, db.MillisOf(time.Now().Add(11*time.Minute))))
		alarms := map[string]string{}
		for _, a := range must(admin.Alarms(ctx, client.AlarmFilter{}, client.PageOptions{Limit: 100})).Items {
			alarms[a.Merchant] += strings.Join(a.Examples, "\n")
		}
		alarmPage, now := page("/console/alarms"), page("/console/now")
		for _, m := range wrongMerchants {
			var shown client.Merchant
			mustShell(t, &shown, "", "merchants", "show", m.name, "--api", service.URL(), "--token", "@"+tokenFile)
			for where, text := range map[string]string{
				"the shell":         shown.Health.LastFailure.Facts.Text(), // of the members that it prints
				"the merchant page": page("/console/merchants/" + m.name),
				"the alarm":         alarms[m.name],
				"the alarm page":    alarmPage,
				"the page Now":      now,
			} {
				// Of another amount the withdrawal is declined, and its merchant is well otherwise.
				if !strings.Contains(text, m.facts) && !(where == "the page Now" && m.name == "amount") {
					silent = append(silent, where+" does not say of "+m.name+": "+m.facts)
				}
				for _, secret := range []string{shopAPIKey.Reveal(), foreignKey, "hunter2"} {
					if strings.Contains(text, secret) {
						t.Errorf("%s has %q", where, secret)
					}
				}
			}
		}
		return silent
	}
	var silent []string
	waitUntil(t, "everything is said", func() string { return strings.Join(silent, "\n") }, func() bool {
		silent = look()
		return len(silent) == 0
	})
	for _, secret := range []string{shopAPIKey.Reveal(), foreignKey, "hunter2", d.ToAddress, d.TenantUserID, order.Address, "amount=", d.Amount.String() + " "} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

// signedIn signs in to a console and gives its pages as text.
func signedIn(t *testing.T, base, token string) func(path string) string {
	t.Helper()
	jar := must(cookiejar.New(nil))
	c := &http.Client{Jar: jar, Transport: &http.Transport{}}
	t.Cleanup(c.CloseIdleConnections)
	send := func(method, path string, form url.Values) string {
		t.Helper()
		req := must(http.NewRequest(method, base+path, strings.NewReader(form.Encode())))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", base)
		resp := must(c.Do(req))
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %s, %v\n%s", method, path, resp.Status, err, b)
		}
		return html.UnescapeString(string(b))
	}
	send(http.MethodPost, "/console/signin", url.Values{"token": {token}})
	return func(path string) string { t.Helper(); return send(http.MethodGet, path, nil) }
}
