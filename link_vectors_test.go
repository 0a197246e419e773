package countersign_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign/envelope"
)

// linkVector is one line of testdata/vectors/link.jsonl. testdata/README.md
// describes its members.
type linkVector struct {
	Name           string `json:"name"`
	Of             string `json:"of"`               // request or response
	Method         string `json:"method,omitempty"` // of a request
	URL            string `json:"url,omitempty"`
	Status         string `json:"status,omitempty"` // of a response
	Asked          string `json:"asked,omitempty"`  // the header Signature of the request that is answered
	ContentType    string `json:"contentType"`
	ContentDigest  string `json:"contentDigest,omitempty"`
	SignatureInput string `json:"signatureInput,omitempty"`
	Signature      string `json:"signature,omitempty"`
	Body           string `json:"body"`
	Plaintext      string `json:"plaintext"` // Base64 of what the body carries sealed
	Key            string `json:"key"`       // the public part that counts
	Now            string `json:"now"`       // seconds since 1970
	Result         string `json:"result"`    // signed, unsigned, signature_invalid or signature_old
}

// TestLinkVectors holds every vector of the signed link to its result.
func TestLinkVectors(t *testing.T) {
	results, names := map[string]int{}, map[string]bool{}
	for _, v := range readVectors(t, "link.jsonl", makeLinkVectors(t)) {
		if names[v.Name] {
			t.Errorf("two vectors are called %q", v.Name)
		}
		names[v.Name] = true
		results[v.Of+" "+v.Result]++
		t.Run(v.Name, func(t *testing.T) {
			if got, err := linkResult(t, v); got != v.Result {
				t.Errorf("result %s (%v), want %s", got, err, v.Result)
			}
		})
	}
	for _, of := range []string{"request", "response"} {
		for _, r := range []string{"signed", "unsigned", "signature_invalid", "signature_old"} {
			if results[of+" "+r] == 0 {
				t.Errorf("no vector of a %s has the result %q", of, r)
			}
		}
	}
}

// The worked example of PROTOCOL.md is a vector.
func TestLinkExample(t *testing.T) {
	page := must(os.ReadFile("PROTOCOL.md"))(t)
	for _, v := range makeLinkVectors(t) {
		if v.Name != "response: as it should be" {
			continue
		}
		_, asked, _ := strings.Cut(v.Asked, "=")
		_, params, _ := strings.Cut(v.SignatureInput, "=")
		base := "\n```\n\"@status\": " + v.Status + "\n\"content-digest\": " + v.ContentDigest + "\n\"content-type\": " + v.ContentType +
			"\n\"signature\";req;key=\"countersign\": " + asked + "\n\"@signature-params\": " + params + "\n```\n"
		sent := "\nContent-Digest: " + v.ContentDigest + "\nSignature-Input: " + v.SignatureInput + "\nSignature: " + v.Signature + "\n"
		for _, text := range []string{base, sent} {
			if !bytes.Contains(page, []byte(text)) {
				t.Errorf("PROTOCOL.md does not have%s", text)
			}
		}
		return
	}
	t.Error("there is no such vector")
}

func linkResult(t *testing.T, v linkVector) (string, error) {
	key := must(envelope.ParseSigningKey([]byte(v.Key)))(t)
	h := http.Header{}
	for name, value := range map[string]string{"Content-Type": v.ContentType, "Content-Digest": v.ContentDigest, "Signature-Input": v.SignatureInput, "Signature": v.Signature} {
		if value != "" {
			h.Set(name, value)
		}
	}
	plain := must(base64.StdEncoding.DecodeString(v.Plaintext))(t)
	now := must(strconv.ParseInt(v.Now, 10, 64))(t)
	var s envelope.LinkSignature
	var err error
	if v.Of == "request" {
		s, err = envelope.VerifyRequest(envelope.LinkRequest{Method: v.Method, URL: v.URL, Header: h, Body: []byte(v.Body)}, key)
	} else {
		status, _ := strconv.Atoi(v.Status)
		asked := http.Header{}
		if v.Asked != "" {
			asked.Set("Signature", v.Asked)
		}
		s, err = envelope.VerifyResponse(envelope.LinkResponse{Status: status, Header: h, Body: []byte(v.Body), Request: asked}, key)
	}
	switch {
	case errors.Is(err, envelope.ErrUnsigned):
		return "unsigned", err
	case err != nil:
		return "signature_invalid", err
	case s.Old(time.Unix(now, 0)):
		return "signature_old", nil
	case !s.Covers(plain):
		return "signature_invalid", errors.New("it is not over the plaintext")
	}
	return "signed", nil
}

