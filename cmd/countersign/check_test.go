package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/conformance"
	"countersign/envelope"
	"countersign/internal/lab/dbtest"
	"countersign/merchant"
)

// checked is a merchant's endpoint and the flags that check it.
type checked struct {
	dir   string
	flags []string
}

const (
	checkedAPIKey      = "merchant-key-check-1"
	checkedCallbackKey = "callback-key-check-1"
)

// startChecked starts package merchant's endpoint with a new pair. change may
// break it.
func startChecked(t *testing.T, change func(*merchant.Config)) checked {
	t.Helper()
	dir := t.TempDir()
	key, err := envelope.GenerateKey(1024)
	if err != nil {
		t.Fatal(err)
	}
	private, err := key.PrivatePEM()
	if err != nil {
		t.Fatal(err)
	}
	amount, err := countersign.ParseAmount("12.50")
	if err != nil {
		t.Fatal(err)
	}
	config := merchant.Config{
		Key: key.Public(), APIKey: checkedAPIKey, CallbackAPIKeys: []countersign.APIKey{checkedCallbackKey}, BodyTimeout: time.Second,
		Inbox: merchant.NewMemoryInbox(), Log: slog.New(slog.DiscardHandler),
		OnWithdrawal: func(_ context.Context, w countersign.WithdrawalRequest) (merchant.Answer, error) {
			if w.CallBackID != "order-1" {
				return merchant.Refuse(countersign.CodeUnknownOrder, ""), nil
			}
			return merchant.Confirm("65515", countersign.Details{Address: "TJRab", ChainName: "TRON", Symbol: "USDT", Amount: amount}), nil
		},
	}
	if change != nil {
		change(&config)
	}
	h, err := merchant.New(config)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	for name, data := range map[string]string{
		"private.pem": string(private), "api-key": checkedAPIKey + "\n",
		"order.json": `{"callBackId":"order-1","tenantUserId":"65515","address":"TJRab","chainName":"TRON","symbol":"USDT","amount":"12.5"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return checked{dir, []string{
		"--notify-url", srv.URL + merchant.DefaultNotifyPath, "--withdraw-url", srv.URL + merchant.DefaultWithdrawPath,
		"--key", filepath.Join(dir, "private.pem"), "--api-key", "@" + filepath.Join(dir, "api-key"),
		"--callback-api-key", checkedCallbackKey, "--order", filepath.Join(dir, "order.json"),
	}}
}

// check runs the command line in this process.
func (c checked) check(t *testing.T, flags ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	status = run(append(append([]string{"check"}, c.flags...), flags...), streams{in: strings.NewReader(""), out: &out, err: &errOut})
	for _, secret := range []string{checkedAPIKey, checkedCallbackKey} {
		if strings.Contains(out.String()+errOut.String(), secret) {
			t.Errorf("the output holds the secret %s", secret)
		}
	}
	return status, out.String(), errOut.String()
}

func TestCheckPasses(t *testing.T) {
	t.Parallel()
	status, out, errOut := startChecked(t, nil).check(t)
	if status != exitDone || errOut != "" {
		t.Fatalf("status %d\n%s%s", status, out, errOut)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	n := len(conformance.Cases())
	if len(lines) < n+1 || !strings.HasPrefix(lines[0], "101  must    pass  deposit/plain") || !strings.Contains(lines[n], " passed, 0 failed, ") {
		t.Fatalf("want one line a case and a summary, got\n%s", out)
	}
	for _, flag := range []string{"--effects", "--order", "--restart"} {
		if !strings.Contains(out, ": "+flag+" ") {
			t.Errorf("%s is not named:\n%s", flag, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("colour where no terminal is")
	}
}

// TestCheckOtherProvider: --provider other holds a merchant to what such a provider
// sends, and a merchant that knows this project's service alone does not pass.
func TestCheckOtherProvider(t *testing.T) {
	t.Parallel()
	flags := []string{"--provider", "other", "--run", "^other/|^message/|^withdrawal/|^101$"}
	status, out, errOut := startChecked(t, func(m *merchant.Config) { m.Profile = merchant.OtherProvider() }).check(t, flags...)
	if status != exitDone || !strings.Contains(out, "\n1005  must    pass  other/amounts\n") ||
		!strings.Contains(out, "\n813  must    skip  message/amount-exponent  (needs a service that keeps to the forms of the interface)\n") {
		t.Errorf("status %d\n%s%s", status, out, errOut)
	}
	status, out, _ = startChecked(t, nil).check(t, flags...)
	if status != exitFailed || !strings.Contains(out, "\n1005  must    FAIL  other/amounts\n") {
		t.Errorf("status %d\n%s", status, out)
	}
}

// TestCheckFails: the report of a failed case says all that one needs, in text
// and JSON.
func TestCheckFails(t *testing.T) {
	c := startChecked(t, func(m *merchant.Config) { m.Profile.Binding = merchant.BindingWhenPresent })
	status, out, errOut := c.check(t, "--run", "^binding/|^101$")
	if status != exitFailed || !strings.Contains(errOut, "the endpoint does not pass") {
		t.Errorf("status %d, %s", status, errOut)
	}
	for _, want := range []string{
		"101  must    pass  deposit/plain\n", "901  must    FAIL  binding/absent\n",
		"       rule       PROTOCOL.md, Binding, B2, B4: A request that is not bound is refused; ",
		"       wrong      deposit with a random requestUUID: it was accepted, with errCode 0; and of 2 ways also ",
		"       sent       POST ", "       plaintext  {\"type\":1,", "       came back  status 200 {apiKey: as expected, errCode: 0,",
		"       answer     {\"type\":1,", "       to fix     Compare the requestUUID with the rest",
		"passed, 1 failed, 0 skipped in ",
		"advice on which money depends: 1 of 1 followed; not: none; skipped: none\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	status, out, _ = c.check(t, "--run", "binding/absent", "--json")
	var report struct {
		Summary conformance.Summary
		Results []struct {
			Number    int
			Severity  string
			Result    string
			Exchanges []conformance.Exchange
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("--json: %v\n%s", err, out)
	}
	if status != exitFailed || report.Summary.Failed != 1 || len(report.Results) != 1 || report.Results[0].Number != 901 ||
		report.Results[0].Result != "fail" || report.Results[0].Severity != "must" || len(report.Results[0].Exchanges) != 1 {
		t.Errorf("--json: status %d, %+v", status, report)
	}
}

// TestCheckInterface: a merchant that ignores the binding keeps to the interface, and is told what it risks.
func TestCheckInterface(t *testing.T) {
	c := startChecked(t, func(m *merchant.Config) { m.Profile.Binding = merchant.BindingOff })
	status, out, errOut := c.check(t, "--profile", "interface", "--run", "^(deposit|binding|message)/")
	if status != exitDone || errOut != "" {
		t.Errorf("status %d, %s", status, errOut)
	}
	for _, want := range []string{"101  must    pass  deposit/plain\n", "903  should  advice  binding/spliced-amount\n",
		"\n5 passed, 0 failed, 1 advised, 0 skipped in ",
		"\nadvice on which money depends: 1 of 2 followed; not: binding/spliced-amount; skipped: none\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

// TestCheckAdvises: a case of "should" that fails is shown with what to fix, and the
// endpoint passes all the same.
func TestCheckAdvises(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) // it takes any method
	t.Cleanup(srv.Close)
	c := startChecked(t, nil)
	c.flags[1], c.flags[3] = srv.URL+"/n", srv.URL+"/w"
	status, out, errOut := c.check(t, "--run", "^601$")
	if status != exitDone || errOut != "" {
		t.Errorf("status %d, %s", status, errOut)
	}
	for _, want := range []string{"601  should  advice  http/other-method\n", "       to fix     Answer with status 405", "\n0 passed, 0 failed, 1 advised, 0 skipped in "} {
		if !strings.Contains("\n"+out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if status, out, _ := c.check(t, "--run", "^601$", "--json"); status != exitDone || !strings.Contains(out, `"advised": 1`) {
		t.Errorf("--json: status %d\n%s", status, out)
	}
}

// TestCheckCommands: --effects and --restart are shell commands; what is wrong with one of
// them is said, and is no fault of the endpoint.
func TestCheckCommands(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no sh")
	}
	t.Parallel()
	var mu sync.Mutex
	var ledger string
	c := startChecked(t, func(m *merchant.Config) {
		m.BodyTimeout = time.Minute // no connection ends before
		m.OnPossibleDuplicate = merchant.KeepForReview
		m.OnDeposit = func(_ context.Context, d merchant.Deposit) error {
			mu.Lock()
			defer mu.Unlock()
			f, err := os.OpenFile(ledger, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = fmt.Fprintf(f, "%s|%s\n", d.TrackingID, d.Amount)
			return err
		}
	})
	ledger = filepath.Join(c.dir, "ledger")
	file := func(name string) string { return filepath.Join(c.dir, name) }
	for name, text := range map[string]string{"ledger": "tracking_id | amount\n", "ids": ""} {
		if err := os.WriteFile(file(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const credits = "^(101|121|201|202|203|1203)$"
	for _, tc := range []struct {
		name, effects string
		more          []string
		status        int
		want          []string
	}{
		{"seen", "cat LEDGER; echo \"$TRACKING_IDS\" >> IDS", nil, exitDone, []string{"6 passed, 0 failed, 0 skipped in "}},
		{"with a head and other columns", "tr '|' '\\t' < LEDGER; echo '(3 rows)'", nil, exitDone, []string{"6 passed, 0 failed"}},
		{"without amounts", "cut -d '|' -f 1 LEDGER | grep -v ' '", nil, exitFailed, []string{"was credited with \"\""}},
		{"twice", "cat LEDGER LEDGER", nil, exitFailed, []string{"was credited 2 times, not 1", "0 passed, 6 failed"}},
		{"rounded", "sed 's/000000000000000001$/0/' LEDGER", nil, exitFailed, []string{"121  must    FAIL", " of 0.000000000000000001 was credited with \"0.0", "column with enough digits"}},
		{"nothing", "true", []string{"--effects-wait", "1ms"}, exitFailed, []string{"was accepted with errCode 0, and was credited 0 times, not 1", "(--effects-wait)"}},
		{"fails", "printf 'no such table \\033[2J\\n' >&2; exit 3", nil, exitFailed, nil},
		{"killed", "cat LEDGER", []string{"--run", "^1101$", "--restart", "true"}, exitDone, []string{"1101  must    pass  restart/accepted  (a connection to the endpoint stayed open over the restart: "}},
		{"not killed", "cat LEDGER", []string{"--run", "^1101$", "--restart", "echo no such unit >&2; false"}, exitFailed, []string{"restarting the endpoint: --restart: the command failed (exit status 1): no such unit", "command of --restart"}},
	} {
		command := strings.NewReplacer("LEDGER", "'"+ledger+"'", "IDS", "IDS", " >> IDS", " >> '"+file("ids")+"'").Replace(tc.effects)
		status, out, errOut := c.check(t, append([]string{"--run", credits, "--effects", command}, tc.more...)...)
		if status != tc.status {
			t.Errorf("%s: status %d\n%s%s", tc.name, status, out, errOut)
		}
		for _, want := range tc.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: the output lacks %q:\n%s", tc.name, want, out)
			}
		}
		if tc.name == "fails" && (out != "" || !strings.Contains(errOut, "--effects: the command failed (exit status 3): no such table "+`\u001b[2J`)) {
			t.Errorf("%s: %s%s", tc.name, out, errOut)
		}
	}
	if ids, err := os.ReadFile(file("ids")); err != nil || !regexp.MustCompile(`(?m)^cs[0-9a-f]{10}-1203-1 cs[0-9a-f]{10}-1203-2$`).Match(ids) {
		t.Errorf("TRACKING_IDS: %v\n%s", err, ids)
	}
}

// TestCheckOtherSettings: what is wrong with the settings shows as what is wrong
// with the endpoint, with a hint.
func TestCheckOtherSettings(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	c := startChecked(t, nil)
	for _, tc := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--callback-api-key", "another"}, "Compare X-API-KEY"},
		{[]string{"--api-key", "another"}, "the apiKey of the response is not the merchant's"},
		{[]string{"--notify-url", strings.Replace(c.flags[1], "/notify", "/elsewhere", 1)}, "Check the URLs"},
		{[]string{"--unbound"}, "errCode is 1002"},
	} {
		status, out, _ := c.check(t, append(tc.flags, "--run", "deposit/plain")...)
		if status != exitFailed || !strings.Contains(out, "101  must    FAIL") || !strings.Contains(out, tc.want) {
			t.Errorf("%v: status %d, no %q in\n%s", tc.flags, status, tc.want, out)
		}
	}
}

// TestCheckPassesGateway: the gateway, as a process with its database, passes,
// and passes again when it knows the order's answer already.
func TestCheckPassesGateway(t *testing.T) {
	dbtest.Whole(t, "this test asks a gateway in every case")
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	key, err := envelope.GenerateKey(1024)
	if err != nil {
		t.Fatal(err)
	}
	private, err := key.PrivatePEM()
	if err != nil {
		t.Fatal(err)
	}
	order := `{"callBackId":"order-Check","tenantUserId":"60001","address":"TX","chainName":"TRON","symbol":"USDT","amount":"987654321098765431"}`
	for name, text := range map[string]string{
		"private.pem": string(private), "public.b64": key.PublicBase64(), "order.json": order, "api-key": checkedAPIKey, "callback-key": checkedCallbackKey,
	} {
		if err := os.WriteFile(file(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := startDaemon(t, "gateway", "--data", file("data"), "--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0",
		"--service-key", file("public.b64"), "--api-key", "@"+file("api-key"), "--callback-api-key", "@"+file("callback-key"))
	if err := call(t.Context(), "POST", d.urls["api"]+"/v1/orders", adminToken(t, file("data")), json.RawMessage(order), nil); err != nil {
		t.Fatal(err)
	}
	// All but http/slow-body, which takes as long as the gateway waits.
	const run = `^(deposit|repeat|notice|withdrawal|response|sealing|form|message|binding)/|^http/[a-rt-z]`
	cases := 0
	for _, c := range conformance.Cases() {
		if regexp.MustCompile(run).MatchString(c.Name) {
			cases++
		}
	}
	c := checked{dir, []string{
		"--notify-url", d.urls["callbacks"] + merchant.DefaultNotifyPath, "--withdraw-url", d.urls["callbacks"] + merchant.DefaultWithdrawPath,
		"--key", file("private.pem"), "--api-key", "@" + file("api-key"), "--callback-api-key", "@" + file("callback-key"), "--order", file("order.json"),
		"--run", run,
	}}
	want := fmt.Sprintf("%d passed, 0 failed, 1 skipped", cases-1)
	for _, turn := range []string{"first", "second"} {
		if status, out, errOut := c.check(t); status != exitDone || !strings.Contains(out, want) {
			t.Errorf("the %s run: status %d, want %s\n%s%s", turn, status, want, out, errOut)
		}
	}
}
