package envelope

import (
	"bytes"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"testing"
)

// TestKeysDoNotPrint sends keys through everything that prints and looks for any
// piece of their numbers, in every base that a printer might choose.
func TestKeysDoNotPrint(t *testing.T) {
	key := key1024(t)
	private := rsaOf(t, key)
	var needles []string
	for _, n := range append([]*big.Int{private.N, private.D}, private.Primes...) {
		b := n.Bytes()
		mid := b[len(b)/2 : len(b)/2+8]
		needles = append(needles,
			n.String()[10:40],
			hex.EncodeToString(mid), strings.ToUpper(hex.EncodeToString(mid)),
			fmt.Sprintf("% x", mid), fmt.Sprintf("%#x", mid)[2:],
			strings.Trim(fmt.Sprint(mid), "[]"), // bytes in decimal
			string(mid), fmt.Sprintf("%q", mid),
			fmt.Sprint(n.Bits()[3]), fmt.Sprintf("%x", uint(n.Bits()[3])), // words
			new(big.Int).SetBytes(mid).Text(2), new(big.Int).SetBytes(mid).Text(8),
		)
	}
	needles = append(needles, key.PublicBase64()[60:90])

	type exported struct {
		Key    *Key
		Value  Key
		Any    any
		hidden *Key
		value  Key
	}
	type embedded struct{ Key }
	type embeddedPointer struct{ *Key }
	public := key.Public()
	subjects := map[string]any{
		"pointer":        key,
		"value":          *key,
		"public pointer": public,
		"public value":   *public,
		"struct":         exported{key, *key, *key, key, *key},
		"struct pointer": &exported{key, *key, key, key, *key},
		"slice":          []*Key{key, public},
		"slice of value": []Key{*key, *public},
		"map":            map[string]*Key{"k": key},
		"map of value":   map[string]Key{"k": *key},
		"array":          [1]Key{*key},
		"pointer twice":  &key,
		"anonymous":      embedded{*key},
		"anonymous ptr":  embeddedPointer{key},
	}
	for name, v := range subjects {
		var out []string
		for verb := 'A'; verb <= 'z'; verb++ {
			for _, flags := range []string{"", "+", "#", "0", "-", " ", "+#", "# ", "40", ".3", "-20.5"} {
				out = append(out, fmt.Sprintf("%"+flags+string(verb), v))
			}
		}
		out = append(out, fmt.Sprint(v), fmt.Sprintln(v), fmt.Errorf("wrapped %v", v).Error())
		for _, h := range []func(*bytes.Buffer) slog.Handler{
			func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
			func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
		} {
			var b bytes.Buffer
			log := slog.New(h(&b))
			log.Info("key", "key", v, slog.Any("again", v), slog.Group("group", "key", v))
			out = append(out, b.String())
		}
		if b, err := json.Marshal(v); err == nil {
			out = append(out, string(b))
		}
		if b, err := xml.Marshal(v); err == nil {
			out = append(out, string(b))
		}
		var b bytes.Buffer
		_ = gob.NewEncoder(&b).Encode(v) // whether it refuses or not, b is what went out
		out = append(out, b.String())

		for _, s := range out {
			for _, needle := range needles {
				if strings.Contains(s, needle) {
					t.Fatalf("%s: a number of the key was printed", name)
				}
			}
		}
	}
}

func TestKeyString(t *testing.T) {
	key := key1024(t)
	want := "RSA-1024 private key, fingerprint " + key.Fingerprint()[:16] + "…"
	for format, got := range map[string]string{
		"%v": fmt.Sprintf("%v", key), "%+v": fmt.Sprintf("%+v", *key), "%#v": fmt.Sprintf("%#v", key), "%x": fmt.Sprintf("%x", *key), "%d": fmt.Sprintf("%d", key),
		"String": key.String(),
	} {
		if got != want {
			t.Errorf("%s gives %q, want %q", format, got, want)
		}
	}
	if got, err := json.Marshal(map[string]any{"k": key.Public()}); err != nil || !strings.Contains(string(got), "RSA-1024 public key, fingerprint") {
		t.Errorf("JSON gives %s, %v", got, err)
	}
	if text, err := key.MarshalText(); err != nil || string(text) != want {
		t.Errorf("text is %q, %v", text, err)
	}
	//lint:ignore SA9005 that nothing is read into a key is what is tested
	if err := json.Unmarshal([]byte(`"x"`), &Key{}); err == nil {
		t.Error("a key was read from JSON")
	}
	var zero Key
	var none *Key
	if zero.String() != "RSA key (none)" || fmt.Sprint(none) != "<nil>" {
		t.Errorf("keys without parts print %q and %q", zero.String(), fmt.Sprint(none))
	}
	slog.New(slog.NewTextHandler(new(bytes.Buffer), nil)).Info("nil", "key", none)
}
