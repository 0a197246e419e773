package countersigntest

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"countersign"
	"countersign/envelope"
	"countersign/merchant"
)

// ServiceConfig has the settings of a Service. Its zero value gives an honest
// service with new keys.
type ServiceConfig struct {
	// Key is the pair of the service, private part included. Nil: a new pair.
	Key *envelope.Key
	// RequestKey seals requests: a merchant's public part in scheme
	// merchant. Nil: Key.
	RequestKey *envelope.Key
	// Padding and ResponsePadding. Zero: PKCS#1 v1.5.
	Padding, ResponsePadding envelope.Padding

	// APIKey is expected in responses. Empty: a new key.
	APIKey countersign.APIKey
	// CallbackAPIKey is the value of the header X-API-KEY. Empty: a new key.
	CallbackAPIKey countersign.APIKey

	// Sign is the service's own pair, which signs each request (PROTOCOL.md, The signed link). Nil:
	// requests are not signed.
	Sign *envelope.SigningKey

	// Unbound makes requestUUIDs that are not bound (PROTOCOL.md, Binding).
	Unbound bool
	// UUIDFirst puts requestUUID before all other members, so that all later blocks could be exchanged.
	UUIDFirst bool
	// Chunk is how many bytes of plaintext a block holds. Zero: as many as fit.
	Chunk int
	// Form is the form of the body. Zero: bare Base64.
	Form envelope.BodyForm
	// Field is the form field or JSON member that carries it. Empty: data.
	Field string

	// Fault chooses the fault of the n-th delivery, counted from 0. Nil: no
	// delivery has one. One goroutine at a time calls it.
	Fault func(n int, cb countersign.Callback) ServiceFault
}

// Service delivers callbacks and judges the responses. Several goroutines may use
// it at once.
type Service struct {
	c ServiceConfig

	mu       sync.Mutex
	n        int
	previous Request // the delivery before
}

// Request is one POST of a callback.
type Request struct {
	Plaintext   []byte
	UUID        string // the requestUUID that the answer must have
	Sealed      []byte // Plaintext, sealed
	Body        []byte // what is posted: Sealed in the form of the config
	URL         string // absolute
	ContentType string // empty: that of services
	APIKey      countersign.APIKey
	Header      http.Header // Content-Type, and the signature if the service signs
}

// NewService makes an honest Service and fails the test if it cannot.
func NewService(tb TB) *Service {
	tb.Helper()
	s, err := MakeService(ServiceConfig{})
	if err != nil {
		tb.Fatalf("making a service: %v", err)
	}
	return s
}

// MakeService makes a Service.
func MakeService(c ServiceConfig) (*Service, error) {
	if c.Key == nil {
		var err error
		if c.Key, err = newPair(); err != nil {
			return nil, err
		}
	}
	if !c.Key.HasPrivate() {
		return nil, errors.New("countersigntest: the service's key has no private part")
	}
	if c.Sign != nil && !c.Sign.HasPrivate() {
		return nil, errors.New("countersigntest: Sign has no private part")
	}
	c.RequestKey, c.Field = cmp.Or(c.RequestKey, c.Key), cmp.Or(c.Field, merchant.DefaultBodyField)
	if c.APIKey == "" {
		c.APIKey = newAPIKey()
	}
	if c.CallbackAPIKey == "" {
		c.CallbackAPIKey = newAPIKey()
	}
	return &Service{c: c}, nil
}

// MerchantKey returns what the service hands over: the public part of its pair.
func (s *Service) MerchantKey() *envelope.Key { return s.c.Key.Public() }

// APIKey returns the key that the service expects in responses.
func (s *Service) APIKey() countersign.APIKey { return s.c.APIKey }

// CallbackAPIKey returns the key that the service sends as X-API-KEY.
func (s *Service) CallbackAPIKey() countersign.APIKey { return s.c.CallbackAPIKey }

// MerchantConfig returns the configuration of a merchant of this service. Set its functions and its Inbox, in scheme
// merchant also its Key, for signed answers also Sign, and give it to merchant.New. Where the service signs, PublicURL
// is that of ToHandler.
func (s *Service) MerchantConfig() merchant.Config {
	c := merchant.Config{
		Key: s.MerchantKey(), ResponseKey: s.MerchantKey(), Padding: s.c.Padding, ResponsePadding: s.c.ResponsePadding,
		APIKey: s.c.APIKey, CallbackAPIKeys: []countersign.APIKey{s.c.CallbackAPIKey},
	}
	if s.c.Unbound {
		c.Profile.Binding = merchant.BindingWhenPresent
	}
	if s.c.Sign != nil {
		c.ServiceSigner, c.PublicURL = s.c.Sign.Public(), "http://"+handlerHost
	}
	return c
}

