//go:build !openssl

package envelope

import (
	"crypto/rsa"
	"crypto/x509"
)

// Library names the RSA that this build uses.
func Library() string { return "crypto/rsa" }

func newPrivate(_ *parts, key *rsa.PrivateKey) (private, error) { return key, nil }

// pkcs8 returns the DER of the whole pair.
func pkcs8(p private) ([]byte, error) { return x509.MarshalPKCS8PrivateKey(p) }
