package conformance

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"

	"countersign"
)

// responseCases check the response itself, one rule a case, so that a failure
// names the rule.
func responseCases() []Case {
	order := []*Need{NeedOrder}
	return []Case{
		{501, Must, "response/status", "HTTP, H2", "A callback that was read and judged is answered with status 200.", nil, responseStatus},
		{502, Must, "response/four-members", "Answers, R1", "A response has apiKey, data, errCode and message, none of them twice.", nil, fourMembers},
		{503, Must, "response/types", "Answers, R1", "apiKey, data and message are texts, errCode is a whole number.", nil, memberTypes},
		{504, Must, "response/api-key", "Answers, R1", "apiKey is the merchant's.", nil, responseKey},
		{505, Must, "response/data-opens", "Sealing, S2", "data opens with the service's private part, and is no larger than an answer may be (R9).", nil, setting()},
		{506, Must, "response/request-uuid", "Answers, R2", "The answer returns the requestUUID, each attempt its own.", nil, requestUUID},
		{507, Must, "response/type", "Answers, R2", "The answer returns the type.", nil, answerType},
		{508, Must, "response/deposit-members", "Answers, R3", "The answer returns the members of the deposit as they came.", nil, depositMembers},
		{509, Should, "response/null-members", "Answers, R3", "callBackId, state and tenantType of a deposit's answer are null.", nil, nullMembers},
		{510, Must, "response/withdrawal-members", "Answers, R4", "The answer to type 2 returns callBackId and tenantUserId as they came and the order's details.", order, withdrawalMembers},
		{511, Must, "response/message-on-failure", "Answers, R1", "If errCode is not 0, message says why.", nil, messageOnFailure},
		{512, Should, "response/refusal-keeps-uuid", "Answers, R2", "If a refusal has data, it opens and returns the requestUUID.", nil, refusalData},
		{513, Must, "response/plain-transfer", "HTTP, H3", "The response is not compressed, is no redirect and has at most 65,536 bytes.", nil, plainTransfer},
		{514, Must, "response/nothing-in-the-clear", "Answers, R1", "The answer is in data and nowhere else: the response has no member of the deposit in the clear.", nil, nothingInTheClear},
	}
}

// answerMember is one member of the opened answer as it was written, "" if there
// is none.
func answerMember(r *reply, name string) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(r.answer, &members) != nil {
		return ""
	}
	return string(bytes.TrimSpace(members[name]))
}

func responseStatus(s *session) {
	statusIs(s.post("a deposit", s.deposit()), http.StatusOK)
	statusIs(s.ask("an unknown order", s.unknown()), http.StatusOK)
}

// respondsTo is the response to m at the notify URL; there must be one.
func (s *session) respondsTo(what string, m message) *reply {
	r := s.post(what, m)
	arrived(r)
	return r
}

func fourMembers(s *session) {
	r := s.respondsTo("a deposit", s.deposit())
	if r.members == nil {
		fail("Return a JSON object in UTF-8 and nothing around it.", "the response is not a JSON object")
	}
	for _, name := range responseMembers {
		if _, ok := r.members[name]; !ok {
			fail("A response has all four members; message may be an empty text.", "the response has no member %s", name)
		}
	}
	if r.parseErr != nil {
		fail(responseFix(r.parseErr), "the response is not valid: %v", r.parseErr)
	}
}

func memberTypes(s *session) {
	r := s.respondsTo("a deposit", s.deposit())
	for _, name := range []string{"apiKey", "data", "message"} {
		if raw := r.members[name]; len(raw) == 0 || raw[0] != '"' {
			fail("Write "+name+" as a text; an empty one is \"\", not null.", "%s of the response is not a text", name)
		}
	}
	var n json.Number
	if raw := r.members["errCode"]; len(raw) == 0 || raw[0] == '"' || json.Unmarshal(raw, &n) != nil {
		fail("Write errCode as a number: 0, not \"0\".", "errCode of the response is not a number")
	}
}

func responseKey(s *session) {
	r := s.respondsTo("a deposit", s.deposit())
	var key string
	if json.Unmarshal(r.members["apiKey"], &key) != nil || !s.cfg.APIKey.Equal(countersign.APIKey(key)) {
		fail("Put the merchant's own API key into apiKey. It need not be the one that came in X-API-KEY.",
			"apiKey of the response is not the merchant's")
	}
}

