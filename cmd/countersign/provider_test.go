package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"countersign/internal/daemon"
	"countersign/internal/lab/dbtest"
	"countersign/merchant"
)

// otherService is a wallet service written apart from this project's sending
// code: with nothing but the standard library, as the interface describes it. Its
// requestUUIDs are random, and any errCode but 0 makes it ask again.
type otherService struct {
	t   *testing.T
	key *rsa.PrivateKey

	header, apiKey string // the header of its API key; none if empty
	field          string // the body is a JSON object with this member; bare if empty
}

func newOtherService(t *testing.T) *otherService {
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	return &otherService{t: t, key: key}
}

// publicKey is what it hands over: the bare Base64 of the public part.
func (s *otherService) publicKey() string {
	der, err := x509.MarshalPKIXPublicKey(&s.key.PublicKey)
	if err != nil {
		s.t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(der)
}

func (s *otherService) uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// seal encrypts with the private key, in chunks of 117 bytes.
func (s *otherService) seal(plain string) string {
	var sealed []byte
	for rest := []byte(plain); len(rest) > 0; {
		n := min(len(rest), s.key.Size()-11)
		block, err := rsa.SignPKCS1v15(nil, s.key, 0, rest[:n])
		if err != nil {
			s.t.Fatal(err)
		}
		sealed, rest = append(sealed, block...), rest[n:]
	}
	return base64.StdEncoding.EncodeToString(sealed)
}

// otherAnswer is what came back for one attempt.
type otherAnswer struct {
	APIKey  string `json:"apiKey"`
	Data    string `json:"data"`
	ErrCode int    `json:"errCode"`
	Message string `json:"message"`

	uuid    string
	members map[string]json.RawMessage // of the opened data
}

// post makes one attempt. members is the plaintext without its requestUUID.
func (s *otherService) post(url, members string) otherAnswer {
	s.t.Helper()
	uuid := s.uuid()
	body := s.seal(strings.TrimSuffix(members, "}") + `,"requestUUID":"` + uuid + `"}`)
	if s.field != "" {
		body = `{"v":1,"` + s.field + `":"` + body + `"}`
	}
	request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if s.header != "" {
		request.Header.Set(s.header, s.apiKey)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	a := otherAnswer{uuid: uuid}
	if err := json.Unmarshal(b, &a); err != nil {
		s.t.Fatalf("status %d: %s", response.StatusCode, b)
	}
	if a.ErrCode == 0 {
		sealed, err := base64.StdEncoding.DecodeString(a.Data)
		if err != nil {
			s.t.Fatal(err)
		}
		var plain []byte
		for ; len(sealed) > 0; sealed = sealed[s.key.Size():] {
			//lint:ignore SA1019 answers of the interface are padded so
			chunk, err := rsa.DecryptPKCS1v15(nil, s.key, sealed[:s.key.Size()])
			if err != nil {
				s.t.Fatal(err)
			}
			plain = append(plain, chunk...)
		}
		if err := json.Unmarshal(plain, &a.members); err != nil {
			s.t.Fatalf("%s: %v", plain, err)
		}
		if got := string(a.members["requestUUID"]); got != `"`+uuid+`"` {
			s.t.Errorf("the answer is to %s, not to %s", got, uuid)
		}
	}
	return a
}

// TestOtherProvider is a merchant whose provider is not of this project, with no
// setting but the key and the API key: every deposit is booked once and exactly,
// and every withdrawal that was ordered is confirmed.
func TestOtherProvider(t *testing.T) {
	for name, database := range map[string]func(*testing.T) []string{
		"sqlite":   func(*testing.T) []string { return nil },
		"postgres": func(t *testing.T) []string { return []string{"--db", dbtest.Postgres(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testOtherProvider(t, database(t))
		})
	}
}

func testOtherProvider(t *testing.T, database []string) {
	s := newOtherService(t)
	m := startOtherMerchant(t, s, database...)
	amounts := []struct{ sent, booked string }{
		{`"2.500000000000"`, "2.500000000000"}, {`2.5`, "2.5"}, {`"1E-7"`, "0.0000001"}, {`1E-7`, "0.0000001"}, {`3.10e+2`, "310"},
		{`123456789012345678901234567890.123456789`, "123456789012345678901234567890.123456789"}, {`0.1`, "0.1"},
	}
	for round := range 2 { // it tells everything again, with other requestUUIDs
		for i, amount := range amounts {
			a := s.post(m.notify, fmt.Sprintf(`{"type":1,"txId":"0x%064x","chainName":"ETH","symbol":"WETH","amount":%s,`+
				`"fromAddress":"0xef1c6e67703c7bd7107eed8303fbe6ec2554bf6b","toAddress":"0x7054b0f980a7eb5b3a6b3446f3c947d80162775c",`+
				`"riskLevelFrom":"LOW","riskLevelTo":7,"txIndex":-1,"tenantUserId":65515,"trackingId":"d-%d","coin":{"id":60}}`, i, amount.sent, i))
			if a.ErrCode != 0 || a.APIKey != "k-other" {
				t.Fatalf("round %d, deposit %d: %+v\n%s", round, i, a, m.d.output)
			}
			for member, want := range map[string]string{"amount": amount.sent, "tenantUserId": "65515", "type": "1"} {
				if got := string(a.members[member]); got != want {
					t.Errorf("deposit %d: the answer has %s %s, want %s", i, member, got, want)
				}
			}
		}
	}
	var feed struct {
		Items []struct {
			TrackingID, TenantUserID, Amount, State string
			RiskLevelFrom                           *int
			RiskLevelTo                             int
			AsSent                                  map[string]json.RawMessage
		}
	}
	m.call("GET", "/v1/deposits?limit=100", nil, &feed)
	if len(feed.Items) != len(amounts) {
		t.Fatalf("%d deposits are booked, want %d", len(feed.Items), len(amounts))
	}
	for i, d := range feed.Items {
		if d.TrackingID != fmt.Sprint("d-", i) || d.Amount != amounts[i].booked || d.TenantUserID != "65515" || d.State != "taken" ||
			d.RiskLevelFrom != nil || d.RiskLevelTo != 7 {
			t.Errorf("deposit %d is booked as %+v, want amount %s", i, d, amounts[i].booked)
		}
		for member, want := range map[string]string{"riskLevelFrom": `"LOW"`, "coin": `{"id":60}`, "tenantUserId": `65515`} {
			if got := string(d.AsSent[member]); got != want {
				t.Errorf("deposit %d: %s is kept as %s, want %s", i, member, got, want)
			}
		}
		if got := string(d.AsSent["amount"]); got != amounts[i].sent && got != "" {
			t.Errorf("deposit %d: the amount is kept as %s, want %s", i, got, amounts[i].sent)
		}
	}

	for i := range 3 {
		id := fmt.Sprint("w-", i)
		m.order(id)
		for range 2 {
			a := s.post(m.withdraw, `{"type":2,"callBackId":"`+id+`"}`)
			if a.ErrCode != 0 {
				t.Fatalf("%s: %+v\n%s", id, a, m.d.output)
			}
			for member, want := range map[string]string{"callBackId": `"` + id + `"`, "tenantUserId": `"1945"`, "amount": `"120.50"`, "symbol": `"USDT"`,
				"chainName": `"TRON"`, "address": `"TJRabPrwbZy45sbavfcjinPJC18kjpRTv8"`} {
				if got := string(a.members[member]); got != want {
					t.Errorf("%s: the answer has %s %s, want %s", id, member, got, want)
				}
			}
		}
	}
	if code := m.d.stop(t); code != exitDone {
		t.Errorf("exit status %d", code)
	}
	if strings.Contains(m.d.output.String(), "k-other") {
		t.Error("the API key is in the log")
	}
}

// TestProviderFlags: what each provider is, and what flags change of it.
func TestProviderFlags(t *testing.T) {
	no := false
	for name, c := range map[string]struct {
		flags providerFlags
		want  merchant.Profile
	}{
		"countersign": {providerFlags{Provider: "countersign"}, merchant.Profile{}},
		"other":       {providerFlags{Provider: "other"}, merchant.OtherProvider()},
		"other, changed": {providerFlags{Provider: "other", Binding: "off", Lenient: &no, Hold: "ask", HoldCode: 7, APIKeyHeader: "X"},
			merchant.Profile{Binding: merchant.BindingOff, HoldCode: 7, Header: "X"}},
	} {
		if got, err := c.flags.profile(); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

// TestLearn: gateway --learn books nothing, and provider show prints a file with which the gateway
// takes that provider's callbacks.
func TestLearn(t *testing.T) {
	s, dir := newOtherService(t), t.TempDir()
	s.header, s.apiKey = "Provider-Key", "cb-other"
	s.field = "payload"
	data := filepath.Join(dir, "data")
	args := []string{"gateway", "--data", data, "--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0", "--service-key", secretFile(t, s.publicKey()),
		"--api-key", "@" + secretFile(t, "k-other"), "--callback-api-key", "@" + secretFile(t, "cb-other")}
	d := startDaemon(t, append(args, "--learn")...)
	deposit := `{"type":1,"txId":"0xab","chainName":"ETH","symbol":"WETH","amount":1E-7,"toAddress":"0x70","tenantUserId":65515,"trackingId":"d-1","coin":60}`
	withdrawal := `{"type":2,"callBackId":"w-1"}`
	for range 2 {
		for _, c := range [][2]string{{"/api/v1/uu/notify", deposit}, {"/api/v1/uu/withdraw/info", withdrawal}} {
			if a := s.post(d.urls["callbacks"]+c[0], c[1]); a.ErrCode != 5000 || a.APIKey != "k-other" {
				t.Fatalf("%+v", a)
			}
		}
	}
	if _, err := http.Get(d.urls["callbacks"] + "/api/v1/uu/notify"); err != nil {
		t.Fatal(err)
	}
	s.post(d.urls["callbacks"]+"/api/v1/uu/notify", strings.NewReplacer("txId", "hash", "d-1", "d-2").Replace(deposit))
	ask := func(words ...string) string {
		status, out, errOut := shell(t, "", append(words, "--data", data, "--api", d.urls["api"])...)
		if status != exitDone {
			t.Fatalf("%v: %d %s", words, status, errOut)
		}
		return out
	}
	settings, note, shown := ask("provider", "show"), ask("provider", "note"), ask("api", "refusedCallback", "1")
	for text, wants := range map[string][]string{
		settings: {"3 callbacks, of which 1 would be refused.\n#   1  type 1: member \"txId\" is missing (such as d-2)\n", "notify-path = \"/api/v1/uu/notify\"\n",
			"withdraw-path = \"/api/v1/uu/withdraw/info\"\n", "api-key-header = \"Provider-Key\"\nbody-field = \"payload\"\n", "provider = \"other\"\n"},
		note:  {"To the provider of our callbacks\n", "Seen in 1 of 3 callbacks: type 1: member \"txId\" is missing (such as d-2)"},
		shown: {"learning", `differs    member \"tenantUserId\" is not a string`, `differs    member \"amount\" is not a string`, "JSON object, in payload", "Provider-Key"},
	} {
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in\n%s", want, text)
			}
		}
	}
	if code := d.stop(t); code != exitDone {
		t.Fatalf("exit status %d\n%s", code, d.output)
	}
	for _, secret := range []string{"k-other", "cb-other", "0xab", "1E-7"} {
		if out := settings + note + d.output.String(); strings.Contains(out, secret) {
			t.Errorf("%s is in\n%s", secret, out)
		}
	}
	if out := d.output.String(); !strings.Contains(out, "only POST is a callback") {
		t.Error(out)
	}

	file := filepath.Join(dir, "provider.toml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	d = startDaemon(t, append(args, "--config", file)...)
	if a := s.post(d.urls["callbacks"]+"/api/v1/uu/notify", deposit); a.ErrCode != 0 {
		t.Errorf("%+v\n%s", a, d.output)
	}
	if code := d.stop(t); code != exitDone {
		t.Errorf("exit status %d", code)
	}
}

// TestNewDataDirectory: a daemon does not begin with an empty database where one was used with the same settings file,
// unless it is told to. Before, a gateway that was started from another directory took known deposits for new.
func TestNewDataDirectory(t *testing.T) {
	dir := t.TempDir()
	config := kong.ConfigFlag(filepath.Join(dir, "settings.toml"))
	if err := os.WriteFile(string(config), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{"serve", "gateway"} {
		first, second := filepath.Join(dir, end, "first"), filepath.Join(dir, end, "second")
		start := func(data string, anew bool) {
			t.Helper()
			used, err := (&daemonFlags{New: anew}).begins(streams{settings: &config}, end, data, slog.New(slog.DiscardHandler))
			if err := errors.Join(err, os.MkdirAll(data, 0o700), os.WriteFile(filepath.Join(data, daemon.DatabaseFile), nil, 0o600)); err != nil {
				t.Fatalf("%s in %s: %v", end, data, err)
			}
			used()
		}
		refused := func(dir, known string) {
			t.Helper()
			args := []string{end, "--config", string(config), "--data", dir, "--service-key", secretFile(t, newOtherService(t).publicKey()), "--api-key", "k", "--check"}
			if end == "serve" {
				args = append(args[:5], "--check")
			}
			status, _, errOut := shell(t, "", args...)
			if status != exitFailed || !strings.Contains(errOut, "--data: "+dir+" has no database, and "+string(config)+" was used with the one in "+known) ||
				!strings.Contains(errOut, "give --data "+known) || !strings.Contains(errOut, "--new") {
				t.Fatalf("%s: %d %s", end, status, errOut)
			}
		}
		start(first, false)
		start(first, false)
		refused(second, first)
		start(second, true)
		start(first, false)
		start(second, false)
		if err := os.RemoveAll(second); err != nil { // as a disk that is not mounted
			t.Fatal(err)
		}
		refused(second, second)
	}
}

// otherMerchant is a gateway whose provider is an otherService.
type otherMerchant struct {
	*gatewayDaemon
	notify, withdraw string
}

// startOtherMerchant starts the gateway with the key and the API key alone; where it listens and keeps its data is the
// test's.
func startOtherMerchant(t *testing.T, s *otherService, args ...string) *otherMerchant {
	t.Helper()
	g := &gatewayDaemon{gwNodes: &gwNodes{t: t, data: filepath.Join(t.TempDir(), "data")}}
	g.nodes = []*gwNode{{args: append([]string{"gateway", "--data", g.data, "--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0", "--provider", "other",
		"--service-key", secretFile(t, s.publicKey()), "--api-key", "@" + secretFile(t, "k-other")}, args...)}}
	g.start()
	g.token = adminToken(t, g.data)
	return &otherMerchant{g, g.d.urls["callbacks"] + merchant.DefaultNotifyPath, g.d.urls["callbacks"] + merchant.DefaultWithdrawPath}
}

func (m *otherMerchant) call(method, path string, in, out any) {
	m.t.Helper()
	if err := m.gatewayDaemon.call(m.t.Context(), method, path, in, out); err != nil {
		m.t.Fatal(err)
	}
}

func (m *otherMerchant) order(id string) {
	m.t.Helper()
	m.call("POST", "/v1/orders", map[string]any{"callBackId": id, "tenantUserId": "1945", "address": "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8",
		"chainName": "TRON", "symbol": "USDT", "amount": "120.50"}, nil)
}

// TestHoldWarning: the start says that a policy can hold what this provider may take
// for refused, unless the settings say that it asks again.
func TestHoldWarning(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy.toml")
	if err := os.WriteFile(policy, []byte("default = \"ask\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const warning = "the policy or --verify-url can have this provider told to ask again"
	s := newOtherService(t)
	for _, c := range []struct {
		args  []string
		warns bool
	}{{[]string{"--policy", policy}, true}, {[]string{"--policy", policy, "--hold-code", "7"}, false}} {
		m := startOtherMerchant(t, s, c.args...)
		if strings.Contains(m.d.output.String(), warning) != c.warns {
			t.Errorf("%v:\n%s", c.args, m.d.output)
		}
		m.d.kill()
	}
}
