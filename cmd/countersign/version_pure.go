//go:build !boringcrypto

package main

// rsaLibrary names the RSA that this build uses.
func rsaLibrary() string { return "crypto/rsa" }
