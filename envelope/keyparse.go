package envelope

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
)

// The PEM labels that ParseKey takes.
const (
	labelSPKI          = "PUBLIC KEY"
	labelPKCS8         = "PRIVATE KEY"
	labelPKCS1Public   = "RSA PUBLIC KEY"
	labelPKCS1Private  = "RSA PRIVATE KEY"
	labelEncrypted     = "ENCRYPTED PRIVATE KEY"
	labelCertificate   = "CERTIFICATE"
	pemStart           = "-----BEGIN "
	maxKeyData         = 64 << 10 // bytes of text
	maxKeyDER          = 8 << 10  // bytes; a private part of MaxBits takes under 5 KiB
	maxKeyPEMs         = 8
	hintKeyForms       = "give PEM (PUBLIC KEY, PRIVATE KEY, RSA PUBLIC KEY, RSA PRIVATE KEY) or the Base64 of its DER in one piece"
	hintKeyPassphrase  = "remove the passphrase first, for example with: openssl pkey -in FILE -out NEWFILE"
	hintKeyCertificate = "this is a certificate; take its key out with: openssl x509 -pubkey -noout"
	hintKeyOpenSSH     = "this is an OpenSSH key; convert it with: ssh-keygen -p -m PKCS8, or ssh-keygen -e -m PKCS8"
)

var oidRSA = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}

// ParseKey reads one RSA key, its public part or both: PEM of a PKCS#1, PKCS#8
// or SubjectPublicKeyInfo structure, or the Base64 of its DER without armour,
// in which white space around the Base64 and line ends inside it are ignored.
// Several PEM blocks are taken if all are of one pair.
//
// Refused are moduli outside MinBits to MaxBits, public exponents below 65537,
// even or above 2³¹−1, keys of more than two primes, private numbers that do
// not fit together, encrypted keys, other algorithms, and data beside the key
// (PROTOCOL.md, Keys). Errors wrap one of the ErrKey values, say what to try,
// and never repeat the data.
func ParseKey(data []byte) (*Key, error) {
	text := trimSpace(data)
	switch {
	case len(text) == 0:
		return nil, fmt.Errorf("%w: it is empty; %s", ErrKeyFormat, hintKeyForms)
	case len(text) > maxKeyData:
		return nil, fmt.Errorf("%w: it is longer than %d bytes", ErrKeyFormat, maxKeyData)
	case bytes.HasPrefix(text, []byte(byteOrderMark)):
		return nil, fmt.Errorf("%w: it begins with a byte order mark (EF BB BF); save the file without it", ErrKeyFormat)
	case bytes.HasPrefix(text, []byte(pemStart)):
		return parsePEM(text)
	case bytes.HasPrefix(text, []byte("ssh-")):
		return nil, fmt.Errorf("%w: %s", ErrKeyFormat, hintKeyOpenSSH)
	case bytes.Contains(text, []byte(pemStart)):
		return nil, fmt.Errorf("%w: there is text before the PEM; remove it", ErrKeyFormat)
	}
	if text[0] == 0x30 && len(text) > 1 && text[1] >= 0x80 {
		return nil, fmt.Errorf("%w: this is binary DER; encode it in Base64 first", ErrKeyFormat)
	}
	der, err := base64.StdEncoding.Strict().DecodeString(string(text))
	if err != nil {
		return nil, fmt.Errorf("%w: neither PEM nor standard Base64 with padding; %s", ErrKeyFormat, hintKeyForms)
	}
	return parseDER(der)
}

