package console

import "testing"

// TestRetype: the form that was refused has what was typed, as text, and is open; others and what
// nobody types are as they were.
func TestRetype(t *testing.T) {
	o := refused{Problems: []string{"x"}, At: "/a/b%20c/d", Typed: map[string]string{"reason": `"><script>`, "text": "</textarea>\nx", "hidden": "other", "box": "other", "none": "x"}}
	page := `<details class="act"><summary>1</summary><form method="post" action="/a/other"><input name="reason"></form></details>` +
		`<details class="act small"><summary>2</summary><form method="post" action="/a/b%20c/d" class="f"><input type="hidden" name="hidden" value="1"><input id="r" name="reason" value="was" required>` +
		`<textarea id="t" name="text" rows="3">was</textarea><input type="checkbox" name="box" value="1"><input name="untyped" value="2"></form></details>`
	want := `<details class="act"><summary>1</summary><form method="post" action="/a/other"><input name="reason"></form></details>` +
		`<details open class="act small"><summary>2</summary><form method="post" action="/a/b%20c/d" class="f"><input type="hidden" name="hidden" value="1"><input id="r" name="reason" required value="&#34;&gt;&lt;script&gt;">` +
		"<textarea id=\"t\" name=\"text\" rows=\"3\">\n&lt;/textarea&gt;\nx</textarea>" + `<input type="checkbox" name="box" value="1"><input name="untyped" value="2"></form></details>`
	if got := string(o.retype([]byte(page))); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for _, o := range []refused{{}, {At: "/a/other"}, {Problems: []string{"x"}, At: "/none"}} {
		if got := string(o.retype([]byte(page))); got != page {
			t.Errorf("%+v changes it: %s", o, got)
		}
	}
	open := `<details class="act" open><form method="post" action="/x"></form></details>`
	if got := string(refused{Problems: []string{"x"}, At: "/x"}.retype([]byte(open))); got != `<details open class="act"><form method="post" action="/x"></form></details>` {
		t.Error(got)
	}
	plain := `<details class="act"></details><form method="post" action="/x"></form>`
	if got := string(refused{Problems: []string{"x"}, At: "/x"}.retype([]byte(plain))); got != plain {
		t.Error(got)
	}
}
