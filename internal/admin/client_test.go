package admin

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"countersign/internal/store"
)

// Every operation has a method of its name.
func TestClientHasEveryOperation(t *testing.T) {
	h := sqlite(t)
	c := reflect.TypeFor[*Client]()
	for _, rt := range h.server.api.Endpoints() {
		found := false
		for m := range c.Methods() {
			found = found || strings.EqualFold(m.Name, rt.ID)
		}
		if !found {
			t.Errorf("the client lacks %s", rt.ID)
		}
	}
}

func TestClientOfOpenRoutes(t *testing.T) {
	h := sqlite(t)
	c, err := NewClient(h.url+"/", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Healthz(t.Context()), c.Readyz(t.Context())); err != nil {
		t.Error(err)
	}
	if doc, err := c.OpenAPI(t.Context()); err != nil || !strings.Contains(string(doc), `"openapi":"3.1.0"`) {
		t.Errorf("%.100s, %v", doc, err)
	}
	if _, err := c.Stats(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "401 Unauthorized: a valid token") {
		t.Errorf("without a token: %v", err)
	}
	if _, err := h.client(store.RoleViewer).Merchant(t.Context(), "../tokens"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an id with a path in it: %v", err)
	}
	if _, err := h.client(store.RoleIngest).AddDeposits(t.Context()); err == nil || !strings.Contains(err.Error(), "body has 0 items") {
		t.Errorf("no deposits: %v", err)
	}
}

func TestNewClientRefuses(t *testing.T) {
	for _, base := range []string{"", "127.0.0.1:8080", "ftp://a/", "http://", "http://user:pass@a/", "http://a/?x=1", "http://a:b/"} {
		if _, err := NewClient(base, "x", nil); err == nil {
			t.Errorf("%q: no error", base)
		} else if strings.Contains(err.Error(), "pass") {
			t.Errorf("%q: the error shows it", base)
		}
	}
}

// Answers that are not the API's: a proxy's page, half an answer, none.
func TestClientMeetsOthers(t *testing.T) {
	answer := func(w http.ResponseWriter, _ *http.Request) {}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r) }))
	defer srv.Close()
	c, err := NewClient(srv.URL, "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, "<html>")
	}
	var p *Problem
	if _, err := c.Stats(t.Context()); !errors.As(err, &p) || p.Status != 502 || p.Title != "Bad Gateway" {
		t.Errorf("%v", err)
	}
	answer = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"lanes":[`) }
	if _, err := c.Stats(t.Context()); err == nil || !strings.Contains(err.Error(), "reading the answer") {
		t.Errorf("%v", err)
	}
	answer = func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"line":1,"id":"a.b","trackingId":"dep-1","state":"pending"}`+"\n"+`{"line":2,`)
	}
	n := 0
	var last error
	for _, err := range c.StreamDeposits(t.Context(), deposits(1, 2)) {
		if last = err; err == nil {
			n++
		}
	}
	if n != 1 || last == nil {
		t.Errorf("%d lines, then %v; want 1, then an error", n, last)
	}
	srv.Close()
	for _, err := range c.StreamDeposits(t.Context(), deposits(1, 1)) {
		if err == nil {
			t.Error("no error without a server")
		}
	}
	for _, err := range c.AllMerchants(t.Context()) {
		if err == nil {
			t.Error("no error without a server")
		}
	}
	for _, err := range c.FollowDecisions(t.Context(), 0) {
		if err == nil {
			t.Error("no error without a server")
		}
	}
}
