package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// The headers of a signed request, of Standard Webhooks 1.0.
const (
	HeaderID        = "webhook-id"        // the same for every attempt; the receiver recognises repetitions by it
	HeaderTimestamp = "webhook-timestamp" // seconds since 1970, of the attempt
	HeaderSignature = "webhook-signature" // one or more, separated by spaces
)

const (
	signatureVersion = "v1,"
	secretPrefix     = "whsec_"
	secretMin        = 24 // bytes, as in the specification
	secretMax        = 64
)

// ErrSecret is the error of ParseSecret. It never holds the secret.
var ErrSecret = errors.New("signing secret")

// Secret signs the requests to somebody's application. No fmt verb,
// logger or encoder prints it.
type Secret []byte

const hiddenSigning = "[signing secret]"

// String hides the secret.
func (Secret) String() string { return hiddenSigning }

// Format hides the secret from every fmt verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hiddenSigning)) }

// LogValue hides the secret from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue(hiddenSigning) }

// MarshalText hides the secret from encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte(hiddenSigning), nil }

// ParseSecret reads "whsec_" and the Base64 of 24 to 64 random bytes.
func ParseSecret(s string) (Secret, error) {
	encoded, ok := strings.CutPrefix(s, secretPrefix)
	if !ok {
		return nil, fmt.Errorf("%w does not begin with %s", ErrSecret, secretPrefix)
	}
	// The decoder would skip line breaks, and one secret would have two texts.
	b, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || strings.ContainsAny(encoded, "\r\n") {
		return nil, fmt.Errorf("%w is not Base64 after %s", ErrSecret, secretPrefix)
	}
	if len(b) < secretMin || len(b) > secretMax {
		return nil, fmt.Errorf("%w has %d bytes, not %d to %d", ErrSecret, len(b), secretMin, secretMax)
	}
	return b, nil
}

// Check fails if the secret is too short to sign with.
func (s Secret) Check() error {
	if len(s) < secretMin {
		return fmt.Errorf("the secret is shorter than %d bytes", secretMin)
	}
	return nil
}

// Sign returns the value of HeaderSignature for a request with body whose HeaderID
// is id and whose HeaderTimestamp is the seconds of ts.
//
// It returns "", which every receiver refuses, if the secret or the id is empty or the id has a point. Points separate
// what is signed, so one in the id would let two requests share a signature.
func Sign(secret Secret, id string, ts time.Time, body []byte) string {
	if len(secret) == 0 || !signableID(id) {
		return ""
	}
	return signatureVersion + base64.StdEncoding.EncodeToString(mac(secret, id, ts.Unix(), body))
}

func signableID(id string) bool { return id != "" && !strings.Contains(id, ".") }

func mac(secret Secret, id string, ts int64, body []byte) []byte {
	m := hmac.New(sha256.New, secret)
	fmt.Fprintf(m, "%s.%d.", id, ts)
	m.Write(body)
	return m.Sum(nil)
}
