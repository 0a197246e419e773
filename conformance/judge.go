package conformance

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"countersign"
	"countersign/envelope"
)

// arrived fails if there was no response.
func arrived(r *reply) {
	if r.err != nil {
		fail("Answer every request, a refused one too, and read its body to the end before closing the connection.",
			"%s: there was no response: %v", r.what, r.err)
	}
}

// statusIs fails if the HTTP status is none of want.
func statusIs(r *reply, want ...int) {
	arrived(r)
	if slices.Contains(want, r.status) {
		return
	}
	names := make([]string, len(want))
	for i, w := range want {
		names[i] = strconv.Itoa(w)
	}
	fail(statusFix(r.status, want), "%s: the status is %d, not %s", r.what, r.status, strings.Join(names, " or "))
}

func statusFix(got int, want []int) string {
	switch {
	case want[0] == http.StatusBadRequest && got == http.StatusOK:
		return "Answer what cannot be opened or parsed with status 400, errCode 1001 or 1002 and empty data."
	case got >= 300 && got <= 399:
		return "A service follows no redirect: configure the final URL."
	case got == http.StatusUnauthorized:
		return "Compare X-API-KEY with the key that the service sends; check that both ends have the same key."
	case got == http.StatusNotFound:
		return "Check the URLs: type 2 goes to the withdraw URL, every other type to the notify URL."
	case got == http.StatusBadRequest:
		return "The endpoint could not open or parse a correct request. Check that it holds the public part of the pair that " +
			"seals, reads the raw body, and takes what the rule allows."
	case got >= 500:
		return "The endpoint failed: see its log. No request may make it fail."
	case want[0] == http.StatusOK:
		return "Answer every request that could be read and judged with status 200, refusals too."
	}
	return fmt.Sprintf("Answer with status %d.", want[0])
}

// wellFormed checks the response against PROTOCOL.md, R1, and L10 where answers are signed.
func (s *session) wellFormed(r *reply) {
	s.signedBy(r)
	if e := r.header.Get("Content-Encoding"); e != "" && e != "identity" {
		fail("The request asks for no compression: send the response as it is.", "%s: the response is compressed (%s)", r.what, s.show([]byte(e)))
	}
	if r.parseErr != nil {
		fail(responseFix(r.parseErr), "%s: the response is not valid: %v", r.what, r.parseErr)
	}
	if s.cfg.APIKey != "" && !s.cfg.APIKey.Equal(r.response.APIKey) {
		fail("Put the merchant's own API key into the member apiKey of every response.",
			"%s: the apiKey of the response is not the merchant's", r.what)
	}
}

func responseFix(err error) string {
	var m *countersign.MemberError
	if errors.As(err, &m) {
		switch m.Member {
		case "errCode":
			return "errCode is a whole JSON number, not a text."
		case "message":
			return "message is a text, and not empty where errCode is not 0."
		case "data":
			return "data is a text: the sealed answer in Base64, not empty where errCode is 0."
		}
	}
	return "Return one JSON object with apiKey (text), data (text), errCode (number) and message (text)."
}

// accepted checks that a service would settle the callback: status 200, a valid
// response, the apiKey, errCode 0, data that opens to the expected answer. An accepted
// deposit must be credited once, unless the case expects otherwise afterwards.
func (s *session) accepted(r *reply, t countersign.Type) {
	statusIs(r, http.StatusOK)
	s.wellFormed(r)
	s.codeIs0(r)
	s.opensTo(r, t)
	if t == countersign.TypeDeposited {
		s.expect(r.request, 1)
	}
}

func (s *session) codeIs0(r *reply) {
	if code := r.response.ErrCode; code != countersign.CodeAccepted {
		fail(codeFix(code), "%s: errCode is %d (%s), not 0", r.what, code, s.show([]byte(r.response.Message)))
	}
}

