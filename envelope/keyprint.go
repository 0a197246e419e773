package envelope

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
)

// String returns the size of k, its parts and the first 16 digits of its fingerprint, never its numbers.
func (k Key) String() string {
	p := k.p()
	if p == nil {
		return "RSA key (none)"
	}
	part := "public"
	if p.private != nil {
		part = "private"
	}
	return fmt.Sprintf("RSA-%d %s key, fingerprint %s…", p.public.N.BitLen(), part, p.fingerprint[:16])
}

// GoString is String, for %#v.
func (k Key) GoString() string { return k.String() }

// Format writes String for every verb and flag, so that no verb reaches the
// numbers.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// LogValue is String, for slog.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText is String, for every encoding that asks for text. Only ParseKey reads a Key.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// MarshalJSON is String as a JSON string.
func (k Key) MarshalJSON() ([]byte, error) { return json.Marshal(k.String()) }
