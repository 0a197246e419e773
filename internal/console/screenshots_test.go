package console_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"countersign/client"
)

// TestScreenshots makes the pictures of README.md in the directory that
// COUNTERSIGN_README names: make screenshots.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("COUNTERSIGN_README")
	if dir == "" {
		t.Skip("COUNTERSIGN_README is not set")
	}
	browser := chromium(t)
	w := newWorld(t)
	g, err := client.NewGateway(client.Config{URL: w.gateway, Token: w.first(t, "merchant")})
	if err != nil {
		t.Fatal(err)
	}
	for i, sum := range []string{"6200.50", "18000"} { // more than the demo's policy confirms by itself
		id := fmt.Sprintf("payout-%d", i+1)
		d := client.Details{Address: "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8", ChainName: "TRON", Symbol: "USDT", Amount: amount(t, sum)}
		if _, err := g.AddOrder(t.Context(), client.NewOrder{CallBackID: id, TenantUserID: "65515", Address: d.Address, ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.admin.CreateWithdrawal(t.Context(), client.NewWithdrawal{Merchant: "demo", CallBackID: id, TenantUserID: "65515", Details: &d}); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(3 * time.Second) // until the gateway was asked
	for name, base := range map[string]string{"service": w.service, "gateway": w.gateway} {
		b := newTab(t, browser, base)
		b.signIn(w.first(t, map[string]string{"service": "service", "gateway": "merchant"}[name]))
		b.do(chromedp.EmulateViewport(1280, 820))
		b.open(map[string]string{"service": "/console/now", "gateway": "/console/"}[name])
		picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "console-"+name+".png"), picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
