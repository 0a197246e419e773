package merchant

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"countersign"
	"countersign/envelope"
)

// The words of the signed link in responses (PROTOCOL.md, L7 and L11).
const (
	wordUnsigned         = "unsigned"
	wordSignatureInvalid = "signature_invalid"
	wordSignatureOld     = "signature_old"
)

// completeLink checks the settings of the signed link.
func (c *Config) completeLink() error {
	switch {
	case c.Sign != nil && !c.Sign.HasPrivate():
		return configError("Sign has no private part: it is the merchant's own pair, of envelope.GenerateSigningKey")
	case c.ServiceSigner == nil && c.NextServiceSigner != nil:
		return configError("NextServiceSigner needs ServiceSigner")
	}
	for name, k := range map[string]*envelope.SigningKey{"ServiceSigner": c.ServiceSigner,
		"NextServiceSigner": c.NextServiceSigner} {
		if k != nil && (k.Fingerprint() == "" || k.HasPrivate()) {
			return configError("%s must be the public part that the service handed over", name)
		}
	}
	if c.PublicURL == "" {
		if c.ServiceSigner != nil {
			return configError("PublicURL is missing: a signature covers the URL that the service called, and the Host of a request " +
				"is chosen by whoever sends it")
		}
		return nil
	}
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return configError("PublicURL must be http or https with a host, and a path at most, such as https://pay.shop.example")
	}
	return nil
}

// signers returns the keys of the service that are accepted.
func (c *Config) signers() (keys []*envelope.SigningKey) {
	for _, k := range []*envelope.SigningKey{c.ServiceSigner, c.NextServiceSigner} {
		if k != nil {
			keys = append(keys, k)
		}
	}
	return keys
}

// linked is the link of one request.
type linked struct {
	header   http.Header             // of the request
	verified *envelope.LinkSignature // nil: it is not demanded, or does not hold
	url      string                  // that it covers
	old      bool
	response http.Header // of the response that was signed before it was recorded
}

// verifyLink verifies the signature of r before anything is opened, if it is demanded
// (PROTOCOL.md, L7 and L11).
func (h *Handler) verifyLink(r *http.Request, body []byte) (*linked, *reply) {
	keys, link := h.c.signers(), &linked{header: r.Header}
	if len(keys) == 0 {
		return link, nil
	}
	// PublicURL has no query and no fragment, so what follows the host is the path of the proxy.
	target := strings.TrimSuffix(h.c.PublicURL, "/") + r.URL.RequestURI()
	s, err := envelope.VerifyRequest(envelope.LinkRequest{Method: r.Method, URL: target, Header: r.Header,
		Body: body}, keys...)
	switch {
	case errors.Is(err, envelope.ErrUnsigned):
		return link, refuse(http.StatusOK, countersign.CodeMalformed, wordUnsigned, ReasonUnsigned, err)
	case err != nil:
		return link, badSignature(err)
	}
	link.verified, link.url, link.old = &s, target, s.Old(h.c.Now())
	return link, nil
}

func badSignature(cause error) *reply {
	return refuse(http.StatusOK, countersign.CodeMalformed, wordSignatureInvalid, ReasonSignatureInvalid, cause)
}

var (
	errOtherPlaintext = errors.New("its digest is not that of the opened body")
	errOldSignature   = errors.New("it was signed more than five minutes before or after this clock; check the clocks of both ends")
)

// linkHolds checks what can be checked once the request is opened (PROTOCOL.md, L6 and L8).
func (h *Handler) linkHolds(l *linked, cb countersign.Callback, opened []byte) *reply {
	switch {
	case l == nil || l.verified == nil: // take is not reached where it is demanded
		return nil
	case !l.verified.Covers(opened):
		l.verified = nil
		return badSignature(errOtherPlaintext)
	case l.old && !h.recent.has(cb.UUID()):
		return refuse(http.StatusOK, countersign.CodeMalformed, wordSignatureOld, ReasonSignatureOld, errOldSignature)
	}
	h.recent.add(cb.UUID())
	return nil
}

// signResponse returns the headers of a response with body, of its signature too if the
// request has one (PROTOCOL.md, L9).
func (h *Handler) signResponse(l *linked, body []byte, r *reply) (http.Header, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	if h.c.Sign == nil || l == nil || !envelope.Signed(l.header) {
		return header, nil
	}
	var plaintext []byte
	if r.data != "" {
		plaintext = r.plaintext
	}
	err := h.c.Sign.SignResponse(envelope.LinkResponse{Status: r.status, Header: header, Body: body, Request: l.header},
		plaintext, h.c.Now())
	return header, err
}

// kept returns what a record of the exchange keeps of the link. It signs the response, which is then sent with this
// signature.
func (h *Handler) kept(l *linked, r reply) (*Link, error) {
	if l == nil || !envelope.Signed(l.header) {
		return nil, nil
	}
	out := &Link{URL: l.url, Request: envelope.LinkHeaders(l.header), Status: r.status}
	r.Code = h.c.Profile.code(r.Code)
	body, err := h.body(&r)
	if err != nil || h.c.Sign == nil {
		return out, err
	}
	if l.response, err = h.signResponse(l, body, &r); err == nil {
		out.Response = l.response
	}
	return out, err
}