func parsePEM(text []byte) (*Key, error) {
	var key *Key
	for range maxKeyPEMs {
		block, rest := pem.Decode(text)
		// pem.Decode skips a block that it cannot read, so make sure that it
		// returned the first one.
		if block == nil || bytes.Count(text[:len(text)-len(rest)], []byte(pemStart)) != 1 {
			return nil, fmt.Errorf("%w: the PEM is damaged; check that its lines and line ends are complete", ErrKeyFormat)
		}
		next, err := parseBlock(block)
		if err != nil {
			return nil, err
		}
		switch {
		case key == nil:
			key = next
		case key.Fingerprint() != next.Fingerprint():
			return nil, fmt.Errorf("%w: the PEM blocks are of different pairs; leave one", ErrKeyAmbiguous)
		case next.HasPrivate():
			key = next
		}
		text = trimSpace(rest)
		if len(text) == 0 {
			return key, nil
		}
		if !bytes.HasPrefix(text, []byte(pemStart)) {
			return nil, fmt.Errorf("%w: there is text after the PEM; remove it", ErrKeyFormat)
		}
	}
	return nil, fmt.Errorf("%w: more than %d PEM blocks; leave one", ErrKeyAmbiguous, maxKeyPEMs)
}

func parseBlock(block *pem.Block) (*Key, error) {
	private := false
	switch block.Type {
	case labelSPKI, labelPKCS1Public:
	case labelPKCS8, labelPKCS1Private:
		private = true
	case labelEncrypted:
		return nil, fmt.Errorf("%w: %s", ErrKeyEncrypted, hintKeyPassphrase)
	case labelCertificate:
		return nil, fmt.Errorf("%w: %s", ErrKeyFormat, hintKeyCertificate)
	case "OPENSSH PRIVATE KEY":
		return nil, fmt.Errorf("%w: %s", ErrKeyFormat, hintKeyOpenSSH)
	case "EC PRIVATE KEY", "EC PARAMETERS", "DSA PRIVATE KEY":
		return nil, fmt.Errorf("%w: this is an EC or DSA key", ErrKeyType)
	default:
		return nil, fmt.Errorf("%w: the PEM label is not one of a key; %s", ErrKeyFormat, hintKeyForms)
	}
	if block.Headers["Proc-Type"] != "" || block.Headers["DEK-Info"] != "" {
		return nil, fmt.Errorf("%w: %s", ErrKeyEncrypted, hintKeyPassphrase)
	}
	key, err := parseDER(block.Bytes)
	if err != nil {
		return nil, err
	}
	// The part decides the direction. A label of the other part means that
	// files were edited or mixed up.
	if key.HasPrivate() != private {
		return nil, fmt.Errorf("%w: the PEM label says %s, but the content is something else", ErrKeyFormat, block.Type)
	}
	return key, nil
}

// parseDER recognizes the four structures by the kinds of their members. If it
// tried one parser after the other, the reason of the right one would be lost.
func parseDER(der []byte) (*Key, error) {
	if len(der) > maxKeyDER {
		return nil, fmt.Errorf("%w: no key of %d bits or less takes more than %d bytes", ErrKeySize, MaxBits, maxKeyDER)
	}
	fields, err := sequence(der)
	if err != nil {
		return nil, err
	}
	letters := map[int]string{asn1.TagInteger: "i", asn1.TagSequence: "s", asn1.TagBitString: "b",
		asn1.TagOctetString: "o"}
	outline := "" // a letter for each member, x for any other
	for _, f := range fields {
		letter, known := letters[f.Tag]
		if !known || f.Class != asn1.ClassUniversal {
			letter = "x"
		}
		outline += letter
	}
	switch {
	case outline == "sb":
		if err := checkAlgorithm(fields[0]); err != nil {
			return nil, err
		}
		return parseSPKI(der)
	case outline == "ii":
		return parsePKCS1Public(der)
	case outline == "iiiiiiiii":
		return parsePKCS1Private(der)
	case strings.HasPrefix(outline, "iso"):
		if err := checkAlgorithm(fields[1]); err != nil {
			return nil, err
		}
		return parsePKCS1Private(fields[2].Bytes)
	case outline == "iiiiiiiiis":
		return nil, fmt.Errorf("%w: it has more than two primes; make a new pair", ErrKeyInvalid)
	case outline == "so":
		return nil, fmt.Errorf("%w: %s", ErrKeyEncrypted, hintKeyPassphrase)
	case outline == "ssb":
		return nil, fmt.Errorf("%w: %s", ErrKeyFormat, hintKeyCertificate)
	case strings.HasPrefix(outline, "io"):
		return nil, fmt.Errorf("%w: this is an EC key", ErrKeyType)
	}
	return nil, fmt.Errorf("%w: the data is another structure; %s", ErrKeyFormat, hintKeyForms)
}

