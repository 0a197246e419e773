package envelope

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// The headers of the signed link (PROTOCOL.md, The signed link).
const (
	HeaderDigest         = "Content-Digest"
	HeaderSignature      = "Signature"
	HeaderSignatureInput = "Signature-Input"
)

// LinkTolerance is how much the time of a signature may differ from the receiver's clock,
// either way (PROTOCOL.md, L8).
const LinkTolerance = 5 * time.Minute

// The errors of VerifyRequest and VerifyResponse.
var (
	// ErrUnsigned: the message has no signature of the link.
	ErrUnsigned = errors.New("it is not signed")
	// ErrSignature: no known key made the signature for this message.
	ErrSignature = errors.New("its signature is wrong")
	// ErrSignatureKey: the signature names another key; it is an ErrSignature too.
	ErrSignatureKey = errors.New("keyid is not the fingerprint of a key that counts here")
)

const (
	linkLabel   = "countersign"
	linkAlg     = "ed25519"
	tagRequest  = "countersign-request"
	tagResponse = "countersign-response"
	linkNonce   = 16 // bytes
	maxNonce    = 64 // characters
)

// LinkRequest is a request as its signature covers it (PROTOCOL.md, L3).
type LinkRequest struct {
	Method string
	// URL is the absolute URL that the request is sent to. TargetURI returns the form that
	// both ends sign.
	URL string
	// Header has Content-Type and the headers of the signature. SignRequest adds the latter.
	Header http.Header
	Body   []byte // as it is on the wire
}

// LinkResponse is a response as its signature covers it (PROTOCOL.md, L4).
type LinkResponse struct {
	Status int
	Header http.Header // as in a LinkRequest
	Body   []byte
	// Request has the header Signature of the request that is answered.
	Request http.Header
}

// LinkSignature is a signature that was verified.
type LinkSignature struct {
	Key     *SigningKey // the key that made it
	Created time.Time   // by the signer's clock, in whole seconds
	Nonce   string
	opened  []byte
}

// Old reports whether the signature was made more than LinkTolerance before or after now.
func (s LinkSignature) Old(now time.Time) bool {
	d := now.Sub(s.Created)
	return d > LinkTolerance || d < -LinkTolerance
}

// Covers reports whether the signature is over the plaintext, which the body carries
// sealed (PROTOCOL.md, L6).
func (s LinkSignature) Covers(plaintext []byte) bool {
	sum := sha256.Sum256(plaintext)
	return bytes.Equal(s.opened, sum[:])
}

// SignRequest signs r at now: it sets the three headers of the signature in r.Header.
// plaintext is what the body carries sealed. It fails if k has no private part or r
// cannot be signed.
func (k *SigningKey) SignRequest(r LinkRequest, plaintext []byte, now time.Time) error {
	r.Header.Set(HeaderDigest, contentDigest(r.Body, plaintext))
	return k.sign(r.Header, requestComponents, tagRequest, now, r.component)
}

// VerifyRequest returns the signature of r if one of keys made it. Errors wrap ErrUnsigned or ErrSignature. The caller
// checks LinkSignature.Old, and Covers when the body is opened.
func VerifyRequest(r LinkRequest, keys ...*SigningKey) (LinkSignature, error) {
	return verify(r.Header, r.Body, requestComponents, tagRequest, r.component, keys)
}

// SignResponse signs r at now, as SignRequest does. plaintext is nil where the body
// carries nothing sealed.
func (k *SigningKey) SignResponse(r LinkResponse, plaintext []byte, now time.Time) error {
	r.Header.Set(HeaderDigest, contentDigest(r.Body, plaintext))
	return k.sign(r.Header, responseComponents, tagResponse, now, r.component)
}

// VerifyResponse returns the signature of r as the response to its request if one of keys made it. Errors wrap
// ErrUnsigned or ErrSignature.
func VerifyResponse(r LinkResponse, keys ...*SigningKey) (LinkSignature, error) {
	return verify(r.Header, r.Body, responseComponents, tagResponse, r.component, keys)
}

// Signed reports whether h has a signature of the link, right or wrong.
func Signed(h http.Header) bool {
	_, err := labelled(h, HeaderSignature)
	return err == nil
}

// LinkHeaders returns the headers of h that its signature needs.
func LinkHeaders(h http.Header) http.Header {
	out := http.Header{}
	for _, name := range []string{"Content-Type", HeaderDigest, HeaderSignatureInput, HeaderSignature} {
		if v := h.Values(name); len(v) > 0 {
			out[name] = []string{fieldValue(v)}
		}
	}
	return out
}

