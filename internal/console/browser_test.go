package console_test

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"countersign/client"
	"countersign/internal/daemon"
	"countersign/internal/demo"
	"countersign/internal/lab/dbtest"
)

// chromium returns the browser, in which each tab has cookies of its own. The test is skipped where there is none, and fails in CI.
func chromium(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: not in a browser")
	}
	dbtest.NotRaced(t, "other tests ask for the same pages, and the browser is a process of its own")
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("chromium is not installed, and CI must have it")
		}
		t.Skip("chromium is not installed: the console is not tested in a browser")
	}
	browser, err := startChromium(path)
	if err != nil {
		t.Fatal(err)
	}
	return browser
}

// stopChromium ends the browser of this run.
var stopChromium = func() {}

var chromiumOnce struct {
	sync.Mutex
	ctx context.Context
}

// startChromium starts the browser for all tests together.
func startChromium(path string) (context.Context, error) {
	chromiumOnce.Lock()
	defer chromiumOnce.Unlock()
	if chromiumOnce.ctx != nil {
		return chromiumOnce.ctx, nil
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(),
		append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox)...)
	ctx, cancel := chromedp.NewContext(allocator)
	stopChromium = func() { cancel(); end() }
	if err := chromedp.Do(ctx); err != nil {
		return nil, err
	}
	chromiumOnce.ctx = ctx
	return ctx, nil
}

// tab is one window of the browser with cookies of its own.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu   sync.Mutex
	said []string // errors and warnings in the browser's log
}

func newTab(t *testing.T, browser context.Context, base string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, base: base}
	if err := chromedp.Do(ctx); err != nil { // the window lives as long as the context of its first step
		t.Fatal(err)
	}
	b.do(chromedp.EmulateViewport(1280, 900))
	messages := chromedp.Console(ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.IsException() || m.Type == "error" || m.Type == "warning" {
				b.mu.Lock()
				b.said = append(b.said, fmt.Sprintf("%s %s %s", m.Type, m.Text, m.URL))
				b.mu.Unlock()
			}
		}
	}()
	t.Cleanup(b.quiet)
	return b
}

// quiet fails if the browser's log has an error. Answers with an error status that the
// test asked for are in the log too.
func (b *tab) quiet() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.said {
		if !strings.Contains(line, "Failed to load resource") {
			b.t.Errorf("the browser's log: %s", line)
		}
	}
	b.said = nil
}

// patience bounds one act in the browser.
const patience = 30 * time.Second

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("%v\n%s", err, b.page())
	}
}

// get returns the value of an expression of JavaScript.
func get[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// page is where the tab is and what it shows.
func (b *tab) page() string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
	return v
}

func (b *tab) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.base + path))
}

// click clicks what leads to another page and waits until that is there.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.on(selector, func(ctx context.Context) error {
		_, err := chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS(selector)))
		return err
	})
}

// on acts on what selector finds. A live page may replace it between the two: then
// nothing was done, and it is done again.
func (b *tab) on(selector string, act func(context.Context) error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	err := act(ctx)
	for err != nil && strings.Contains(err.Error(), "Could not find node with given id") {
		err = act(ctx)
	}
	if err != nil {
		b.t.Fatalf("%s: %v\n%s", selector, err, b.page())
	}
}

// press clicks what changes the page that is there.
func (b *tab) press(selector string) {
	b.t.Helper()
	b.on(selector, func(ctx context.Context) error { return chromedp.Do(ctx, chromedp.Click(chromedp.CSS(selector))) })
}

func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.on(selector, func(ctx context.Context) error {
		return chromedp.Do(ctx, chromedp.SetValue(chromedp.CSS(selector), text))
	})
}

// shows fails unless the page's text has all of these.
func (b *tab) shows(texts ...string) {
	b.t.Helper()
	page := b.page()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			b.t.Errorf("%q is not on the page\n%s", text, page)
		}
	}
}