// sequence returns the members of one DER SEQUENCE with nothing after it.
func sequence(der []byte) ([]asn1.RawValue, error) {
	var outer asn1.RawValue
	rest, err := asn1.Unmarshal(der, &outer)
	if err != nil || outer.Class != asn1.ClassUniversal || outer.Tag != asn1.TagSequence || !outer.IsCompound {
		return nil, fmt.Errorf("%w: the data is not DER, or cut short; %s", ErrKeyFormat, hintKeyForms)
	}
	if len(rest) != 0 {
		return nil, fmt.Errorf("%w: %d bytes follow the key; remove them", ErrKeyFormat, len(rest))
	}
	var fields []asn1.RawValue
	for rest = outer.Bytes; len(rest) > 0; {
		var f asn1.RawValue
		if rest, err = asn1.Unmarshal(rest, &f); err != nil || len(fields) == 16 {
			return nil, fmt.Errorf("%w: the DER is damaged", ErrKeyFormat)
		}
		fields = append(fields, f)
	}
	return fields, nil
}

func checkAlgorithm(field asn1.RawValue) error {
	var oid asn1.ObjectIdentifier
	if _, err := asn1.Unmarshal(field.Bytes, &oid); err != nil {
		return fmt.Errorf("%w: the DER names no algorithm", ErrKeyFormat)
	}
	if !oid.Equal(oidRSA) {
		return fmt.Errorf("%w: the key names another algorithm", ErrKeyType)
	}
	return nil
}

func parseSPKI(der []byte) (*Key, error) {
	var spki struct {
		Algorithm asn1.RawValue
		Bits      asn1.BitString
	}
	rest, err := asn1.Unmarshal(der, &spki)
	if err != nil || len(rest) != 0 || spki.Bits.BitLength%8 != 0 {
		return nil, fmt.Errorf("%w: the public key structure is damaged", ErrKeyFormat)
	}
	// These checks come before x509's, because they say which bound is broken.
	key, err := parsePKCS1Public(spki.Bits.Bytes)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil || !key.p().public.Equal(parsed) {
		return nil, fmt.Errorf("%w: the public key structure is damaged", ErrKeyFormat)
	}
	return key, nil
}

func parsePKCS1Public(der []byte) (*Key, error) {
	fields, err := sequence(der)
	if err != nil {
		return nil, err
	}
	if len(fields) != 2 {
		return nil, fmt.Errorf("%w: the public numbers are damaged", ErrKeyFormat)
	}
	n, e, err := publicNumbers(fields[0], fields[1])
	if err != nil {
		return nil, err
	}
	return newKey(&rsa.PublicKey{N: n, E: int(e.Int64())}, nil)
}

func parsePKCS1Private(der []byte) (*Key, error) {
	fields, err := sequence(der)
	if err != nil {
		return nil, err
	}
	if len(fields) != 9 {
		return nil, fmt.Errorf("%w: it does not have the nine numbers of a private key", ErrKeyInvalid)
	}
	// The bounds are checked before x509 computes with the numbers.
	if _, _, err := publicNumbers(fields[1], fields[2]); err != nil {
		return nil, err
	}
	private, err := x509.ParsePKCS1PrivateKey(der)
	if err != nil || private.Validate() != nil {
		return nil, fmt.Errorf("%w: its private numbers do not fit together; take the file from its source again",
			ErrKeyInvalid)
	}
	return newKey(&rsa.PublicKey{N: private.N, E: private.E}, private)
}

func publicNumbers(nField, eField asn1.RawValue) (n, e *big.Int, err error) {
	if _, err := asn1.Unmarshal(nField.FullBytes, &n); err != nil {
		return nil, nil, fmt.Errorf("%w: its modulus is not a number", ErrKeyFormat)
	}
	if _, err := asn1.Unmarshal(eField.FullBytes, &e); err != nil {
		return nil, nil, fmt.Errorf("%w: its exponent is not a number", ErrKeyFormat)
	}
	return n, e, checkPublic(n, e)
}
