package conformance

import (
	"bytes"
	"net/http"
	"strings"
)

// responseCases are about what a response says. Each case looks at its form, its status and its apiKey, and
// whether data opens to the answer to the request.
func responseCases() []Case {
	return []Case{
		{508, Must, iface, "response/deposit-members", "Answers, R3",
			"The answer returns the members of the deposit as they came.", nil, depositMembers},
		{509, Should, ours, "response/null-members", "Answers, R3",
			"callBackId, state and tenantType of a deposit's answer are null.", nil, nullMembers},
		{512, Should, ours, "response/refusal-keeps-uuid", "Answers, R2",
			"If a refusal has data, it opens and returns the requestUUID.", nil, refusalData},
		{514, Must, iface, "response/nothing-in-the-clear", "Answers, R1",
			"The answer is in data and nowhere else: the response has no member of the deposit in the clear.", nil,
			nothingInTheClear},
	}
}

func depositMembers(s *session) {
	m := s.deposit().edit(`amount "2.500000000000" & txIndex -1`)
	r := s.takes("a deposit", m)
	members := "trackingId txId txIndex chainName symbol amount fromAddress toAddress tenantUserId"
	for name := range strings.FieldsSeq(members) {
		if v := r.member(name); v == "" || v == "null" {
			fail("Return the members of the deposit in the answer.", "the answer has no member %s", name)
		}
	}
}

func nullMembers(s *session) {
	r := s.takes("a deposit", s.deposit())
	for _, name := range []string{"callBackId", "state", "tenantType"} {
		switch r.member(name) {
		case "null":
		case "":
			s.note("%s is left out, which services allow", name)
		default:
			fail("Return null: no other value has a known meaning.", "%s of the answer is not null", name)
		}
	}
}

func refusalData(s *session) {
	r := s.post("an unknown order", s.unknown())
	s.notConfirmed(r)
	switch {
	case r.response.Data == "":
		s.note("the refusal has no data, which is allowed")
	case r.openErr != nil:
		fail("Seal data, or leave it empty where errCode is not 0.", "data of a refusal does not open: %v", r.openErr)
	case r.member("requestUUID") != text(r.uuid):
		fail("Return the requestUUID of this very request, in refusals too, or leave data empty.",
			"data of a refusal does not return the requestUUID")
	}
}

func nothingInTheClear(s *session) {
	m := s.deposit()
	r := s.post("a deposit", m)
	statusIs(r, http.StatusOK)
	for name, value := range map[string]string{"trackingId": m.str("trackingId"), "txId": m.str("txId"),
		"toAddress": m.str("toAddress"), "requestUUID": r.uuid} {
		if bytes.Contains(r.body, []byte(value)) {
			fail("The response has apiKey, data, errCode and message in the clear and nothing else of the deposit.",
				"the response shows %s in the clear", name)
		}
	}
}
