package demo

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"countersign"
)

// useTryPage tries the page of a demo that stays. It sends every type and every fault, shows both sides, and takes no
// form of another site and no other name.
func useTryPage(t *testing.T, d *Demo, page string) {
	t.Helper()
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	call := func(form url.Values, header ...string) (int, string) {
		t.Helper()
		method := http.MethodPost
		if form == nil {
			method = http.MethodGet
		}
		r := must(http.NewRequest(method, page, strings.NewReader(form.Encode())))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for i := 0; i+1 < len(header); i += 2 {
			if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
				r.Host = header[i+1]
			}
		}
		resp := must(web.Do(r))
		defer func() { _ = resp.Body.Close() }()
		text := string(must(io.ReadAll(resp.Body)))
		for _, secret := range []string{d.apiKey.Reveal(), d.key.PublicBase64()} {
			if strings.Contains(html.UnescapeString(text), secret) {
				t.Error("the page shows a secret")
			}
		}
		return resp.StatusCode, text
	}
	// Before the first click it shows an exchange, made once, and says what each fault is for.
	status, text := call(nil)
	if status != http.StatusOK || !strings.Contains(text, "<h1>Try it</h1>") {
		t.Fatalf("%d\n%s", status, text)
	}
	_, again := call(nil)
	for _, want := range []string{"An example: this deposit was sent", "judged     accepted", "callback 1: POST"} {
		if !strings.Contains(text, want) || !strings.Contains(again, want) {
			t.Errorf("no %q before the first click:\n%s\n%s", want, text, again)
		}
	}
	for _, f := range tryFaults() {
		if row := "<td><code>" + string(f) + "</code></td><td>" + html.EscapeString(f.About()) + "</td><td>"; !strings.Contains(strings.ReplaceAll(text, "&#43;", "+"), row) {
			t.Errorf("the page does not say what %s is for", f)
		}
	}
	for _, label := range regexp.MustCompile(`(?s)<label>.*?</label>`).FindAllString(text, -1) {
		if strings.Contains(label, d.handover) {
			t.Errorf("a label holds a path: %s", label)
		}
	}
	form := func(pairs ...string) url.Values {
		v := url.Values{"type": {"1"}, "user": {"75746"}, "callBackId": {"try-1"}, "order": {"1"}}
		for i := 0; i+1 < len(pairs); i += 2 {
			v.Set(pairs[i], pairs[i+1])
		}
		return v
	}
	shows := func(v url.Values, want ...string) {
		t.Helper()
		status, text := call(v)
		for _, w := range want {
			if status != http.StatusOK || !strings.Contains(html.UnescapeString(text), w) {
				t.Errorf("%v: no %q\n%d %s", v, w, status, text[max(0, strings.Index(text, "</form>")):])
			}
		}
	}
	for _, typ := range countersign.TypeUnknown.Values() {
		shows(form("type", string(rune('0'+typ))), "judged     accepted", "binding    holds")
	}
	shows(form("type", "2", "callBackId", "try-2", "order", ""), "judged     hold", "errCode: 3002")
	for _, f := range tryFaults() {
		if strings.Contains(string(f), "api-key") { // the demo's merchant wants none
			shows(form("fault", string(f)), "needs the callback API key")
			continue
		}
		want := "judged     accepted"
		if f.Refused() {
			want = "it is right that this was refused"
		}
		shows(form("fault", string(f)), want, "callback ")
	}
	shows(form("members", "amount:=-1\nmemo:=\"<script>\""), `"amount":-1`, "errCode: 1002", `"memo":"<script>"`)
	shows(form("members", "nothing"), "is not NAME=VALUE or NAME:=JSON")
	shows(form("to", "http://192.0.2.7"), "not an address of this machine or a private network")
	shows(form("to", d.gateway.CallbackURL()), "judged     accepted", "in its own log")
	if _, text = call(form("members", "memo=\"<script>\"")); strings.Contains(text, "<script>") {
		t.Error("the page runs what it is given")
	}
	for _, strange := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "http://evil.example"}, {"Host", "evil.example"}} {
		if status, _ := call(form(), strange...); status < 400 {
			t.Errorf("%v: %d", strange, status)
		}
	}
	if b, err := os.ReadFile(filepath.Join(d.handover, "public.b64")); err != nil || strings.TrimSpace(string(b)) != d.key.PublicBase64() {
		t.Errorf("the key that is handed over is another one, %v", err)
	}
}