// TargetURI returns u as both ends sign it: scheme and host in lower case, no port that
// the scheme has by default, at least the path "/", no fragment (PROTOCOL.md, L3).
func TargetURI(u *url.URL) string {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	switch scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	return scheme + "://" + host + u.RequestURI()
}

// The covered parts of a message: headers, and derived ones, which begin with @. They are written as they stand in the
// signature base.
const (
	partMethod  = `"@method"`
	partTarget  = `"@target-uri"`
	partStatus  = `"@status"`
	partDigest  = `"content-digest"`
	partType    = `"content-type"`
	partRequest = `"signature";req;key="` + linkLabel + `"` // the signature of the request that is answered
)

var (
	requestComponents  = []string{partMethod, partTarget, partDigest, partType}
	responseComponents = []string{partStatus, partDigest, partType, partRequest}
)

func (r LinkRequest) component(name string) (string, error) {
	switch name {
	case partMethod:
		return r.Method, nil
	case partTarget:
		u, err := url.Parse(r.URL)
		if err != nil || u.Host == "" {
			return "", errors.New("the URL is not absolute")
		}
		return TargetURI(u), nil
	}
	return headerComponent(r.Header, name)
}

func (r LinkResponse) component(name string) (string, error) {
	switch name {
	case partStatus:
		return strconv.Itoa(r.Status), nil
	case partRequest:
		m, err := labelled(r.Request, HeaderSignature)
		if err != nil {
			return "", errors.New("the request has no signature to answer")
		}
		item, ok := m.(httpsfv.Item)
		if !ok {
			return "", errors.New("the signature of the request is a list")
		}
		return httpsfv.Marshal(item)
	}
	return headerComponent(r.Header, name)
}

func headerComponent(h http.Header, name string) (string, error) {
	name = strings.Trim(name, `"`)
	values := h.Values(name)
	if len(values) == 0 {
		return "", fmt.Errorf("there is no %s", http.CanonicalHeaderKey(name))
	}
	return fieldValue(values), nil
}

// fieldValue joins the lines of a header (RFC 9421, section 2.1).
func fieldValue(values []string) string {
	trimmed := make([]string, len(values))
	for i, v := range values {
		trimmed[i] = strings.Trim(v, " \t")
	}
	return strings.Join(trimmed, ", ")
}

// labelled returns the member of a dictionary header that has the link's label. Members with other labels may be of
// proxies, and do not count.
func labelled(h http.Header, name string) (httpsfv.Member, error) {
	values := h.Values(name)
	if len(values) == 0 {
		return nil, ErrUnsigned
	}
	d, err := httpsfv.UnmarshalDictionary(values)
	if err != nil {
		return nil, fmt.Errorf("%w: %s is not a dictionary of structured fields", ErrSignature, name)
	}
	m, ok := d.Get(linkLabel)
	if !ok {
		return nil, ErrUnsigned
	}
	return m, nil
}

// contentDigest returns the header of RFC 9530, with the SHA-256 of the plaintext as a parameter (PROTOCOL.md, L5 and
// L6).
func contentDigest(body, plaintext []byte) string {
	of := func(b []byte) string {
		sum := sha256.Sum256(b)
		return "=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	}
	value := "sha-256" + of(body)
	if plaintext != nil {
		value += ";opened" + of(plaintext)
	}
	return value
}

// checkDigest inverts contentDigest: it checks the digest of body and returns that of the plaintext,
// nil if there is none.
func checkDigest(h http.Header, body []byte) (opened []byte, err error) {
	d, err := httpsfv.UnmarshalDictionary(h.Values(HeaderDigest))
	if err != nil {
		return nil, fmt.Errorf("%s is not a dictionary of structured fields", HeaderDigest)
	}
	m, _ := d.Get("sha-256")
	item, ok := m.(httpsfv.Item)
	digest, _ := item.Value.([]byte)
	if !ok {
		return nil, fmt.Errorf("%s has no sha-256", HeaderDigest)
	}
	if sum := sha256.Sum256(body); !bytes.Equal(digest, sum[:]) {
		return nil, fmt.Errorf("%s is not that of this body", HeaderDigest)
	}
	if v, ok := item.Params.Get("opened"); ok {
		if opened, ok = v.([]byte); !ok || len(opened) != sha256.Size {
			return nil, fmt.Errorf("opened of %s is not a SHA-256", HeaderDigest)
		}
	}
	return opened, nil
}

// base returns the signature base of RFC 9421, section 2.5.
func base(covered []string, of func(name string) (string, error), params string) ([]byte, error) {
	var b bytes.Buffer
	for _, c := range covered {
		value, err := of(c)
		if err != nil {
			return nil, err
		}
		// A line end in a value could forge another component. net/http lets none through, but a message that is
		// verified again later comes from a file.
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, fmt.Errorf("%s has a control character", c)
		}
		fmt.Fprintf(&b, "%s: %s\n", c, value)
	}
	fmt.Fprintf(&b, "\"@signature-params\": %s", params)
	return b.Bytes(), nil
}

