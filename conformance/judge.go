package conformance

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"countersign"
)

// arrived fails where nothing came back.
func arrived(r *reply) error {
	if r.err == nil {
		return nil
	}
	return fail("Answer every request on its own connection, also one that is refused, and read or drain what was sent before closing.",
		"%s: nothing came back: %v", r.what, r.err)
}

// statusIs fails where the HTTP status is another one.
func statusIs(r *reply, want ...int) error {
	if err := arrived(r); err != nil {
		return err
	}
	if slices.Contains(want, r.status) {
		return nil
	}
	names := make([]string, len(want))
	for i, w := range want {
		names[i] = strconv.Itoa(w)
	}
	return fail(statusFix(r.status, want), "%s: the status is %d, not %s", r.what, r.status, strings.Join(names, " or "))
}

func statusFix(got int, want []int) string {
	switch {
	case want[0] == http.StatusBadRequest && got == http.StatusOK:
		return "Answer what cannot be opened or parsed with status 400, errCode 1001 or 1002 and empty data."
	case got >= 300 && got <= 399:
		return "A service follows no redirect: configure the final URL."
	case got == http.StatusUnauthorized:
		return "Compare X-API-KEY with the key that the service sends; check that both were told the same one."
	case got == http.StatusNotFound:
		return "Check the URLs: types 1 and 3 to 7 go to the notify URL, type 2 to the withdraw URL."
	case got == http.StatusBadRequest:
		return "The endpoint could not open or parse a request that is right. Check that it holds the public part of the pair that " +
			"seals, reads the raw body, and takes what the rule allows."
	case got >= 500:
		return "The endpoint failed inside: look into its log. No request may bring this about."
	case want[0] == http.StatusOK:
		return "Answer whatever could be read and judged with status 200, refusals too."
	}
	return fmt.Sprintf("Answer with status %d.", want[0])
}

// wellFormed holds the response to the rules of Answers, R1.
func (s *session) wellFormed(r *reply) error {
	if r.parseErr != nil {
		return fail(responseFix(r.parseErr), "%s: the response is not valid: %v", r.what, r.parseErr)
	}
	if !s.cfg.APIKey.Equal(r.response.APIKey) {
		return fail("Put the merchant's own API key into the member apiKey of every response.",
			"%s: the apiKey of the response is not the merchant's", r.what)
	}
	return nil
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

// accepted holds r to all that makes a service settle a callback: status,
// response, apiKey, errCode 0, data that opens to the right answer.
func (s *session) accepted(r *reply, t countersign.Type) error {
	if err := statusIs(r, http.StatusOK); err != nil {
		return err
	}
	if err := s.wellFormed(r); err != nil {
		return err
	}
	if code := r.response.ErrCode; code != countersign.CodeAccepted {
		return fail(codeFix(code), "%s: errCode is %d (%s), not 0", r.what, code, s.show([]byte(r.response.Message)))
	}
	return s.opensTo(r, t)
}

func codeFix(code countersign.ErrCode) string {
	switch code.Class() {
	case countersign.ClassNotUnderstood:
		return "The endpoint did not understand a request that is right. See its log, and countersign open --explain."
	case countersign.ClassRefused, countersign.ClassHold:
		return "The endpoint refuses or holds something that is right. Are the user, the address and the order known to it?"
	}
	return "The endpoint reports a failure of its own: look into its log."
}

// opensTo holds the data of a response to Answers, R2.
func (s *session) opensTo(r *reply, t countersign.Type) error {
	if r.openErr != nil {
		fix := "Seal the answer with the service's public part, block type 2 for every chunk, blocks joined, Base64 once at the end."
		if strings.HasPrefix(strings.TrimSpace(r.response.Data), "{") {
			fix = "data is sealed, not plain JSON. " + fix
		}
		return fail(fix, "%s: data does not open: %v", r.what, r.openErr)
	}
	a, err := countersign.ParseAnswer(t, r.answer)
	if err != nil {
		fix := fmt.Sprintf("See PROTOCOL.md, Answers, for the members of the answer to type %d.", int(t))
		var m *countersign.MemberError
		if errors.As(err, &m) && m.Member == "type" {
			fix = "Return the type of the request."
		}
		return fail(fix, "%s: the answer is not valid: %v", r.what, err)
	}
	if a.UUID() != r.uuid {
		return fail("Return the requestUUID of this very request. An answer kept from an earlier attempt needs the new one.",
			"%s: the requestUUID of the answer is not that of the request", r.what)
	}
	return nil
}

// notOpened holds r to what a merchant says of a body that it cannot open or
// parse: status 400, errCode 1001 or 1002, empty data (HTTP, H2).
func (s *session) notOpened(r *reply) error {
	if err := s.notAccepted(r); err != nil {
		return err
	}
	if err := statusIs(r, http.StatusBadRequest); err != nil {
		return err
	}
	if err := s.wellFormed(r); err != nil {
		return err
	}
	if c := r.response.ErrCode; c != countersign.CodeCannotOpen && c != countersign.CodeMalformed {
		return fail("Use errCode 1001 for what does not open and 1002 for what is malformed.",
			"%s: errCode is %d, not 1001 or 1002", r.what, c)
	}
	if r.response.Data != "" {
		return fail("There is nothing to answer to a request that could not be read: leave data empty.", "%s: data is not empty", r.what)
	}
	return nil
}

// notAccepted fails in the one way that loses or makes money: errCode 0 for
// something that must be refused.
func (s *session) notAccepted(r *reply) error {
	if err := arrived(r); err != nil {
		return err
	}
	if r.status == http.StatusOK && r.parseErr == nil && r.response.ErrCode == countersign.CodeAccepted {
		return fail("", "%s: it was accepted, with errCode 0", r.what)
	}
	return nil
}

// judged holds r to a refusal of something that could be read: status 200, a
// response with one of the codes.
func (s *session) judged(r *reply, codes ...countersign.ErrCode) error {
	if err := s.notAccepted(r); err != nil {
		return err
	}
	if err := statusIs(r, http.StatusOK); err != nil {
		return err
	}
	if err := s.wellFormed(r); err != nil {
		return err
	}
	if len(codes) > 0 && !slices.Contains(codes, r.response.ErrCode) {
		return fail(fmt.Sprintf("Answer with errCode %d.", codes[0]), "%s: errCode is %d, not %d", r.what, r.response.ErrCode, codes[0])
	}
	return nil
}

// refused holds r to any refusal: of something that could not be opened, or
// of something that could be judged.
func (s *session) refused(r *reply) error {
	if err := s.notAccepted(r); err != nil {
		return err
	}
	if err := statusIs(r, http.StatusOK, http.StatusBadRequest); err != nil {
		return err
	}
	return s.wellFormed(r)
}

// because gives err another text about what to change where it has none.
func because(err error, fix string) error {
	var v *verdict
	if errors.As(err, &v) && v.fix == "" {
		v.fix = fix
	}
	return err
}