func codeFix(code countersign.ErrCode) string {
	switch code.Class() {
	case countersign.ClassNotUnderstood:
		return "The endpoint did not understand a correct request. See its log, and countersign open --explain."
	case countersign.ClassRefused, countersign.ClassHold:
		return "The endpoint refuses or holds a correct request. Does it know the user, the address and the order?"
	}
	return "The endpoint reports a failure of its own: see its log."
}

const returnUUID = "Return the requestUUID of this very request. An answer kept from an earlier attempt needs the new one."

// opensTo checks the data of a response against PROTOCOL.md, R2, and sets r.parsed.
func (s *session) opensTo(r *reply, t countersign.Type) {
	if r.openErr != nil {
		fix := "Seal the answer with the service's public part, block type 2 for every chunk, blocks joined, Base64 once at the end."
		if strings.HasPrefix(strings.TrimSpace(r.response.Data), "{") {
			fix = "data is sealed, not plain JSON. " + fix
		}
		if errors.Is(r.openErr, envelope.ErrTooLarge) {
			fix = "Return the members of the request and nothing else, and fill every block but the last."
		}
		fail(fix, "%s: data does not open: %v", r.what, r.openErr)
	}
	parse := countersign.ParseAnswer
	if s.cfg.Other {
		parse = countersign.ParseLenientAnswer
	}
	var err error
	if r.parsed, err = parse(t, r.answer); err != nil {
		fix := fmt.Sprintf("See PROTOCOL.md, Answers, for the members of the answer to type %d.", int(t))
		var m *countersign.MemberError
		if errors.As(err, &m) && m.Member == "type" {
			fix = "Return the type of the request."
		}
		fail(fix, "%s: the answer is not valid: %v", r.what, err)
	}
	if r.parsed.UUID() != r.uuid {
		fail(returnUUID, "%s: the requestUUID of the answer is not that of the request", r.what)
	}
}

// notAccepted fails if something that must be refused got errCode 0, which would
// lose or create money.
func (s *session) notAccepted(r *reply) {
	s.expectNothing(r.request)
	arrived(r)
	if r.status == http.StatusOK && r.parseErr == nil && r.response.ErrCode == countersign.CodeAccepted {
		fail("", "%s: it was accepted, with errCode 0", r.what)
	}
}

// turnedAway checks that r has that HTTP status, which says that the body was not read.
func (s *session) turnedAway(r *reply, status int) {
	s.expectNothing(r.request)
	statusIs(r, status)
}

// notOpened checks that r says that the body cannot be opened or parsed: status
// 400, errCode 1001 or 1002, empty data (PROTOCOL.md, H2).
func (s *session) notOpened(r *reply) {
	s.notAccepted(r)
	statusIs(r, http.StatusBadRequest)
	s.wellFormed(r)
	if c := r.response.ErrCode; c != countersign.CodeCannotOpen && c != countersign.CodeMalformed {
		fail("Use errCode 1001 for what does not open and 1002 for what is malformed.",
			"%s: errCode is %d, not 1001 or 1002", r.what, c)
	}
	if r.response.Data != "" {
		fail("Leave data empty: a request that could not be read has no answer.", "%s: data is not empty", r.what)
	}
}

// judged checks that r refuses something that could be read: status 200, and a
// response with one of the codes, any if none is given.
func (s *session) judged(r *reply, codes ...countersign.ErrCode) {
	s.notAccepted(r)
	statusIs(r, http.StatusOK)
	s.wellFormed(r)
	if len(codes) > 0 && !slices.Contains(codes, r.response.ErrCode) {
		fail(fmt.Sprintf("Answer with errCode %d.", codes[0]), "%s: errCode is %d, not %d", r.what, r.response.ErrCode, codes[0])
	}
}

// refused checks that r is any refusal: of something that could not be opened, or
// of something that could be judged.
func (s *session) refused(r *reply) {
	s.notAccepted(r)
	statusIs(r, http.StatusOK, http.StatusBadRequest)
	s.wellFormed(r)
}
