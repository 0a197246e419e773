package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
)

// checker is the merchant's check behind --verify-url.
type checker struct {
	*httptest.Server
	status atomic.Int64
	answer atomic.Value // a text
	asked  atomic.Int64
	now    func() time.Time
}

func newChecker(t *testing.T) *checker {
	c := &checker{}
	c.status.Store(http.StatusOK)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.asked.Add(1)
		body, _ := io.ReadAll(r.Body)
		if err := verifies(r.Header, body, c.now()); err != nil {
			t.Error(err)
		}
		var q client.DepositQuestion
		err := json.Unmarshal(body, &q)
		want := countersigntest.Deposit(1)
		if err != nil || q.Type != client.MessageDepositVerify || q.Data.TrackingID != want.TrackingID || !q.Data.Amount.Equal(want.Amount) ||
			q.Data.TxID != want.TxID || q.Data.TxIndex != want.TxIndex || q.Data.ToAddress != want.ToAddress || q.Data.TenantUserID != want.TenantUserID {
			t.Errorf("the question is %s, %v", body, err)
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(int(c.status.Load()))
		_, _ = io.WriteString(w, c.answer.Load().(string))
	}))
	t.Cleanup(c.Close)
	return c
}

// TestVerifying: a deposit is in the feed only after the check has said yes, and
// nothing but a complete and right answer is one.
func TestVerifying(t *testing.T) {
	c := newChecker(t)
	eachRig(t, func(g *Config) { g.Verify = Verifying{URL: c.URL, Secret: testSecret, For: time.Hour} }, func(t *testing.T, r *rig) {
		c.now = r.clock.now
		feed := func(want int) {
			t.Helper()
			if list := must(r.client.Deposits(t.Context(), client.FeedOptions{}))(t); len(list.Items) != want {
				t.Errorf("%d deposits in the feed, want %d", len(list.Items), want)
			}
		}
		deposit := countersigntest.Deposit(1)
		says := func(status int, answer string, want countersign.ErrCode) {
			t.Helper()
			c.status.Store(int64(status))
			c.answer.Store(answer)
			if code := r.deliver(deposit); code != want {
				t.Errorf("status %d and %.60q: errCode %d, want %d", status, answer, code, want)
			}
		}
		for _, answer := range []string{`{"verdict":"not_yet"}`, `{"verdict":"not_yet","reason":"3 of 12 confirmations"}`, ``, `yes`, `"yes"`, `{}`,
			`{"verdict":true}`, `{"verdict":"YES"}`, `{"Verdict":"yes"}`, `{"verdict":"no","verdict":"yes"}`, `{"verdict":"yes","verdict":"yes"}`,
			`{"verdict":"yes","amount":"1"}`, `{"verdict":"yes","reason":7}`, `{"verdict":"yes"}{}`, `{"verdict":"yes"`, `[{"verdict":"yes"}]`,
			`{"verdict":"yes"}` + strings.Repeat(" ", verifyLimit)} {
			says(http.StatusOK, answer, countersign.CodeNotKnownYet)
		}
		for _, status := range []int{201, 204, 302, 307, 401, 404, 500, 503} {
			says(status, `{"verdict":"yes"}`, countersign.CodeNotKnownYet)
		}
		feed(0)
		says(http.StatusOK, `{"verdict":"no","reason":"no\u001b such\nlog"}`, countersign.CodeRefusedPolicy)
		feed(0)
		r.clock.advance(time.Hour)
		says(http.StatusOK, `{"verdict":"not_yet"}`, countersign.CodeRefusedPolicy)
		r.wantRefused(map[client.RefusalReason]int64{"disproved": 1, "unverified": 1})
		r.wantAlarms(client.AlarmDepositRefused, client.AlarmDepositRefused) // disproved, and unverified
		asked := c.asked.Load()
		says(http.StatusOK, `{"verdict":"yes"}`, 0)
		says(http.StatusOK, `{"verdict":"no"}`, 0) // a repetition is not asked about
		if got := c.asked.Load() - asked; got != 1 {
			t.Errorf("asked %d times, want once", got)
		}
		feed(1)
		if log := r.log.String(); strings.Contains(log, c.URL) || strings.Contains(log, string(testSecret)) || strings.Contains(log, "\x1b") {
			t.Error("the log holds the URL, the secret or a control character")
		}
	})
}

// TestVerifyingAway: a check that cannot be reached, or hangs, holds deposits.
func TestVerifyingAway(t *testing.T) {
	free := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-free }))
	defer slow.Close()
	defer close(free)
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, url := range []string{slow.URL, gone.URL} {
		r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), func(g *Config) {
			g.Verify = Verifying{URL: url, Secret: testSecret, Timeout: 50 * time.Millisecond}
		})
		r.answers(countersigntest.Deposit(1), countersign.CodeNotKnownYet)
		if strings.Contains(r.log.String(), strings.TrimPrefix(url, "http://")) && url == slow.URL {
			t.Errorf("the log names the URL:\n%s", r.log)
		}
	}
}
