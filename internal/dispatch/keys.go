package dispatch

import (
	"errors"
	"slices"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// keySet is one set of a merchant's keys.
type keySet struct {
	apiKey      countersign.APIKey
	callbackKey countersign.APIKey
	sealKey     *envelope.Key
	openKey     *envelope.Key
	sealPad     envelope.Padding
	openPad     envelope.Padding
}

// keys are a merchant's key sets: the one that seals and, while keys are replaced, a second one, under which answers
// count too.
type keys struct {
	keySet
	other *keySet   // nil: there is one set
	until db.Millis // when other ends
}

// keysOf returns the keys of s.
func keysOf(s outbox.Merchant) keys {
	k := keys{keySet: newKeySet(s.Scheme, s.MerchantKeys)}
	if r := s.Rotation; r != nil {
		other := newKeySet(s.Scheme, r.Other.MerchantKeys)
		k.other, k.until = &other, r.Until()
	}
	return k
}

// newKeySet chooses keys and padding by scheme (PROTOCOL.md, K2 and K3).
func newKeySet(scheme client.Scheme, from outbox.MerchantKeys) keySet {
	k := keySet{apiKey: from.APIKey, callbackKey: from.CallbackAPIKey, sealKey: from.Key, openKey: from.ResponseKey}
	if scheme != client.SchemeService {
		// The pair is the merchant's: the service uses only the public part.
		k.sealKey = k.sealKey.Public()
	}
	if k.openKey == nil {
		k.openKey = k.sealKey
	}
	if scheme == client.SchemeMerchantOAEP {
		k.sealPad = envelope.OAEP
		if k.openKey.HasPrivate() {
			k.openPad = envelope.OAEP // a public part opens no OAEP
		}
	}
	return k
}

func (k *keySet) open(w envelope.Worker, data string) (plaintext []byte, blocks []int, err error) {
	return w.OpenBlocks(k.openKey, k.openPad, []byte(data))
}

// asksAlike reports whether requests under both sets look alike to the merchant.
func (k *keySet) asksAlike(o *keySet) bool {
	return k.sealKey.Fingerprint() == o.sealKey.Fingerprint() && k.callbackKey == o.callbackKey
}

// at returns the sets that count at now: the one that seals, and the other if there is one.
func (k *keys) at(now db.Millis) []*keySet {
	if k.other == nil || now >= k.until {
		return []*keySet{&k.keySet}
	}
	return []*keySet{&k.keySet, k.other}
}

// forRequest returns the set for a request at now. It is the other set if the merchant did not take a request under the
// one that seals: a merchant that cannot have two keys changes at a moment of its own.
func (k *keys) forRequest(lastReason client.Reason, now db.Millis) *keySet {
	sets := k.at(now)
	if lastReason == client.ReasonKeyRefused {
		return sets[len(sets)-1]
	}
	return sets[0]
}

// forAnswer returns the sets that count, at now, for an answer to a request under asked. asked comes first, since a
// merchant seals an answer for the pair that belongs to the key of the request (PROTOCOL.md, K9).
func (k *keys) forAnswer(asked *keySet, now db.Millis) []*keySet {
	sets := k.at(now)
	if asked == sets[len(sets)-1] {
		slices.Reverse(sets)
	}
	return sets
}

// openAnswer opens data under the first of sets that makes it an answer to a callback of type t, and returns that set.
// If no set does, it prefers an error that counts as an opening failure. Whether the padding under the first set was
// right changes nothing that follows, so nobody can find it out (PROTOCOL.md, Sealing, S7).
func openAnswer(sets []*keySet, w envelope.Worker, t countersign.Type,
	data string) (under *keySet, plaintext []byte, blocks []int, err error) {
	under = sets[0]
	plaintext, blocks, err = under.open(w, data)
	if len(sets) == 1 || under.openKey.Fingerprint() == sets[1].openKey.Fingerprint() || err == nil &&
		isAnswer(t, plaintext) {
		return under, plaintext, blocks, err
	}
	p, b, e := sets[1].open(w, data)
	if e == nil && isAnswer(t, p) || err != nil && !openFailure(err) {
		return sets[1], p, b, e
	}
	return under, plaintext, blocks, err
}

func isAnswer(t countersign.Type, plaintext []byte) bool {
	_, err := countersign.ParseAnswer(t, plaintext)
	return err == nil
}

// openFailure reports whether an error of opening counts towards the pause.
func openFailure(err error) bool {
	return errors.Is(err, envelope.ErrOpen) || errors.Is(err, envelope.ErrTooLarge)
}

// keyRefused reports whether, by its response, the merchant did not take the keys of the request, so that another set
// is to be tried at once.
func (k *keys) keyRefused(asked *keySet, v Verdict, status int, now db.Millis) bool {
	sets := k.at(now)
	if len(sets) == 1 || asked != sets[0] || asked.asksAlike(sets[1]) || v.Result != client.AttemptRetry ||
		v.Decision != countersign.DecisionNone {
		return false
	}
	return status == 400 || status == 401 || status == 403 || v.ErrCode != nil &&
		*v.ErrCode == int64(countersign.CodeCannotOpen)
}
