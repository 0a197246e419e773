package conformance_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/conformance"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/lab/dbtest"
)

// examples are the merchants of the folder examples, and how to start them.
var examples = []struct {
	name    string
	runtime string // the program that must be installed
	args    []string
	durable bool // remembers in STATE_FILE, in lines; that of go is a database
}{
	{"go", "go", nil, false},
	{"node", "node", []string{"../examples/node/merchant.mjs"}, true},
	{"python", "python3", []string{"../examples/python/merchant.py"}, true},
	{"java", "java", []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "../examples/java/Merchant.java"}, true}, // as it starts soonest
	{"php", "php", []string{"../examples/php/merchant.php"}, true},
}

var otherCases = regexp.MustCompile(`^(other|binding|repeat|withdrawal|credit)/|^restart/withdrawal$|^deposit/(plain|json|blocks)$`)

// started is an example that runs.
type started struct {
	url    string
	stop   func()        // kills it
	output *bytes.Buffer // of standard error; to be read when it has stopped
}

// start runs an example until stop is called or the test ends.
func startExample(t *testing.T, command string, args []string, env ...string) started {
	t.Helper()
	cmd := exec.Command(command, args...)
	// Its own settings and what the runtimes need; nothing else of this process.
	cmd.Env = append([]string{"LISTEN=127.0.0.1:0", "BODY_TIMEOUT_MS=3000", "HOLD_MS=0", "API_KEY=" + testAPIKey, "CALLBACK_API_KEY=" + testCallbackKey,
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out := must(cmd.StdoutPipe())(t)
	ok(t, cmd.Start())
	s := started{output: &stderr}
	s.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	t.Cleanup(s.stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.stop()
		t.Fatalf("it did not start: %v\n%s", err, stderr.String())
	}
	url, found := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !found {
		t.Fatalf("its first line is %q", line)
	}
	s.url = url
	return s
}

// inShort leaves one example to what a person waits for, and to the race detector, which
// watches this side with the RSA of the fast build. The others follow it.
func inShort(t *testing.T, name string) {
	t.Helper()
	if name != "python" {
		dbtest.Whole(t, "one example stands for all")
		dbtest.NotRaced(t, "one example stands for all")
	}
}

// needs skips a test whose programs are not installed.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("%s must be installed where CI=true", name)
			}
			t.Skipf("%s is not installed", name)
		}
	}
}

// TestExamples: every example passes every case, with this project's service and, in the whole check, with another
// provider.
func TestExamples(t *testing.T) {
	t.Parallel()
	for _, ex := range examples {
		t.Run(ex.name, func(t *testing.T) {
			t.Parallel()
			inShort(t, ex.name)
			needs(t, ex.runtime)
			command, args := ex.runtime, ex.args
			if ex.name == "go" {
				command, args = filepath.Join(t.TempDir(), "merchant"), nil
				if out, err := exec.Command("go", "build", "-ldflags=-s", "-o", command, "../examples/go").CombinedOutput(); err != nil {
					t.Fatalf("building it: %v\n%s", err, out)
				}
			}
			for _, other := range []bool{false, true} {
				if other && !dbtest.IsWhole() {
					continue // the same program with another setting
				}
				provider, skips, key := "countersign", "none", testKey()
				if other {
					provider, skips, key = "other", needsBound, vectorKey(t)
				}
				env := append(exampleFiles(t, key), "PROVIDER="+provider)
				state := filepath.Join(t.TempDir(), "state")
				look := effectsIn(state)
				if ex.name == "go" {
					look = creditsIn(state)
				}
				env = append(env, "STATE_FILE="+state)
				s := startExample(t, command, args, env...)
				restart := func(context.Context) error {
					s.stop()
					if ex.durable { // it died in the middle of a line
						tear(t, state)
					}
					s = startExample(t, command, args, append(env, "LISTEN="+strings.TrimPrefix(s.url, "http://"))...)
					return nil
				}
				t.Run("provider "+provider, func(t *testing.T) {
					c := exampleConfig(s.url)
					c.Key, c.Other = key, other
					c.Effects = look
					c.Restart = restart
					if other { // all but these is the same code in either setting
						c.Only = func(k conformance.Case) bool { return otherCases.MatchString(k.Name) }
					}
					allPass(t, c, skips)
				})
				if other {
					t.Run("vectors", func(t *testing.T) { postVectors(t, s.url) })
				}
				s.stop()
				if (ex.name == "go" || ex.name == "node") && !other {
					t.Run("signed", func(t *testing.T) { checkSigned(t, command, args, env) })
				}
				if !other {
					endExample(t, strings.TrimPrefix(env[1], "ORDERS_FILE="), func() started { return startExample(t, command, args, env...) })
				}
				for _, secret := range []string{testAPIKey, testCallbackKey, testKey().PublicBase64()[:60]} {
					if strings.Contains(s.output.String(), secret) {
						t.Error("its log holds a secret")
					}
				}
			}
		})
	}
}

