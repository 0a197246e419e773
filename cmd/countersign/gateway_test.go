package main

import (
	"path/filepath"
	"strings"
	"testing"

	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/lab/dbtest"
	"countersign/merchant"
)

// TestGatewayKeys: both sets of keys are those of the flags, each with its own key for answers.
func TestGatewayKeys(t *testing.T) {
	var files, prints [2]string
	for i := range prints {
		key, _ := pairOf(t)
		files[i], prints[i] = secretFile(t, key.PublicBase64()), key.Fingerprint()
	}
	var m merchant.Config
	c := &gatewayCmd{ServiceKey: files[:], ResponseKey: []string{files[1], files[0]}}
	if err := c.readKeys(&m, streams{}); err != nil {
		t.Fatal(err)
	}
	if got := [4]string{m.Key.Fingerprint(), m.NextKey.Fingerprint(), m.ResponseKey.Fingerprint(), m.NextResponseKey.Fingerprint()}; got != [4]string{prints[0], prints[1], prints[1], prints[0]} {
		t.Errorf("%q of %q", got, prints)
	}
}

// TestGatewayStartsWrongly: what cannot work is said at the start.
func TestGatewayStartsWrongly(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	dir := t.TempDir()
	service := countersigntest.NewService(t)
	key, noKey := secretFile(t, service.MerchantKey().PublicBase64()), secretFile(t, "SECRET")
	own, err := envelope.GenerateKey(1024)
	if err != nil {
		t.Fatal(err)
	}
	ownPEM, err := own.PrivatePEM()
	if err != nil {
		t.Fatal(err)
	}
	pair := secretFile(t, string(ownPEM))
	signingPEM, err := envelope.GenerateSigningKey().PrivatePEM()
	if err != nil {
		t.Fatal(err)
	}
	signing := secretFile(t, string(signingPEM))
	good := []string{"gateway", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0"}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no key":          {[]string{"--api-key", "k"}, "--service-key is missing"},
		"no api key":      {[]string{"--service-key", key}, "--api-key is missing"},
		"bad key":         {[]string{"--api-key", "k", "--service-key", noKey}, "--service-key:"},
		"no file":         {[]string{"--api-key", "@" + dir + "/none", "--service-key", key}, "--api-key"},
		"same paths":      {[]string{"--api-key", "k", "--service-key", key, "--notify-path", "/a", "--withdraw-path", "/a"}, "a path of its own"},
		"policy":          {[]string{"--api-key", "k", "--service-key", key, "--policy", secretFile(t, "nonsense = 1")}, "--policy"},
		"forward url":     {[]string{"--api-key", "k", "--service-key", key, "--forward-url", "ftp://x", "--forward-secret", webhookSecret}, "forward URL"},
		"forward scheme":  {[]string{"--api-key", "k", "--service-key", key, "--forward-url", "amqp://u:SECRET@x/q", "--forward-secret", webhookSecret}, "the forward URL must be https://HOST/PATH"},
		"forward plain":   {[]string{"--api-key", "k", "--service-key", key, "--forward-url", "http://app.example/SECRET", "--forward-secret", webhookSecret}, "give https://, or http:// to 127.0.0.1"},
		"forward what":    {[]string{"--api-key", "k", "--service-key", key, "--forward-only-new"}, "--forward-only-new: there is no --forward-url"},
		"forward secret":  {[]string{"--api-key", "k", "--service-key", key, "--forward-url", "https://x", "--forward-secret", "SECRET"}, "--forward-secret:"},
		"one secret":      {[]string{"--api-key", "k", "--service-key", key, "--forward-url", "https://x"}, "--forward-secret is missing"},
		"verify unsigned": {[]string{"--api-key", "k", "--service-key", key, "--verify-url", "https://x"}, "--verify-secret is missing"},
		"no text":         {[]string{"--config", secretFile(t, "[gateway]\napi-key = 5")}, "--api-key: [gateway] of the settings file has a value that is not a text"},
		"no texts":        {[]string{"--config", secretFile(t, "[gateway]\ncallback-api-key = [\"a\", 5]")}, "--callback-api-key: [gateway] of the settings file has a value that is not a text"},
		"no response key": {[]string{"--api-key", "k", "--callback-api-key", "c", "--service-key", pair}, "--response-key is missing"},
		"a private key":   {[]string{"--api-key", "k", "--service-key", pair}, "--service-key: that is a private key"},
		"private answers": {[]string{"--api-key", "k", "--service-key", key, "--response-key", pair}, "--response-key: that is a private key"},
		"private signer": {[]string{"--api-key", "k", "--service-key", key, "--public-url", "https://x", "--service-signing-key", signing},
			"--service-signing-key: that is a private key"},
		"typed private key": {[]string{"--api-key", "k", "--service-key", string(ownPEM)}, "that is a private key"},
		"no callback key":   {[]string{"--api-key", "k", "--service-key", pair, "--response-key", key}, "--callback-api-key is missing"},
		"binding":           {[]string{"--api-key", "k", "--service-key", key, "--binding", "maybe"}, "--binding"},
	} {
		status, out, errOut := shell(t, "", append(append([]string{}, good...), c.args...)...)
		if status == exitDone || !strings.Contains(errOut, c.want) || strings.Contains(out+errOut, "SECRET") || strings.Contains(out+errOut, "BEGIN PRIVATE") {
			t.Errorf("%s: %d %s", name, status, errOut)
		}
	}
}
