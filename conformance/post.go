package conformance

import (
	"bytes"
	"strings"
	"sync"

	"countersign"
	"countersign/countersigntest"
)

// deposit is a new, correct deposit.
func (s *session) deposit() message {
	m := s.fresh(countersigntest.Deposit(3)).set("amount", `"2.5"`)
	if s.cfg.DepositAddress != "" {
		m = m.set("toAddress", text(s.cfg.DepositAddress))
	}
	return m
}

// fresh is cb with identifiers, hashes and addresses that no other callback has.
func (s *session) fresh(cb countersign.Callback) message {
	cb.Common().RequestUUID = countersign.UnboundUUID
	plain, err := cb.Marshal()
	if err != nil {
		panic(err) // a sample marshals
	}
	m, err := parseMessage(plain)
	if err != nil {
		panic(err)
	}
	for name, value := range map[string]func() string{
		"trackingId": s.id, "callBackId": s.id, "txId": func() string { return "0x" + randomHex(32) },
		"fromAddress": randomAddress, "toAddress": randomAddress, "newAddress": randomAddress,
		"tenantUserId": func() string { return s.cfg.User },
	} {
		if m.str(name) != "" {
			m = m.set(name, text(value()))
		}
	}
	return m
}

func randomAddress() string { return "0x" + randomHex(20) }

// withdrawal asks about the withdrawal called callBackID. Another service names
// nothing else.
func (s *session) withdrawal(trackingID, callBackID, user string) message {
	if s.cfg.Other {
		return message{{"type", "2"}, {"callBackId", text(callBackID)}, {"requestUUID", text(countersign.UnboundUUID)}}
	}
	return message{
		{"type", "2"},
		{"trackingId", text(trackingID)},
		{"tenantUserId", text(user)},
		{"callBackId", text(callBackID)},
		{"business", "0"},
		{"requestUUID", text(countersign.UnboundUUID)},
	}
}

// unknown asks about a withdrawal that the endpoint cannot know.
func (s *session) unknown() message { return s.withdrawal(s.id(), s.id(), s.cfg.User) }

// known asks about the known order.
func (s *session) known() message {
	o := s.cfg.Order
	id := o.TrackingID
	if id == "" {
		id = "withdrawal-" + o.CallBackID
	}
	return s.withdrawal(id, o.CallBackID, o.TenantUserID)
}

// callback is a new, correct callback of type t; about the known order, if it asks about one and there is one.
func (s *session) callback(t countersign.Type) message {
	switch {
	case t == countersign.TypeDeposited:
		return s.deposit()
	case t == countersign.TypeRequestWithdraw && s.cfg.Order != nil:
		return s.known()
	case t == countersign.TypeRequestWithdraw:
		return s.unknown()
	}
	m := s.fresh(countersigntest.Notice(t, 1))
	switch t { // members that may be left out
	case countersign.TypeWithdraw:
		m = m.set("fromAddress", text(randomAddress()))
	case countersign.TypeInvalidAddress:
		m = m.set("toAddress", text(randomAddress()))
	}
	return m
}

// attempt puts a requestUUID into m, bound if the service binds, and seals it.
func (s *session) attempt(what string, m message) request {
	return s.attemptOf(what, m, m.bytes())
}

// attemptOf is attempt with m written as plain.
func (s *session) attemptOf(what string, m message, plain []byte) request {
	return s.attemptAs(what, m, plain, !s.cfg.Unbound)
}

func (s *session) attemptAs(what string, m message, plain []byte, bound bool) request {
	plain, uuid := bind(plain, bound)
	id := strings.Trim(m.get("trackingId"), `"`)
	amount := strings.Trim(m.get("amount"), `"`)
	q := request{what: what, plaintext: plain, uuid: uuid, trackingID: id, amount: amount, body: sealWith(s.cfg.Key, s.cfg.Padding, plain)}
	if strings.Trim(m.get("type"), `"`) == "2" {
		q.to = toWithdraw
	}
	return q
}

// inChunks is q with other bytes, each chunk of them in blocks of its own.
func (s *session) inChunks(q request, chunks ...[]byte) request {
	q.plaintext, q.body = bytes.Join(chunks, nil), join(s.sealChunks(chunks...))
	return q
}

// post makes an attempt of m.
func (s *session) post(what string, m message) *reply {
	return s.send(s.attempt(what, m))
}

// takes posts a deposit that must be accepted.
func (s *session) takes(what string, m message) *reply {
	return s.takesBody(s.attempt(what, m))
}

func (s *session) takesBody(q request) *reply {
	r := s.send(q)
	s.accepted(r, countersign.TypeDeposited)
	return r
}

// atOnce sends all requests at the same time.
func (s *session) atOnce(send func(*session, request) *reply, requests []request) []*reply {
	replies := make([]*reply, len(requests))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, q := range requests {
		wg.Go(func() {
			<-start
			replies[i] = send(s, q)
		})
	}
	close(start)
	wg.Wait()
	return replies
}
