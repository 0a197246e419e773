package countersigntest

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"strings"
	"time"

	"countersign/envelope"
)

// long is by how much the time of a signature is wrong.
const long = 2 * envelope.LinkTolerance

// link returns the headers with which f posts r: Content-Type, and those of the signature if the service signs.
// honest is the body without a fault.
func (s *Service) link(f ServiceFault, r Request, honest []byte, elsewhere string, earlier Request) (http.Header,
	error) {
	h := http.Header{"Content-Type": {cmp.Or(r.ContentType, s.contentType())}}
	by, at := s.c.Sign, time.Now()
	signed := envelope.LinkRequest{Method: http.MethodPost, URL: r.URL, Header: h, Body: r.Body}
	switch {
	case by == nil || f == FaultUnsigned:
		return h, nil
	case f == FaultReplayed || f == FaultOtherSignature:
		maps.Copy(h, earlier.Header)
		return h, nil
	}
	plaintext := r.Plaintext
	switch f {
	case FaultOtherSigner:
		by = envelope.GenerateSigningKey()
	case FaultAltered:
		signed.Body = honest
	case FaultOldSignature:
		at = at.Add(-long)
	case FaultOtherPlaintext:
		plaintext = append([]byte(" "), plaintext...)
	case FaultSignedURL:
		signed.URL = elsewhere
	}
	if err := by.SignRequest(signed, plaintext, at); err != nil {
		return nil, err
	}
	if f == FaultStripped {
		h.Del(envelope.HeaderSignatureInput)
	}
	return h, nil
}

// answering is a response that is being written: what its signature needs.
type answering struct {
	http.ResponseWriter
	asked     http.Header // of the request
	earlier   http.Header // of the request before; nil: there was none
	plaintext []byte      // what the body carries sealed
	fault     MerchantFault
}

// Unwrap is for http.ResponseController.
func (w *answering) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// sign sets the headers of the signature of a response, if the request has one (PROTOCOL.md, L9).
// Content-Type is set before.
func (m *Merchant) sign(w *answering, status int, body []byte) {
	by, at, asked := m.c.Sign, time.Now(), w.asked
	if by == nil || w.fault == FaultAnswerUnsigned || !envelope.Signed(asked) {
		return
	}
	switch w.fault {
	case FaultAnswerOtherSigner:
		by = envelope.GenerateSigningKey()
	case FaultAnswerOldSignature:
		at = at.Add(-long)
	case FaultAnswerOtherSignature:
		if asked = w.earlier; asked == nil {
			var random [64]byte
			_, _ = rand.Read(random[:]) // never fails
			asked = http.Header{envelope.HeaderSignature: {"countersign=:" + base64.StdEncoding.EncodeToString(random[:]) + ":"}}
		}
	}
	r := envelope.LinkResponse{Status: status, Header: w.Header(), Body: body, Request: asked}
	if by.SignResponse(r, w.plaintext, at) != nil {
		return // it goes unsigned, which the other end sees
	}
	if w.fault == FaultAnswerStripped {
		w.Header().Del(envelope.HeaderSignatureInput)
	}
}

// verify returns the word of PROTOCOL.md, L7 for a request, or "" if it is signed or need not be.
func (m *Merchant) verify(r *http.Request, body []byte) (sig *envelope.LinkSignature, word string) {
	if m.c.ServiceSigner == nil {
		return nil, ""
	}
	urls := []string{"https://" + r.Host + r.URL.RequestURI(), "http://" + r.Host + r.URL.RequestURI()}
	if m.c.PublicURL != "" {
		urls = []string{strings.TrimSuffix(m.c.PublicURL, "/") + r.URL.RequestURI()}
	}
	for _, url := range urls {
		s, err := envelope.VerifyRequest(envelope.LinkRequest{Method: r.Method, URL: url, Header: r.Header, Body: body},
			m.c.ServiceSigner)
		switch {
		case errors.Is(err, envelope.ErrUnsigned):
			return nil, wordUnsigned
		case err == nil:
			return &s, ""
		}
	}
	return nil, wordInvalid
}

// holds is verify for what only the opened request shows. known says that its requestUUID was taken before.
func holds(s *envelope.LinkSignature, plaintext []byte, known bool) (word string) {
	switch {
	case s == nil:
		return ""
	case !s.Covers(plaintext):
		return wordInvalid
	case s.Old(time.Now()) && !known:
		return wordOld
	}
	return ""
}
