package main

import (
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"countersign/client"
	"countersign/internal/db/dbtest"
)

// TestKeysChangeUnderLoad does the steps of docs/keys.md while deposits and withdrawals go
// on: pairs are made, the gateway has both, the service changes, the gateway has the new
// ones alone. No attempt about a deposit fails, and every order is confirmed.
func TestKeysChangeUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	service := startDaemon(t, "serve", "--data", at("service"), "--listen", "127.0.0.1:0", "--allow-private", "--allow-http")
	api := []string{"--api", service.url, "--data", at("service")}
	free, err := dbtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	mustShell(t, nil, "", append([]string{"merchants", "add", "shop", "--response-key-bits", "2048", "--out", at("shop"),
		"--notify-url", "http://" + free + "/callbacks/notify", "--withdraw-url", "http://" + free + "/callbacks/withdraw"}, api...)...)
	mustShell(t, nil, "", "keys", "new", "--out", at("requests"))
	mustShell(t, nil, "", "keys", "new", "--out", at("answers"))
	gatewayWith := func(keys ...string) *process {
		return startDaemon(t, append([]string{"gateway", "--data", at("gateway"), "--listen", free, "--api-listen", "127.0.0.1:0", "--api-key", "@" + at("shop/api.key")}, keys...)...)
	}
	old := []string{"--service-key", at("shop/service.b64"), "--response-key", at("shop/response.b64")}
	fresh := []string{"--service-key", at("requests/public.b64"), "--response-key", at("answers/public.b64")}
	gateway := gatewayWith(append(old, fresh...)...)
	token, gatewayToken := adminToken(t, at("service")), adminToken(t, at("gateway"))

	var sent atomic.Int64
	one := func(n int64) error {
		deposit := map[string]any{"merchant": "shop", "trackingId": fmt.Sprint("d-", n), "tenantUserId": "7", "txId": fmt.Sprint("0xabcdef", n), "chainName": "TRON", "symbol": "USDT",
			"amount": "2.5", "fromAddress": "TA", "toAddress": "TB", "riskLevelFrom": 1, "riskLevelTo": 1, "txIndex": n}
		if err := call(t.Context(), "POST", service.url+"/v1/deposits", token, deposit, nil); err != nil || n%5 != 0 {
			return err
		}
		order := map[string]string{"callBackId": fmt.Sprint("order-", n), "tenantUserId": "7", "address": "TX", "chainName": "TRON", "symbol": "USDT", "amount": "2.5"}
		if err := call(t.Context(), "POST", gateway.urls["api"]+"/v1/orders", gatewayToken, order, nil); err != nil {
			return err
		}
		asked := map[string]string{"merchant": "shop", "callBackId": order["callBackId"], "tenantUserId": "7"} // the details come from the answer
		return call(t.Context(), "POST", service.url+"/v1/withdrawals", token, asked, nil)
	}
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := one(sent.Add(1)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	beyond := func(n int64) { await(t, service, func() bool { return sent.Load() > n || t.Failed() }) }
	beyond(60)
	var shown client.Merchant
	mustShell(t, &shown, "", append([]string{"merchants", "show", "shop"}, api...)...)
	var keys client.Keys
	mustShell(t, &keys, "", append([]string{"merchants", "keys", "shop", "--private-key", at("requests/private.pem"), "--response-private-key", at("answers/private.pem")}, api...)...)
	if keys.Fingerprint == shown.Fingerprint || keys.ResponseFingerprint == shown.ResponseFingerprint || keys.Fingerprint == keys.ResponseFingerprint {
		t.Errorf("the keys after the change: %+v, before it: %+v", keys, shown)
	}
	beyond(sent.Load() + 60)
	close(stop)
	load.Wait()

	settled := func(list string) (n int) {
		await(t, service, func() bool {
			n = 0
			for path := list; path != ""; {
				var page struct {
					Callbacks []client.Callback `json:"callbacks"`
					Next      *string           `json:"next"`
				}
				if err := call(t.Context(), "GET", service.url+path, token, nil, &page); err != nil {
					t.Fatal(err)
				}
				for _, c := range page.Callbacks {
					switch {
					case c.State == "pending" || c.State == "sending":
						return false
					case c.State != "accepted" || c.Failed != 0 || c.Type == 1 && c.Attempt != 1:
						t.Errorf("callback of type %d is %s after %d attempts, %d failed: %s", c.Type, c.State, c.Attempt, c.Failed, c.LastReason)
					}
					n++
				}
				path = ""
				if page.Next != nil {
					path = list + "&cursor=" + url.QueryEscape(*page.Next)
				}
			}
			return true
		})
		return n
	}
	if n, want := settled("/v1/callbacks?merchant=shop&limit=50"), sent.Load()+sent.Load()/5; int64(n) != want {
		t.Errorf("%d callbacks, want %d", n, want)
	}
	// The old ones are no longer needed.
	gateway.stop(t)
	gateway = gatewayWith(fresh...)
	if err := one(1_000_000); err != nil {
		t.Fatal(err)
	}
	settled("/v1/callbacks?merchant=shop&limit=50")
}
