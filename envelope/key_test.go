package envelope

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
)

var oidRSA = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}

func pemOf(label string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: label, Bytes: der}))
}

func spkiOf(t testing.TB, n, e *big.Int) []byte {
	t.Helper()
	inner := must(asn1.Marshal(struct{ N, E *big.Int }{n, e}))(t)
	type algorithm struct {
		OID  asn1.ObjectIdentifier
		Null asn1.RawValue
	}
	der, err := asn1.Marshal(struct {
		A algorithm
		B asn1.BitString
	}{algorithm{oidRSA, asn1.NullRawValue}, asn1.BitString{Bytes: inner, BitLength: 8 * len(inner)}})
	ok(t, err)
	return der
}

func TestParseKeyForms(t *testing.T) {
	key := key1024(t)
	rsaKey := rsaOf(t, key)
	pkcs8 := must(x509.MarshalPKCS8PrivateKey(rsaKey))(t)
	pkcs1 := x509.MarshalPKCS1PrivateKey(rsaKey)
	public1 := x509.MarshalPKCS1PublicKey(&rsaKey.PublicKey)
	spki := key.p().spki
	base := base64.StdEncoding.EncodeToString
	wrapped := strings.TrimSuffix(strings.SplitN(pemOf("X", pkcs8), "-----\n", 2)[1], "-----END X-----\n")
	for _, c := range []struct {
		name, text string
		private    bool
	}{
		{"PEM SPKI", pemOf("PUBLIC KEY", spki), false},
		{"PEM PKCS#1 public", pemOf("RSA PUBLIC KEY", public1), false},
		{"PEM PKCS#8", pemOf("PRIVATE KEY", pkcs8), true},
		{"PEM PKCS#1 private", pemOf("RSA PRIVATE KEY", pkcs1), true},
		{"PEM PKCS#1 under the label of PKCS#8", pemOf("PRIVATE KEY", pkcs1), true},
		{"PEM with CRLF and white space", "\r\n \t" + strings.ReplaceAll(pemOf("PUBLIC KEY", spki), "\n", "\r\n") + "\r\n\r\n", false},
		{"Base64 SPKI", base(spki), false},
		{"Base64 SPKI with line end", " " + base(spki) + "\r\n", false},
		{"Base64 PKCS#8", base(pkcs8), true},
		{"Base64 PKCS#8 in lines", wrapped, true},
		{"Base64 PKCS#1 private", base(pkcs1), true},
		{"Base64 PKCS#1 public", base(public1), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := must(ParseKey([]byte(c.text)))(t)
			if got.HasPrivate() != c.private || got.Fingerprint() != key.Fingerprint() {
				t.Errorf("it is %v, want the pair of %v with private part %v", got, key, c.private)
			}
			want := key
			if !c.private {
				want = key.Public()
			}
			if !got.Equal(want) {
				t.Error("it is not equal to the key that was written")
			}
		})
	}
}

