package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/internal/lab/dbtest"
)

// Both ends take up the signed link one after the other, from the command line: first the
// service demands signed answers, then the gateway signed requests. Nothing stops meanwhile.
// With another key nothing is decided.
func TestSignedLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	service := startDaemon(t, "serve", "--data", at("service"), "--listen", "127.0.0.1:0", "--allow-private", "--allow-http")
	api := []string{"--api", service.url, "--data", at("service")}
	free := must(dbtest.FreePort())
	mustShell(t, nil, "", append([]string{"merchants", "add", "shop", "--out", at("shop"),
		"finalCodes=2000-2999", "key.bits=1024", "notifyUrl=http://" + free + "/callbacks/notify", "withdrawUrl=http://" + free + "/callbacks/withdraw"}, api...)...)
	var shown struct{ ServiceSigningKey string }
	mustShell(t, &shown, "", append([]string{"merchants", "show", "shop"}, api...)...)
	if _, err := envelope.ParseSigningKey([]byte(shown.ServiceSigningKey)); err != nil {
		t.Fatalf("merchants show: %q: %v", shown.ServiceSigningKey, err)
	}
	signer, other := secretFile(t, shown.ServiceSigningKey), secretFile(t, envelope.GenerateSigningKey().PublicBase64())
	start := func(more ...string) *process {
		return startDaemon(t, append([]string{"gateway", "--data", at("gateway"), "--listen", free, "--api-listen", "127.0.0.1:0",
			"--public-url", "http://" + free, "--service-key", at("shop/service.b64"), "--api-key", "@" + at("shop/api.key")}, more...)...)
	}
	gateway := start()
	ask := func(callBackID string) (decided, reason func() string) {
		t.Helper()
		mustShell(t, nil, `{"callBackId":"`+callBackID+`","tenantUserId":"7","address":"TX","chainName":"TRON","symbol":"USDT","amount":"2.5"}`,
			"orders", "add", "-", "--api", gateway.urls["api"], "--data", at("gateway"))
		var w struct{ ID, Decision string }
		mustShell(t, new(any), `{"merchant":"shop","callBackId":"`+callBackID+`","tenantUserId":"7"}`, append([]string{"withdrawals", "add", "-"}, api...)...)
		return func() string {
				mustShell(t, &w, "", append([]string{"withdrawals", "show", "shop/" + callBackID}, api...)...)
				return w.Decision
			}, func() string {
				var c struct{ LastReason string }
				mustShell(t, &c, "", append([]string{"callbacks", "list", "callBackId=" + callBackID}, api...)...)
				return c.LastReason
			}
	}
	confirmed := func(callBackID string) {
		t.Helper()
		decided, _ := ask(callBackID)
		await(t, service, func() bool { return decided() == "confirmed" })
	}
	fails := func(callBackID, want string) {
		t.Helper()
		decided, reason := ask(callBackID)
		await(t, service, func() bool { return reason() == want })
		if d := decided(); d != "" {
			t.Errorf("%s is %s by an answer that is %s", callBackID, d, want)
		}
	}
	setKey := func(key string) {
		t.Helper()
		mustShell(t, nil, "", append([]string{"merchants", "edit", "shop", "answerKey=" + key}, api...)...)
	}
	confirmed("order-1")

	gateway.stop(t)
	public := publicOf(t, []string{"gateway", "--data", at("gateway"), "--listen", free, "--api-listen", "127.0.0.1:0",
		"--service-key", at("shop/service.b64"), "--api-key", "@" + at("shop/api.key")})
	gateway = start()
	setKey(public)
	confirmed("order-2")
	gateway.stop(t)
	gateway = start("--service-signing-key", signer)
	confirmed("order-3")

	// On the kept answer, signature and all. The signer needs the two public parts and nothing else.
	verified := func(dir, key string, more ...string) (status int, text string) {
		t.Helper()
		_, log, _ := shell(t, "", append([]string{"audit", "key"}, api...)...)
		status, out, errOut := shell(t, "", append([]string{"permit", "verify", filepath.Join(dir, noteFile), "--answer", filepath.Join(dir, answerFile), "--key", log, "--merchant", "shop", "--merchant-key", key,
			"--claim", "core-1", "--address", "TX", "--chain", "TRON", "--symbol", "USDT", "--amount", "2.50", "--epoch", "0"}, more...)...)
		return status, out + errOut
	}
	release := func(order, to string) (status int, text string) {
		t.Helper()
		status, out, errOut := shell(t, "", append([]string{"withdrawals", "release", "shop/" + order, "claim=core-1", "--out", at(to)}, api...)...)
		return status, out + errOut
	}
	if status, text := release("order-1", "unsigned"); status != exitDone || strings.Contains(text, answerFile) { // it was confirmed before there was a key
		t.Errorf("status %d %s", status, text)
	}
	if status, text := release("order-3", "permit"); status != exitDone || !strings.Contains(text, answerFile) {
		t.Fatalf("status %d %s", status, text)
	}
	if status, text := release("order-3", "permit"); status != exitFailed || !strings.Contains(text, "not overwritten") {
		t.Errorf("into the same directory: status %d %s", status, text)
	}
	if status, text := verified(at("permit"), public); status != exitDone {
		t.Errorf("the permit: status %d %s", status, text)
	}
	if status, text := verified(at("permit"), envelope.GenerateSigningKey().PublicBase64()); status != exitFailed || !strings.Contains(text, "another key") {
		t.Errorf("the permit with another merchant's key: status %d %s", status, text)
	}

	gateway.stop(t)
	gateway = start("--service-signing-key", other)
	fails("order-5", "not_understood") // its refusal is signed

	// An end replaces its own pair. The other one takes both meanwhile, so nothing is refused.
	gateway.stop(t)
	ofGateway := []string{"--data", at("gateway"), "--gateway", "--signing"}
	var staged, again, done daemon.RekeyedSigning
	rekeyed(t, &staged, ofGateway...)
	if rekeyed(t, &again, ofGateway...); staged.State != "both keys" || staged.Key.PublicKey != public || again.NextKey.PublicKey != staged.NextKey.PublicKey {
		t.Errorf("rekey --signing: %+v, then %+v", staged, again)
	}
	fresh := staged.NextKey.PublicKey
	setKey(public + "," + fresh)
	gateway = start("--service-signing-key", other, "--service-signing-key", signer)
	confirmed("order-7")
	gateway.stop(t)
	if rekeyed(t, &done, append(ofGateway, "--finish")...); done.State != "one key" || done.Key.PublicKey != fresh {
		t.Errorf("rekey --signing --finish: %+v", done)
	}
	gateway = start("--service-signing-key", signer)
	confirmed("order-8")
	setKey(public)
	fails("order-9", "signature_invalid") // the older pair signs no more
	setKey(fresh)
	confirmed("order-10")
	// A permit that was given under the older pair is given again; a new one is not.
	if status, text := release("order-3", "again"); status != exitDone || !strings.Contains(text, releasedBefore) {
		t.Errorf("status %d %s", status, text)
	}
	if status, text := verified(at("again"), public, "--duplicate"); status != exitDone {
		t.Errorf("the permit that was given again: status %d %s", status, text)
	}
	if status, text := release("order-2", "late"); status != exitFailed || !strings.Contains(text, "answerKey") {
		t.Errorf("status %d %s", status, text)
	}
}

// publicOf returns the public part that gateway --check shows.
func publicOf(t *testing.T, flags []string) string {
	t.Helper()
	var found []struct{ What, Text string }
	status, out, errOut := shell(t, "", append([]string{"gateway", "--check"}, flags[1:]...)...)
	if err := json.Unmarshal([]byte(out), &found); err != nil || status != exitDone {
		t.Fatalf("gateway --check: %d %v\n%s%s", status, err, out, errOut)
	}
	for _, f := range found {
		if f.What == "signing key" {
			return strings.TrimPrefix(f.Text, "public part ")
		}
	}
	t.Fatal("gateway --check shows no signing key")
	return ""
}