// checkSigned starts an example that signs and demands signatures, and tries it with forged ones.
func checkSigned(t *testing.T, command string, args, env []string) {
	service, own := envelope.GenerateSigningKey(), envelope.GenerateSigningKey()
	private := must(own.PrivatePEM())(t)
	dir := t.TempDir()
	for name, text := range map[string][]byte{"own.pem": private, "service.pub": []byte(service.PublicBase64() + "\n")} {
		ok(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	at := l.Addr().String()
	_ = l.Close() // the signatures cover the URL, so the port is chosen before it starts
	s := startExample(t, command, args, append(env, "LISTEN="+at, "PUBLIC_URL=http://"+at, "STATE_FILE="+filepath.Join(dir, "state"), "SIGN_KEY_FILE="+filepath.Join(dir, "own.pem"), "SERVICE_SIGNING_KEY_FILE="+filepath.Join(dir, "service.pub"))...)
	c := exampleConfig(s.url)
	c.Key, c.Sign, c.AnswerKey = testKey(), service, own.Public()
	c.Only = func(k conformance.Case) bool { return linkCases.MatchString(k.Name) }
	allPass(t, c)
}

var linkCases = regexp.MustCompile(`^(link|withdrawal|repeat)/|^deposit/plain$`)

// TestExamplesOnAFullDisk: what the disk did not take, or took in part, is not
// acknowledged. A limit on the size of files stands for a disk that becomes full:
// the write that reaches it takes a part and reports no error. The state file,
// which others could read before, is the merchant's alone.
func TestExamplesOnAFullDisk(t *testing.T) {
	t.Parallel()
	for _, ex := range examples {
		if !ex.durable {
			continue
		}
		t.Run(ex.name, func(t *testing.T) {
			t.Parallel()
			inShort(t, ex.name)
			needs(t, ex.runtime, "bash")
			service, err := countersigntest.MakeService(countersigntest.ServiceConfig{
				Key: testKey(), APIKey: testAPIKey, CallbackAPIKey: testCallbackKey,
			})
			ok(t, err)
			state := filepath.Join(t.TempDir(), "state")
			ok(t, os.WriteFile(state, nil, 0o644))
			limited := append([]string{"-c", `ulimit -f 4 && exec "$@"`, "bash", ex.runtime}, ex.args...)
			s := startExample(t, "bash", limited, append(exampleFiles(t, testKey()), "STATE_FILE="+state, "JDK_JAVA_OPTIONS=-XX:-UsePerfData")...)
			if info, err := os.Stat(state); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the state file has the mode %v, %v", info.Mode(), err)
			}
			to := countersigntest.ToURLs(s.url+"/callbacks/notify", s.url+"/callbacks/withdraw", http.DefaultClient)
			const most = 40 // far more than fit
			acknowledged := 0
			for acknowledged < most && service.Deliver(t.Context(), to, countersigntest.Deposit(acknowledged)).Err == nil {
				acknowledged++
			}
			s.stop()
			if acknowledged == 0 || acknowledged == most {
				t.Fatalf("%d of %d deposits were acknowledged:\n%s", acknowledged, most, s.output)
			}
			data := must(os.ReadFile(state))(t)
			if whole := bytes.Count(data, []byte("\n")); whole < acknowledged {
				t.Errorf("%d deposits were acknowledged, and the disk has %d", acknowledged, whole)
			}
			t.Logf("%d acknowledged", acknowledged)
		})
	}
}

// tear writes half a line at the end of a state file.
func tear(t *testing.T, state string) {
	f, err := os.OpenFile(state, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(`{"taken":"half a li`)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Error(err)
	}
}

// endExample: an order that was confirmed is refused with 2005 once a type 3 or 5 came or it was cancelled, also
// after a restart and where nobody asked before (PROTOCOL.md, I1).
func endExample(t *testing.T, file string, start func() started) {
	t.Helper()
	orders := []client.NewOrder{testOrder, testOrder, testOrder, testOrder}
	for i := range orders {
		orders[i].CallBackID = "end-" + string(rune('0'+i))
	}
	// keep writes the orders, the first of them cancelled.
	keep := func(cancelled int) {
		t.Helper()
		var list []exampleOrder
		for i, o := range orders {
			list = append(list, exampleOrder{o, i < cancelled})
		}
		writeOrders(t, file, list...)
	}
	keep(0)
	s := start()
	tell := func(typ countersign.Type, order int) conformance.Sent {
		t.Helper()
		caller := must(conformance.New(exampleConfig(s.url)))(t)
		id := orders[order].CallBackID
		set := []countersign.Member{{Name: "callBackId", Value: countersign.Raw(`"` + id + `"`)}}
		if typ == countersign.TypeRequestWithdraw {
			set = append(set, countersign.Member{Name: "trackingId", Value: countersign.Raw(`"withdrawal-` + id + `"`)})
		}
		return send(t, caller, typ, countersigntest.NoServiceFault, set...)
	}
	for order := range 3 {
		if sent := tell(countersign.TypeRequestWithdraw, order); !sent.Accepted() {
			t.Errorf("an order:\n%s", sent)
		}
	}
	keep(1)
	for order, typ := range map[int]countersign.Type{1: countersign.TypeWithdraw, 2: countersign.TypeInvalidAddress, 3: countersign.TypeInvalidAddress} {
		if sent := tell(typ, order); !sent.Accepted() {
			t.Errorf("type %d:\n%s", typ, sent)
		}
	}
	for range 2 {
		for order := range orders {
			if sent := tell(countersign.TypeRequestWithdraw, order); sent.Result != client.AttemptRefused || !strings.Contains(sent.String(), "2005") {
				t.Errorf("order %d, which has ended:\n%s", order, sent)
			}
		}
		s.stop()
		s = start()
	}
	s.stop()
}

// TestExamplesHold: where Node and Python are the merchant, a question that comes before its order is held until the
// order had time to come, and a provider that sends no API key is taken.
func TestExamplesHold(t *testing.T) {
	t.Parallel()
	for _, ex := range examples {
		if ex.name != "node" && ex.name != "python" {
			continue
		}
		t.Run(ex.name, func(t *testing.T) {
			t.Parallel()
			if ex.name != "python" {
				dbtest.NotRaced(t, "one example stands for all")
			}
			needs(t, ex.runtime)
			files := exampleFiles(t, testKey())
			orders := strings.TrimPrefix(files[1], "ORDERS_FILE=")
			ask := func(s started) conformance.Sent {
				c := exampleConfig(s.url)
				c.CallbackAPIKey, c.Other = "", true
				caller := must(conformance.New(c))(t)
				return send(t, caller, countersign.TypeRequestWithdraw, countersigntest.NoServiceFault, countersign.Member{Name: "callBackId", Value: `"soon"`})
			}
			env := append(files, "CALLBACK_API_KEY=", "PROVIDER=other")
			s := startExample(t, ex.runtime, ex.args, env...)
			if sent := ask(s); sent.Result != client.AttemptHold {
				t.Errorf("an order that is not known yet:\n%s", sent)
			}
			s.stop()
			s = startExample(t, ex.runtime, ex.args, append(env, "GRACE_MS=0")...)
			if sent := ask(s); sent.Result != client.AttemptRefused {
				t.Errorf("an order that did not come:\n%s", sent)
			}
			s.stop()
			s = startExample(t, ex.runtime, ex.args, append(env, "HOLD_MS=600000")...) // until the order is there
			done := make(chan conformance.Sent, 1)
			go func() { done <- ask(s) }()
			o := testOrder
			o.CallBackID = "soon"
			writeOrders(t, orders, exampleOrder{NewOrder: o})
			if sent := <-done; !sent.Accepted() || sent.Confirmed.Amount != o.Amount {
				t.Errorf("an order that came while it was asked for:\n%s", sent)
			}
			s.stop()
		})
	}
}

func exampleConfig(url string) conformance.Config {
	return conformance.Config{
		NotifyURL: url + "/callbacks/notify", WithdrawURL: url + "/callbacks/withdraw", Key: testKey(), APIKey: testAPIKey,
		CallbackAPIKey: countersign.APIKey(testCallbackKey), Order: &testOrder,
	}
}

// exampleOrder is an order in the file of an example.
type exampleOrder struct {
	client.NewOrder
	Cancelled bool `json:"cancelled,omitempty"`
}

// writeOrders puts a file of orders in the place of the one that an example reads.
func writeOrders(t *testing.T, file string, list ...exampleOrder) {
	t.Helper()
	data, err := json.Marshal(list)
	if err == nil {
		err = os.WriteFile(file+".new", data, 0o600)
	}
	ok(t, errors.Join(err, os.Rename(file+".new", file)))
}

// exampleFiles writes the files that an example reads.
func exampleFiles(t *testing.T, service *envelope.Key) []string {
	t.Helper()
	dir := t.TempDir()
	other := testOrder
	other.CallBackID = "another"
	key, book := filepath.Join(dir, "public.b64"), filepath.Join(dir, "orders.json")
	ok(t, os.WriteFile(key, []byte(service.PublicBase64()+"\n"), 0o600))
	writeOrders(t, book, exampleOrder{NewOrder: other}, exampleOrder{NewOrder: testOrder})
	return []string{"KEY_FILE=" + key, "ORDERS_FILE=" + book}
}

// TestExamplesReadme: the settings that the examples read are those of their
// README, in each language alike, but those of the signed link, which Go and Node alone have.
func TestExamplesReadme(t *testing.T) {
	readme := must(os.ReadFile("../examples/README.md"))(t)
	settings := regexp.MustCompile(`(?m)^\| ([A-Z_]+) \| (Go and Node: )?`).FindAllSubmatch(readme, -1)
	if len(settings) != 11 {
		t.Fatalf("the README has %d settings", len(settings))
	}
	for _, ex := range examples {
		file := "../examples/go/main.go"
		if len(ex.args) > 0 {
			file = ex.args[len(ex.args)-1]
		}
		source := must(os.ReadFile(file))(t)
		if !bytes.Contains(readme, []byte(strings.TrimPrefix(file, "../examples/"))) {
			t.Errorf("the README does not name %s", file)
		}
		for _, s := range settings {
			if len(s[2]) > 0 && ex.name != "go" && ex.name != "node" {
				continue
			}
			if name := string(s[1]); !bytes.Contains(source, []byte(`"`+name+`"`)) && !bytes.Contains(source, []byte("'"+name+"'")) &&
				!bytes.Contains(source, []byte("env."+name)) {
				t.Errorf("%s does not read %s", file, name)
			}
		}
		if !bytes.Contains(source, []byte("CREDIT")) {
			t.Errorf("%s does not say where to credit", file)
		}
	}
}