// Endpoint is where a merchant takes callbacks. ToHandler and ToURLs make it.
type Endpoint struct {
	handler          http.Handler
	notify, withdraw string
	client           *http.Client
}

// ToHandler makes an Endpoint of a handler in this process, called without a
// network under the default paths of package merchant.
func ToHandler(h http.Handler) Endpoint {
	return Endpoint{handler: h, notify: merchant.DefaultNotifyPath, withdraw: merchant.DefaultWithdrawPath}
}

// ToURLs makes an Endpoint of a server. A nil client stands for one that follows no
// redirect.
func ToURLs(notifyURL, withdrawURL string, client *http.Client) Endpoint {
	if client == nil {
		client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return Endpoint{notify: notifyURL, withdraw: withdrawURL, client: client}
}

// handlerHost is the host of a request to a handler in this process.
const handlerHost = "merchant.example"

// url returns the absolute form of a target.
func (e Endpoint) url(target string) string {
	if e.handler != nil {
		return "http://" + handlerHost + target
	}
	return target
}

// Body returns the sealed body of one attempt of cb, and cb with the requestUUID
// of that attempt.
func (s *Service) Body(cb countersign.Callback) (body []byte, sent countersign.Callback, err error) {
	plaintext, sent, err := s.Plaintext(cb)
	if err != nil {
		return nil, nil, err
	}
	body, err = s.Seal(plaintext)
	return body, sent, err
}

// Plaintext returns what Body seals.
func (s *Service) Plaintext(cb countersign.Callback) (plaintext []byte, sent countersign.Callback, err error) {
	plaintext, err = withUUID(cb, countersign.UnboundUUID).Marshal()
	if err != nil {
		return nil, nil, err
	}
	if s.c.UUIDFirst {
		plaintext = uuidFirst(plaintext)
	}
	plaintext, id := s.Attempt(plaintext)
	return plaintext, withUUID(cb, id), nil
}

// Attempt returns a message with a new requestUUID in place of countersign.UnboundUUID, and that requestUUID: one that
// is bound to the rest (PROTOCOL.md, Binding), or a random one of version 4 if the service does not bind. It also works
// on bytes that are not JSON, as countersign.Bind does not, if they end with the requestUUID: a test about duplicate
// members proves nothing if the merchant refuses the message for its binding. A message with another requestUUID stays
// as it is.
func (s *Service) Attempt(message []byte) (attempt []byte, uuid string) {
	start, _, ok := countersign.UUIDSpan(message)
	if !ok {
		start = bytes.LastIndex(message, []byte(`"`+countersign.UnboundUUID+`"`)) + 1
	}
	if start == 0 || !bytes.HasPrefix(message[start:], []byte(countersign.UnboundUUID)) {
		return message, ""
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	version := byte(0x40)
	if !s.c.Unbound {
		version = 0x80
		h := sha256.New()
		h.Write([]byte("countersign request binding 1\n"))
		h.Write(id[:6])
		h.Write(message)
		copy(id[6:], h.Sum(nil))
	}
	id[6], id[8] = version|id[6]&0x0f, 0x80|id[8]&0x3f
	uuid = fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	return slices.Concat(message[:start], []byte(uuid), message[start+len(uuid):]), uuid
}

// Seal seals any plaintext as a request.
func (s *Service) Seal(plaintext []byte) ([]byte, error) {
	return sealChunks(s.c.RequestKey, s.c.Padding, plaintext, s.c.Chunk)
}

// Wrap returns a sealed body in the form of the config.
func (s *Service) Wrap(body []byte) []byte {
	switch s.c.Form {
	case envelope.FormField:
		return []byte(s.c.Field + "=" + url.QueryEscape(string(body)))
	case envelope.FormString:
		return fmt.Appendf(nil, "%q", body)
	case envelope.FormObject:
		return fmt.Appendf(nil, `{%q:%q}`, s.c.Field, body)
	}
	return body
}

// contentType returns the Content-Type of requests. A bare body is sent as a form, as services do.
func (s *Service) contentType() string {
	if s.c.Form == envelope.FormString || s.c.Form == envelope.FormObject {
		return "application/json"
	}
	return "application/x-www-form-urlencoded"
}