func (k *SigningKey) sign(h http.Header, covered []string, tag string, now time.Time,
	of func(string) (string, error)) error {
	if !k.HasPrivate() {
		return fmt.Errorf("signing: %w with a private part", ErrSigningKey)
	}
	var nonce [linkNonce]byte
	_, _ = rand.Read(nonce[:]) // never fails
	params := fmt.Sprintf("%s;created=%d;nonce=%q;keyid=%q;alg=%q;tag=%q", list(covered), now.Unix(),
		base64.StdEncoding.EncodeToString(nonce[:]), k.Fingerprint(), linkAlg, tag)
	text, err := base(covered, of, params)
	if err != nil {
		return fmt.Errorf("signing: %w", err)
	}
	signature, err := k.Sign(text)
	if err != nil {
		return fmt.Errorf("signing: %w", err)
	}
	h.Set(HeaderSignatureInput, linkLabel+"="+params)
	h.Set(HeaderSignature, linkLabel+"=:"+base64.StdEncoding.EncodeToString(signature)+":")
	return nil
}

func verify(h http.Header, body []byte, covered []string, tag string, of func(string) (string, error),
	keys []*SigningKey) (s LinkSignature, err error) {
	wrong := func(format string, args ...any) (LinkSignature, error) {
		return LinkSignature{}, fmt.Errorf("%w: %w", ErrSignature, fmt.Errorf(format, args...))
	}
	signature, err := labelled(h, HeaderSignature)
	if err != nil {
		return s, err
	}
	input, err := labelled(h, HeaderSignatureInput)
	if err != nil {
		return s, err
	}
	item, _ := signature.(httpsfv.Item)
	sig, ok := item.Value.([]byte)
	if !ok || len(sig) != ed25519.SignatureSize || len(item.Params.Names()) > 0 {
		return wrong("Signature is not the %d bytes of Ed25519 without a parameter", ed25519.SignatureSize)
	}
	// The Base64 decoder ignores unused bits, so one signature would have several texts.
	if text, err := httpsfv.Marshal(item); err != nil || !strings.Contains(fieldValue(h.Values(HeaderSignature)),
		linkLabel+"="+text) {
		return wrong("Signature is not in the one form")
	}
	parts, ok := input.(httpsfv.InnerList)
	names, err := httpsfv.Marshal(httpsfv.InnerList{Items: parts.Items, Params: httpsfv.NewParams()})
	if !ok || err != nil || names != list(covered) {
		return wrong("it does not cover what it must, in this order: %s", list(covered))
	}
	if s, err = readParams(parts.Params, tag, keys); err != nil {
		return wrong("%w", err)
	}
	if s.opened, err = checkDigest(h, body); err != nil {
		return wrong("%w", err)
	}
	params, err := httpsfv.Marshal(parts)
	if err != nil {
		return wrong("Signature-Input does not write as it was read")
	}
	text, err := base(covered, of, params)
	if err != nil {
		return wrong("%w", err)
	}
	if !ed25519.Verify(s.Key.parts().public, text, sig) {
		return wrong("the bytes were changed, or it belongs to another message")
	}
	return s, nil
}

// list returns the inner list of components.
func list(covered []string) string { return "(" + strings.Join(covered, " ") + ")" }

// readParams reads the parameters of a signature: exactly the five of PROTOCOL.md, L2,
// in any order.
func readParams(p *httpsfv.Params, tag string, keys []*SigningKey) (s LinkSignature, err error) {
	text := func(name string) string {
		v, _ := p.Get(name)
		t, _ := v.(string)
		return t
	}
	v, _ := p.Get("created")
	created, ok := v.(int64)
	switch {
	case len(p.Names()) != 5:
		return s, errors.New("its parameters are not created, nonce, keyid, alg and tag")
	case !ok || created < 0:
		return s, errors.New("created is not a time in seconds")
	case text("nonce") == "" || len(text("nonce")) > maxNonce:
		return s, fmt.Errorf("nonce is not a text of 1 to %d characters", maxNonce)
	case text("alg") != linkAlg:
		return s, fmt.Errorf("alg is not %s", linkAlg)
	case text("tag") != tag:
		return s, fmt.Errorf("tag is not %s", tag)
	}
	s.Created, s.Nonce = time.Unix(created, 0), text("nonce")
	for _, k := range keys {
		if f := k.Fingerprint(); f != "" && f == text("keyid") {
			s.Key = k
			return s, nil
		}
	}
	return s, ErrSignatureKey
}
