package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"golang.org/x/oauth2"

	"github.com/coreos/go-oidc/v3/oidc"

	"countersign/client"
	"countersign/internal/db"
)

// People sign in from a command line by a device code (RFC 8628). This end asks the provider in
// place of the command: the client's secret, the refresh token and the table of groups stay here,
// and the session is like that of a browser.

// deviceState is what the beginning leaves for the questions after it. Who began keeps it, sealed.
type deviceState struct {
	ID   string    `json:"i"` // it gives one session
	Code string    `json:"c"`
	Ends db.Millis `json:"e"`
}

const (
	deviceStatePurpose = "device"
	deviceGrant        = "urn:ietf:params:oauth:grant-type:device_code"
	// deviceLife is the longest that a person has to sign in, also if the provider says more.
	deviceLife db.Millis = 30 * 60_000
	// deviceInterval is that of a provider which says none.
	deviceInterval    = 5
	maxDeviceInterval = 60
)

var (
	errNoDevice     = NewProblem(http.StatusNotFound, "the identity provider has no sign-in from a command line: sign in to the console, or use a token")
	errDeviceAway   = NewProblem(http.StatusServiceUnavailable, "the identity provider cannot be used now to sign in from a command line: the log of this end says why; tokens still sign in")
	errDeviceOld    = NewProblem(http.StatusUnprocessableEntity, "this sign-in was not begun here, was ended before, or took too long: begin again")
	errDeviceDenied = NewProblem(http.StatusUnauthorized, "the sign-in was refused at the identity provider")
)

// What the provider says while the person has not signed in yet.
var (
	errDeviceWaits  = errors.New("authorization_pending")
	errDeviceSlower = errors.New("slow_down")
)

// beginDevice begins a sign-in.
func (p Passkeys) beginDevice(c *Call, _ None, _ None) (out client.DeviceBegun, err error) {
	people := p.tokens.people
	if people == nil {
		return out, errNoProvider
	}
	d, err := people.device(c.R.Context())
	if err != nil {
		if errors.Is(err, errNoDevice) {
			return out, err
		}
		people.log.Warn("a sign-in with the identity provider was refused", "subject", "", "error", err.Error())
		return out, errDeviceAway
	}
	s := deviceState{ID: RandomText(22), Code: d.DeviceCode, Ends: c.Now + deviceLife}
	if left := db.Millis(time.Until(d.Expiry) / time.Millisecond); !d.Expiry.IsZero() && left < deviceLife {
		s.Ends = c.Now + max(left, 0)
	}
	out = client.DeviceBegun{Page: d.VerificationURI, UserCode: d.UserCode, PageWithCode: d.VerificationURIComplete, Ends: TimeOf(s.Ends),
		Interval: min(max(cmp.Or(d.Interval, deviceInterval), 1), maxDeviceInterval)}
	out.State, err = p.seal(c.R.Context(), deviceStatePurpose, s)
	return out, err
}

// finishDevice asks the provider once.
func (p Passkeys) finishDevice(c *Call, _ None, in client.DeviceState) (out client.DeviceSignedIn, err error) {
	people, ctx := p.tokens.people, c.R.Context()
	if people == nil {
		return out, errNoProvider
	}
	var s deviceState
	if p.open(ctx, deviceStatePurpose, in.State, &s) != nil || c.Now > s.Ends || c.Now < s.Ends-deviceLife {
		return out, errDeviceOld
	}
	a, err := people.exchangeDevice(ctx, s.Code)
	switch {
	case errors.Is(err, errDeviceWaits), errors.Is(err, errDeviceSlower):
		out.Waits, out.Slower = true, errors.Is(err, errDeviceSlower)
		return out, nil
	case errors.Is(err, errDeviceDenied), errors.Is(err, errDeviceOld):
		return out, err
	case err != nil:
		return out, p.refused(c, a.person, err)
	}
	// A provider that gives the person of a code twice must not give two sessions.
	first, err := p.tokens.d.EndOnce(ctx, "device "+s.ID, c.Now, s.Ends)
	if err == nil && !first {
		err = errDeviceOld
	}
	if err != nil {
		return out, err
	}
	session, err := p.tokens.startSession(ctx, c, a)
	out.Secret, out.Expires = session.Secret, session.Expires
	return out, err
}

