package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestMalformedQuery: a filter that is malformed is refused by its name. Before, it was
// left out, and everything was listed.
func TestMalformedQuery(t *testing.T) {
	type filter struct {
		Merchant string `query:"merchant"`
	}
	e := newEnd(t, Route{Method: "GET", Path: "/act", ID: "act", Roles: Open, Status: 200,
		Handler: Handle(func(_ *Call, q filter, _ None) (string, error) { return q.Merchant, nil })})
	for query, want := range map[string]int{
		"merchant=sh%op": 400, "merchant=o1;x": 400, "merchant=o1;x=2": 400, "merchant=a&merch%ant=b": 400, "merchant=%": 400,
		"merchant=sh%25op": 200, "merchant=o1%3Bx": 200, "": 200, "&merchant=a&": 200, "shop=a": 422,
	} {
		r, w := httptest.NewRequest("GET", "/act", nil), httptest.NewRecorder()
		r.URL.RawQuery = query
		e.Mux().ServeHTTP(w, r)
		if w.Code != want || want == http.StatusBadRequest && !strings.Contains(w.Body.String(), `"query.merch`) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}
