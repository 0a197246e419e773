package console_test

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"countersign/client"
	"countersign/internal/lab/dbtest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // they wait for a browser and for daemons more than they compute
	os.Exit(dbtest.Run(m))
}

// chromium starts a browser for a test and its parts. The test is skipped where there is none, and fails in CI.
func chromium(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: not in a browser")
	}
	dbtest.NotRaced(t, "the browser is a process of its own")
	path, err := exec.LookPath("chromium-headless-shell") // takes two thirds of the other's processor time
	if err != nil {
		path, err = exec.LookPath("chromium")
	}
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("neither chromium-headless-shell nor chromium is installed, and CI must have one")
		}
		t.Skip("neither chromium-headless-shell nor chromium is installed: the console is not tested in a browser")
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(),
		append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox)...)
	t.Cleanup(end)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	ok(t, chromedp.Do(ctx))
	return ctx
}

// tab is one window of the browser with cookies of its own.
type tab struct {
	t     *testing.T
	ctx   context.Context
	base  string
	width int64 // of its window
}

func newTab(t *testing.T, browser context.Context, base string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, base: base}
	if err := chromedp.Do(ctx); err != nil { // the window lives as long as the context of its first step
		t.Fatal(err)
	}
	b.size(desk)
	var mu sync.Mutex
	var said []string // errors and warnings in the browser's log
	messages := chromedp.Console(ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			// Answers with an error status that the test asked for are in the log too.
			if (m.IsException() || m.Type == "error" || m.Type == "warning") && !strings.Contains(m.Text, "Failed to load resource") {
				mu.Lock()
				said = append(said, fmt.Sprintf("%s %s %s", m.Type, m.Text, m.URL))
				mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		if len(said) > 0 {
			t.Errorf("the browser's log: %q", said)
		}
	})
	return b
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
		b.t.Fatalf("%.300s: %v", expression, err)
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

// on acts on what selector finds. A live page may replace it between the two: then nothing was done, and it is done
// again.
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

// fill sets fields by their selectors.
func (b *tab) fill(fields map[string]string) {
	b.t.Helper()
	for selector, text := range fields {
		b.on(selector, func(ctx context.Context) error {
			return chromedp.Do(ctx, chromedp.SetValue(chromedp.CSS(selector), text))
		})
	}
}

// send opens the form that posts to an address that ends so, if it is folded, fills it in and sends it.
func (b *tab) send(action string, fields map[string]string) {
	b.t.Helper()
	form := `form[action$="` + action + `"]`
	if get[bool](b, `!!document.querySelector('details:not([open]) `+form+`')`) {
		b.press(`details:has(` + form + `) > summary`)
	}
	named := map[string]string{}
	for name, text := range fields {
		named[form+` [name="`+name+`"]`] = text
	}
	b.fill(named)
	b.click(form + " button")
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

// await waits until an expression holds, across pages, on whose way there is no document.
func (b *tab) await(expression string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) { // each look costs the browser something
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		cancel()
		if err == nil && is {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s does not come true: %v\n%s", expression, err, b.page())
		}
	}
}

// back goes back. Where the page before is the answer to a post, the browser asks whether to post again.
func (b *tab) back() {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.NavigateBack()); err != nil && !strings.Contains(err.Error(), "ERR_CACHE_MISS") {
		b.t.Fatal(err)
	}
	b.await(`document.readyState === "complete"`)
}

func (b *tab) signIn(token client.Secret) *tab {
	b.t.Helper()
	b.open("/console/signin")
	b.fill(map[string]string{"#token": token.Reveal()})
	b.click(".signin button")
	b.await(`!!document.querySelector("nav")`)
	return b
}

// size makes the window of a desk, which is light, or of a telephone, which is dark.
func (b *tab) size(width int64) {
	b.t.Helper()
	if b.width == width {
		return
	}
	b.width = width
	scheme := map[bool]string{true: "dark", false: "light"}[width == phone]
	must(chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))(b.t)
	b.do(chromedp.EmulateViewport(width, 900))
}

const desk, phone = 1280, 390

//go:embed testdata/axe.min.js
var axe string

