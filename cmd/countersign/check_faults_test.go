package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/conformance"
	"countersign/envelope"
	"countersign/internal/lab/dbtest"
)

// planted are faults that developers make, each a text of the Node example and what stands
// there instead. One of the cases named must find it.
var planted = []struct {
	fault    string
	old, new string
	cases    []string
}{
	{
		"a repeat is credited again",
		`if (before === contentOf(m)) return; //`,
		`if (before === contentOf(m)) return remember({ taken: id, callback: m, possibleDuplicate: false }); //`,
		[]string{"repeat/new-request"},
	}, {
		"the credit is on the disk before the trackingId, which is in memory alone",
		`slice(0, -1)) apply(JSON.parse(line));`,
		`slice(0, -1)) { const r = JSON.parse(line); if (!r.taken) apply(r); }`,
		[]string{"restart/accepted"},
	}, {
		"the ledger begins anew with the process",
		`openSync(file, 'a', 0o600)`,
		`openSync(file, 'w', 0o600)`,
		[]string{"restart/accepted"},
	}, {
		"amounts are compared as floating-point numbers",
		`return amount?.includes('.') ? amount.replace(/\.?0+$/, '') : amount;`,
		`return amount && Number(amount);`,
		[]string{"repeat/other-content"},
	}, {
		"the ledger rounds to 8 decimals",
		`const record = { taken: id, callback: m };`,
		`const record = { taken: id, callback: m.amount ? { ...m, amount: String(Math.round(m.amount * 1e8) / 1e8) } : m };`,
		[]string{"deposit/amounts"},
	}, {
		"the padding of the seal is not checked",
		`if (b[0] !== 0 || b[1] !== 1 || i < 10 || b[i] !== 0 || i + 1 >= b.length) throw cannotOpen('a block is not of type 1');`,
		``,
		[]string{"sealing/padding"},
	}, {
		"X-API-KEY is not compared",
		`if (callbackKey && !timingSafeEqual(sha256(req.headers['x-api-key'] || ''), sha256(callbackKey))) return end(401);`,
		``,
		[]string{"http/api-key"},
	}, {
		"the binding of the requestUUID is not checked",
		`  checkBinding(plain, m.requestUUID, blocks);`,
		``,
		[]string{"binding/spliced-amount"},
	}, {
		"errCode is a text",
		`errCode: 0, message: ''`,
		`errCode: '0', message: ''`,
		[]string{"deposit/plain"},
	}, {
		"an order is found by its user",
		`.find((o) => o.callBackId === m.callBackId)`,
		`.find((o) => o.tenantUserId === m.tenantUserId)`,
		[]string{"withdrawal/unknown"},
	}, {
		"a deposit is known by its transaction, without txIndex",
		`[m.type, m.trackingId || m.requestUUID, m.callBackId]`,
		`[m.type, m.txId || m.trackingId || m.requestUUID, m.callBackId]`,
		[]string{"repeat/two-transfers"},
	}, {
		"possible duplicates are credited",
		`record.possibleDuplicate = (`,
		`record.possibleDuplicate = false && (`,
		[]string{"repeat/possible-duplicate"},
	}, {
		"the amount of an order is a floating-point number",
		`if (!order) throw`,
		`if (order) order.amount = String(Number(order.amount)); else throw`,
		[]string{"withdrawal/long-amount"},
	}, {
		"which withdrawal an order paid is in memory alone",
		`remember({ confirmed: m.callBackId`,
		`apply({ confirmed: m.callBackId`,
		[]string{"restart/withdrawal"},
	}, {
		"the details of an answer are not bound to the callBackId",
		`answer.address ? grouped(answer) : write(answer)`,
		`write(answer)`,
		[]string{"withdrawal/details-bound"},
	},
}

// creditsOfExample is the command of --effects that docs/merchant/check.md has for an example.
const creditsOfExample = `jq -r 'select(.callback.type == 1 and .possibleDuplicate == false) | "\(.callback.trackingId) \(.callback.amount)"' state.jsonl`

