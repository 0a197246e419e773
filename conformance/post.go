package conformance

import (
	"bytes"
	"strconv"
	"strings"
	"sync"

	"countersign"
)

// deposit is a new, correct deposit.
func (s *session) deposit() message {
	address := s.cfg.DepositAddress
	if address == "" {
		address = "0x" + randomHex(20)
	}
	return message{
		{"type", "1"},
		{"trackingId", text(s.id())},
		{"tenantUserId", text(s.cfg.User)},
		{"txId", text("0x" + randomHex(32))},
		{"chainName", `"ETH"`},
		{"symbol", `"USDT"`},
		{"amount", `"2.5"`},
		{"fromAddress", text("0x" + randomHex(20))},
		{"toAddress", text(address)},
		{"riskLevelFrom", "0"},
		{"riskLevelTo", "5"},
		{"txIndex", "3"},
		{"newAddress", `""`},
		{"business", "0"},
		{"requestUUID", text(countersign.UnboundUUID)},
	}
}

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

// notice is a new, correct notice of type t.
func (s *session) notice(t countersign.Type) message {
	m := message{
		{"type", strconv.Itoa(int(t))},
		{"trackingId", text(s.id())},
		{"tenantUserId", text(s.cfg.User)},
	}
	switch {
	case t.Report() != "":
		m = append(m, member{"callBackId", text(s.id())})
	case t == countersign.TypeWithdraw:
		m = append(m, member{"callBackId", text(s.id())}, member{"txId", text("0x" + randomHex(32))},
			member{"chainName", `"ETH"`}, member{"symbol", `"USDT"`}, member{"amount", `"2.500000000000"`},
			member{"fromAddress", text("0x" + randomHex(20))}, member{"toAddress", text("0x" + randomHex(20))})
	case t == countersign.TypeAddress:
		m = m.drop("trackingId")
		m = append(m, member{"trackingId", "null"}, member{"chainName", `"ETH"`}, member{"symbol", `"USDT"`},
			member{"toAddress", text("0x" + randomHex(20))}, member{"newAddress", text("0x" + randomHex(20))})
	case t == countersign.TypeInvalidAddress:
		m = append(m, member{"callBackId", text(s.id())}, member{"toAddress", text("0x" + randomHex(20))})
	default:
		panic("no notice is made of " + t.String())
	}
	return append(m, member{"business", "0"}, member{"requestUUID", text(countersign.UnboundUUID)})
}

// callback is a new, correct callback of type t; about the known order, if it asks about one and there is one.
func (s *session) callback(t countersign.Type) message {
	switch {
	case t == countersign.TypeDeposited:
		return s.deposit()
	case t != countersign.TypeRequestWithdraw:
		return s.notice(t)
	case s.cfg.Order != nil:
		return s.known()
	}
	return s.unknown()
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
