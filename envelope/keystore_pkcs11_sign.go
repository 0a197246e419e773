//go:build pkcs11 && cgo

package envelope

import (
	"crypto/ed25519"
	"errors"
	"fmt"

	"github.com/miekg/pkcs11"
)

func (t *token) generateSigner(id []byte, label string) ([]byte, error) {
	return result(t, generateTimeout, func(link *tokenLink, session pkcs11.SessionHandle) ([]byte, error) {
		if !link.signs {
			return nil, ErrNoEd25519
		}
		var pub, pri pkcs11.ObjectHandle
		var err error
		for _, params := range edwards25519 {
			if pub, pri, err = t.module.GenerateKeyPair(session, []*pkcs11.Mechanism{pkcs11.NewMechanism(ckmECEdwardsKeyPairGen, nil)}, []*pkcs11.Attribute{
				pkcs11.NewAttribute(pkcs11.CKA_TOKEN, false), // as in generate
				pkcs11.NewAttribute(pkcs11.CKA_VERIFY, true),
				pkcs11.NewAttribute(pkcs11.CKA_EC_PARAMS, params),
				pkcs11.NewAttribute(pkcs11.CKA_ID, id),
				pkcs11.NewAttribute(pkcs11.CKA_LABEL, label),
			}, privateTemplate(id, label, pkcs11.CKA_SIGN)); err == nil {
				break
			}
		}
		if err != nil {
			return nil, err
		}
		var public []byte
		got, err := t.module.GetAttributeValue(session, pub, []*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_EC_POINT, nil)})
		if err == nil {
			public, err = edwardsPoint(got[0].Value)
		}
		if err != nil {
			return nil, errors.Join(err, t.module.DestroyObject(session, pri))
		}
		_ = t.module.DestroyObject(session, pub)
		return public, nil
	})
}

// edwardsPoint gives the public part of a CKA_EC_POINT: as an OCTET STRING or a BIT STRING, or
// as it is.
func edwardsPoint(value []byte) ([]byte, error) {
	n := len(value)
	switch {
	case n == ed25519.PublicKeySize,
		n == 2+ed25519.PublicKeySize && value[0] == 0x04 && value[1] == ed25519.PublicKeySize,
		n == 3+ed25519.PublicKeySize && value[0] == 0x03 && value[1] == 1+ed25519.PublicKeySize && value[2] == 0:
		return value[n-ed25519.PublicKeySize:], nil
	}
	return nil, fmt.Errorf("%w: the token gave a public part of Ed25519 in a form that is not known", ErrKeyStore)
}

// signer finds the private part of an Ed25519 pair. It has no public part to compare: Sign
// verifies what it signs.
func (t *token) signer(link *tokenLink, session pkcs11.SessionHandle, id []byte) (pkcs11.ObjectHandle, error) {
	return t.handle(link, id, nil, func() (pkcs11.ObjectHandle, error) {
		found, err := t.privateParts(session, ckkECEdwards, id)
		switch {
		case err != nil:
			return 0, err
		case len(found) != 1:
			return 0, fmt.Errorf("%w of Ed25519 with the id %x", ErrKeyNotInStore, id)
		}
		return found[0], nil
	})
}

func (t *token) sign(id, text []byte) ([]byte, error) {
	return result(t, tokenTimeout, func(link *tokenLink, session pkcs11.SessionHandle) ([]byte, error) {
		handle, err := t.signer(link, session, id)
		if err != nil {
			return nil, err
		}
		if err := t.module.SignInit(session, []*pkcs11.Mechanism{pkcs11.NewMechanism(ckmEdDSA, nil)}, handle); err != nil {
			t.forget(link, id, nil)
			return nil, err
		}
		return t.module.Sign(session, text)
	})
}

func (t *token) destroySigner(id []byte) error {
	return t.remove(id, nil, func(link *tokenLink, session pkcs11.SessionHandle) (pkcs11.ObjectHandle, error) {
		return t.signer(link, session, id)
	})
}
