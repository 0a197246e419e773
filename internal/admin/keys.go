package admin

import (
	"fmt"
	"net/http"
	"time"

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
	longWork func(func()) error // runs what takes long, or returns why it cannot
	faults   *api.Faults
	warnings []string

	request, response *envelope.Key // given in the request; nil: to be generated or kept
}

// keyMaker returns the keyMaker of a call.
func (s *Server) keyMaker(c *api.Call, scheme client.Scheme, faults *api.Faults) keyMaker {
	return keyMaker{scheme: scheme, faults: faults, longWork: s.longWork(c)}
}

// longWork returns the function that runs the long work of a call, or says why it cannot.
func (s *Server) longWork(c *api.Call) func(func()) error {
	return func(f func()) error {
		if s.LongWork == nil {
			f()
			return nil
		}
		err := s.LongWork(c.R.Context(), f)
		if err != nil {
			p := api.NewProblem(http.StatusServiceUnavailable, err.Error())
			p.RetryAfter = time.Minute
			err = p
		}
		return err
	}
}

// check reads the given keys and names their faults. It generates no key, so a wrong request costs little RSA work. all
// means that no key may be missing. An error means that it could not check.
func (k *keyMaker) check(key, responseKey *client.KeySpec, all bool) (err error) {
	if k.scheme == client.SchemeService {
		k.request, err = k.private("body.key", key)
	} else {
		k.request, err = k.public("body.key", key, all)
	}
	if err == nil {
		k.response, err = k.private("body.responseKey", responseKey)
	}
	return err
}

// parse reads a key. A private part takes long, because its numbers are checked. refused is what is wrong with the key.
func (k *keyMaker) parse(text string) (key *envelope.Key, refused, err error) {
	err = k.longWork(func() { key, refused = envelope.ParseKey([]byte(text)) })
	return key, refused, err
}

// private reads the spec of a pair of the service.
func (k *keyMaker) private(location string, spec *client.KeySpec) (*envelope.Key, error) {
	switch {
	case spec == nil:
		return nil, nil
	case spec.PublicKey != "":
		k.faults.Add(location+".publicKey", fmt.Sprintf("has no place here in scheme %s: the service needs the private part", k.scheme))
		return nil, nil
	case spec.Bits != 0 && spec.PrivateKey != "":
		k.faults.Add(location+".privateKey", "is there beside bits; give one of them")
		return nil, nil
	case spec.PrivateKey == "":
		return nil, nil
	}
	key, refused, err := k.parse(spec.PrivateKey.Reveal())
	switch {
	case err != nil:
		return nil, err
	case refused != nil:
		k.faults.Add(location+".privateKey", "is refused: "+refused.Error())
		return nil, nil
	case !key.HasPrivate():
		k.faults.Add(location+".privateKey", "is a public key")
		return nil, nil
	}
	return key, nil
}

// public reads the spec of the merchant's key.
func (k *keyMaker) public(location string, spec *client.KeySpec, required bool) (*envelope.Key, error) {
	switch {
	case spec == nil && required:
		k.faults.Add(location, fmt.Sprintf("is missing: scheme %s needs the merchant's publicKey", k.scheme))
		return nil, nil
	case spec == nil:
		return nil, nil
	case spec.Bits != 0:
		k.faults.Add(location+".bits", fmt.Sprintf("has no place here in scheme %s: the merchant made the pair", k.scheme))
		return nil, nil
	case spec.PrivateKey != "":
		k.faults.Add(location+".privateKey", fmt.Sprintf("has no place here in scheme %s: the merchant keeps it to itself", k.scheme))
		return nil, nil
	case spec.PublicKey == "":
		k.faults.Add(location+".publicKey", "is missing")
		return nil, nil
	}
	key, refused, err := k.parse(spec.PublicKey)
	switch {
	case err != nil:
		return nil, err
	case refused != nil:
		k.faults.Add(location+".publicKey", "is refused: "+refused.Error())
		return nil, nil
	case key.HasPrivate():
		k.faults.Add(location+".publicKey", "is a private key, which the merchant keeps to itself; make a new pair")
		return nil, nil
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
		k.warnings = append(k.warnings, fmt.Sprintf("the %s key has %d bits, which a well-equipped attacker can break; use it only for a peer that takes nothing else", which, key.Bits()))
	}
}

func (k *keyMaker) generate(spec *client.KeySpec) (key *envelope.Key, err error) {
	bits := defaultBits
	if spec != nil && spec.Bits != 0 {
		bits = spec.Bits
	}
	if busy := k.longWork(func() { key, err = envelope.GenerateKey(bits) }); busy != nil {
		return nil, busy
	}
	return key, err
}

// publicPart returns the key with which the merchant opens requests, if the service has just made or got the pair.
func (k *keyMaker) publicPart() string {
	if k.request == nil || k.scheme != client.SchemeService {
		return ""
	}
	return k.request.PublicBase64()
}

// responsePublicPart returns the key with which the merchant seals answers, if there is a new response pair.
func (k *keyMaker) responsePublicPart() string {
	if k.response == nil {
		return ""
	}
	return k.response.PublicBase64()
}
