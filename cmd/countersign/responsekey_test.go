package main

import (
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/lab/dbtest"
)

// TestResponseKeyApart runs both ends with a pair for answers apart from that of
// requests, from the command line to a decision, and makes that pair anew.
func TestResponseKeyApart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	service := startDaemon(t, "serve", "--data", at("service"), "--listen", "127.0.0.1:0", "--allow-private", "--allow-http")
	api := []string{"--api", service.url, "--data", at("service")}
	// Nothing listens there yet: the gateway needs the keys first.
	free, err := dbtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	status, out, errOut := shell(t, "", append([]string{"merchants", "add", "shop", "responseKey.bits=2048", "--out", at("shop"),
		"finalCodes=2000-2999", "notifyUrl=http://" + free + "/callbacks/notify", "withdrawUrl=http://" + free + "/callbacks/withdraw"}, api...)...)
	if status != exitDone || !strings.Contains(out, "response.b64") {
		t.Errorf("merchants add says nothing of the key for answers: status %d\n%s%s", status, out, errOut)
	}
	gateway := startDaemon(t, "gateway", "--data", at("gateway"), "--listen", free, "--api-listen", "127.0.0.1:0",
		"--service-key", at("shop/service.b64"), "--response-key", at("shop/response.b64"), "--api-key", "@"+at("shop/api.key"))
	token := adminToken(t, at("gateway"))
	ask := func(callBackID string) (decided func() string) {
		t.Helper()
		order := map[string]string{"callBackId": callBackID, "tenantUserId": "7", "address": "TX", "chainName": "TRON", "symbol": "USDT", "amount": "2.5"}
		if err := call(t.Context(), "POST", gateway.urls["api"]+"/v1/orders", token, order, nil); err != nil {
			t.Fatal(err)
		}
		var w struct{ ID, Decision string }
		// Without details: they come from the answer.
		mustShell(t, new(any), `{"merchant":"shop","callBackId":"`+callBackID+`","tenantUserId":"7"}`, append([]string{"withdrawals", "add", "-"}, api...)...)
		return func() string {
			mustShell(t, &w, "", append([]string{"withdrawals", "show", "shop/" + callBackID}, api...)...)
			return w.Decision
		}
	}
	decided := ask("order-1")
	await(t, service, func() bool { return decided() == "confirmed" })

	var shown, keys struct{ PublicKey, ResponsePublicKey, Fingerprint, ResponseFingerprint string }
	mustShell(t, &shown, "", append([]string{"merchants", "show", "shop"}, api...)...)
	mustShell(t, &keys, "", append([]string{"api", "stageRotation", "shop", "responseKey.bits=2048"}, api...)...)
	for _, step := range []string{"activate", "finish"} {
		mustShell(t, nil, "", append([]string{"merchants", "rotate", step, "shop"}, api...)...)
	}
	staged := keys
	mustShell(t, &keys, "", append([]string{"merchants", "show", "shop"}, api...)...)
	keys.PublicKey, keys.ResponsePublicKey = staged.PublicKey, staged.ResponsePublicKey
	if keys.PublicKey != "" || keys.ResponsePublicKey == "" || keys.Fingerprint != shown.Fingerprint || keys.Fingerprint == keys.ResponseFingerprint ||
		keys.ResponseFingerprint == shown.ResponseFingerprint {
		t.Errorf("a new pair for answers alone: %+v after %+v", keys, shown)
	}
	// The gateway still has the old one: requests open, answers do not.
	decided = ask("order-2")
	var c struct{ LastReason string }
	await(t, service, func() bool {
		mustShell(t, &c, "", append([]string{"callbacks", "list", "callBackId=order-2"}, api...)...)
		return c.LastReason == "data_unreadable"
	})
	if d := decided(); d != "" {
		t.Errorf("decided %q by an answer that does not open", d)
	}
}