func linkKeys(t *testing.T) (service, merchant ed25519.PrivateKey) {
	read := func(name string) ed25519.PrivateKey {
		return vectorKey(t, name, func() any { _, key, _ := ed25519.GenerateKey(rand.Reader); return key }).(ed25519.PrivateKey)
	}
	return read("ed25519-service"), read("ed25519-merchant")
}

func spkiOf(key ed25519.PrivateKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		panic(err)
	}
	return der
}

// linkMaker signs by its own few lines, so that the vectors do not depend on the code
// they test.
type linkMaker struct {
	key        ed25519.PrivateKey
	v          linkVector
	components []string // identifiers
	params     string   // behind the list
}

const linkNow = 1_780_000_000

func (m linkMaker) value(component string) string {
	name, _, _ := strings.Cut(component, ";")
	switch name {
	case `"@method"`:
		return m.v.Method
	case `"@target-uri"`:
		return m.v.URL
	case `"@status"`:
		return m.v.Status
	case `"content-digest"`:
		return m.v.ContentDigest
	case `"content-type"`:
		return m.v.ContentType
	case `"signature"`:
		_, value, _ := strings.Cut(m.v.Asked, "=")
		return value
	}
	panic(component)
}

func (m *linkMaker) sign() {
	params := "(" + strings.Join(m.components, " ") + ")" + m.params
	var text strings.Builder
	for _, c := range m.components {
		fmt.Fprintf(&text, "%s: %s\n", c, m.value(c))
	}
	text.WriteString(`"@signature-params": ` + params)
	m.v.SignatureInput = "countersign=" + params
	m.v.Signature = "countersign=:" + b64(ed25519.Sign(m.key, []byte(text.String()))) + ":"
}

func linkDigest(body, plain string) string {
	sum := func(s string) string { d := sha256.Sum256([]byte(s)); return b64(d[:]) }
	return "sha-256=:" + sum(body) + ":;opened=:" + sum(plain) + ":"
}

func linkParams(key ed25519.PrivateKey, created int64, nonce, tag string) string {
	id := sha256.Sum256(spkiOf(key))
	return fmt.Sprintf(`;created=%d;nonce="%s";keyid="%s";alg="ed25519";tag="%s"`, created, nonce, hex.EncodeToString(id[:]), tag)
}

