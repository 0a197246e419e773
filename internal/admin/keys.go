package admin

import (
	"countersign"
	"fmt"
	"sync"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/api"
)

const defaultBits = 2048

// keyMaker checks and makes the keys of a merchant. Which part the service holds depends on the scheme (PROTOCOL.md,
// Keys): in scheme service the service's pair seals requests; in the others the service holds the merchant's public
// part, and answers need a pair of the service.
type keyMaker struct {
	scheme   client.Scheme
	alone    *sync.Mutex // held while a key is made or checked, so that this takes one core at most
	faults   *api.Faults
	warnings []string

	request, response *envelope.Key // given in the request; nil: to be generated or kept
}

// apiKey returns the API key of a merchant: a new one, which is shown, or the one of the request.
func apiKey(fresh bool, text client.Secret) (shown client.Secret, key countersign.APIKey) {
	if fresh {
		shown = client.Secret(api.RandomText(24))
		text = shown
	}
	return shown, countersign.APIKey(text)
}

// keyMaker returns the keyMaker of a call.
func (s *Server) keyMaker(scheme client.Scheme, faults *api.Faults) keyMaker {
	return keyMaker{scheme: scheme, faults: faults, alone: &s.keyWork}
}

// check reads the given keys and names their faults. It generates no key, so a wrong request costs little RSA work. all
// means that no key may be missing. An error means that it could not check.
func (k *keyMaker) check(key, responseKey *client.KeySpec, all bool) (err error) {
	ours := k.scheme == client.SchemeService
	if k.request, err = k.read("body.key", key, ours, all && !ours); err == nil {
		k.response, err = k.read("body.responseKey", responseKey, true, false)
	}
	return err
}

// read reads the spec of a pair of the service (ours), or of the merchant's key. It returns nil for none and for a
// fault.
func (k *keyMaker) read(location string, spec *client.KeySpec, ours, required bool) (key *envelope.Key, err error) {
	fault := func(member, format string, args ...any) (*envelope.Key, error) {
		k.faults.Add(location+member, fmt.Sprintf(format, args...))
		return nil, nil
	}
	switch {
	case spec == nil && required:
		return fault("", "is missing: scheme %s needs the merchant's publicKey", k.scheme)
	case spec == nil:
		return nil, nil
	case ours && spec.PublicKey != "":
		return fault(".publicKey", "must be left out in scheme %s: the service needs privateKey or bits", k.scheme)
	case ours && spec.Bits != 0 && spec.PrivateKey != "":
		return fault(".privateKey", "is given beside bits: give one of them")
	case ours && spec.PrivateKey == "":
		return nil, nil
	case !ours && spec.Bits != 0:
		return fault(".bits", "must be left out in scheme %s: the merchant made the pair", k.scheme)
	case !ours && spec.PrivateKey != "":
		return fault(".privateKey", "must be left out in scheme %s: the merchant keeps it to itself", k.scheme)
	case !ours && spec.PublicKey == "":
		return fault(".publicKey", "is missing")
	}
	member, text := ".publicKey", spec.PublicKey
	if ours {
		member, text = ".privateKey", spec.PrivateKey.Reveal()
	}
	k.alone.Lock() // a private part takes long: its numbers are checked
	key, err = envelope.ParseKey([]byte(text))
	k.alone.Unlock()
	switch {
	case err != nil:
		return fault(member, "is refused: %v", err)
	case ours && !key.HasPrivate():
		return fault(member, "is a public key")
	case !ours && key.HasPrivate():
		return fault(member, "is a private key, which the merchant keeps to itself; make a new pair")
	}
	return key, nil
}

// make generates the keys that are needed and were not given. all is true for a new merchant. Otherwise a key that the
// request does not name stays as it is, and its field stays nil.
func (k *keyMaker) make(key, responseKey *client.KeySpec, all bool) (err error) {
	ours := k.scheme == client.SchemeService
	nothing := key == nil && responseKey == nil
	if k.request == nil && ours && (all || key != nil || nothing) {
		if k.request, err = k.generate(key); err != nil {
			return err
		}
	}
	if k.response == nil && (responseKey != nil || !ours && (all || nothing)) {
		if k.response, err = k.generate(responseKey); err != nil {
			return err
		}
	}
	k.warn("request", k.request)
	k.warn("response", k.response)
	return nil
}

func (k *keyMaker) warn(which string, key *envelope.Key) {
	if key != nil && key.Bits() < defaultBits {
		k.warnings = append(k.warnings, fmt.Sprintf(
			"the %s key has %d bits, which a well-equipped attacker can break; use it only for a peer that takes nothing else",
			which, key.Bits()))
	}
}

func (k *keyMaker) generate(spec *client.KeySpec) (key *envelope.Key, err error) {
	bits := defaultBits
	if spec != nil && spec.Bits != 0 {
		bits = spec.Bits
	}
	k.alone.Lock()
	defer k.alone.Unlock()
	return envelope.GenerateKey(bits)
}

// publicParts returns the keys with which the merchant opens requests and seals answers, if the service has just made
// or got their pairs.
func (k *keyMaker) publicParts() (request, response string) {
	if k.request != nil && k.scheme == client.SchemeService {
		request = k.request.PublicBase64()
	}
	if k.response != nil {
		response = k.response.PublicBase64()
	}
	return request, response
}
