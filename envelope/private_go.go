//go:build !openssl

package envelope

import (
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
)

// Library names the RSA that this build uses.
func Library() string { return "crypto/rsa" }

// privatePart is the private part of a pair.
type privatePart struct{ key *rsa.PrivateKey }

func newPrivate(_ *parts, key *rsa.PrivateKey) (*privatePart, error) { return &privatePart{key}, nil }

// seal makes a block of type 1 of a chunk that fits.
func (p *privatePart) seal(chunk []byte) ([]byte, error) {
	// Signing with hash 0 signs the bytes as they are, without the name of a
	// digest algorithm before them. That is block type 1.
	return rsa.SignPKCS1v15(nil, p.key, 0, chunk)
}

// open gives the data of a block of type 2 or OAEP, which is below the modulus.
func (p *privatePart) open(padding Padding, block []byte) ([]byte, error) {
	if padding == OAEP {
		return rsa.DecryptOAEP(sha256.New(), nil, p.key, block, nil)
	}
	//lint:ignore SA1019 this padding is what the protocol asks for
	return rsa.DecryptPKCS1v15(nil, p.key, block)
}

// pkcs8 is the DER of the whole pair.
func (p *privatePart) pkcs8() ([]byte, error) { return x509.MarshalPKCS8PrivateKey(p.key) }
