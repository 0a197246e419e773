package main

import (
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/lab/dbtest"
)

// TestKeysChangeUnderLoad does the steps of docs/provider/keys.md while deposits and withdrawals go
// on, in scheme service with all keys, and with a pair that the merchant made: staged,
// the gateway has both sets, activated, the gateway has the newer one alone, finished. No
// attempt fails, none about a deposit is repeated, and every order is confirmed.
func TestKeysChangeUnderLoad(t *testing.T) {
	dbtest.Whole(t, "this test works under load for a while")
	t.Parallel()
	t.Run("service", func(t *testing.T) {
		testKeysChangeUnderLoad(t, func(at func(string) string) keyChange {
			return keyChange{
				add:   []string{"responseKey.bits=2048", "callbackApiKey=callback-old-key"},
				stage: []string{"key.bits=2048", "responseKey.bits=2048", "makeApiKey=true", "makeCallbackApiKey=true", "--out", at("new")},
				old:   []string{"--service-key", at("shop/service.b64"), "--response-key", at("shop/response.b64"), "--callback-api-key", "callback-old-key"},
				fresh: []string{"--service-key", at("new/service.b64"), "--response-key", at("new/response.b64"), "--callback-api-key", "@" + at("new/callback-api.key")},
				own:   "@" + at("new/api.key"),
			}
		})
	})
	t.Run("merchant", func(t *testing.T) {
		testKeysChangeUnderLoad(t, func(at func(string) string) keyChange {
			for _, pair := range []string{"first", "second"} {
				mustShell(t, nil, "", "keys", "new", "--out", at(pair))
			}
			more := []string{"--response-key", at("shop/response.b64")}
			return keyChange{
				add:   []string{"scheme=merchant", "key.publicKey=@" + at("first/public.b64"), "callbackApiKey=callback-old-key"},
				stage: []string{"key.publicKey=@" + at("second/public.b64")},
				old:   append([]string{"--service-key", at("first/private.pem"), "--callback-api-key", "callback-old-key"}, more...),
				fresh: []string{"--service-key", at("second/private.pem")},
				last:  append([]string{"--service-key", at("second/private.pem"), "--callback-api-key", "callback-old-key"}, more...),
				own:   "@" + at("shop/api.key"),
			}
		})
	})
}

// keyChange has the flags of a replacement of keys.
type keyChange struct {
	add, stage []string
	old, fresh []string // of the gateway: together the two sets
	last       []string // of the gateway in the end; nil: fresh
	own        string   // the API key in the end
}

func testKeysChangeUnderLoad(t *testing.T, flags func(at func(string) string) keyChange) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	c := flags(at)
	if c.last == nil {
		c.last = c.fresh
	}
	service := startDaemon(t, "serve", "--data", at("service"), "--listen", "127.0.0.1:0", "--allow-private", "--allow-http")
	api := []string{"--api", service.url, "--data", at("service")}
	free, err := dbtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	mustShell(t, nil, "", append(append([]string{"merchants", "add", "shop", "--out", at("shop"),
		"finalCodes=2000-2999", "notifyUrl=http://" + free + "/callbacks/notify", "withdrawUrl=http://" + free + "/callbacks/withdraw"}, api...), c.add...)...)
	gatewayWith := func(apiKey string, keys ...string) *process {
		return startDaemon(t, append([]string{"gateway", "--data", at("gateway"), "--listen", free, "--api-listen", "127.0.0.1:0", "--api-key", apiKey}, keys...)...)
	}
	token := adminToken(t, at("service"))
	rotate := func(step string, more ...string) {
		t.Helper()
		mustShell(t, nil, "", append(append([]string{"merchants", "rotate", step, "shop"}, api...), more...)...)
	}
	rotate("stage", c.stage...)
	gateway := gatewayWith(c.own, append(c.old, c.fresh...)...)
	gatewayToken := adminToken(t, at("gateway"))

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
	var before, after client.Merchant
	mustShell(t, &before, "", append([]string{"merchants", "show", "shop"}, api...)...)
	rotate("activate", "overlap=1h")
	mustShell(t, &after, "", append([]string{"merchants", "show", "shop"}, api...)...)
	if before.Rotation == nil || after.Rotation == nil || after.Fingerprint != before.Rotation.Others[0].Fingerprint || after.Rotation.Others[0].Fingerprint != before.Fingerprint {
		t.Errorf("%+v, then %+v", before, after)
	}
	// An answer under a key that has ended decides nothing (docs/provider/keys.md): what was claimed
	// before the activation is to be settled first.
	activated := url.QueryEscape(time.Now().Format(time.RFC3339Nano))
	beyond(sent.Load() + 60)
	await(t, service, func() bool {
		for _, state := range []string{"pending", "sending"} {
			var page struct {
				Callbacks []client.Callback `json:"callbacks"`
			}
			if err := call(t.Context(), "GET", service.url+"/v1/callbacks?merchant=shop&limit=1&until="+activated+"&state="+state, token, nil, &page); err != nil {
				t.Fatal(err)
			}
			if len(page.Callbacks) > 0 {
				return false
			}
		}
		return true
	})
	rotate("finish")
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
	// The old ones are no longer needed, and no longer count.
	gateway.stop(t)
	gateway = gatewayWith(c.own, c.last...)
	if err := one(1_000_000); err != nil {
		t.Fatal(err)
	}
	settled("/v1/callbacks?merchant=shop&limit=50")
	var keys struct {
		Keys []client.Key `json:"keys"`
	}
	if err := call(t.Context(), "GET", gateway.urls["api"]+"/v1/keys", gatewayToken, nil, &keys); err != nil {
		t.Fatal(err)
	}
	kinds := map[client.KeyKind]int{}
	for _, k := range keys.Keys {
		kinds[k.Kind]++
		if k.Fingerprint == "" || k.Since == 0 {
			t.Errorf("%+v", k)
		}
	}
	for _, kind := range []client.KeyKind{client.KeyRequest, client.KeyResponse, client.KeyAPI, client.KeyCallbackAPI, client.KeyMaster, client.KeyAudit} {
		if kinds[kind] != 1 {
			t.Errorf("%d keys of kind %s", kinds[kind], kind)
		}
	}
}
