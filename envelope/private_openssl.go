//go:build openssl

package envelope

/*
#cgo LDFLAGS: -lcrypto
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/opensslv.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#if OPENSSL_VERSION_NUMBER < 0x30000000L
#error "this build needs OpenSSL 3 or later"
#endif

// OpenSSL keeps errors for each thread. Every function below leaves none behind,
// since the thread belongs to other goroutines afterwards.

static EVP_PKEY *cs_parse(const unsigned char *der, long n) {
	EVP_PKEY *key = d2i_PrivateKey(EVP_PKEY_RSA, NULL, &der, n);
	ERR_clear_error();
	return key;
}

static EVP_PKEY_CTX *cs_context(EVP_PKEY *key) {
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(key, NULL);
	if (ctx != NULL && (EVP_PKEY_decrypt_init(ctx) <= 0 || EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_NO_PADDING) <= 0)) {
		EVP_PKEY_CTX_free(ctx);
		ctx = NULL;
	}
	ERR_clear_error();
	return ctx;
}

static int cs_raise(EVP_PKEY_CTX *ctx, unsigned char *out, const unsigned char *in, size_t n) {
	size_t written = n;
	int ok = EVP_PKEY_decrypt(ctx, out, &written, in, n) > 0 && written == n;
	ERR_clear_error();
	return ok;
}

// cs_pkcs8 gives the length of the DER, which the caller frees with cs_free.
static int cs_pkcs8(EVP_PKEY *key, unsigned char **der) {
	PKCS8_PRIV_KEY_INFO *info = EVP_PKEY2PKCS8(key);
	int n = info == NULL ? 0 : i2d_PKCS8_PRIV_KEY_INFO(info, der);
	PKCS8_PRIV_KEY_INFO_free(info);
	ERR_clear_error();
	return n;
}

static void cs_free(unsigned char *der, int n) { OPENSSL_clear_free(der, n); }
*/
import "C"

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"unsafe"
)

func init() {
	// A system's openssl.cnf may load other providers or refuse key sizes. What
	// this package does must not depend on the machine.
	C.OPENSSL_init_crypto(C.OPENSSL_INIT_NO_LOAD_CONFIG, nil)
}

// Library names the RSA that this build uses.
func Library() string { return "OpenSSL " + C.GoString(C.OpenSSL_version(C.OPENSSL_VERSION_STRING)) }

var errOpenSSL = errors.New("OpenSSL failed")

// privatePart is the private part of a pair, in OpenSSL's memory, which is cleared once the garbage collector finds it
// unused. OpenSSL does only the raw operation, blinded. The padding is done here, because versions of OpenSSL answer a
// bad one differently.
type privatePart struct {
	key      *C.EVP_PKEY
	parts    *parts
	contexts sync.Pool // of *context, since OpenSSL's are for one thread at a time
}

type context struct {
	ctx    *C.EVP_PKEY_CTX
	public *publicOperation
}

// newPrivate moves the private numbers to OpenSSL and clears those copies in Go's memory that it can reach.
func newPrivate(p *parts, key *rsa.PrivateKey) (private, error) {
	der := x509.MarshalPKCS1PrivateKey(key)
	defer clear(der)
	c := C.cs_parse((*C.uchar)(unsafe.SliceData(der)), C.long(len(der)))
	if c == nil {
		return nil, fmt.Errorf("%w: OpenSSL does not take its private part", ErrKey)
	}
	k := &privatePart{key: c, parts: p}
	runtime.AddCleanup(k, func(c *C.EVP_PKEY) { C.EVP_PKEY_free(c) }, c)
	clear(key.D.Bits())
	for _, prime := range key.Primes {
		clear(prime.Bits())
	}
	clear(key.Precomputed.Dp.Bits())
	clear(key.Precomputed.Dq.Bits())
	clear(key.Precomputed.Qinv.Bits())
	return k, nil
}

func (p *privatePart) context() (*context, error) {
	if c, ok := p.contexts.Get().(*context); ok {
		return c, nil
	}
	ctx := C.cs_context(p.key)
	if ctx == nil {
		return nil, errOpenSSL
	}
	c := &context{ctx, newPublicOperation(p.parts)}
	runtime.AddCleanup(c, func(ctx *C.EVP_PKEY_CTX) { C.EVP_PKEY_CTX_free(ctx) }, ctx)
	return c, nil
}

// raise returns block^d mod n for a block below the modulus.
func (p *privatePart) raise(c *context, block []byte) ([]byte, error) {
	out := make([]byte, len(block))
	ok := C.cs_raise(c.ctx, (*C.uchar)(unsafe.SliceData(out)), (*C.uchar)(unsafe.SliceData(block)), C.size_t(len(block)))
	runtime.KeepAlive(c)
	if ok == 0 {
		return nil, errOpenSSL
	}
	return out, nil
}

// Public returns the public part.
func (p *privatePart) Public() crypto.PublicKey { return p.parts.public }

// Sign returns the block of type 1 for a chunk, which must fit. A block computed wrongly by faulty hardware could
// reveal the private part, so Sign returns only one that the public part opens to the chunk.
func (p *privatePart) Sign(_ io.Reader, chunk []byte, opts crypto.SignerOpts) ([]byte, error) {
	if opts.HashFunc() != 0 {
		return nil, errors.New("unsupported option: only unhashed bytes can be sealed")
	}
	encoded := type1Block(p.parts.size, chunk)
	c, err := p.context()
	if err != nil {
		return nil, err
	}
	defer p.contexts.Put(c)
	block, err := p.raise(c, encoded)
	if err != nil {
		return nil, err
	}
	if !c.public.inRange(block) || !bytes.Equal(c.public.raise(block), encoded) {
		return nil, errors.New("the public part does not open it")
	}
	return block, nil
}

// Decrypt returns the data of a block of type 2, or with rsa.OAEPOptions of OAEP, which is below the modulus.
func (p *privatePart) Decrypt(_ io.Reader, block []byte, opts crypto.DecrypterOpts) ([]byte, error) {
	padding := PKCS1v15
	if _, ok := opts.(*rsa.OAEPOptions); ok {
		padding = OAEP
	}
	c, err := p.context()
	if err != nil {
		return nil, err
	}
	encoded, err := p.raise(c, block)
	p.contexts.Put(c)
	if err != nil {
		return nil, err
	}
	return unpadded(padding, encoded)
}

// pkcs8 returns the DER of the whole pair.
func pkcs8(part private) ([]byte, error) {
	p := part.(*privatePart)
	var der *C.uchar
	n := C.cs_pkcs8(p.key, &der)
	runtime.KeepAlive(p)
	if n <= 0 {
		return nil, errOpenSSL
	}
	defer C.cs_free(der, n)
	return C.GoBytes(unsafe.Pointer(der), n), nil
}
