package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"countersign/client"
)

// TestViews: a filter with a name is offered on its list and nowhere else, to the token that saved
// it and no other, and no more than a browser keeps.
func TestViews(t *testing.T) {
	base, first := node(t, nil)
	admin := serviceAPI(t, base, first)
	s := newSite(t, base).signIn(first)
	save := func(path, query, name string, more ...string) page {
		t.Helper()
		form := url.Values{"path": {path}, "query": {query}, "name": {name}}
		for i := 0; i < len(more); i += 2 {
			form.Set(more[i], more[i+1])
		}
		return s.do("POST", "/console/views", form, "Referer", base+path)
	}
	const list = "/console/callbacks"
	if p := save(list, "since=12h&state=refused&cursor=x&did=paused&format=csv&merchant=", "  refused\ntoday "); p.status != http.StatusSeeOther || p.to() != list+"?since=12h&state=refused&did=view-saved" {
		t.Fatalf("%d %s", p.status, p.to())
	}
	if p := save(list, "tenantUserId=%3Cb+id%3Devil%3E", ""); p.status != http.StatusSeeOther {
		t.Fatal(p.status)
	}
	p := s.get(list)
	for _, want := range []string{`href="/console/callbacks?since=12h&amp;state=refused"`, "refused today", "&lt;b id=evil&gt;"} {
		if !strings.Contains(p.body, want) {
			t.Errorf("no %q in\n%s", want, p.body)
		}
	}
	if strings.Contains(p.body, "<b id=evil>") {
		t.Error("a name became markup")
	}
	if p := s.get(list + "?state=refused&since=12h"); !strings.Contains(p.body, "Remove this view") || strings.Contains(p.body, "Save this view") {
		t.Errorf("the view is not known\n%s", p.body)
	}
	if p := s.get(list + "?state=refused"); !strings.Contains(p.body, "Save this view") {
		t.Error("a filter cannot be saved")
	}
	if p := s.get("/console/withdrawals"); strings.Contains(p.body, "refused today") {
		t.Error("another list has the view")
	}
	// The same name is the same view.
	save(list, "state=exhausted", "refused today")
	if p := s.get(list); strings.Count(p.body, "refused today") != 1 || !strings.Contains(p.body, `href="/console/callbacks?state=exhausted"`) {
		t.Errorf("%s", p.body)
	}
	problem := func(p page, want string) {
		t.Helper()
		if p.status != http.StatusSeeOther || !strings.Contains(s.get(p.to()).body, want) {
			t.Errorf("%d %s, want %q", p.status, p.to(), want)
		}
	}
	problem(save("/console/tokens", "a=b", "x"), "There is no such list")
	problem(save("https://elsewhere.example/", "a=b", "x"), "There is no such list")
	problem(save(list, "a=%zz", "x"), "There is no such list")
	problem(save(list, "merchant=", "x"), "Nothing is filtered")
	problem(save(list, "a=b", strings.Repeat("ü", 61)), "The name is too long")
	save(list, "a=b", strings.Repeat("ü", 60))
	n := 3
	for ; n < 20; n++ {
		if p := save(list, fmt.Sprint("merchant=", n), fmt.Sprint("view ", n)); !strings.Contains(p.to(), "did=view-saved") {
			t.Fatalf("view %d: %s", n, s.get(p.to()).body)
		}
	}
	problem(save(list, "merchant=more", "more"), "There are 20 views already")
	for ; n > 3; n-- {
		save(list, fmt.Sprint("merchant=", n-1), "", "remove", "yes")
	}
	// Long filters fill the cookie before that.
	filled := false
	for i := 0; i < 17 && !filled; i++ {
		p := save(list, fmt.Sprint("trackingId=", i, strings.Repeat("x", 400)), fmt.Sprint("long ", i))
		filled = !strings.Contains(p.to(), "did=view-saved")
		if filled {
			problem(p, "A browser keeps no more of them")
		}
	}
	if !filled {
		t.Error("no bound")
	}
	// Another token in this browser has none of them.
	other, err := admin.CreateToken(t.Context(), client.NewToken{Name: "other", Role: client.RoleViewer})
	if err != nil {
		t.Fatal(err)
	}
	s.signIn(other.Secret)
	if p := s.get(list); strings.Contains(p.body, "refused today") {
		t.Error("another token sees the views")
	}
	s.signIn(first)
	if p := s.get(list); !strings.Contains(p.body, "refused today") {
		t.Error("the views are gone")
	}
}
