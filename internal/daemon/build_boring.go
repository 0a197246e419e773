//go:build boringcrypto

package daemon

import "crypto/boring"

// RSALibrary names the RSA that this build uses. On machines that BoringCrypto
// was not made for, the boringcrypto experiment falls back to Go's own RSA, so
// the build tag alone does not tell.
func RSALibrary() string {
	if boring.Enabled() {
		return "BoringCrypto"
	}
	return "crypto/rsa"
}
