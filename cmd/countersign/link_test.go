package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/internal/lab/dbtest"
	"countersign/merchant"
)

// Both ends take up the signed link one after the other, from the command line: first the
// service demands signed answers, then the gateway signed requests. Nothing stops meanwhile.
// With another key at either end nothing is decided.
func TestSignedLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	service := startDaemon(t, "serve", "--data", at("service"), "--listen", "127.0.0.1:0", "--allow-private", "--allow-http")
	api := []string{"--api", service.url, "--data", at("service")}
	free, err := dbtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	mustShell(t, nil, "", append([]string{"merchants", "add", "shop", "--out", at("shop"),
		"finalCodes=2000-2999", "notifyUrl=http://" + free + "/callbacks/notify", "withdrawUrl=http://" + free + "/callbacks/withdraw"}, api...)...)
	var shown struct{ ServiceSigningKey string }
	mustShell(t, &shown, "", append([]string{"merchants", "show", "shop"}, api...)...)
	if _, err := envelope.ParseSigningKey([]byte(shown.ServiceSigningKey)); err != nil {
		t.Fatalf("merchants show: %q: %v", shown.ServiceSigningKey, err)
	}
	write := func(name, text string) string {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return at(name)
	}
	start := func(more ...string) *process {
		return startDaemon(t, append([]string{"gateway", "--data", at("gateway"), "--listen", free, "--api-listen", "127.0.0.1:0",
			"--public-url", "http://" + free, "--service-key", at("shop/service.b64"), "--api-key", "@" + at("shop/api.key")}, more...)...)
	}
	gateway := start()
	ask := func(callBackID string) (decided, reason func() string) {
		t.Helper()
		order := map[string]string{"callBackId": callBackID, "tenantUserId": "7", "address": "TX", "chainName": "TRON", "symbol": "USDT", "amount": "2.5"}
		if err := call(t.Context(), "POST", gateway.urls["api"]+"/v1/orders", adminToken(t, at("gateway")), order, nil); err != nil {
			t.Fatal(err)
		}
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
	gateway = start("--service-signing-key", write("signer", shown.ServiceSigningKey))
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

	setKey(envelope.GenerateSigningKey().PublicBase64())
	fails("order-4", "signature_invalid")
	setKey(public)
	gateway.stop(t)
	gateway = start("--service-signing-key", write("other", envelope.GenerateSigningKey().PublicBase64()))
	fails("order-5", "not_understood") // its refusal is signed
	gateway.stop(t)
	gateway = start("--service-signing-key", at("other"), "--service-signing-key", at("signer"))
	confirmed("order-6")

	// Each end replaces its own pair. The other one takes both meanwhile, so nothing is refused.
	gateway.stop(t)
	ofGateway := []string{"--data", at("gateway"), "--gateway"}
	staged := rekeyedSigning(t, ofGateway...)
	if again := rekeyedSigning(t, ofGateway...); staged.State != "both keys" || staged.Key.PublicKey != public || again.NextKey.PublicKey != staged.NextKey.PublicKey {
		t.Errorf("rekey --signing: %+v, then %+v", staged, again)
	}
	fresh := staged.NextKey.PublicKey
	setKey(public + "," + fresh)
	gateway = start("--service-signing-key", at("signer"))
	confirmed("order-7")
	gateway.stop(t)
	if done := rekeyedSigning(t, append(ofGateway, "--finish")...); done.State != "one key" || done.Key.PublicKey != fresh {
		t.Errorf("rekey --signing --finish: %+v", done)
	}
	gateway = start("--service-signing-key", at("signer"))
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

	service.stop(t)
	ofService := []string{"--data", at("service")}
	staged = rekeyedSigning(t, ofService...)
	service = startDaemon(t, "serve", "--data", at("service"), "--listen", "127.0.0.1:0", "--allow-private", "--allow-http")
	api = []string{"--api", service.url, "--data", at("service")}
	gateway.stop(t)
	gateway = start("--service-signing-key", at("signer"), "--service-signing-key", write("next", staged.NextKey.PublicKey))
	confirmed("order-11")
	if out, err := rekeyProcess(t, append(ofService, "--signing", "--finish")...).CombinedOutput(); err == nil || !strings.Contains(string(out), "in use by another process") {
		t.Errorf("beside a daemon: %v\n%s", err, out)
	}
	service.stop(t)
	rekeyedSigning(t, append(ofService, "--finish")...)
	service = startDaemon(t, "serve", "--data", at("service"), "--listen", "127.0.0.1:0", "--allow-private", "--allow-http")
	api = []string{"--api", service.url, "--data", at("service")}
	if mustShell(t, &shown, "", append([]string{"merchants", "show", "shop"}, api...)...); shown.ServiceSigningKey != staged.NextKey.PublicKey {
		t.Errorf("merchants show has %s", shown.ServiceSigningKey)
	}
	confirmed("order-12")
	gateway.stop(t)
	gateway = start("--service-signing-key", at("next"))
	confirmed("order-13")
}

// rekeyedSigning runs rekey --signing to its end.
func rekeyedSigning(t *testing.T, args ...string) (r daemon.RekeyedSigning) {
	t.Helper()
	out, err := rekeyProcess(t, append(args, "--signing")...).Output()
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		t.Fatalf("rekey --signing %v: %v\n%s", args, err, out)
	}
	return r
}