func makeLinkVectors(t *testing.T) (out []linkVector) {
	service, merchant := linkKeys(t)
	rsa := vectorMaker{"rsa1024", vectorKeys(t)["rsa1024"], nil}
	body := b64(rsa.seal("public", []byte(canonicalDeposit), 117))
	answer := `{"type":2,"tenantUserId":"65515","callBackId":"order-12","address":"0x7054b0f980a7eb5b3a6b3446f3c947d80162775c","chainName":"ETH","symbol":"USDT","amount":"120.5","requestUUID":"47b8d46c-12c9-8d64-98a0-ad1fbb6d0c29"}`
	response := `{"apiKey":"vector-api-key","data":"` + b64(rsa.seal("private", []byte(answer), 117)) + `","errCode":0,"message":""}`

	request := func() linkMaker {
		return linkMaker{key: service, components: []string{`"@method"`, `"@target-uri"`, `"content-digest"`, `"content-type"`},
			params: linkParams(service, linkNow, "AAECAwQFBgcICQoLDA0ODw==", "countersign-request"),
			v: linkVector{Of: "request", Method: "POST", URL: "https://pay.shop.example/callbacks/withdraw", ContentType: "application/x-www-form-urlencoded",
				ContentDigest: linkDigest(body, canonicalDeposit), Body: body, Plaintext: b64([]byte(canonicalDeposit)), Key: b64(spkiOf(service)), Now: fmt.Sprint(linkNow)}}
	}
	asked := request()
	asked.sign()
	answered := func() linkMaker {
		return linkMaker{key: merchant, components: []string{`"@status"`, `"content-digest"`, `"content-type"`, `"signature";req;key="countersign"`},
			params: linkParams(merchant, linkNow+1, "EBESExQVFhcYGRobHB0eHw==", "countersign-response"),
			v: linkVector{Of: "response", Status: "200", Asked: asked.v.Signature, ContentType: "application/json",
				ContentDigest: linkDigest(response, answer), Body: response, Plaintext: b64([]byte(answer)), Key: b64(spkiOf(merchant)), Now: fmt.Sprint(linkNow + 1)}}
	}
	// before changes what is signed, after what is received.
	add := func(of func() linkMaker, name, result string, before func(*linkMaker), after func(*linkVector)) {
		m := of()
		if before != nil {
			before(&m)
		}
		m.sign()
		if after != nil {
			after(&m.v)
		}
		m.v.Name, m.v.Result = m.v.Of+": "+name, result
		out = append(out, m.v)
	}
	for _, of := range []func() linkMaker{request, answered} {
		ok := func(name string, before func(*linkMaker), after func(*linkVector)) {
			add(of, name, "signed", before, after)
		}
		bad := func(name string, before func(*linkMaker), after func(*linkVector)) {
			add(of, name, "signature_invalid", before, after)
		}
		key, other, tag, otherTag := service, merchant, "countersign-request", "countersign-response"
		if of().v.Of == "response" {
			key, other, tag, otherTag = merchant, service, otherTag, tag
		}
		ok("as it should be", nil, nil)
		ok("parameters in another order", func(m *linkMaker) {
			parts := strings.Split(m.params[1:], ";")
			m.params = ";" + strings.Join([]string{parts[4], parts[3], parts[2], parts[1], parts[0]}, ";")
		}, nil)
		ok("beside the signature of a proxy", nil, func(v *linkVector) {
			v.SignatureInput = `proxy=("@authority");keyid="p", ` + v.SignatureInput
			v.Signature = `proxy=:AAAA:, ` + v.Signature
		})
		ok("with another digest beside", func(m *linkMaker) { m.v.ContentDigest = "sha-512=:AAAA:, " + m.v.ContentDigest }, nil)
		now := func(d int64) func(*linkVector) {
			return func(v *linkVector) {
				n, _ := strconv.ParseInt(v.Now, 10, 64)
				v.Now = fmt.Sprint(n + d)
			}
		}
		ok("five minutes old", nil, now(300))
		ok("five minutes ahead", nil, now(-300))
		add(of, "a second older", "signature_old", nil, now(301))
		add(of, "a second more ahead", "signature_old", nil, now(-301))

		add(of, "stripped", "unsigned", nil, func(v *linkVector) { v.ContentDigest, v.SignatureInput, v.Signature = "", "", "" })
		add(of, "without Signature", "unsigned", nil, func(v *linkVector) { v.Signature = "" })
		add(of, "without Signature-Input", "unsigned", nil, func(v *linkVector) { v.SignatureInput = "" })
		add(of, "under another label", "unsigned", nil, func(v *linkVector) {
			v.SignatureInput, v.Signature = strings.Replace(v.SignatureInput, "countersign=", "sig=", 1), strings.Replace(v.Signature, "countersign=", "sig=", 1)
		})

		bad("one character of the body changed", nil, func(v *linkVector) { v.Body = strings.Replace(v.Body, "A", "B", 1) })
		bad("body and digest changed", nil, func(v *linkVector) {
			plain, _ := base64.StdEncoding.DecodeString(v.Plaintext)
			v.Body = strings.Replace(v.Body, "A", "B", 1)
			v.ContentDigest = linkDigest(v.Body, string(plain))
		})
		bad("without Content-Digest", nil, func(v *linkVector) { v.ContentDigest = "" })
		bad("a digest of another kind alone", func(m *linkMaker) { m.v.ContentDigest = "sha-512=:AAAA:" }, nil)
		bad("the plaintext is another", nil, func(v *linkVector) { v.Plaintext = b64([]byte("{}")) })
		bad("the plaintext is not covered", func(m *linkMaker) { m.v.ContentDigest, _, _ = strings.Cut(m.v.ContentDigest, ";") }, nil)
		bad("Content-Type changed", nil, func(v *linkVector) { v.ContentType = "text/plain" })
		bad("of a key that does not count", func(m *linkMaker) {
			m.key = other
			m.params = linkParams(other, linkNow, "AAECAwQFBgcICQoLDA0ODw==", tag)
		}, nil)
		bad("of another key under this name", func(m *linkMaker) { m.key = other }, nil)
		bad("with the tag of the other direction", func(m *linkMaker) { m.params = linkParams(key, linkNow, "AAECAwQFBgcICQoLDA0ODw==", otherTag) }, nil)
		for _, p := range []string{"created", "nonce", "keyid", "alg", "tag"} {
			bad("without "+p, func(m *linkMaker) {
				var rest []string
				for _, part := range strings.Split(m.params[1:], ";") {
					if !strings.HasPrefix(part, p+"=") {
						rest = append(rest, part)
					}
				}
				m.params = ";" + strings.Join(rest, ";")
			}, nil)
		}
		bad("with a parameter more", func(m *linkMaker) { m.params += fmt.Sprintf(";expires=%d", linkNow+9) }, nil)
		bad("created is a text", func(m *linkMaker) {
			m.params = strings.Replace(m.params, fmt.Sprintf("created=%d", linkNow), fmt.Sprintf(`created="%d"`, linkNow), 1)
			m.params = strings.Replace(m.params, fmt.Sprintf("created=%d", linkNow+1), fmt.Sprintf(`created="%d"`, linkNow+1), 1)
		}, nil)
		bad("created changed after signing", nil, func(v *linkVector) {
			v.SignatureInput = strings.Replace(v.SignatureInput, "created=1780000", "created=1780001", 1)
			v.Now = strings.Replace(v.Now, "1780000", "1780001", 1)
		})
		bad("another algorithm is named", func(m *linkMaker) { m.params = strings.Replace(m.params, "ed25519", "hmac-sha256", 1) }, nil)
		bad("a component less", func(m *linkMaker) { m.components = append(m.components[:2:2], m.components[3:]...) }, nil)
		bad("a component more", func(m *linkMaker) { m.components = append(m.components, `"@status"`) }, nil)
		bad("components in another order", func(m *linkMaker) { m.components[0], m.components[1] = m.components[1], m.components[0] }, nil)
		bad("the signature is cut", nil, func(v *linkVector) { v.Signature = v.Signature[:len("countersign=:")+40] + ":" })
		bad("one bit of the signature changed", nil, func(v *linkVector) {
			b := []byte(v.Signature)
			at := len("countersign=:") + 20
			b[at] = map[bool]byte{true: 'B', false: 'A'}[b[at] == 'A']
			v.Signature = string(b)
		})
		bad("Base64 whose last bits are not 0", nil, func(v *linkVector) {
			inner := strings.TrimSuffix(strings.TrimPrefix(v.Signature, "countersign=:"), ":")
			v.Signature = "countersign=:" + nonCanonical(inner) + ":"
		})
		bad("the label twice, the second one not signed", nil, func(v *linkVector) { v.Signature += ", countersign=:" + b64(make([]byte, 64)) + ":" })
		bad("Signature is no dictionary", nil, func(v *linkVector) { v.Signature = "countersign=:" })
	}
	bad := func(of func() linkMaker, name string, after func(*linkVector)) {
		add(of, name, "signature_invalid", nil, after)
	}
	bad(request, "another method", func(v *linkVector) { v.Method = "PUT" })
	bad(request, "for another host", func(v *linkVector) { v.URL = "https://pay.other.example/callbacks/withdraw" })
	bad(request, "for the other URL of the merchant", func(v *linkVector) { v.URL = "https://pay.shop.example/callbacks/notify" })
	bad(request, "with a query added", func(v *linkVector) { v.URL += "?a=1" })
	add(request, "the same URL in another spelling", "signed", nil, func(v *linkVector) { v.URL = "HTTPS://Pay.Shop.Example:443/callbacks/withdraw" })
	bad(answered, "another status", func(v *linkVector) { v.Status = "201" })
	bad(answered, "to another request", func(v *linkVector) {
		again := request()
		again.params = linkParams(service, linkNow, "ICEiIyQlJicoKSorLC0uLw==", "countersign-request")
		again.sign()
		v.Asked = again.v.Signature
	})
	bad(answered, "to a request that was not signed", func(v *linkVector) { v.Asked = "" })
	bad(answered, "the request sent back", func(v *linkVector) {
		v.ContentType, v.ContentDigest, v.SignatureInput, v.Signature, v.Body, v.Plaintext = asked.v.ContentType, asked.v.ContentDigest, asked.v.SignatureInput, asked.v.Signature, asked.v.Body, asked.v.Plaintext
		v.Key = asked.v.Key
	})
	return out
}