func TestParseKeyRefuses(t *testing.T) {
	key, other := key1024(t), other1024(t)
	rsaKey := rsaOf(t, key)
	pkcs8, _ := x509.MarshalPKCS8PrivateKey(rsaKey)
	pkcs1 := x509.MarshalPKCS1PrivateKey(rsaKey)
	spki := key.p().spki
	base := base64.StdEncoding.EncodeToString
	n, e := rsaKey.N, big.NewInt(65537)

	_, edKey, _ := ed25519.GenerateKey(rand.Reader)
	edPKCS8, _ := x509.MarshalPKCS8PrivateKey(edKey)
	ecKey, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ecDER, _ := x509.MarshalECPrivateKey(ecKey)
	ecSPKI, _ := x509.MarshalPKIXPublicKey(&ecKey.PublicKey)

	// The private numbers of one pair with the modulus of another.
	mixed := *rsaKey
	mixed.PublicKey = *other.p().public
	mixed.Precomputed = rsa.PrecomputedValues{}
	type numbers struct {
		Version                    int
		N, E, D, P, Q, DP, DQ, Inv *big.Int
	}
	pre := rsaKey.Precomputed
	mixedDER := must(asn1.Marshal(numbers{0, other.p().public.N, e, rsaKey.D, rsaKey.Primes[0], rsaKey.Primes[1], pre.Dp, pre.Dq, pre.Qinv}))(t)
	wrongD := must(asn1.Marshal(numbers{0, n, e, new(big.Int).Add(rsaKey.D, big.NewInt(2)), rsaKey.Primes[0], rsaKey.Primes[1], pre.Dp, pre.Dq, pre.Qinv}))(t)
	smallE := must(asn1.Marshal(numbers{0, n, big.NewInt(3), rsaKey.D, rsaKey.Primes[0], rsaKey.Primes[1], pre.Dp, pre.Dq, pre.Qinv}))(t)
	withBits := func(bits uint) *big.Int {
		x := new(big.Int).Lsh(big.NewInt(1), bits-1)
		return x.Add(x, big.NewInt(1))
	}
	der := func(v any) string { return base(must(asn1.Marshal(v))(t)) }
	type algorithm struct{ OID asn1.ObjectIdentifier }
	rsaOID := algorithm{oidRSA}
	bits := func(b []byte) asn1.BitString { return asn1.BitString{Bytes: b, BitLength: 8 * len(b)} }
	one := big.NewInt(1)
	threePrimes := struct {
		Version                        int
		N, E, D, P, Q, DP, DQ, Inverse *big.Int
		More                           []int
	}{1, n, e, one, one, one, one, one, one, []int{1}}
	encryptedHeader := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-128-CBC,00"}, Bytes: pkcs1}))

	for _, c := range []struct {
		name, text string
		want       string // in the error
	}{
		{"empty", "", ""},
		{"white space", " \r\n", ""},
		{"words", "my key", ""},
		{"too long", strings.Repeat("A", maxKey+4), ""},
		{"binary DER", string(spki), ""},
		{"Base64 of nothing known", base([]byte("hello, world")), ""},
		{"Base64 without padding", strings.TrimRight(base(spki), "="), "Base64"},
		{"URL alphabet", strings.NewReplacer("+", "-", "/", "_").Replace(base(spki)) + "-_==", ""},
		{"DER cut short", base(spki[:len(spki)-3]), ""},
		{"bytes after SPKI", base(append(bytes.Clone(spki), 0)), "follow"},
		{"bytes after PKCS#8", base(append(bytes.Clone(pkcs8), 5, 0)), "follow"},
		{"bytes after PKCS#1", pemOf("RSA PRIVATE KEY", append(bytes.Clone(pkcs1), 0)), "follow"},
		{"text after PEM", pemOf("PUBLIC KEY", spki) + "# mine\n", ""},
		{"text before PEM", "mine:\n" + pemOf("PUBLIC KEY", spki), ""},
		{"PEM without line ends", strings.ReplaceAll(pemOf("PUBLIC KEY", spki), "\n", ""), ""},
		{"PEM cut", pemOf("PUBLIC KEY", spki)[:120], ""},
		{"damaged PEM before a sound one", strings.Replace(pemOf("PUBLIC KEY", spki), "MI", "M!", 1) + pemOf("PUBLIC KEY", other.p().spki), ""},
		{"unknown label", pemOf("SECRET KEY", spki), ""},
		{"label of the other part", pemOf("PUBLIC KEY", pkcs8), ""},
		{"label of the other part, reversed", pemOf("PRIVATE KEY", spki), ""},
		{"certificate", pemOf("CERTIFICATE", spki), ""},
		{"OpenSSH private", pemOf("OPENSSH PRIVATE KEY", []byte("openssh-key-v1")), ""},
		{"OpenSSH public", "ssh-rsa AAAAB3NzaC1yc2E= me", ""},
		{"two pairs", pemOf("PUBLIC KEY", spki) + pemOf("PUBLIC KEY", other.p().spki), "leave one"},
		{"private of one pair, public of another", pemOf("PRIVATE KEY", pkcs8) + pemOf("PUBLIC KEY", other.p().spki), "leave one"},
		{"many", strings.Repeat(pemOf("PUBLIC KEY", spki), 2), "leave one"},
		{"encrypted PKCS#8", pemOf("ENCRYPTED PRIVATE KEY", pkcs8), "passphrase"},
		{"encrypted PKCS#1", encryptedHeader, "passphrase"},
		{"Ed25519", pemOf("PRIVATE KEY", edPKCS8), "another algorithm"},
		{"EC", pemOf("EC PRIVATE KEY", ecDER), ""},
		{"EC in Base64", base(ecDER), ""},
		{"EC public", base(ecSPKI), "another algorithm"},
		{"512 bits", base(spkiOf(t, withBits(512), e)), "bits"},
		{"1023 bits", base(spkiOf(t, withBits(1023), e)), "bits"},
		{"8193 bits", base(spkiOf(t, withBits(8193), e)), "bits"},
		{"100,000 bits", base(spkiOf(t, withBits(100_000), e)), ""},
		{"exponent 1", base(spkiOf(t, n, big.NewInt(1))), "exponent"},
		{"exponent 3", base(spkiOf(t, n, big.NewInt(3))), "exponent"},
		{"exponent 65535", base(spkiOf(t, n, big.NewInt(65535))), "exponent"},
		{"exponent even", base(spkiOf(t, n, big.NewInt(65538))), "exponent"},
		{"exponent 2^31", base(spkiOf(t, n, big.NewInt(1<<31+1))), "exponent"},
		{"exponent huge", base(spkiOf(t, n, withBits(200))), ""},
		{"exponent negative", base(spkiOf(t, n, big.NewInt(-65537))), ""},
		{"modulus even", base(spkiOf(t, new(big.Int).Add(n, big.NewInt(1)), e)), ""},
		{"modulus negative", base(spkiOf(t, new(big.Int).Neg(n), e)), ""},
		{"private numbers of another pair", base(mixedDER), ""},
		{"private exponent wrong", pemOf("RSA PRIVATE KEY", wrongD), ""},
		{"three primes", der(threePrimes), ""},
		{"encrypted PKCS#8 in Base64", der(struct {
			A algorithm
			B []byte
		}{rsaOID, pkcs8}), ""},
		{"certificate in Base64", der(struct {
			A, B algorithm
			C    asn1.BitString
		}{rsaOID, rsaOID, bits(spki)}), ""},
		{"three numbers", der([]int{1, 2, 3}), ""},
		{"twenty numbers", der(make([]int, 20)), ""},
		{"no algorithm", der(struct {
			A []int
			B asn1.BitString
		}{[]int{1}, bits(spki)}), ""},
		{"SPKI without the NULL", der(struct {
			A algorithm
			B asn1.BitString
		}{rsaOID, bits(x509.MarshalPKCS1PublicKey(&rsaKey.PublicKey))}), ""},
		{"SPKI of one number", der(struct {
			A algorithm
			B asn1.BitString
		}{rsaOID, bits([]byte{0x30, 3, 2, 1, 1})}), ""},
		{"SPKI of nothing", der(struct {
			A algorithm
			B asn1.BitString
		}{rsaOID, bits(nil)}), ""},
		{"SPKI with an endless number", der(struct {
			A algorithm
			B asn1.BitString
		}{rsaOID, bits([]byte{0x30, 7, 2, 2, 0, 1, 2, 1, 1})}), ""},
		{"PKCS#8 of one number", der(struct {
			V int
			A algorithm
			B []byte
		}{0, rsaOID, []byte{0x30, 3, 2, 1, 1}}), ""},
		{"PKCS#8 of nothing", der(struct {
			V int
			A algorithm
			B []byte
		}{0, rsaOID, nil}), ""},
		{"private with exponent 3", base(smallE), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "Base64 without padding" && !strings.HasSuffix(base(spki), "=") {
				t.Skip("this key's Base64 has no padding to leave out")
			}
			got, err := ParseKey([]byte(c.text))
			if got != nil || !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("gave %v, %v; want ErrKey with %q", got, err, c.want)
			}
			for _, line := range strings.Fields(c.text) {
				if len(line) > 20 && !strings.HasPrefix(line, "-----") && strings.Contains(err.Error(), line) {
					t.Error("the error repeats the data")
				}
			}
		})
	}
}

