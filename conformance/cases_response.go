package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"countersign"
)

// responseCases check the response itself, one rule a case, so that a failure
// names the rule.
func responseCases() []Case {
	order := []Need{NeedOrder}
	return []Case{
		{501, "response/status", "HTTP, H2", "A callback that was read and judged is answered with status 200.", nil, responseStatus},
		{502, "response/four-members", "Answers, R1", "A response has apiKey, data, errCode and message, none of them twice.", nil, fourMembers},
		{503, "response/types", "Answers, R1", "apiKey, data and message are texts, errCode is a whole number.", nil, memberTypes},
		{504, "response/api-key", "Answers, R1", "apiKey is the merchant's.", nil, responseKey},
		{505, "response/data-opens", "Sealing, S2", "data opens with the service's private part, and is no larger than an answer may be (R9).", nil, dataOpens},
		{506, "response/request-uuid", "Answers, R2", "The answer returns the requestUUID, each attempt its own.", nil, requestUUID},
		{507, "response/type", "Answers, R2", "The answer returns the type.", nil, answerType},
		{508, "response/deposit-members", "Answers, R3", "The answer returns the members of the deposit as they came.", nil, depositMembers},
		{509, "response/null-members", "Answers, R3", "callBackId, state and tenantType of a deposit's answer are null.", nil, nullMembers},
		{510, "response/withdrawal-members", "Answers, R4", "The answer to type 2 returns callBackId and tenantUserId as they came and the order's details.", order, withdrawalMembers},
		{511, "response/message-on-failure", "Answers, R1", "If errCode is not 0, message says why.", nil, messageOnFailure},
		{512, "response/refusal-keeps-uuid", "Answers, R2", "If a refusal has data, it opens and returns the requestUUID.", nil, refusalData},
		{513, "response/plain-transfer", "HTTP, H3", "The response is not compressed, is no redirect and has at most 65,536 bytes.", nil, plainTransfer},
		{514, "response/nothing-in-the-clear", "Answers, R1", "The answer is in data and nowhere else: the response has no member of the deposit in the clear.", nil, nothingInTheClear},
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

func responseStatus(s *session) error {
	if err := statusIs(s.post("a deposit", s.deposit()), 200); err != nil {
		return err
	}
	return statusIs(s.ask("an unknown order", s.withdrawal(s.id(), s.id(), s.cfg.User)), 200)
}

func fourMembers(s *session) error {
	r := s.post("a deposit", s.deposit())
	if err := arrived(r); err != nil {
		return err
	}
	if r.members == nil {
		return fail("Return a JSON object in UTF-8 and nothing around it.", "the response is not a JSON object")
	}
	for _, name := range []string{"apiKey", "data", "errCode", "message"} {
		if _, ok := r.members[name]; !ok {
			return fail("A response has all four members; message may be an empty text.", "the response has no member %s", name)
		}
	}
	if r.parseErr != nil {
		return fail(responseFix(r.parseErr), "the response is not valid: %v", r.parseErr)
	}
	return nil
}

func memberTypes(s *session) error {
	r := s.post("a deposit", s.deposit())
	if err := arrived(r); err != nil {
		return err
	}
	for _, name := range []string{"apiKey", "data", "message"} {
		if raw := r.members[name]; len(raw) == 0 || raw[0] != '"' {
			return fail("Write "+name+" as a text; an empty one is \"\", not null.", "%s of the response is not a text", name)
		}
	}
	var n json.Number
	if raw := r.members["errCode"]; len(raw) == 0 || raw[0] == '"' || json.Unmarshal(raw, &n) != nil {
		return fail("Write errCode as a number: 0, not \"0\".", "errCode of the response is not a number")
	}
	return nil
}

func responseKey(s *session) error {
	r := s.post("a deposit", s.deposit())
	if err := arrived(r); err != nil {
		return err
	}
	var key string
	if json.Unmarshal(r.members["apiKey"], &key) != nil || !s.cfg.APIKey.Equal(countersign.APIKey(key)) {
		return fail("Put the merchant's own API key into apiKey. It need not be the one that came in X-API-KEY.",
			"apiKey of the response is not the merchant's")
	}
	return nil
}

func dataOpens(s *session) error {
	r := s.post("a deposit", s.deposit())
	if err := s.accepted(r, countersign.TypeDeposited); err != nil {
		return err
	}
	if r.openErr != nil || len(r.answer) == 0 {
		return s.opensTo(r, countersign.TypeDeposited)
	}
	return nil
}

func requestUUID(s *session) error {
	m := s.deposit()
	for _, what := range []string{"a deposit", "the same deposit, second attempt", "the same deposit, third attempt"} {
		r := s.post(what, m)
		if err := arrived(r); err != nil {
			return err
		}
		if answerMember(r, "requestUUID") != text(r.uuid) {
			return fail("Return the requestUUID of this very request. An answer kept from an earlier attempt needs the new one.",
				"%s: the answer does not return its requestUUID", what)
		}
	}
	return nil
}

func answerType(s *session) error {
	r := s.post("a deposit", s.deposit())
	if err := arrived(r); err != nil {
		return err
	}
	if got := answerMember(r, "type"); got != "1" && got != `"1"` {
		return fail("Return the type of the request in the answer.", "type of the answer is %s, not 1", orNothing(got))
	}
	return nil
}

func orNothing(raw string) string {
	if raw == "" {
		return "missing"
	}
	return raw
}

func depositMembers(s *session) error {
	m := s.deposit().set("amount", `"2.500000000000"`).set("txIndex", "-1")
	r, err := s.taken("a deposit", m)
	if err != nil {
		return err
	}
	for _, name := range []string{"trackingId", "txId", "txIndex", "chainName", "symbol", "amount", "fromAddress", "toAddress", "tenantUserId"} {
		if v := answerMember(r, name); v == "" || v == "null" {
			return fail("Return the members of the deposit in the answer.", "the answer has no member %s", name)
		}
	}
	return sameDeposit(m, r)
}

func nullMembers(s *session) error {
	r, err := s.taken("a deposit", s.deposit())
	if err != nil {
		return err
	}
	for _, name := range []string{"callBackId", "state", "tenantType"} {
		switch answerMember(r, name) {
		case "null":
		case "":
			s.note("%s is left out, which services allow", name)
		default:
			return fail("Return null: no other value has a known meaning.", "%s of the answer is not null", name)
		}
	}
	return nil
}

func withdrawalMembers(s *session) error {
	r := s.ask("the known order", s.known())
	if err := statusIs(r, 200); err != nil {
		return err
	}
	for _, name := range []string{"tenantUserId", "callBackId", "address", "chainName", "symbol", "amount", "type", "requestUUID"} {
		if answerMember(r, name) == "" {
			return fail("All members of the answer to type 2 are needed.", "the answer has no member %s", name)
		}
	}
	return s.confirmed(r)
}

func messageOnFailure(s *session) error {
	for _, r := range []*reply{
		s.post("a callback of an unknown type", s.deposit().set("type", "99")),
		s.ask("an unknown order", s.withdrawal(s.id(), s.id(), s.cfg.User)),
	} {
		if err := arrived(r); err != nil {
			return err
		}
		if err := s.notAccepted(r); err != nil {
			return because(err, "Refuse what cannot be processed.")
		}
		var message string
		if json.Unmarshal(r.members["message"], &message) != nil || message == "" {
			return fail("Say in message what is wrong, as a text that is not empty.", "%s: errCode is not 0 and message says nothing", r.what)
		}
	}
	return nil
}

func refusalData(s *session) error {
	r := s.ask("an unknown order", s.withdrawal(s.id(), s.id(), s.cfg.User))
	if err := s.notConfirmed(r); err != nil {
		return err
	}
	if r.response.Data == "" {
		s.note("the refusal has no data, which is allowed")
		return nil
	}
	if r.openErr != nil {
		return fail("Seal data, or leave it empty where errCode is not 0.", "data of a refusal does not open: %v", r.openErr)
	}
	if answerMember(r, "requestUUID") != text(r.uuid) {
		return fail("Return the requestUUID of this very request, in refusals too, or leave data empty.",
			"data of a refusal does not return the requestUUID")
	}
	return nil
}

func plainTransfer(s *session) error {
	r := s.post("a deposit", s.deposit())
	if err := statusIs(r, 200); err != nil {
		return err
	}
	if e := r.header.Get("Content-Encoding"); e != "" && e != "identity" {
		return fail("The request asks for no compression: send the response as it is.", "the response is compressed (%s)", s.show([]byte(e)))
	}
	if len(r.body) > countersign.MaxMessage {
		return fail("Keep the response within 65,536 bytes; the service reads no more.", "the response is longer than %d bytes", countersign.MaxMessage)
	}
	return nil
}

func nothingInTheClear(s *session) error {
	m := s.deposit()
	r := s.post("a deposit", m)
	if err := statusIs(r, 200); err != nil {
		return err
	}
	secrets := []string{m.str("trackingId"), m.str("txId"), m.str("toAddress"), r.uuid}
	if i := slices.IndexFunc(secrets, func(v string) bool { return bytes.Contains(r.body, []byte(v)) }); i >= 0 {
		return fail("The response has apiKey, data, errCode and message in the clear and nothing else of the deposit.",
			"the response shows %s in the clear", fmt.Sprint([]string{"trackingId", "txId", "toAddress", "requestUUID"}[i]))
	}
	return nil
}
