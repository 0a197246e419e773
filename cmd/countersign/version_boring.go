//go:build boringcrypto

package main

import "crypto/boring"

// rsaLibrary names the RSA that this build uses. The experiment falls back to
// Go's own on machines that BoringCrypto was not made for, so it asks.
func rsaLibrary() string {
	if boring.Enabled() {
		return "BoringCrypto"
	}
	return "crypto/rsa"
}