// Somebody has all of a merchant's secrets: its API key, its part of the RSA key, its callback API
// key, what it answered before, and its place on the network. Without its Ed25519 key he confirms no withdrawal and
// declines none.
func TestStolenSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	var answers atomic.Pointer[http.Handler]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*answers.Load()).ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	service := startDaemon(t, "serve", "--data", at("service"), "--listen", "127.0.0.1:0", "--allow-private", "--allow-http")
	api := []string{"--api", service.url, "--data", at("service")}
	own, thief := envelope.GenerateSigningKey(), envelope.GenerateSigningKey()
	mustShell(t, nil, "", append([]string{"merchants", "add", "shop", "--out", at("shop"), "answerKey=" + own.PublicBase64(),
		"finalCodes=2000-2999", "notifyUrl=" + server.URL + merchant.DefaultNotifyPath, "withdrawUrl=" + server.URL + merchant.DefaultWithdrawPath}, api...)...)
	read := func(name string) []byte {
		b, err := os.ReadFile(at("shop/" + name))
		if err != nil {
			t.Fatal(err)
		}
		return bytes.TrimSpace(b)
	}
	key, err := envelope.ParseKey(read("service.b64"))
	if err != nil {
		t.Fatal(err)
	}
	play := func(sign *envelope.SigningKey, code countersign.ErrCode) http.Handler {
		m, err := countersigntest.MakeMerchant(countersigntest.MerchantConfig{Key: key, APIKey: countersign.APIKey(read("api.key")), Orders: countersigntest.SampleOrders, Sign: sign,
			Code: func(countersign.Callback) countersign.ErrCode { return code }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		return m
	}
	var seen atomic.Pointer[httptest.ResponseRecorder] // the last answer of the merchant
	// through has change alter what h answers.
	through := func(h http.Handler, change func(w *httptest.ResponseRecorder)) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			change(rec)
			for name, values := range rec.Header() {
				w.Header()[name] = values
			}
			w.WriteHeader(rec.Code)
			_, _ = w.Write(rec.Body.Bytes())
		})
	}
	n := 0
	ask := func(h http.Handler) (decided, reason func() string) {
		t.Helper()
		answers.Store(&h)
		n++
		w := countersigntest.Withdrawal(n)
		var added struct{ ID, Decision string }
		mustShell(t, new(any), fmt.Sprintf(`{"merchant":"shop","callBackId":%q,"tenantUserId":%q}`, w.CallBackID, w.TenantUserID), append([]string{"withdrawals", "add", "-"}, api...)...)
		return func() string {
				mustShell(t, &added, "", append([]string{"withdrawals", "show", "shop/" + w.CallBackID}, api...)...)
				return added.Decision
			}, func() string {
				var c struct{ LastReason string }
				mustShell(t, &c, "", append([]string{"callbacks", "list", "callBackId=" + w.CallBackID}, api...)...)
				return c.LastReason
			}
	}
	honest := through(play(own, 0), func(w *httptest.ResponseRecorder) { seen.Store(w) })
	decided, _ := ask(honest)
	await(t, service, func() bool { return decided() == "confirmed" })
	before := seen.Load()
	var open []func() string
	for _, attack := range []struct {
		name, want string
		h          http.Handler
	}{
		{"not signed", "unsigned", play(nil, 0)},
		{"signed with another key", "signature_invalid", play(thief, 0)},
		{"signed with another key under the merchant's name", "signature_invalid", through(play(thief, 0), func(w *httptest.ResponseRecorder) {
			in := w.Header().Get(envelope.HeaderSignatureInput)
			w.Header().Set(envelope.HeaderSignatureInput, strings.Replace(in, thief.Fingerprint(), own.Fingerprint(), 1))
		})},
		{"under an earlier signature", "signature_invalid", through(play(nil, 0), func(w *httptest.ResponseRecorder) {
			for name, values := range before.Header() {
				w.Header()[name] = values
			}
		})},
		{"an earlier answer", "signature_invalid", through(play(nil, 0), func(w *httptest.ResponseRecorder) {
			clear(w.Header())
			maps.Copy(w.Header(), before.Header())
			w.Body = bytes.NewBuffer(bytes.Clone(before.Body.Bytes()))
		})},
		{"a refusal that is not signed", "unsigned", play(nil, 2001)},
		{"a refusal signed with another key", "signature_invalid", play(thief, 2001)},
	} {
		decided, reason := ask(attack.h)
		open = append(open, decided)
		await(t, service, func() bool { return reason() == attack.want })
	}
	for i, decided := range open {
		if d := decided(); d != "" {
			t.Errorf("withdrawal %d is %s by an answer that the merchant's key did not sign", i+2, d)
		}
	}
	var alarm struct{ Kind string }
	mustShell(t, &alarm, "", append([]string{"alarms", "list", "merchant=shop", "kind=answer_differs"}, api...)...)
	if alarm.Kind != "answer_differs" {
		t.Error("there is no alarm answer_differs")
	}
	decided, _ = ask(honest)
	await(t, service, func() bool { return decided() == "confirmed" })
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