// lacks fails if the page's text has one of these.
func (b *tab) lacks(texts ...string) {
	b.t.Helper()
	page := b.page()
	for _, text := range texts {
		if strings.Contains(page, text) {
			b.t.Errorf("%q is on the page\n%s", text, page)
		}
	}
}

// await waits until an expression holds.
func (b *tab) await(expression string) {
	b.t.Helper()
	for end := time.Now().Add(patience); !get[bool](b, expression); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("%s does not come true\n%s", expression, b.page())
		}
	}
}

func (b *tab) signIn(token client.Secret) {
	b.t.Helper()
	b.open("/console/signin")
	b.fill("#token", token.Reveal())
	b.click(".signin button")
	b.await(`!!document.querySelector("nav")`)
}

func (b *tab) size(width int64, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.do(chromedp.EmulateViewport(width, 900))
}

//go:embed testdata/axe.min.js
var axe string

// accessible fails if axe-core finds a serious fault of the page. Rules name those to look
// for; none: all.
func (b *tab) accessible(what string, rules ...string) {
	b.t.Helper()
	if !get[bool](b, `!!window.axe`) {
		get[bool](b, axe+"; true")
	}
	only := ""
	if len(rules) > 0 {
		only = `, runOnly: ["` + strings.Join(rules, `", "`) + `"]`
	}
	for _, fault := range get[[]string](b, `axe.run(document, {resultTypes: ["violations"]`+only+`}).then(r => r.violations
		.filter(v => v.impact === "serious" || v.impact === "critical")
		.map(v => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map(n => n.html + " " + n.failureSummary).join(" | ")))`) {
		b.t.Errorf("%s: %s", what, fault)
	}
}

// ends are both ends with the demo's deposits and withdrawals.
type ends struct {
	out              lockedBuffer
	dir              string
	service, gateway string // URLs of the APIs
	links            [2]string
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// stopDemo ends the demo of this run and says how it ended.
var stopDemo = func() error { return nil }

// TestMain ends what playDemo has started.
func TestMain(m *testing.M) {
	os.Exit(dbtest.Run(m, func() error {
		stopChromium()
		return stopDemo()
	}))
}

var linkText = regexp.MustCompile(`(http://[0-9.:]+)/console/link/\w+`)

// playDemo runs the demo for all tests together: it takes ten seconds.
var playDemo = sync.OnceValues(func() (*ends, error) {
	dir, err := os.MkdirTemp("", "countersign-console-")
	if err != nil {
		return nil, err
	}
	e := &ends{dir: filepath.Join(dir, "data")}
	d := demo.New(demo.Config{Dir: e.dir, Bits: 1024, Stay: true, Out: &e.out})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	stopDemo = func() error {
		cancel()
		return errors.Join(<-ended, os.RemoveAll(dir))
	}
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if found := linkText.FindAllStringSubmatch(e.out.String(), -1); len(found) == 2 {
			e.links = [2]string{found[0][0], found[1][0]}
			e.service, e.gateway = found[0][1], found[1][1]
			return e, nil
		}
		select {
		case err := <-ended:
			ended <- nil
			return nil, fmt.Errorf("the demo ended: %w\n%s", err, &e.out)
		default:
		}
	}
	return nil, fmt.Errorf("the demo prints no links\n%s", &e.out)
})

// first is the first token of an end: service or merchant.
func (e *ends) first(t testing.TB, end string) client.Secret {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(e.dir, end, daemon.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	return client.Secret(bytes.TrimSpace(text))
}

func (e *ends) api(t testing.TB, token client.Secret) *client.Service {
	t.Helper()
	c, err := client.NewService(client.Config{URL: e.service, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// token makes a token of the service.
func (e *ends) token(t testing.TB, role client.Role) client.CreatedToken {
	t.Helper()
	made, err := e.api(t, e.first(t, "service")).CreateToken(t.Context(), client.NewToken{Name: t.Name() + " " + string(role), Role: role})
	if err != nil {
		t.Fatal(err)
	}
	return made
}
