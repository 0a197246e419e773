package gateway

import (
	"crypto/rand"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/lab/dbtest"
	"countersign/internal/web"
)

func forwardingPage(t *testing.T) string {
	page := must(os.ReadFile("../../docs/merchant/README.md"))(t)
	return string(page)
}

// TestForwardingPage: docs/merchant/README.md names every type of message.
func TestForwardingPage(t *testing.T) {
	page := forwardingPage(t)
	var types []string
	for _, v := range client.Values[client.DepositMessage]() {
		types = append(types, string(v))
	}
	for _, v := range client.Values[client.EventKind]() {
		types = append(types, string(v))
	}
	for _, v := range types {
		if !strings.Contains(page, "`"+v+"`") {
			t.Errorf("%s is not on the page", v)
		}
	}
}

// snippets run the functions of the files beside docs/merchant/README.md: each program gets messages as arguments, five each, and prints 1 or 0 for each.
var snippets = []struct {
	from, file, head, tail string
	run                    []string
}{
	{"verify.go", "main.go", "", `
func main() {
	for a := os.Args[1:]; len(a) > 0; a = a[5:] {
		good := "0"
		if verify(a[0], a[1], a[2], a[3], []byte(a[4])) {
			good = "1"
		}
		os.Stdout.WriteString(good)
	}
}
`, []string{"go", "run"}},
	{"verify.mjs", "verify.mjs", "", `
for (let a = process.argv.slice(2); a.length > 0; a = a.slice(5)) {
  process.stdout.write(verify(a[0], a[1], a[2], a[3], Buffer.from(a[4])) ? '1' : '0');
}
`, []string{"node"}},
	{"verify.py", "verify.py", "", `
import sys
a = sys.argv[1:]
while a:
    print(int(verify(*a[:4], a[4].encode())), end="")
    a = a[5:]
`, []string{"python3"}},
	{"verify.php", "verify.php", "", `
for ($a = array_slice($argv, 1); $a; $a = array_slice($a, 5)) {
    echo verify(...array_slice($a, 0, 5)) ? '1' : '0';
}
`, []string{"php"}},
	{"Verify.java", "Main.java", `class Main {
    public static void main(String[] a) throws Exception {
        for (int i = 0; i < a.length; i += 5) {
            System.out.print(Verify.verify(a[i], a[i + 1], a[i + 2], a[i + 3], a[i + 4].getBytes("UTF-8")) ? "1" : "0");
        }
    }
}
`, "", []string{"java"}},
}

// TestForwardingSnippets runs the functions of snippets on messages that the gateway
// signed, and on others.
func TestForwardingSnippets(t *testing.T) {
	dbtest.NotRaced(t, "the snippets are processes of their own")
	page := forwardingPage(t)
	key := make([]byte, 32)
	must(rand.Read(key))(t)
	for _, s := range snippets {
		t.Run(s.from, func(t *testing.T) {
			t.Parallel()
			if s.run[0] == "java" {
				dbtest.Whole(t, "compiling it takes longer than all others")
			}
			text, err := os.ReadFile("../../docs/merchant/" + s.from)
			if err != nil || !strings.Contains(page, "]("+s.from+")") {
				t.Fatal("there is no such snippet, or the page does not name it", err)
			}
			code := strings.Replace(string(text), "package main\n", "package main\n\nimport \"os\"\n", 1)
			if _, err := exec.LookPath(s.run[0]); err != nil {
				if os.Getenv("CI") == "true" {
					t.Fatalf("%s must be installed where CI=true", s.run[0])
				}
				t.Skipf("%s is not installed", s.run[0])
			}
			file := filepath.Join(t.TempDir(), s.file)
			ok(t, os.WriteFile(file, []byte(s.head+code+s.tail), 0o600))
			args, want := snippetMessages(key)
			out, err := exec.Command(s.run[0], append(append(s.run[1:len(s.run):len(s.run)], file), args...)...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if got := string(out); !strings.HasSuffix(got, want) {
				t.Errorf("it gives %s, want %s", got, want)
			}
		})
	}
}

// snippetMessages returns messages and, for each, 1 if its signature is good and fresh.
func snippetMessages(key []byte) (args []string, want string) {
	// Ahead of the clock, so that what is fresh here is fresh when a slow program starts.
	secret, now, body := "whsec_"+base64.StdEncoding.EncodeToString(key), time.Now().Add(4*time.Minute), `{"type": "deposit.taken", "data": {"symbol": "Ü"}}`
	message := func(at time.Time) []string {
		return []string{secret + "\n", "deposit_17", strconv.FormatInt(at.Unix(), 10), web.Sign(web.Secret(key), "deposit_17", at, []byte(body)), body}
	}
	with := func(at int, value string) []string {
		m := message(now)
		m[at] = value
		return m
	}
	good := message(now)[3]
	// Whoever is sent an empty secret, or "A", can be signed for by anybody.
	by := func(secret string, key []byte) []string {
		m := message(now)
		m[0], m[3] = secret, web.Sign(key, "deposit_17", now, []byte(body))
		return m
	}
	messages := []struct {
		good bool
		args []string
	}{
		{true, message(now)},
		{true, with(3, "v1,AAAA "+good)},
		{false, message(now.Add(-time.Hour))},
		{false, message(now.Add(time.Hour))},
		{false, with(0, "whsec_"+base64.StdEncoding.EncodeToString(make([]byte, 32)))},
		{false, with(1, "deposit_18")},
		{false, with(2, strconv.FormatInt(now.Unix()+1, 10))},
		{false, with(2, "soon")},
		{false, with(3, "v1,AAAA")},
		{false, with(3, strings.TrimPrefix(good, "v1,"))},
		{false, with(3, " ")},
		{false, with(4, body+" ")},
		{false, by("", []byte{})},
		{false, by("whsec_\n", []byte{})},
		{false, by("whsec_AAAA", make([]byte, 3))},
	}
	for _, m := range messages {
		args = append(args, m.args...)
		want += map[bool]string{true: "1", false: "0"}[m.good]
	}
	return args, want
}
