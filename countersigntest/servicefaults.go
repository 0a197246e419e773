package countersigntest

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"

	"countersign"
	"countersign/envelope"
)

// ServiceFault is one fault of a delivery.
type ServiceFault string

// The faults. The zero ServiceFault is none.
const (
	NoServiceFault ServiceFault = ""
	// Faults of the network, or of a service that dies.
	FaultNotDone   ServiceFault = "not done"   // nothing is sent: ErrNotSent
	FaultReplyLost ServiceFault = "reply lost" // sent, and the reply is not seen: ErrReplyLost
	FaultTwice     ServiceFault = "twice"      // two attempts at the same time; the result is the second's
	FaultLate      ServiceFault = "late"       // held back until Service.DeliverLate: ErrNotSent
	FaultRepeated  ServiceFault = "repeated"   // the same body again after its response

	// An attacker with stolen sealed requests.
	FaultSpliced  ServiceFault = "spliced"  // its first block, and the rest of the previous delivery
	FaultReplayed ServiceFault = "replayed" // the body of the previous delivery
	FaultSwapped  ServiceFault = "swapped"  // its last two blocks swapped

	// A faulty service.
	FaultCut         ServiceFault = "cut"           // the last block is missing
	FaultOtherKey    ServiceFault = "other key"     // sealed with another pair
	FaultPlain       ServiceFault = "plain"         // not sealed
	FaultSpaces      ServiceFault = "spaces"        // + has become a space, as form parsers do
	FaultNoAPIKey    ServiceFault = "no api key"    // without X-API-KEY
	FaultWrongAPIKey ServiceFault = "wrong api key" // with another one
	FaultWrongURL    ServiceFault = "wrong url"     // sent to the URL of the other types
)

// ServiceFaults lists every ServiceFault but NoServiceFault.
var ServiceFaults = []ServiceFault{
	FaultNotDone, FaultReplyLost, FaultTwice, FaultLate, FaultRepeated, FaultSpliced, FaultReplayed, FaultSwapped,
	FaultCut, FaultOtherKey, FaultPlain, FaultSpaces, FaultNoAPIKey, FaultWrongAPIKey, FaultWrongURL,
}

func (s *Service) deliver(ctx context.Context, to Endpoint, cb countersign.Callback, f ServiceFault, previous []byte) Result {
	switch f {
	case FaultNotDone:
		return Result{Err: ErrNotSent}
	case FaultLate:
		s.mu.Lock()
		s.late = append(s.late, lateDelivery{to, cb})
		s.mu.Unlock()
		return Result{Err: ErrNotSent}
	case FaultReplyLost:
		r := s.attempt(ctx, to, cb)
		return Result{Sent: r.Sent, Body: r.Body, Err: ErrReplyLost}
	case FaultTwice:
		first := make(chan struct{})
		go func() {
			defer close(first)
			s.attempt(ctx, to, cb)
		}()
		r := s.attempt(ctx, to, cb)
		<-first
		return r
	case FaultRepeated:
		r := s.attempt(ctx, to, cb)
		if r.Sent == nil {
			return r
		}
		return s.post(ctx, to, to.target(cb.CallbackType()), r.Sent, r.Body)
	}
	body, sent, err := s.Body(cb)
	if err != nil {
		return Result{Err: err}
	}
	target, key := to.target(cb.CallbackType()), s.c.CallbackAPIKey
	posted, err := s.spoil(f, cb, body, previous)
	if err != nil {
		return Result{Err: err}
	}
	switch f {
	case FaultNoAPIKey:
		key = ""
	case FaultWrongAPIKey:
		key = newAPIKey()
	case FaultWrongURL:
		if target == to.notify {
			target = to.withdraw
		} else {
			target = to.notify
		}
	case NoServiceFault:
		s.mu.Lock()
		s.previous = body
		s.mu.Unlock()
	}
	return s.judge(send(ctx, to, target, key, s.Wrap(posted)), sent, posted)
}

// spoil gives the bytes that are posted instead of body.
func (s *Service) spoil(f ServiceFault, cb countersign.Callback, body, previous []byte) ([]byte, error) {
	size := s.c.RequestKey.Size()
	switch f {
	case FaultSpliced, FaultReplayed:
		if previous == nil {
			return nil, errors.New("countersigntest: " + string(f) + " needs an earlier delivery")
		}
		if f == FaultReplayed {
			return previous, nil
		}
		return Splice(body, previous, 1, size)
	case FaultSwapped:
		b, err := blocksOf(body, 2, size)
		if err != nil {
			return nil, err
		}
		n := len(b)
		swapped := slices.Concat(b[:n-2*size], b[n-size:], b[n-2*size:n-size])
		return base64.StdEncoding.AppendEncode(nil, swapped), nil
	case FaultCut:
		b, err := blocksOf(body, 2, size)
		if err != nil {
			return nil, err
		}
		return base64.StdEncoding.AppendEncode(nil, b[:len(b)-size]), nil
	case FaultOtherKey:
		pair, err := newPair()
		if err != nil {
			return nil, err
		}
		plaintext, _, err := s.Plaintext(cb)
		if err != nil {
			return nil, err
		}
		return envelope.Seal(pair, envelope.PKCS1v15, plaintext)
	case FaultPlain:
		plaintext, _, err := s.Plaintext(cb)
		return plaintext, err
	case FaultSpaces:
		// Not every body has a +. A space anywhere is the same fault.
		spaced := append([]byte(nil), body...)
		spaced[len(spaced)/2] = ' '
		return spaced, nil
	}
	return body, nil
}

// DeliverLate makes the deliveries that FaultLate held back, in their order, and
// gives their results.
func (s *Service) DeliverLate(ctx context.Context) []Result {
	s.mu.Lock()
	late := s.late
	s.late = nil
	s.mu.Unlock()
	results := make([]Result, 0, len(late))
	for _, l := range late {
		results = append(results, s.attempt(ctx, l.to, l.cb))
	}
	return results
}
