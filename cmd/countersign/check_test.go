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
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign"
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
	key := must(envelope.GenerateKey(1024))
	private := must(key.PrivatePEM())
	amount := must(countersign.ParseAmount("12.50"))
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
	h := must(merchant.New(config))
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	for name, data := range map[string]string{
		"private.pem": string(private), "api-key": checkedAPIKey + "\n",
		"order.json": `{"callBackId":"order-1","tenantUserId":"65515","address":"TJRab","chainName":"TRON","symbol":"USDT","amount":"12.5"}`,
	} {
		ok(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600))
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
	status = runHere(append(append([]string{"check"}, c.flags...), flags...), streams{in: strings.NewReader(""), out: &out, err: &errOut})
	for _, secret := range []string{checkedAPIKey, checkedCallbackKey} {
		if strings.Contains(out.String()+errOut.String(), secret) {
			t.Errorf("the output holds the secret %s", secret)
		}
	}
	return status, out.String(), errOut.String()
}

// TestCheck: what check prints of merchants that are right, and wrong in one way, and of wrong settings.
func TestCheck(t *testing.T) {
	t.Parallel()
	anything := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) // it takes any method
	t.Cleanup(anything.Close)
	const other = "^(813|1005)$"
	binding := func(b merchant.Binding) func(*merchant.Config) {
		return func(m *merchant.Config) { m.Profile.Binding = b }
	}
	for _, tc := range []struct {
		name   string
		change func(*merchant.Config)
		flags  []string
		status int
		want   []string
	}{
		{"what was not asked for", nil, []string{"--run", "^(101|1101|4..|12..)$"}, exitDone, []string{"\n101  must    pass  deposit/plain\n", " passed, 0 failed, ", ": --effects ", ": --order ", ": --restart "}},
		{"another provider's merchant", func(m *merchant.Config) { m.Profile = merchant.OtherProvider() },
			[]string{"--provider", "other", "--run", other}, exitDone, []string{"\n1005  must    pass  other/amounts\n",
				"\n813  must    skip  message/amount-exponent  (needs a service that keeps to the forms of the interface)\n"}},
		{"another provider", nil, []string{"--provider", "other", "--run", other}, exitFailed, []string{"\n1005  must    FAIL  other/amounts\n"}},
		{"a failure", binding(merchant.BindingWhenPresent), []string{"--run", "^binding/|^101$"}, exitFailed, []string{
			"\n101  must    pass  deposit/plain\n", "\n901  must    FAIL  binding/absent\n",
			"       rule       PROTOCOL.md, Binding, B2, B4: A request that is not bound is refused; ",
			"       wrong      deposit with a random requestUUID: it was accepted, with errCode 0; and of 2 ways also ",
			"       sent       POST ", "       plaintext  {\"type\":1,", "       came back  status 200 {apiKey: as expected, errCode: 0,",
			"       answer     {\"type\":1,", "       to fix     Compare the requestUUID with the rest",
			"passed, 1 failed, 0 skipped in ", "advice on which money depends: 1 of 1 followed; not: none; skipped: none\n"}},
		{"as JSON", binding(merchant.BindingWhenPresent), []string{"--run", "^binding/absent$", "--json"}, exitFailed, []string{
			`"failed": 1,`, `"number": 901,`, `"severity": "must",`, `"result": "fail",`, `"exchanges": [`}},
		{"the interface alone", binding(merchant.BindingOff), []string{"--profile", "interface", "--run", "^(deposit|binding|message)/"},
			exitDone, []string{"\n101  must    pass  deposit/plain\n", "\n903  should  advice  binding/spliced-amount\n",
				"\n5 passed, 0 failed, 1 advised, 0 skipped in ",
				"\nadvice on which money depends: 1 of 2 followed; not: binding/spliced-amount; skipped: none\n"}},
		{"advice", nil, []string{"--run", "^601$", "--notify-url", anything.URL + "/n", "--withdraw-url", anything.URL + "/w"}, exitDone,
			[]string{"\n601  should  advice  http/other-method\n", "       to fix     Answer with status 405", "\n0 passed, 0 failed, 1 advised, 0 skipped in "}},
		{"another callback key", nil, []string{"--callback-api-key", "another", "--run", "^101$"}, exitFailed, []string{"\n101  must    FAIL", "Compare X-API-KEY"}},
		{"another API key", nil, []string{"--api-key", "another", "--run", "^101$"}, exitFailed, []string{"the apiKey of the response is not the merchant's"}},
		{"another URL", nil, []string{"--run", "^101$", "--notify-url", "ELSEWHERE"}, exitFailed, []string{"Check the URLs"}},
		{"a service that does not bind", nil, []string{"--unbound", "--run", "^101$"}, exitFailed, []string{"errCode is 1002"}},
	} {
		c := startChecked(t, tc.change)
		for i, flag := range tc.flags {
			tc.flags[i] = strings.Replace(flag, "ELSEWHERE", strings.Replace(c.flags[1], "/notify", "/elsewhere", 1), 1)
		}
		status, out, errOut := c.check(t, tc.flags...)
		if status != tc.status || strings.Contains(errOut, "the endpoint does not pass") != (status == exitFailed) || strings.Contains(out, "\x1b") {
			t.Errorf("%s: status %d, %s", tc.name, status, errOut)
		}
		if slices.Contains(tc.flags, "--json") && !json.Valid([]byte(out)) {
			t.Errorf("%s: that is no JSON", tc.name)
		}
		for _, want := range tc.want {
			if !strings.Contains("\n"+out, want) {
				t.Errorf("%s: the output lacks %q:\n%s", tc.name, want, out)
			}
		}
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
		ok(t, os.WriteFile(file(name), []byte(text), 0o600))
	}
	const all, few = "^(101|121|201|202|203|1203)$", "^(101|121)$"
	for _, tc := range []struct {
		name, effects string
		more          []string
		status        int
		want          []string
	}{
		{"seen", "cat LEDGER; echo \"$TRACKING_IDS\" >> IDS", []string{"--run", all}, exitDone, []string{"6 passed, 0 failed, 0 skipped in "}},
		{"with a head and other columns", "tr '|' '\\t' < LEDGER; echo '(3 rows)'", nil, exitDone, []string{"2 passed, 0 failed"}},
		{"without amounts", "cut -d '|' -f 1 LEDGER | grep -v ' '", nil, exitFailed, []string{"was credited with \"\""}},
		{"twice", "cat LEDGER LEDGER", nil, exitFailed, []string{"was credited 2 times, not 1", "0 passed, 2 failed"}},
		{"rounded", "sed 's/000000000000000001$/0/' LEDGER", nil, exitFailed, []string{"121  must    FAIL", " of 0.000000000000000001 was credited with \"0.0", "column with enough digits"}},
		{"nothing", "true", []string{"--effects-wait", "1ms"}, exitFailed, []string{"was accepted with errCode 0, and was credited 0 times, not 1", "(--effects-wait)"}},
		{"fails", "printf 'no such table \\033[2J\\n' >&2; exit 3", nil, exitFailed, nil},
		{"killed", "cat LEDGER", []string{"--run", "^1101$", "--restart", "true"}, exitDone, []string{"1101  must    pass  restart/accepted  (a connection to the endpoint stayed open over the restart: "}},
		{"not killed", "cat LEDGER", []string{"--run", "^1101$", "--restart", "echo no such unit >&2; false"}, exitFailed, []string{"restarting the endpoint: --restart: the command failed (exit status 1): no such unit", "command of --restart"}},
	} {
		if tc.name == "killed" && !dbtest.IsWhole() { // deposits come for three seconds, until it is said what stayed open
			continue
		}
		command := strings.NewReplacer("LEDGER", "'"+ledger+"'", "IDS", "IDS", " >> IDS", " >> '"+file("ids")+"'").Replace(tc.effects)
		status, out, errOut := c.check(t, append([]string{"--run", few, "--effects", command}, tc.more...)...)
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
