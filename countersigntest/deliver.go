package countersigntest

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"

	"countersign"
	"countersign/envelope"
)

// Deliver makes one attempt of cb, with a new requestUUID, and judges the response. It does not change cb.
func (s *Service) Deliver(ctx context.Context, to Endpoint, cb countersign.Callback) Result {
	s.mu.Lock()
	f, previous := NoServiceFault, s.previous
	if s.c.Fault != nil {
		f = s.c.Fault(s.n, cb)
	}
	s.n++
	s.mu.Unlock()
	plaintext, sent, err := s.Plaintext(cb)
	if err != nil {
		return Result{Err: err}
	}
	body, err := s.Seal(plaintext)
	if err != nil {
		return Result{Err: err}
	}
	target, elsewhere := to.notify, to.withdraw
	if cb.CallbackType().Lane() == countersign.LaneWithdraw {
		target, elsewhere = elsewhere, target
	}
	honest := Request{Plaintext: plaintext, UUID: sent.UUID(), Sealed: body, URL: to.url(target),
		APIKey: s.c.CallbackAPIKey}
	posted, err := s.Forge(f, honest, to.url(elsewhere), previous)
	if err != nil {
		return Result{Err: err}
	}
	if posted.URL != honest.URL {
		target = elsewhere
	}
	if f == NoServiceFault {
		s.mu.Lock()
		s.previous = posted
		s.mu.Unlock()
	}
	return s.judge(send(ctx, to, target, posted.APIKey, posted.Header, posted.Body), sent, posted.Sealed)
}

// Forge returns r as f posts it: with Body, Header and the fault. r has none of these yet. elsewhere is the URL of the
// other types, earlier a request that was sent before. It fails if f needs an earlier request and there is none, or is
// a fault of the signature and the service does not sign.
func (s *Service) Forge(f ServiceFault, r Request, elsewhere string, earlier Request) (Request, error) {
	honest := r
	switch {
	case f.NeedsEarlier() && earlier.Sealed == nil:
		return r, errors.New("countersigntest: " + string(f) + " needs an earlier delivery")
	case f.NeedsSigning() && s.c.Sign == nil:
		return r, errors.New("countersigntest: " + string(f) + " needs a service that signs")
	}
	var err error
	if r.Sealed, err = s.spoil(f, r.Plaintext, r.Sealed, earlier); err != nil {
		return r, err
	}
	r.Body = s.Wrap(r.Sealed)
	switch f {
	case FaultReplayed:
		r.Plaintext, r.UUID = earlier.Plaintext, earlier.UUID
	case FaultSpliced, FaultOldUUID:
		r.UUID = earlier.UUID
	case FaultNoAPIKey:
		r.APIKey = ""
	case FaultWrongAPIKey:
		r.APIKey = newAPIKey()
	case FaultWrongURL:
		r.URL = elsewhere
	}
	r.Header, err = s.link(f, r, s.Wrap(honest.Sealed), elsewhere, earlier)
	return r, err
}

// spoil returns the bytes that f seals or sends in place of body, which is plaintext sealed. For faults outside the
// body it returns body.
func (s *Service) spoil(f ServiceFault, plaintext, body []byte, earlier Request) ([]byte, error) {
	size := s.c.RequestKey.Size()
	switch f {
	case FaultReplayed:
		return earlier.Sealed, nil
	case FaultSpliced:
		return Splice(body, earlier.Sealed, 1, size)
	case FaultOldUUID, FaultAltered:
		id := earlier.UUID
		if f == FaultAltered {
			id = countersign.UnboundUUID // in whose place comes a new one
		}
		start, end, ok := countersign.UUIDSpan(plaintext)
		if !ok || end-start != len(id) {
			return nil, errors.New("countersigntest: " + string(f) + " needs a requestUUID of the same length")
		}
		other, _ := s.Attempt(slices.Concat(plaintext[:start], []byte(id), plaintext[end:]))
		return s.Seal(other)
	case FaultSwapped, FaultCut:
		b, err := blocksOf(body, 2, size)
		if err != nil {
			return nil, err
		}
		rest, last := b[:len(b)-size], b[len(b)-size:]
		if f == FaultSwapped {
			rest = slices.Concat(rest[:len(rest)-size], last, rest[len(rest)-size:])
		}
		return base64.StdEncoding.AppendEncode(nil, rest), nil
	case FaultOtherKey:
		pair, err := envelope.GenerateKey(s.c.RequestKey.Bits() / 8 * 8)
		if err != nil {
			return nil, err
		}
		if !s.c.RequestKey.HasPrivate() {
			pair = pair.Public()
		}
		return envelope.Seal(pair, s.c.Padding, plaintext)
	case FaultPlain:
		return plaintext, nil
	case FaultSpaces:
		// Not every body has a +. A space anywhere is the same fault.
		spaced := append([]byte(nil), body...)
		spaced[len(spaced)/2] = ' '
		return spaced, nil
	}
	return body, nil
}

// Post sends any bytes to a target, an URL or a path, with the headers of a
// callback and without a signature. Only Status, Header, Raw and Err of the result are set.
func (s *Service) Post(ctx context.Context, to Endpoint, target string, body []byte) Result {
	return send(ctx, to, target, s.c.CallbackAPIKey, http.Header{"Content-Type": {s.contentType()}}, body)
}

// maxResponse is how much of a response is read, in bytes.
const maxResponse = countersign.MaxMessage

// send posts body with the headers of h and the API key.
func send(ctx context.Context, to Endpoint, target string, key countersign.APIKey, h http.Header, body []byte) Result {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return Result{Err: fmt.Errorf("countersigntest: %w", err)}
	}
	for name, values := range h {
		r.Header[name] = values
	}
	if key != "" {
		r.Header.Set("X-API-KEY", key.Reveal())
	}
	if to.handler != nil {
		r.Host = handlerHost
		w := httptest.NewRecorder()
		to.handler.ServeHTTP(w, r)
		return Result{Status: w.Code, Header: w.Result().Header, Raw: w.Body.Bytes()}
	}
	resp, err := to.client.Do(r)
	if err != nil {
		return Result{Err: fmt.Errorf("posting: %w", err)}
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	res := Result{Status: resp.StatusCode, Header: resp.Header, Raw: raw}
	switch {
	case err != nil:
		res.Err = fmt.Errorf("reading the response: %w", err)
	case len(raw) > maxResponse:
		res.Err = fmt.Errorf("the response has more than %d bytes", maxResponse)
	}
	return res
}
