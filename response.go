package countersign

import (
	"crypto/subtle"
	"fmt"
	"strconv"

	"countersign/internal/web"
)

// APIKey is a merchant's API identifier. It is a secret: no fmt verb, logger or
// encoder prints it. Reveal returns the text.
type APIKey string

// Reveal returns the text of the key, for the wire alone.
func (k APIKey) Reveal() string { return string(k) }

// Equal compares the keys in a time that depends on their lengths alone. Two empty keys are not equal, so that a
// missing key never passes for the right one.
func (k APIKey) Equal(other APIKey) bool {
	return k != "" && subtle.ConstantTimeCompare([]byte(k), []byte(other)) == 1
}

const hiddenAPIKey = "[API key]"

// String hides the key.
func (k APIKey) String() string { return hiddenAPIKey }

// Format hides the key from every fmt verb.
func (k APIKey) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hiddenAPIKey)) }

// MarshalText hides the key from encoders and slog. Only Response.Marshal writes it.
func (k APIKey) MarshalText() ([]byte, error) { return []byte(hiddenAPIKey), nil }

// Response is the JSON object that a merchant returns for every callback
// (PROTOCOL.md, Answers). Data is sealed; the rest is plain text and proves
// nothing by itself.
type Response struct {
	APIKey  APIKey
	Data    string // sealed answer, Base64; may be empty if ErrCode is not 0
	ErrCode ErrCode
	Message string // not empty if ErrCode is not 0
	Extra   Members
}

// Marshal returns the canonical bytes. It inverts ParseResponse.
func (r Response) Marshal() ([]byte, error) { return encode(&r) }

// ParseResponse reads a merchant's response by PROTOCOL.md, R1: apiKey is a
// string, errCode a whole JSON number, message a string that is not empty if
// errCode is not 0, data a string that is not empty if errCode is 0. An error is
// a *MemberError or wraps ErrMalformed.
func ParseResponse(body []byte) (Response, error) {
	obj, err := scan(body)
	if err != nil {
		return Response{}, err
	}
	var r Response
	c := codec{obj: obj}
	r.members(&c)
	if err := c.finish(); err != nil {
		return Response{}, err
	}
	return r, nil
}

func (r *Response) members(c *codec) {
	if c.reading() { // the rules for data and message depend on it
		c.errCode(&r.ErrCode)
	}
	key := string(r.APIKey)
	c.text("apiKey", &key, mayBeEmpty)
	r.APIKey = APIKey(key)
	data, message := required, mayBeEmpty
	if r.ErrCode != CodeAccepted {
		data, message = mayBeEmpty, required
		if c.reading() {
			data = optional // a refusal without data is still a refusal
		}
	}
	c.text("data", &r.Data, data)
	if !c.reading() {
		c.errCode(&r.ErrCode)
	}
	c.text("message", &r.Message, message)
	c.extra(&r.Extra)
}

func (c *codec) errCode(v *ErrCode) {
	if c.reading() {
		raw := c.read("errCode", required)
		if raw == "" {
			return
		}
		n, ok := web.JSONInt(raw)
		if !ok {
			c.fail("errCode", "is not a whole number")
		}
		*v = ErrCode(n)
		return
	}
	c.names = append(c.names, "errCode")
	c.key("errCode")
	c.out = strconv.AppendInt(c.out, int64(*v), 10)
}