func TestKeyWrittenAndRead(t *testing.T) {
	for _, key := range []*Key{key1024(t), key2048(t), oddBitsKey(t)} {
		private := must(key.PrivatePEM())(t)
		for _, c := range []struct {
			text []byte
			want *Key
		}{
			{private, key},
			{key.PublicPEM(), key.Public()},
			{[]byte(key.PublicBase64()), key.Public()},
			{[]byte(key.Public().PublicBase64()), key.Public()},
		} {
			got, err := ParseKey(c.text)
			if err != nil || !got.Equal(c.want) {
				t.Errorf("%v: read back as %v, %v", c.want, got, err)
			}
		}
		if _, err := key.Public().PrivatePEM(); !errors.Is(err, ErrDirection) {
			t.Errorf("the private part of a public key: %v", err)
		}
		spki := must(x509.MarshalPKIXPublicKey(key.p().public))(t)
		sum := sha256.Sum256(spki)
		if key.Fingerprint() != hex.EncodeToString(sum[:]) || key.Public().Fingerprint() != key.Fingerprint() {
			t.Errorf("fingerprint %s", key.Fingerprint())
		}
	}
}

func TestKeyParts(t *testing.T) {
	key, other := key1024(t), other1024(t)
	public := key.Public()
	if !key.HasPrivate() || public.HasPrivate() || public.Public() != public {
		t.Error("the parts are not as made")
	}
	if key.Equal(public) || public.Equal(key) || key.Equal(other) || !key.Equal(key) || !public.Equal(key.Public()) {
		t.Error("Equal confuses parts or pairs")
	}
	if key.Bits() != 1024 || key.Size() != 128 || key.MaxChunk(PKCS1v15) != 117 || key.MaxChunk(OAEP) != 62 {
		t.Errorf("%d bits, %d bytes, chunks of %d and %d", key.Bits(), key.Size(), key.MaxChunk(PKCS1v15), key.MaxChunk(OAEP))
	}
	for n, want := range map[int]int{-1: 0, 0: 0, 1: 1, 117: 1, 118: 2, 234: 2, 235: 3} {
		if got := key.Blocks(PKCS1v15, n); got != want {
			t.Errorf("%d bytes take %d blocks, want %d", n, got, want)
		}
	}
	var zero Key
	var none *Key
	for _, k := range []*Key{&zero, none} {
		if k.Bits() != 0 || k.Size() != 0 || k.HasPrivate() || k.Fingerprint() != "" || k.PublicBase64() != "" || k.PublicPEM() != nil ||
			k.MaxChunk(PKCS1v15) != 0 || k.Blocks(PKCS1v15, 5) != 0 || k.MaxPlaintext(PKCS1v15) != 0 || k.Public() != k || k.Equal(key) || key.Equal(k) || !k.Equal(&zero) {
			t.Error("a key without parts has something")
		}
		if _, err := k.PrivatePEM(); !errors.Is(err, ErrKeyMissing) {
			t.Errorf("its private part: %v", err)
		}
	}
}

func TestGenerateKeyRefuses(t *testing.T) {
	for _, bits := range []int{-1, 0, 512, 1023, 1025, 2047, 8200, 1 << 30} {
		if key, err := GenerateKey(bits); key != nil || !errors.Is(err, ErrKey) {
			t.Errorf("%d bits: %v, %v", bits, key, err)
		}
	}
}
