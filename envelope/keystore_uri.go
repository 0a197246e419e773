package envelope

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// tokenURI is what a URI of RFC 7512 says of a token.
type tokenURI struct {
	module    string // path of the module
	token     string // label; empty: any
	serial    string // empty: any
	model     string
	maker     string
	pinSource string // path of the file
	read      func(path string) ([]byte, error)
}

// parseTokenURI reads a URI of RFC 7512. Its errors never repeat the URI, which could have a
// PIN in it.
func parseTokenURI(text string) (u tokenURI, err error) {
	refuse := func(format string, args ...any) (tokenURI, error) {
		return tokenURI{}, fmt.Errorf("%w: the URI %s", ErrKeyStore, fmt.Sprintf(format, args...))
	}
	rest, ok := strings.CutPrefix(text, "pkcs11:")
	if !ok {
		return refuse("must begin with pkcs11: and name the token, as in pkcs11:token=NAME?module-path=/PATH.so&pin-source=file:/PATH")
	}
	path, query, _ := strings.Cut(rest, "?")
	seen := map[string]bool{}
	for _, part := range []struct {
		text, separator string
		into            map[string]*string
	}{
		{path, ";", map[string]*string{"token": &u.token, "serial": &u.serial, "model": &u.model, "manufacturer": &u.maker}},
		{query, "&", map[string]*string{"module-path": &u.module, "pin-source": &u.pinSource}},
	} {
		if part.text == "" {
			continue
		}
		for attribute := range strings.SplitSeq(part.text, part.separator) {
			name, value, has := strings.Cut(attribute, "=")
			value, err := url.PathUnescape(value)
			switch {
			case name == "pin-value":
				return refuse("has a PIN (pin-value), which others can read there; put it into a file and name that as pin-source=file:/PATH")
			case part.into[name] == nil && !strings.Contains("token serial model manufacturer module-path pin-source", name):
				return refuse("has an attribute that is not known here; those known are token, serial, model, manufacturer, then ? and module-path, pin-source")
			case part.into[name] == nil:
				return refuse("has %s on the wrong side of the ?", name)
			case !has, err != nil, value == "", strings.ContainsRune(value, 0):
				return refuse("has no readable value for %s", name)
			case seen[name]:
				return refuse("has %s twice", name)
			}
			seen[name] = true
			*part.into[name] = value
		}
	}
	u.pinSource = strings.TrimPrefix(strings.TrimPrefix(u.pinSource, "file:"), "//")
	switch {
	case u.token == "" && u.serial == "":
		return refuse("names no token; give token=NAME or serial=NUMBER")
	case !filepath.IsAbs(u.module):
		return refuse("has no module-path that begins with /")
	case !filepath.IsAbs(u.pinSource):
		return refuse("has no pin-source of the form file:/PATH")
	}
	return u, nil
}

// is says whether a token is the one that u names.
func (u tokenURI) is(label, serial, model, maker string) bool {
	same := func(want, have string) bool { return want == "" || want == strings.TrimRight(have, " \x00") }
	return same(u.token, label) && same(u.serial, serial) && same(u.model, model) && same(u.maker, maker)
}

// String is u for people, without the place of the PIN.
func (u tokenURI) String() string {
	if u.token == "" {
		return fmt.Sprintf("token with serial %q of %s", u.serial, u.module)
	}
	return fmt.Sprintf("token %q of %s", u.token, u.module)
}

// newObjectID gives the identifier of a new pair in a token.
func newObjectID() []byte {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return id
}
