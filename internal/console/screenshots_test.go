package console_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/chromedp/chromedp"

	"countersign/internal/demo"
	"countersign/internal/lab/dbtest"
)

// TestScreenshots makes the pictures of README.md, of the demo, in the directory that COUNTERSIGN_README names:
// make screenshots.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("COUNTERSIGN_README")
	if dir == "" {
		t.Skip("COUNTERSIGN_README is not set")
	}
	browser := chromium(t)
	var out dbtest.Log
	d := demo.New(demo.Config{Dir: filepath.Join(t.TempDir(), "data"), Bits: 1024, Stay: true, Out: &out})
	run(t, func(context.Context) error { return nil }, d.Run)
	var links []string
	dbtest.Until(t, "the demo prints its links", func() bool {
		links = regexp.MustCompile(`http://[0-9.:]+/console/link/\w+`).FindAllString(out.String(), -1)
		return len(links) == 2
	})
	for i, name := range []string{"service", "gateway"} {
		b := newTab(t, browser, links[i])
		b.open("")
		if name == "service" {
			b.click(`a[href="/console/now"]`)
		}
		b.do(chromedp.EmulateViewport(1280, 820))
		picture := must(chromedp.Run(b.ctx, chromedp.CaptureScreenshot()))(t)
		ok(t, os.WriteFile(filepath.Join(dir, "console-"+name+".png"), picture, 0o644))
	}
}
