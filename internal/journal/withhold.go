package journal

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"countersign/client"
	"countersign/internal/passkey"
)

// A record, and an item, ends with a member private: who acted, from where, on which node, and
// all that outsiders have no business with. What the tree hashes has in its place the
// SHA-256 of that member, as it is written. So the member can be taken out of a record, which is then
// still in the log. It begins with a random salt: without it, whoever has the hash could try
// names and addresses until one fits.
const (
	privateMark = `,"private":`
	privateOpen = privateMark + `{"salt":"`
	hashText    = 44 // bytes of a hash in Base64
)

// Shown is data of which outsiders see a part. Of all other data of records they see nothing,
// and of all other items everything.
type Shown interface {
	// Shown gives that part, and what else there is; nil: nothing. Both are JSON objects without a
	// member in common. acted reports whether a person or a program made it with a token.
	Shown(acted bool) (public, private any)
}

// hidden is the member private.
type hidden struct {
	Salt  []byte          `json:"salt"`
	About []string        `json:"about,omitempty"` // instead of that beside, if there are several: they are of others too
	By    *Actor          `json:"by,omitempty"`    // absent: the end did it by itself
	Node  string          `json:"node,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"`

	Passkey *passkey.Evidence `json:"passkey,omitempty"` // absent: nobody has signed
}

// body is a record as it is kept. Private is a hidden, or the text of its hash.
type body struct {
	At      client.Time     `json:"at"`
	Kind    string          `json:"kind"`
	About   []string        `json:"about,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	Private json.RawMessage `json:"private"`
}

func newSalt() []byte {
	b := make([]byte, 16)
	rand.Read(b)
	return b
}

// apart gives what outsiders see of data, and the rest.
func apart(data any, acted bool) (public, private json.RawMessage, err error) {
	var show, hide any
	if s, ok := data.(Shown); ok {
		show, hide = s.Shown(acted)
	} else {
		hide = data
	}
	if show != nil {
		if public, err = Marshal(show); err != nil {
			return nil, nil, err
		}
	}
	if hide != nil {
		private, err = Marshal(hide)
	}
	return public, private, err
}

// closeItem writes an item with its private member. Its salt is made from that of the record, so
// that the item can be made again.
func closeItem(v any, salt []byte) ([]byte, error) {
	public, private, err := json.RawMessage(nil), json.RawMessage(nil), error(nil)
	if s, ok := v.(Shown); ok {
		public, private, err = apart(s, false)
	} else {
		public, err = Marshal(v)
	}
	if err != nil {
		return nil, err
	}
	m := hmac.New(sha256.New, salt)
	m.Write(public)
	m.Write([]byte("\n"))
	m.Write(private)
	hide, err := Marshal(hidden{Salt: m.Sum(nil)[:len(salt)], Data: private})
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s%s%s}", bytes.TrimSuffix(public, []byte("}")), privateMark, hide), nil
}

// privateOf gives where the private member of a record or an item begins; -1: it is withheld, or there is none.
func privateOf(record []byte) int {
	// Nothing else has these bytes: texts have their quotes escaped, and no member of data is named so.
	i := bytes.Index(record, []byte(privateOpen))
	if i < 0 || record[len(record)-1] != '}' {
		return -1
	}
	return i + len(privateMark)
}

// Withhold takes the private member out of a record or an item, and leaves its hash.
func Withhold(record []byte) []byte {
	i := privateOf(record)
	if i < 0 {
		return record
	}
	sum := sha256.Sum256(record[i : len(record)-1])
	out := append(make([]byte, 0, i+hashText+3), record[:i]...)
	out = append(out, '"')
	out = base64.StdEncoding.AppendEncode(out, sum[:])
	return append(out, `"}`...)
}

// withheld reports whether the private member of a record or an item was taken out.
func withheld(record []byte) bool {
	at := len(record) - len(`"}`) - hashText - len(privateMark+`"`)
	return at > 0 && bytes.HasPrefix(record[at:], []byte(privateMark+`"`)) && bytes.HasSuffix(record, []byte(`"}`))
}

// leafOf is the hash of a record or an item as a leaf of the tree. It is the same when the private
// member was taken out.
func leafOf(record []byte) tlog.Hash { return tlog.RecordHash(Withhold(record)) }

// Entry is a record as it is read.
type Entry struct {
	At    client.Time
	Kind  string
	By    *Actor
	Node  string
	About []string
	Data  json.RawMessage

	Passkey *passkey.Evidence
	// Withheld: only At and Kind, and of About and Data what outsiders see, are known.
	Withheld bool
}

// Read reads a record.
func Read(record []byte) (Entry, error) {
	e, _, err := read(record)
	return e, err
}

// read reads a record, and reports whether it is written as records are.
func read(record []byte) (e Entry, strict bool, err error) {
	var b body
	if err := json.Unmarshal(record, &b); err != nil {
		return e, false, err
	}
	e = Entry{At: b.At, Kind: b.Kind, About: b.About, Data: b.Data, Withheld: withheld(record)}
	if !e.Withheld {
		var h hidden
		if err := json.Unmarshal(b.Private, &h); err != nil {
			return e, false, err
		}
		if b.Private, err = Marshal(h); err != nil {
			return e, false, err
		}
		e.By, e.Node, e.Passkey = h.By, h.Node, h.Passkey
		if h.About != nil {
			e.About = h.About
		}
		if e.Data, err = together(b.Data, h.Data); err != nil {
			return e, false, err
		}
	}
	again, err := Marshal(b)
	return e, err == nil && bytes.Equal(again, record), err
}

// wholeItem gives the members of an item, as far as they were not taken out.
func wholeItem(item json.RawMessage) (json.RawMessage, error) {
	if withheld(item) {
		return append(bytes.Clone(item[:len(item)-len(`"}`)-hashText-len(privateMark+`"`)]), '}'), nil
	}
	i := privateOf(item)
	if i < 0 {
		return item, nil
	}
	var h hidden
	if err := json.Unmarshal(item[i:len(item)-1], &h); err != nil {
		return nil, err
	}
	return together(append(bytes.Clone(item[:i-len(privateMark)]), '}'), h.Data)
}

var errTogether = errors.New("it does not have two objects as data")

// together joins the members of two JSON objects, each of which may be absent.
func together(public, private json.RawMessage) (json.RawMessage, error) {
	switch {
	case len(private) == 0 || string(private) == "{}":
		return public, nil
	case len(public) == 0 || string(public) == "{}":
		return private, nil
	case public[len(public)-1] != '}' || private[0] != '{':
		return nil, errTogether
	}
	return fmt.Appendf(nil, "%s,%s", public[:len(public)-1], private[1:]), nil
}
