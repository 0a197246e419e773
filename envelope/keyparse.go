package envelope

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

const (
	labelPublic  = "PUBLIC KEY"
	labelPrivate = "PRIVATE KEY"
	pemStart     = "-----BEGIN "
	maxKey       = 8 << 10 // bytes of text; the PEM of a pair of MaxBits takes under 7 KiB

	hintKeyForms      = "give one PEM (PUBLIC KEY, PRIVATE KEY, RSA PUBLIC KEY, RSA PRIVATE KEY) or the Base64 of its DER in one piece"
	hintKeyPassphrase = "it is encrypted; remove the passphrase first, for example with: openssl pkey -in FILE -out NEWFILE"
	hintKeyOpenSSH    = "this is an OpenSSH key; convert it with: ssh-keygen -p -m PKCS8, or ssh-keygen -e -m PKCS8"
)

// otherPEMs says of PEM labels that no key has here what to do.
var otherPEMs = map[string]string{
	"ENCRYPTED PRIVATE KEY": hintKeyPassphrase,
	"CERTIFICATE":           "this is a certificate; take its key out with: openssl x509 -pubkey -noout",
	"OPENSSH PRIVATE KEY":   hintKeyOpenSSH,
	"EC PRIVATE KEY":        "this is an EC key",
}

// ParseKey reads one RSA key, its public part or both: PEM of a PKCS#1, PKCS#8 or SubjectPublicKeyInfo structure, or
// the Base64 of its DER without armour, in which white space around the Base64 and line ends inside it are ignored.
//
// Refused are moduli outside MinBits to MaxBits, public exponents below 65537, even or above 2³¹−1, keys of more than
// two primes, private numbers that do not fit together, encrypted keys, other algorithms, and data beside the key
// (PROTOCOL.md, K6). Errors wrap ErrKey.
func ParseKey(data []byte) (*Key, error) {
	der, label, err := keyDER(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	key, err := parseDER(der)
	if err != nil {
		return nil, err
	}
	// The part decides the direction. A label of the other part means that files were edited or mixed up.
	if label != "" && key.HasPrivate() != strings.HasSuffix(label, labelPrivate) {
		return nil, fmt.Errorf("%w: the label of the PEM is that of the other part", ErrKey)
	}
	return key, nil
}

// keyDER returns the DER of the only key in data, and the label of its PEM, "" if it has no armour.
func keyDER(data []byte) (der []byte, label string, err error) {
	text := trimSpace(data)
	armoured := bytes.HasPrefix(text, []byte(pemStart))
	switch {
	case len(text) == 0:
		return nil, "", errors.New("it is empty; " + hintKeyForms)
	case len(text) > maxKey:
		return nil, "", fmt.Errorf("it is longer than %d bytes; %s", maxKey, hintKeyForms)
	case bytes.HasPrefix(text, []byte(byteOrderMark)):
		return nil, "", errors.New("it begins with a byte order mark (EF BB BF); save the file without it")
	case bytes.HasPrefix(text, []byte("ssh-")):
		return nil, "", errors.New(hintKeyOpenSSH)
	case !armoured && bytes.Contains(text, []byte(pemStart)):
		return nil, "", errors.New("there is text before the PEM; remove it")
	case !armoured:
		if der, err = base64.StdEncoding.Strict().DecodeString(string(text)); err != nil {
			return nil, "", errors.New("it is neither PEM nor standard Base64 with padding; " + hintKeyForms)
		}
		return der, "", nil
	}
	block, rest := pem.Decode(text)
	switch {
	// pem.Decode skips a block that it cannot read, so make sure that it returned the first one.
	case block == nil || bytes.Count(text[:len(text)-len(rest)], []byte(pemStart)) != 1:
		return nil, "", errors.New("its PEM is damaged; check that its lines and line ends are complete")
	case len(trimSpace(rest)) > 0:
		return nil, "", errors.New("more follows its PEM; leave one key")
	case otherPEMs[block.Type] != "":
		return nil, "", errors.New(otherPEMs[block.Type])
	case block.Headers["DEK-Info"] != "":
		return nil, "", errors.New(hintKeyPassphrase)
	case block.Type != labelPublic && block.Type != labelPrivate && block.Type != "RSA PUBLIC KEY" &&
		block.Type != "RSA PRIVATE KEY":
		return nil, "", errors.New("the label of its PEM is not that of a key; " + hintKeyForms)
	}
	return block.Bytes, block.Type, nil
}

// parseDER reads one of four structures.
func parseDER(der []byte) (*Key, error) {
	var whole asn1.RawValue
	if rest, err := asn1.Unmarshal(der, &whole); err == nil && len(rest) > 0 {
		return nil, fmt.Errorf("%w: %d bytes follow its DER; remove them", ErrKey, len(rest))
	}
	if pair, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		return parsed(pair, nil)
	}
	if pair, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return parsed(pair, nil)
	}
	if public, err := x509.ParsePKIXPublicKey(der); err == nil {
		return parsed(public, der)
	}
	if public, err := x509.ParsePKCS1PublicKey(der); err == nil {
		return parsed(public, der)
	}
	return nil, fmt.Errorf("%w: its data is damaged, or no RSA key; take it from its source again; %s", ErrKey, hintKeyForms)
}

// parsed returns the Key of what x509 read, of der if it is a public part.
func parsed(key any, der []byte) (*Key, error) {
	switch key := key.(type) {
	case *rsa.PrivateKey:
		if len(key.Primes) != 2 {
			return nil, fmt.Errorf("%w: it has more than two primes; make a new pair", ErrKey)
		}
		return newKey(&rsa.PublicKey{N: key.N, E: key.E}, key)
	case *rsa.PublicKey:
		k, err := newKey(key, nil)
		if err == nil && !bytes.Equal(der, k.p().spki) && !bytes.Equal(der, x509.MarshalPKCS1PublicKey(key)) {
			return nil, fmt.Errorf("%w: its DER is not in the one allowed form", ErrKey)
		}
		return k, err
	}
	return nil, fmt.Errorf("%w: it is a key of another algorithm", ErrKey)
}