// TestCheckFindsPlantedFaults: the cases that are there for it find each fault in a copy
// of an example, and the example without one passes every case, with all that check can look at.
func TestCheckFindsPlantedFaults(t *testing.T) {
	source, err := os.ReadFile("../../examples/node/merchant.mjs")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range planted {
		if n := strings.Count(string(source), p.old); n != 1 {
			t.Errorf("%s: the text to replace is there %d times", p.fault, n)
		}
	}
	page, err := os.ReadFile("../../docs/merchant/check.md")
	if err != nil || !strings.Contains(string(page), creditsOfExample) {
		t.Errorf("docs/merchant/check.md does not have the command that lists the credits of an example: %v", err)
	}
	dbtest.NotRaced(t, "the example is a process of its own")
	dbtest.Whole(t, "it starts many merchants and kills them")
	for _, program := range []string{"sh", "node", "jq"} {
		needs(t, program)
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		status, report := checkCopy(t, string(source))
		if status != exitDone || report.Summary.Advised > 0 {
			t.Errorf("status %d, %+v", status, report.Summary)
		}
		for _, r := range report.Results {
			// What is left out is about another service, or other keys.
			if r.Result != "pass" && !strings.Contains(r.Problem, "needs a service ") && !strings.Contains(r.Problem, "needs a pair that the merchant made") {
				t.Errorf("%s: %s, %s", r.Name, r.Result, r.Problem)
			}
		}
	})
	for _, p := range planted {
		t.Run(strings.ReplaceAll(p.fault, " ", "-"), func(t *testing.T) {
			t.Parallel()
			var names []string
			for _, c := range p.cases {
				names = append(names, regexp.QuoteMeta(c))
			}
			status, report := checkCopy(t, strings.Replace(string(source), p.old, p.new, 1), "--run", "^("+strings.Join(names, "|")+")$")
			failed := map[string]string{}
			for _, r := range report.Results {
				if r.Result == "fail" && r.Severity == "must" {
					failed[r.Name] = r.Problem
				}
			}
			if status != exitFailed {
				t.Errorf("status %d, %d cases failed", status, len(failed))
			}
			if !slices.ContainsFunc(p.cases, func(name string) bool { return failed[name] != "" }) {
				t.Errorf("none of %v failed; failed: %v", p.cases, failed)
			}
			t.Logf("%s: %s", p.cases[0], failed[p.cases[0]])
		})
	}
}

// checkReport is the output of check --json.
type checkReport struct {
	Summary conformance.Summary
	Results []struct{ Name, Severity, Result, Problem string }
}

// checkCopy runs a merchant of this source, again whenever it is killed, and checks it by
// the command line.
func checkCopy(t *testing.T, source string, args ...string) (status int, report checkReport) {
	t.Helper()
	dir := t.TempDir()
	key, err := envelope.GenerateKey(1024) // so that an answer has several blocks
	if err != nil {
		t.Fatal(err)
	}
	private, err := key.PrivatePEM()
	if err != nil {
		t.Fatal(err)
	}
	address, err := dbtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	const order = `{"callBackId":"order-A","tenantUserId":"65515","address":"TJRab","chainName":"TRON","symbol":"USDT","amount":"987654321098765431"}`
	for name, text := range map[string]string{
		"merchant.mjs": source, "private.pem": string(private), "public.b64": key.PublicBase64(), "order.json": order, "orders.json": "[" + order + "]",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// As systemd does with Restart=always.
	cmd := exec.Command("sh", "-c", `while true; do node merchant.mjs & echo $! > merchant.pid; wait $!; done`)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "KEY_FILE=public.b64", "API_KEY="+checkedAPIKey, "CALLBACK_API_KEY="+checkedCallbackKey, "ORDERS_FILE=orders.json",
		"STATE_FILE=state.jsonl", "LISTEN="+address, "BODY_TIMEOUT_MS=3000")
	endGroup := ownGroup(t, cmd)
	log, err := os.Create(filepath.Join(dir, "merchant.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endGroup(); _ = cmd.Wait() })
	for deadline := time.Now().Add(wholeRun(t)); ; time.Sleep(20 * time.Millisecond) {
		if text, _ := os.ReadFile(log.Name()); strings.Contains(string(text), "listening on ") {
			break
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("the merchant does not start:\n%s", text)
		}
	}
	c := checked{dir, []string{
		"--notify-url", "http://" + address + "/callbacks/notify", "--withdraw-url", "http://" + address + "/callbacks/withdraw",
		"--key", filepath.Join(dir, "private.pem"), "--api-key", checkedAPIKey, "--callback-api-key", checkedCallbackKey,
		"--order", filepath.Join(dir, "order.json"),
	}}
	at := fmt.Sprintf("cd '%s' && ", dir)
	status, out, errOut := c.check(t, append(args, "--json", "--effects", at+creditsOfExample, "--restart", at+"kill -9 $(cat merchant.pid)")...)
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("--json: %v\n%s%s", err, out, errOut)
	}
	return status, report
}
