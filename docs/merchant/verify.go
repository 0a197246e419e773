//go:build ignore

package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

// verify reports whether signatures, the header webhook-signature, has one of secret over this message.
func verify(secret, id, timestamp, signatures string, body []byte) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(secret), "whsec_"))
	at, err2 := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || len(key) < 24 || err2 != nil || time.Since(time.Unix(at, 0)).Abs() > 5*time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	good := false
	for _, given := range strings.Fields(signatures) {
		good = hmac.Equal([]byte(given), []byte(want)) || good
	}
	return good
}
