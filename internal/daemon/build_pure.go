//go:build !boringcrypto

package daemon

// RSALibrary names the RSA that this build uses.
func RSALibrary() string { return "crypto/rsa" }
