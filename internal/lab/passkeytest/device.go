// Package passkeytest is a device with passkeys in software, for tests of what they sign.
package passkeytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"testing"

	"github.com/go-webauthn/webauthn/protocol/webauthncbor"
)

// Device holds one passkey. Set its fields to make it lie.
type Device struct {
	TB      testing.TB
	Origin  string // of the page that it signs for
	Host    string
	Counter uint32 // of the last signature
	ID      []byte
	Flags   byte // user present and verified; others for devices that did not look

	key *ecdsa.PrivateKey
}

const (
	verified = 0x05 // present and verified
	attested = 0x40
)

// New makes a device with a new key.
func New(tb testing.TB, origin, host string) *Device {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	id := make([]byte, 16)
	rand.Read(id)
	return &Device{TB: tb, Origin: origin, Host: host, ID: id, Flags: verified, key: key}
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (d *Device) data(kind, challenge string) []byte {
	b, err := json.Marshal(map[string]any{"type": kind, "challenge": challenge, "origin": d.Origin, "crossOrigin": false})
	if err != nil {
		d.TB.Fatal(err)
	}
	return b
}

func (d *Device) authenticator(flags byte) []byte {
	host := sha256.Sum256([]byte(d.Host))
	return binary.BigEndian.AppendUint32(append(host[:], flags), d.Counter)
}

func (d *Device) credential(response map[string]string) json.RawMessage {
	b, err := json.Marshal(map[string]any{"id": encode(d.ID), "rawId": encode(d.ID), "type": "public-key", "clientExtensionResults": map[string]any{}, "response": response})
	if err != nil {
		d.TB.Fatal(err)
	}
	return b
}

// Create is what a browser makes for a challenge, which is Base64url.
func (d *Device) Create(challenge string) json.RawMessage {
	d.TB.Helper()
	x, y := make([]byte, 32), make([]byte, 32)
	public, err := d.key.PublicKey.Bytes()
	if err != nil {
		d.TB.Fatal(err)
	}
	copy(x, public[1:33])
	copy(y, public[33:])
	cose, err := webauthncbor.Marshal(map[int]any{1: 2, 3: -7, -1: 1, -2: x, -3: y})
	if err != nil {
		d.TB.Fatal(err)
	}
	auth := append(d.authenticator(d.Flags|attested), make([]byte, 16)...)
	auth = append(binary.BigEndian.AppendUint16(auth, uint16(len(d.ID))), d.ID...)
	object, err := webauthncbor.Marshal(map[string]any{"fmt": "none", "attStmt": map[string]any{}, "authData": append(auth, cose...)})
	if err != nil {
		d.TB.Fatal(err)
	}
	return d.credential(map[string]string{"clientDataJSON": encode(d.data("webauthn.create", challenge)), "attestationObject": encode(object)})
}

// Sign is the assertion for a challenge, which is Base64url.
func (d *Device) Sign(challenge string) json.RawMessage {
	d.TB.Helper()
	d.Counter++
	data, auth := d.data("webauthn.get", challenge), d.authenticator(d.Flags)
	of := sha256.Sum256(data)
	digest := sha256.Sum256(append(auth[:len(auth):len(auth)], of[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, d.key, digest[:])
	if err != nil {
		d.TB.Fatal(err)
	}
	return d.credential(map[string]string{"clientDataJSON": encode(data), "authenticatorData": encode(auth), "signature": encode(signature)})
}
