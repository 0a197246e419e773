package journal

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"countersign/client"
)

// Cosigner is who has cosigned a checkpoint, and when.
type Cosigner struct {
	Name string
	At   client.Time
}

// ErrWitness means that a checkpoint is not cosigned by a witness whose key was given.
var ErrWitness = errors.New("the checkpoint is not cosigned by the witness")

// Cosigners verifies the cosignatures of the file's checkpoint with the verifier keys of
// witnesses. Each of them must have cosigned: otherwise the error wraps ErrWitness.
func (v Verified) Cosigners(keys []string) (list []Cosigner, err error) {
	text := v.Signed + strings.Join(v.Cosigned, "\n") + "\n"
	for _, key := range keys {
		w, err := newCosignVerifier(key)
		if err != nil {
			return nil, err
		}
		n, err := note.Open([]byte(text), note.VerifierList(w))
		if err != nil || len(n.Sigs) == 0 {
			return nil, fmt.Errorf("%w %s", ErrWitness, w.Name())
		}
		at, _ := timeOf(n.Sigs[0])
		list = append(list, Cosigner{w.Name(), client.TimeOf(at)})
	}
	return list, nil
}

// SaidCosigners are who cosignatures, each a line, say that they are of. They are not verified.
func SaidCosigners(cosignatures []string) (list []Cosigner) {
	for _, line := range cosignatures {
		f := strings.Split(line, " ")
		if len(f) != 3 {
			continue
		}
		if at, ok := timeOf(note.Signature{Base64: f[2]}); ok {
			list = append(list, Cosigner{f[1], client.TimeOf(at)})
		}
	}
	return list
}

// The algorithms of verifier keys: a witness may give its key as that of a cosignature or as
// a bare Ed25519 key.
const (
	algorithmEd25519  = 1
	algorithmCosigned = 4
)

// timedSize is that of a cosignature: a time, in seconds since 1970, and an Ed25519 signature.
const timedSize = 8 + ed25519.SignatureSize

// timeOf gives the time of a cosignature. ok is false if it has not the form of one.
func timeOf(s note.Signature) (at time.Time, ok bool) {
	b, err := base64.StdEncoding.DecodeString(s.Base64)
	if err != nil || len(b) != 4+timedSize {
		return at, false
	}
	seconds := binary.BigEndian.Uint64(b[4:])
	return time.Unix(int64(seconds&(1<<40-1)), 0), seconds < 1<<40
}

// cosignVerifier verifies cosignatures of version 1, as C2SP tlog-cosignature says.
type cosignVerifier struct {
	name   string
	hash   uint32
	public ed25519.PublicKey
}

func (w cosignVerifier) Name() string    { return w.name }
func (w cosignVerifier) KeyHash() uint32 { return w.hash }

func (w cosignVerifier) Verify(text, signature []byte) bool {
	if len(signature) != timedSize {
		return false
	}
	at := binary.BigEndian.Uint64(signature)
	return ed25519.Verify(w.public, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", at, text), signature[8:])
}

func newCosignVerifier(key string) (w cosignVerifier, err error) {
	wrong := errors.New("the key of a witness is no verifier key: want NAME+HASH+KEY")
	parts := strings.SplitN(strings.TrimSpace(key), "+", 3)
	if len(parts) != 3 {
		return w, wrong
	}
	hash, err := strconv.ParseUint(parts[1], 16, 32)
	public, err2 := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || err2 != nil || len(public) != 1+ed25519.PublicKeySize || public[0] != algorithmEd25519 && public[0] != algorithmCosigned ||
		uint32(hash) != keyHash(parts[0], public) {
		return w, wrong
	}
	w = cosignVerifier{name: parts[0], public: public[1:]}
	w.hash = keyHash(w.name, append([]byte{algorithmCosigned}, w.public...))
	return w, nil
}

// keyHash tells keys of one name apart.
func keyHash(name string, key []byte) uint32 {
	sum := sha256.Sum256(append([]byte(name+"\n"), key...))
	return binary.BigEndian.Uint32(sum[:])
}