// What the provider gives a person to read: it is shown on a terminal, so nothing but ASCII.
var (
	printedText  = regexp.MustCompile(`^[!-~]+$`)
	userCodeText = regexp.MustCompile(`^[!-~][ -~]{0,63}$`)
)

// printed reports whether text is 1 to 2,000 characters of ASCII without a space.
func printed(text string) bool { return len(text) <= 2000 && printedText.MatchString(text) }

func devicePage(text string) error {
	if !printed(text) {
		return fmt.Errorf("is no URL of ASCII: %.200q", text)
	}
	return secureURL(text)
}

// device asks the provider for a device code.
func (o *identities) device(ctx context.Context) (*oauth2.DeviceAuthResponse, error) {
	p, err := o.known(ctx)
	if err != nil {
		return nil, err
	}
	c := o.oauth(p, "")
	if c.Endpoint.DeviceAuthURL == "" {
		return nil, errNoDevice
	}
	// The library sends no secret here, and a client that has one must (RFC 8628, 3.1).
	web := *o.http
	var secret []oauth2.AuthCodeOption
	switch {
	case c.ClientSecret == "":
	case o.style == oauth2.AuthStyleInHeader:
		web.Transport = withSecret{web.Transport, c.ClientID, c.ClientSecret}
	default:
		secret = append(secret, oauth2.SetAuthURLParam("client_secret", c.ClientSecret))
	}
	d, err := c.DeviceAuth(oidc.ClientContext(ctx, &web), secret...)
	if err != nil {
		return nil, awayUnlessRefused(err)
	}
	switch {
	case !printed(d.DeviceCode):
		err = errors.New("has no device code of ASCII")
	case !userCodeText.MatchString(d.UserCode):
		err = errors.New("has no code for the person of 1 to 64 characters of ASCII")
	case devicePage(d.VerificationURI) != nil:
		err = fmt.Errorf("has a page that %w", devicePage(d.VerificationURI))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: its answer %w", errAway, err)
	}
	if devicePage(d.VerificationURIComplete) != nil {
		d.VerificationURIComplete = "" // the other page does
	}
	return d, nil
}

// withSecret adds the client's id and secret to requests.
type withSecret struct {
	next       http.RoundTripper
	id, secret string
}

func (s withSecret) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.SetBasicAuth(url.QueryEscape(s.id), url.QueryEscape(s.secret))
	return s.next.RoundTrip(r)
}

// exchangeDevice asks once who signed in with a device code.
func (o *identities) exchangeDevice(ctx context.Context, code string) (a answered, err error) {
	p, err := o.known(ctx)
	if err != nil {
		return a, err
	}
	ctx = oidc.ClientContext(ctx, o.http)
	// The library's own call waits; the member code stays empty, which counts as left out (RFC 6749, 3.2).
	token, err := o.oauth(p, "").Exchange(ctx, "", oauth2.SetAuthURLParam("grant_type", deviceGrant), oauth2.SetAuthURLParam("device_code", code))
	var said *oauth2.RetrieveError
	if errors.As(err, &said) {
		switch said.ErrorCode {
		case "authorization_pending":
			return a, errDeviceWaits
		case "slow_down":
			return a, errDeviceSlower
		case "access_denied":
			return a, errDeviceDenied
		case "expired_token", "invalid_grant":
			return a, errDeviceOld
		}
	}
	if err != nil {
		return a, awayUnlessRefused(err)
	}
	a.refresh = token.RefreshToken
	a.person, err = o.person(ctx, p, token, "", "")
	return a, err
}