func requestUUID(s *session) {
	m := s.deposit()
	for _, what := range []string{"a deposit", "the same deposit, second attempt", "the same deposit, third attempt"} {
		r := s.respondsTo(what, m)
		if answerMember(r, "requestUUID") != text(r.uuid) {
			fail(returnUUID, "%s: the answer does not return its requestUUID", what)
		}
	}
}

func answerType(s *session) {
	r := s.respondsTo("a deposit", s.deposit())
	if got := answerMember(r, "type"); got != "1" && got != `"1"` {
		fail("Return the type of the request in the answer.", "type of the answer is %s, not 1", cmp.Or(got, "missing"))
	}
}

func depositMembers(s *session) {
	m := s.deposit().set("amount", `"2.500000000000"`).set("txIndex", "-1")
	r := s.takes("a deposit", m)
	for _, name := range []string{"trackingId", "txId", "txIndex", "chainName", "symbol", "amount", "fromAddress", "toAddress", "tenantUserId"} {
		if v := answerMember(r, name); v == "" || v == "null" {
			fail("Return the members of the deposit in the answer.", "the answer has no member %s", name)
		}
	}
	sameDeposit(m, r)
}

func nullMembers(s *session) {
	r := s.takes("a deposit", s.deposit())
	for _, name := range []string{"callBackId", "state", "tenantType"} {
		switch answerMember(r, name) {
		case "null":
		case "":
			s.note("%s is left out, which services allow", name)
		default:
			fail("Return null: no other value has a known meaning.", "%s of the answer is not null", name)
		}
	}
}

func withdrawalMembers(s *session) {
	r := s.ask("the known order", s.known())
	statusIs(r, http.StatusOK)
	for _, name := range []string{"tenantUserId", "callBackId", "address", "chainName", "symbol", "amount", "type", "requestUUID"} {
		if answerMember(r, name) == "" {
			fail("All members of the answer to type 2 are needed.", "the answer has no member %s", name)
		}
	}
	s.confirmed(r)
}

func messageOnFailure(s *session) {
	s.advice = "Refuse what cannot be processed."
	for _, r := range []*reply{
		s.post("a callback of an unknown type", s.deposit().set("type", "99")),
		s.ask("an unknown order", s.unknown()),
	} {
		s.notAccepted(r)
		var message string
		if json.Unmarshal(r.members["message"], &message) != nil || message == "" {
			fail("Say in message what is wrong, as a text that is not empty.", "%s: errCode is not 0 and message says nothing", r.what)
		}
	}
}

func refusalData(s *session) {
	r := s.ask("an unknown order", s.unknown())
	s.notConfirmed(r)
	switch {
	case r.response.Data == "":
		s.note("the refusal has no data, which is allowed")
	case r.openErr != nil:
		fail("Seal data, or leave it empty where errCode is not 0.", "data of a refusal does not open: %v", r.openErr)
	case answerMember(r, "requestUUID") != text(r.uuid):
		fail("Return the requestUUID of this very request, in refusals too, or leave data empty.",
			"data of a refusal does not return the requestUUID")
	}
}

func plainTransfer(s *session) {
	r := s.post("a deposit", s.deposit())
	statusIs(r, http.StatusOK)
	if e := r.header.Get("Content-Encoding"); e != "" && e != "identity" {
		fail("The request asks for no compression: send the response as it is.", "the response is compressed (%s)", s.show([]byte(e)))
	}
	if len(r.body) > countersign.MaxMessage {
		fail("Keep the response within 65,536 bytes; the service reads no more.", "the response is longer than %d bytes", countersign.MaxMessage)
	}
}

func nothingInTheClear(s *session) {
	m := s.deposit()
	r := s.post("a deposit", m)
	statusIs(r, http.StatusOK)
	for _, name := range []string{"trackingId", "txId", "toAddress", "requestUUID"} {
		value := m.str(name)
		if name == "requestUUID" {
			value = r.uuid
		}
		if bytes.Contains(r.body, []byte(value)) {
			fail("The response has apiKey, data, errCode and message in the clear and nothing else of the deposit.",
				"the response shows %s in the clear", name)
		}
	}
}
