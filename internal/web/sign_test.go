package web

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"pgregory.net/rapid"
)

// The example that is published with the specification's libraries: a vector,
// no secret of anyone.
const (
	vectorSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	vectorID     = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	vectorTime   = 1614265330
	vectorBody   = `{"test": 2432232314}`
	vectorSigned = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

func mustSecret(t testing.TB, s string) Secret {
	t.Helper()
	secret, err := ParseSecret(s)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func TestSignVector(t *testing.T) {
	secret := mustSecret(t, vectorSecret)
	at := time.Unix(vectorTime, 999_999_999)
	if got := Sign(secret, vectorID, at, []byte(vectorBody)); got != vectorSigned {
		t.Errorf("Sign gives %s, not %s", got, vectorSigned)
	}
}

// TestSignNothing: what could be taken for something else is not signed.
func TestSignNothing(t *testing.T) {
	secret := mustSecret(t, vectorSecret)
	now := time.Unix(vectorTime, 0)
	for _, id := range []string{"", "a.1614265330", "."} {
		if got := Sign(secret, id, now, []byte("x")); got != "" {
			t.Errorf("id %q is signed", id)
		}
	}
	if Sign(nil, "a", now, nil) != "" {
		t.Error("signed without a secret")
	}
}

func TestParseSecret(t *testing.T) {
	raw := func(n int) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, n)) }
	for _, n := range []int{24, 25, 32, 64} {
		if s, err := ParseSecret("whsec_" + raw(n)); err != nil || len(s) != n {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for _, s := range []string{
		"", "whsec_", raw(32), "WHSEC_" + raw(32), "whsec_" + raw(23), "whsec_" + raw(65), "whsec_" + raw(32) + "\n",
		"whsec_" + strings.TrimRight(raw(32), "="), "whsec_" + strings.Repeat("-", 32), "whsec_" + raw(31)[:42] + "x=", " whsec_" + raw(32),
	} {
		_, err := ParseSecret(s)
		if !errors.Is(err, ErrSecret) {
			t.Errorf("%q: %v", s, err)
		} else if len(s) > 10 && strings.Contains(err.Error(), s[len(s)-10:]) {
			t.Errorf("the error %q holds the secret", err)
		}
	}
}

func TestSecretHides(t *testing.T) {
	secret := mustSecret(t, vectorSecret)
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&out, verb+verb, secret, struct{ S Secret }{secret})
	}
	fmt.Fprint(&out, secret, []any{secret})
	j, err := json.Marshal(map[string]any{"s": secret})
	if err != nil {
		t.Fatal(err)
	}
	out.Write(j)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "s", secret, "in", struct{ S Secret }{secret})
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "s", secret)
	for _, bad := range []string{string(secret), vectorSecret[6:], fmt.Sprintf("%x", []byte(secret)), fmt.Sprint([]byte(secret))} {
		if strings.Contains(strings.ToLower(out.String()), strings.ToLower(bad)) {
			t.Errorf("%q is in the output", bad)
		}
	}
	if !strings.Contains(out.String(), hiddenSigning) {
		t.Error("nothing was printed at all")
	}
}

// TestSignOracle: ours and the specification's own library agree both ways.
func TestSignOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.Byte(), 24, 64).Draw(t, "secret")
		id := rapid.StringMatching(`[A-Za-z0-9_-]{1,40}`).Draw(t, "id")
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		at := time.Now()
		text := "whsec_" + base64.StdEncoding.EncodeToString(raw)
		secret, err := ParseSecret(text)
		if err != nil {
			t.Fatal(err)
		}
		oracle, err := standardwebhooks.NewWebhook(text)
		if err != nil {
			t.Fatal(err)
		}
		ours := Sign(secret, id, at, body)
		theirs, err := oracle.Sign(id, at, body)
		if err != nil || ours != theirs {
			t.Fatalf("ours %s, theirs %s, %v", ours, theirs, err)
		}
		h := http.Header{}
		h.Set(HeaderID, id)
		h.Set(HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
		h.Set(HeaderSignature, ours)
		if err := oracle.VerifyIgnoringTimestamp(body, h); err != nil {
			t.Fatal(err)
		}
		if oracle.VerifyIgnoringTimestamp(append(bytes.Clone(body), 0), h) == nil {
			t.Fatal("another body verifies")
		}
	})
}
