package conformance

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode"

	"countersign"
	"countersign/countersigntest"
)

// message has the members of a callback, each value as JSON text. Messages are made of text, not of the root package's
// types, because those types refuse to write most of the messages that the cases send.
type message []countersign.Member

// text returns s as a JSON string.
func text(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always marshals
	}
	return string(b)
}

// edit returns a copy with changes, which " & " separates: "NAME VALUE" is set, "+NAME VALUE" is add, and "NAME" leaves
// the member out. "~NAME VALUE" is set if there is such a member. {id} is the trackingId, {user} the tenantUserId,
// {order} the callBackId, {CASE} that in the other case, {tx} and {TX} the digits of the txId, {to} those of the
// toAddress, {number} the tenantUserId or else 65515, {9} and {20} so many digits, more than 2⁵³ too.
func (m message) edit(changes string) message {
	tx, number := strings.TrimPrefix(m.bare("txId"), "0x"), m.bare("tenantUserId")
	if number == "" || strings.Trim(number, "0123456789") != "" || number[0] == '0' {
		number = "65515"
	}
	other := message{{Value: countersign.Raw(text(otherCase(m.str("callBackId"))))}}
	has := strings.NewReplacer("{id}", m.bare("trackingId"), "{user}", m.bare("tenantUserId"), "{order}",
		m.bare("callBackId"), "{CASE}", other.bare(""), "{tx}", tx, "{TX}", strings.ToUpper(tx), "{to}",
		strings.TrimPrefix(m.bare("toAddress"), "0x"),
		"{number}", number, "{9}", digits(9), "{20}", digits(20))
	for change := range strings.SplitSeq(changes, " & ") {
		name, value, sets := strings.Cut(change, " ")
		value = has.Replace(value)
		switch {
		case !sets:
			m = m.drop(name)
		case name[0] == '+':
			m = m.add(name[1:], value)
		case name[0] == '~':
			if m.get(name[1:]) != "" {
				m = m.set(name[1:], value)
			}
		default:
			m = m.set(name, value)
		}
	}
	return m
}

// otherCase returns s with small letters for capitals and the other way round.
func otherCase(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, s)
}

// digits returns a number of n digits that no other message has.
func digits(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	for i := range b {
		b[i] = '1' + b[i]%9
	}
	return string(b)
}

func (m message) drop(name string) message {
	return slices.DeleteFunc(slices.Clone(m), func(e countersign.Member) bool { return e.Name == name })
}

// set returns a copy in which the member called name has that value. A new member stands before requestUUID.
func (m message) set(name, value string) message {
	c := slices.Clone(m)
	for i := range c {
		if c[i].Name == name {
			c[i].Value = countersign.Raw(value)
			return c
		}
	}
	return c.add(name, value)
}

// add puts one more member before requestUUID, even if the name is there already.
func (m message) add(name, value string) message {
	return slices.Insert(slices.Clone(m), len(m)-1, countersign.Member{Name: name, Value: countersign.Raw(value)})
}

// get returns the value of a member, or "" if there is none.
func (m message) get(name string) string {
	for _, e := range m {
		if e.Name == name {
			return string(e.Value)
		}
	}
	return ""
}

// str returns the text of a member that is a string.
func (m message) str(name string) string {
	var s string
	_ = json.Unmarshal([]byte(m.get(name)), &s) // null and absent are ""
	return s
}

// bare returns a member as it is written, a string without its quotes.
func (m message) bare(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(m.get(name), `"`), `"`)
}

func (m message) bytes() []byte {
	var members []string
	for _, e := range m {
		members = append(members, text(e.Name)+":"+string(e.Value))
	}
	return []byte("{" + strings.Join(members, ",") + "}")
}

// twin returns a message about something else that is as long as m, so that blocks of the two fit together.
func (m message) twin() message {
	for _, name := range []string{"trackingId", "callBackId", "txId"} {
		if v := []byte(m.str(name)); len(v) > 0 {
			digit := byte('7') // a hash stays one
			if v[len(v)/2] == digit {
				digit = '6'
			}
			v[len(v)/2] = digit
			m = m.set(name, text(string(v)))
		}
	}
	return m
}

// uuidFirst returns m with its requestUUID first, so that the first block holds all of it.
func (m message) uuidFirst() message {
	return append(message{m[len(m)-1]}, m[:len(m)-1]...)
}

// parseMessage reads one JSON object, whatever its members are.
func parseMessage(b []byte) (m message, err error) {
	if b = bytes.TrimSpace(b); !json.Valid(b) || b[0] != '{' {
		return nil, errors.New("the message is not one JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(b)) // of valid JSON: it does not fail
	_, _ = d.Token()
	for d.More() {
		name, _ := d.Token()
		var value json.RawMessage
		_ = d.Decode(&value)
		m = append(m, countersign.Member{Name: name.(string), Value: countersign.Raw(value)})
	}
	return m, nil
}

// callback returns a new, correct callback of type t, with the members that may be left out. A service that is not of
// this project names only the callBackId of a withdrawal.
func (s *session) callback(t countersign.Type) message {
	cb := countersigntest.Sample(t, int(s.made.Add(1)))
	cb.Common().RequestUUID = countersign.UnboundUUID
	plain, err := cb.Marshal()
	if err != nil {
		panic(err) // a sample marshals
	}
	m, err := parseMessage(plain)
	if err != nil {
		panic(err)
	}
	id := text(s.id())
	m = m.edit("~trackingId " + id + " & ~callBackId " + id + " & tenantUserId " + text(s.cfg.User))
	switch t {
	case countersign.TypeDeposited:
		m = m.edit(`txIndex 3 & amount "2.5" & ~toAddress ` + text(cmp.Or(s.cfg.DepositAddress, m.str("toAddress"))))
	case countersign.TypeWithdraw:
		m = m.edit(`fromAddress "0x` + randomHex(20) + `"`)
	case countersign.TypeInvalidAddress:
		m = m.edit(`toAddress "0x` + randomHex(20) + `"`)
	case countersign.TypeRequestWithdraw:
		if s.cfg.Other {
			m = m.edit("trackingId & tenantUserId & business")
		}
	}
	return m
}

func (s *session) deposit() message { return s.callback(countersign.TypeDeposited) }

// unknown asks about a withdrawal that the endpoint cannot know.
func (s *session) unknown() message { return s.callback(countersign.TypeRequestWithdraw) }

// known asks about the known order.
func (s *session) known() message {
	o := s.cfg.Order
	m := s.unknown().set("callBackId", text(o.CallBackID))
	if s.cfg.Other {
		return m
	}
	return m.set("trackingId", text("withdrawal-"+o.CallBackID)).set("tenantUserId", text(o.TenantUserID))
}

// subject is callback about the known order, if it asks about one and there is one.
func (s *session) subject(t countersign.Type) message {
	if t == countersign.TypeRequestWithdraw && s.cfg.Order != nil {
		return s.known()
	}
	return s.callback(t)
}