// seen is what a page shows in a window.
type seen struct {
	Text   string
	Became bool     // text became markup or code
	Turned int      // elements with characters that turn the text around
	Over   int      // pixels by which the page is wider than the window
	Hidden int      // pixels by which a table is wider than its place
	Faults []string // what has too little contrast, and what axe-core calls serious
}

// look looks at the page in a window. axe-core looks at it too if it is to be accessible: on a telephone by all its
// rules but that of colours, and in the whole check on a desk for what another width can break.
func (b *tab) look(width int64, accessible bool) (s seen) {
	b.t.Helper()
	b.size(width)
	s = get[seen](b, `({
		Text: document.body.textContent,
		Became: !!document.getElementById("evil") || typeof window.evil !== "undefined",
		Turned: [...document.querySelectorAll("main bdi, main span, main pre, main td")].filter(e => /[\u202a-\u202e\u2066-\u2069\u200b-\u200f]/.test(e.textContent)).length,
		Over: document.documentElement.scrollWidth - innerWidth,
		Hidden: Math.max(0, ...[...document.querySelectorAll(".scroll")].map(e => e.scrollWidth - e.clientWidth)),
	})`)
	s.Faults = get[[]string](b, contrast)
	if !accessible || width == desk && !dbtest.IsWhole() {
		return s
	}
	if !get[bool](b, `!!window.axe`) {
		get[bool](b, axe+"; true")
	}
	rules := map[int64]string{phone: `rules: {"color-contrast": {enabled: false}}`, desk: `runOnly: ["scrollable-region-focusable"]`}[width]
	s.Faults = append(s.Faults, get[[]string](b, `axe.run(document, {resultTypes: ["violations"], preload: false, `+rules+`}).then(found => found.violations
		.filter(v => v.impact === "serious" || v.impact === "critical")
		.map(v => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map(n => n.html + " " + n.failureSummary).join(" | ")))`)...)
	return s
}

// contrast returns what has too little contrast to be read, by the formula of WCAG 2.2 (1.4.3), which axe-core computes
// at a hundred times the cost. No background of the console is an image, and none is transparent in part.
const contrast = `(() => {
	const parts = colour => colour.match(/^rgba?\(([^)]*)\)$/)[1].split(",").map(Number); // other forms are a fault
	const light = colour => parts(colour).slice(0, 3).map(v => v / 255)
		.map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const ground = e => {
		const colour = e ? getComputedStyle(e).backgroundColor : "rgb(255, 255, 255)", opaque = parts(colour)[3] ?? 1;
		if (opaque > 0 && opaque < 1) throw colour;
		return opaque ? colour : ground(e.parentElement);
	};
	const faults = [];
	for (const e of document.body.querySelectorAll("*")) {
		const own = [...e.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.data.trim()) || e.value || e.placeholder;
		if (!e.checkVisibility({visibilityProperty: true}) || e.disabled) continue;
		for (const part of [null, "::before", "::after"]) {
			const style = getComputedStyle(e, part);
			if (part ? ["none", "normal", '""'].includes(style.content) : !own) continue;
			const [dark, bright] = [light(style.color), light(ground(e))].sort((a, b) => a - b);
			const size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && style.fontWeight >= 700;
			const ratio = (bright + 0.05) / (dark + 0.05);
			if (ratio < (large ? 3 : 4.5)) faults.push("contrast " + ratio.toFixed(2) + ": " + (part ?? "") + e.outerHTML.slice(0, 200));
		}
	}
	return faults;
})()`

// harmless fails if the page in a window of either kind is not fit for reading, or hostile text did something there.
// The text must be there so many times.
func (b *tab) harmless(what string, times int, accessible, fits bool) {
	b.t.Helper()
	widths := []int64{desk, phone}
	if b.width == phone { // a page is laid out anew for each change
		slices.Reverse(widths)
	}
	for _, width := range widths {
		s := b.look(width, accessible)
		if n := strings.Count(s.Text, evilPlain) + strings.Count(s.Text, unspaced(evilPlain)); n < times {
			b.t.Errorf("%s shows it %d times as text, want %d\n%s", what, n, times, b.page())
		}
		if s.Became || s.Turned > 0 || s.Over > 0 || fits && width == desk && s.Hidden > 0 || len(s.Faults) > 0 {
			s.Text = ""
			b.t.Errorf("%s, %d pixels: %+v", what, width, s)
		}
	}
}
