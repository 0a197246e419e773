package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"countersign/envelope"
	"countersign/internal/daemon"
)

// TestSignedLink: both ends take up the signed link one after the other, from the command line: first the service demands
// signed answers, then the gateway signed requests. Nothing stops meanwhile. With another key nothing is decided.
func TestSignedLink(t *testing.T) {
	t.Parallel()
	c := newInstallation(t, nil)
	c.flags["serve"] = []string{"--listen", "127.0.0.1:0", "--allow-private", "--allow-http"}
	c.start("serve")
	at := func(name string) string { return filepath.Join(c.dir, name) }
	free := freePort(t)
	c.call("serve", "merchants", "add", "shop", "--out", at("shop"), "finalCodes=2000-2999", "key.bits=1024",
		"notifyUrl=http://"+free+"/callbacks/notify", "withdrawUrl=http://"+free+"/callbacks/withdraw")
	var shown struct{ ServiceSigningKey string }
	c.read(&shown, "serve", "merchants", "show", "shop")
	if _, err := envelope.ParseSigningKey([]byte(shown.ServiceSigningKey)); err != nil {
		t.Fatalf("merchants show: %q: %v", shown.ServiceSigningKey, err)
	}
	signer, other := secretFile(t, shown.ServiceSigningKey), secretFile(t, envelope.GenerateSigningKey().PublicBase64())
	start := func(more ...string) {
		c.flags["gateway"] = append([]string{"--listen", free, "--api-listen", "127.0.0.1:0", "--public-url", "http://" + free,
			"--service-key", at("shop/service.b64"), "--api-key", "@" + at("shop/api.key")}, more...)
		c.start("gateway")
	}
	stop := func() { c.daemons["gateway"].stop(t) }
	ask := func(order string) {
		t.Helper()
		of := `"callBackId":"` + order + `","tenantUserId":"7"`
		c.call("gateway", "api", "addOrder", "-d", "{"+of+`,"address":"TX","chainName":"TRON","symbol":"USDT","amount":"2.5"}`)
		c.call("serve", "api", "createWithdrawal", "-d", `{"merchant":"shop",`+of+"}")
	}
	decided := func(order string) string {
		var w struct{ Decision string }
		c.read(&w, "serve", "withdrawals", "show", "shop/"+order)
		return w.Decision
	}
	confirmed := func(order string) {
		t.Helper()
		ask(order)
		c.until(order+" is confirmed", func() bool { return decided(order) == "confirmed" })
	}
	fails := func(order, want string) {
		t.Helper()
		ask(order)
		c.until(order+" fails: "+want, func() bool {
			var last struct{ LastReason string }
			c.read(&last, "serve", "callbacks", "list", "callBackId="+order)
			return last.LastReason == want
		})
		if d := decided(order); d != "" {
			t.Errorf("%s is %s by an answer that is %s", order, d, want)
		}
	}
	setKey := func(key string) {
		t.Helper()
		c.call("serve", "merchants", "edit", "shop", "answerKey="+key)
	}
	start()
	confirmed("order-1")

	stop()
	public := publicOf(t, c.args("gateway"))
	start()
	setKey(public)
	confirmed("order-2")
	stop()
	start("--service-signing-key", signer)
	confirmed("order-3")

	// On the kept answer, signature and all. The signer needs the two public parts and nothing else.
	verified := func(dir, key string, more ...string) (status int, text string) {
		t.Helper()
		status, out, errOut := shell(t, "", append([]string{"permit", "verify", filepath.Join(dir, noteFile), "--answer", filepath.Join(dir, answerFile),
			"--key", c.call("serve", "audit", "key"), "--merchant", "shop", "--merchant-key", key,
			"--claim", "core-1", "--address", "TX", "--chain", "TRON", "--symbol", "USDT", "--amount", "2.50", "--epoch", "0"}, more...)...)
		return status, out + errOut
	}
	release := func(order, to string) (status int, text string) {
		t.Helper()
		status, out, errOut := shell(t, "", c.words("serve", "withdrawals", "release", "shop/"+order, "claim=core-1", "--out", at(to))...)
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

	stop()
	start("--service-signing-key", other)
	fails("order-5", "not_understood") // its refusal is signed

	// An end replaces its own pair. The other one takes both meanwhile, so nothing is refused.
	stop()
	ofGateway := []string{"--data", c.data("gateway"), "--gateway", "--signing"}
	var staged, again, done daemon.RekeyedSigning
	rekeyed(t, &staged, ofGateway...)
	if rekeyed(t, &again, ofGateway...); staged.State != "both keys" || staged.Key.PublicKey != public || again.NextKey.PublicKey != staged.NextKey.PublicKey {
		t.Errorf("rekey --signing: %+v, then %+v", staged, again)
	}
	fresh := staged.NextKey.PublicKey
	setKey(public + "," + fresh)
	start("--service-signing-key", other, "--service-signing-key", signer)
	confirmed("order-7")
	stop()
	if rekeyed(t, &done, append(ofGateway, "--finish")...); done.State != "one key" || done.Key.PublicKey != fresh {
		t.Errorf("rekey --signing --finish: %+v", done)
	}
	start("--service-signing-key", signer)
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
	c.verified()
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
