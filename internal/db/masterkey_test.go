package db

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// What one build has sealed, every other has to open, whichever library does its
// AES. These values were made with crypto/cipher's GCM with random nonces.
func TestSealedValuesOpenInEveryBuild(t *testing.T) {
	gcm := newGCM(bytes.Repeat([]byte{7}, 32))
	for _, test := range []struct{ sealed, about, plain string }{
		{"0106ea33dfe63aa376fb7f3db7e36a078a9dc4407632cd4e4b094b42fc93598f0dfcc20d98", "merchants\x00m1\x00key\x001", "a secret"},
		{"01a91f4e0441674fcb2121d29557fb46a0ffb83d8a6090b125b008c443", "", ""},
	} {
		sealed := must(hex.DecodeString(test.sealed))(t)
		plain, err := openGCM(gcm, sealed, test.about)
		if err != nil || string(plain) != test.plain {
			t.Errorf("%q: %q, %v", test.plain, plain, err)
		}
		again := sealGCM(gcm, []byte(test.plain), test.about)
		if len(again) != len(sealed) || bytes.Equal(again, sealed) {
			t.Errorf("%q: %d bytes, and the same nonce: %v", test.plain, len(again), bytes.Equal(again, sealed))
		}
		for n := range sealed {
			if _, err := openGCM(gcm, sealed[:n], test.about); err != errUnsealable {
				t.Errorf("%q: the first %d bytes: %v", test.plain, n, err)
			}
			changed := bytes.Clone(sealed)
			changed[n] ^= 1
			if _, err := openGCM(gcm, changed, test.about); err != errUnsealable {
				t.Errorf("%q: byte %d changed: %v", test.plain, n, err)
			}
		}
		if _, err := openGCM(gcm, sealed, test.about+"x"); err != errUnsealable {
			t.Errorf("%q: opens elsewhere: %v", test.plain, err)
		}
	}
}
