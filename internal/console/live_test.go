package console_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"countersign/internal/console"
)

// cachingAPI answers any call with an empty object, but refuses every token from a moment
// on: for 400 ms after a revocation another node still takes the token from its memory, and
// no longer (TestRevokedTokenEndsWithTheCache).
type cachingAPI struct{ refuses time.Time }

const cacheTime = 400 * time.Millisecond

func (a *cachingAPI) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if !a.refuses.IsZero() && !time.Now().Before(a.refuses) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"id": "tok_1", "may": ["stats"], "step": "10s"}`))
}

// TestLiveEndsWithinASecond: a page that is kept up to date ends less than a second after
// its token was revoked on another node, whenever that was. The time is that of the bubble.
func TestLiveEndsWithinASecond(t *testing.T) {
	for after := 10 * time.Millisecond; after < 5*time.Second; after += 70 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			api := &cachingAPI{}
			config := bareConfig
			config.API = api
			c, err := console.NewService(config)
			if err != nil {
				t.Fatal(err)
			}
			post := httptest.NewRequest(http.MethodPost, "/console/signin", strings.NewReader(url.Values{"token": {"cst_test"}}.Encode()))
			post.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			in := httptest.NewRecorder()
			c.ServeHTTP(in, post)
			cookies := in.Result().Cookies()
			if len(cookies) != 1 {
				t.Fatalf("signing in: %d %s", in.Code, in.Body)
			}
			ctx, leave := context.WithTimeout(t.Context(), after+10*time.Second)
			defer leave()
			revoked := time.Now().Add(after)
			api.refuses = revoked.Add(cacheTime)
			live := httptest.NewRequestWithContext(ctx, http.MethodGet, "/console/live/now", nil)
			live.AddCookie(cookies[0])
			out := httptest.NewRecorder()
			c.ServeHTTP(out, live)
			took := time.Since(revoked)
			if !strings.Contains(out.Body.String(), "event: part\n") || !strings.HasSuffix(out.Body.String(), "event: ended\ndata: \n\n") {
				t.Fatalf("revoked after %v: it ends with\n%s", after, out.Body)
			}
			if took >= time.Second {
				t.Errorf("revoked after %v: the page ended %v later", after, took)
			}
		})
	}
}
