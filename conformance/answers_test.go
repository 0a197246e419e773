package conformance_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/conformance"
)

// TestReadOrders: a file has one order or several, and stands for any other where that is asked for.
func TestReadOrders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orders.json")
	const one = `{"callBackId":"o-1","tenantUserId":"7","address":"0x01","chainName":"ETH","symbol":"USDT","amount":"3"}`
	for _, c := range []struct {
		text     string
		anyOrder bool
		want     []string // callBackIds and amounts
	}{
		{"", false, nil}, {"", true, []string{" 2.5"}},
		{one, false, []string{"o-1 3"}}, {one, true, []string{"o-1 3", " 3"}}, {"[" + one + "]", true, []string{"o-1 3", " 3"}},
		{"[" + one + "," + one + "]", true, []string{"o-1 3", "o-1 3", " 2.5"}},
	} {
		file := ""
		if c.text != "" {
			file = path
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		orders, err := conformance.ReadOrders(file, c.anyOrder)
		if err != nil || len(orders) != len(c.want) {
			t.Fatalf("%s: %v, %v", c.text, orders, err)
		}
		for i, o := range orders {
			if o.CallBackID+" "+o.Amount != c.want[i] {
				t.Errorf("%s: %+v, want %s", c.text, o, c.want[i])
			}
		}
	}
	if err := os.WriteFile(path, []byte(`{"amount":3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{path, path + "x"} {
		if orders, err := conformance.ReadOrders(bad, false); err == nil {
			t.Errorf("%s: %v", bad, orders)
		}
	}
}

// TestAsking: who mistypes is asked again; at the end of the input, and only then, the flags answer.
func TestAsking(t *testing.T) {
	var out bytes.Buffer
	usual := conformance.Answer{Code: 5000}
	ask := conformance.Asking(strings.NewReader("perhaps\nn\n\ny"), &out, usual)
	for i, want := range []conformance.Answer{{Code: 2004}, {}, {}, usual, usual} {
		if got := ask("deposit"); got != want {
			t.Errorf("answer %d is %+v, want %+v", i, got, want)
		}
	}
	if n := strings.Count(out.String(), "deposit: y, n"); n != 6 {
		t.Errorf("asked %d times:\n%s", n, &out)
	}
}

// TestBodies: files as they are named, those of a directory in order, and no other file of it.
func TestBodies(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"00002.b64": "b", "00001.b64": "a", "private.pem": "c", "other": "d"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bodies, err := conformance.Bodies([]string{filepath.Join(dir, "other"), dir})
	if got := string(bytes.Join(bodies, nil)); err != nil || got != "dab" {
		t.Errorf("%s, %v", got, err)
	}
	for _, bad := range []string{t.TempDir(), filepath.Join(dir, "none")} {
		if _, err := conformance.Bodies([]string{bad}); err == nil {
			t.Errorf("%s has bodies", bad)
		}
	}
}
