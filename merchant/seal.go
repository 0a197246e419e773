package merchant

import (
	"encoding/base64"
	"fmt"

	"countersign"
	"countersign/envelope"
)

// responseRoom is more than a response needs beside its data and apiKey, in bytes.
const responseRoom = 512

// plaintext returns the answer that accepts or confirms cb, to be sealed with key: the shortest one if the full answer
// does not fit into a response.
func (h *Handler) plaintext(key *envelope.Key, cb countersign.Callback, r Reply) ([]byte, error) {
	a := cb.Accept(r.Details)
	if w, ok := a.(countersign.WithdrawalAnswer); ok && w.TenantUserID == "" {
		w.TenantUserID = r.TenantUserID
		a = w
	}
	b, err := h.written(key, a)
	if err == nil && !h.fits(key, b) {
		b, err = h.written(key, a.Shortest())
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("answer: %w", err)
	case !h.fits(key, b):
		return nil, fmt.Errorf("answer: %w: %d bytes", envelope.ErrTooLarge, len(b))
	}
	return b, nil
}

// written returns the bytes of a. The details of a withdrawal lie in blocks with what they
// belong to, if they are short enough for the blocks of key (PROTOCOL.md, Decision, D7).
func (h *Handler) written(key *envelope.Key, a countersign.Answer) ([]byte, error) {
	if w, ok := a.(countersign.WithdrawalAnswer); ok {
		b, _, err := w.MarshalBlocks(key.MaxChunk(h.c.ResponsePadding))
		return b, err
	}
	return a.Marshal()
}

// fits reports whether a response that carries plaintext is not too large for a
// service.
func (h *Handler) fits(key *envelope.Key, plaintext []byte) bool {
	padding := h.c.ResponsePadding
	data := base64.StdEncoding.EncodedLen(key.Blocks(padding, len(plaintext)) * key.Size())
	return len(plaintext) <= key.MaxPlaintext(padding) &&
		data+len(h.apiKey())+responseRoom <= countersign.MaxMessage
}

// sealed returns r with its sealed answer if errCode is 0 (PROTOCOL.md, R1).
func (h *Handler) sealed(r reply) reply {
	if r.Code != countersign.CodeAccepted {
		return r
	}
	plaintext, err := r.plaintext, error(nil)
	if plaintext == nil {
		plaintext, err = h.plaintext(r.key, r.callback, r.Reply)
	}
	if err == nil {
		var data []byte
		if data, err = envelope.Seal(r.key, h.c.ResponsePadding, plaintext); err == nil {
			r.data, r.plaintext = string(data), plaintext
			return r
		}
	}
	// The effect is recorded; the next attempt gets its answer.
	return r.end(failed(ReasonSeal, err))
}

// body returns the JSON of a response.
func (h *Handler) body(r *reply) ([]byte, error) {
	return countersign.Response{APIKey: h.apiKey(), Data: r.data, ErrCode: r.Code, Message: r.Message}.Marshal()
}
