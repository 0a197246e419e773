package client

import (
	"context"
	"net/http"
)

// Provider is the identity provider of a company, with which people sign in.
type Provider struct {
	Issuer  string `json:"issuer,omitempty" doc:"URL of the provider; absent: people sign in with tokens alone"`
	Problem string `json:"problem,omitempty" doc:"why nobody can sign in with it now; absent: people can"`
}

// ProviderOrigin names the console that a person signs in to.
type ProviderOrigin struct {
	Origin string `json:"origin" minLength:"1" maxLength:"300" doc:"scheme, host and port of the console, by https, 1 to 300 characters"`
}

// ProviderBegun is a sign-in that has begun.
type ProviderBegun struct {
	URL   string `json:"url" doc:"page of the provider that the browser is sent to"`
	State string `json:"state" doc:"for the browser that began it alone; to be sent back within 10 minutes"`
}

// ProviderReturn is what the provider sent a browser back with.
type ProviderReturn struct {
	State  string `json:"state" minLength:"1" maxLength:"4000" doc:"state of the beginning"`
	Given  string `json:"given" maxLength:"300" doc:"state in the address that the browser was sent back to"`
	Code   string `json:"code" minLength:"1" maxLength:"8000" doc:"code in that address"`
	Issuer string `json:"issuer,omitempty" maxLength:"1000" doc:"iss in that address; absent: there is none"`
}

// DeviceBegun is a sign-in from a command line that has begun.
type DeviceBegun struct {
	Page         string `json:"page" doc:"page of the provider, on which the person enters the code"`
	UserCode     string `json:"userCode" doc:"the code, for the person"`
	PageWithCode string `json:"pageWithCode,omitempty" doc:"page of the provider that has the code; absent: it has none"`
	State        string `json:"state" doc:"for who began it alone: with it the session is asked for"`
	Interval     int64  `json:"interval" doc:"seconds between two questions for the session, 1 to 60"`
	Ends         Time   `json:"ends" doc:"when the code ends"`
}

// DeviceState asks for the session of a sign-in from a command line.
type DeviceState struct {
	State string `json:"state" minLength:"1" maxLength:"8000" doc:"state of the beginning"`
}

// DeviceSignedIn is a session, or that there is none yet.
type DeviceSignedIn struct {
	Waits   bool   `json:"waits,omitempty" doc:"the person has not signed in yet: ask again after the interval"`
	Slower  bool   `json:"slower,omitempty" doc:"the provider was asked too often: add 5 seconds to the interval"`
	Secret  Secret `json:"secret,omitempty" doc:"to be sent in place of a token; absent: there is no session yet"`
	Expires Time   `json:"expires,omitzero" doc:"when the session ends at the latest; absent: there is none yet"`
}

// BeginDevice begins a sign-in from a command line (RFC 8628). It needs no token.
func (c *caller) BeginDevice(ctx context.Context) (DeviceBegun, error) {
	return ask[DeviceBegun](ctx, c, http.MethodPost, "/v1/signin/device/begin", nil)
}

// FinishDevice asks once for the session of a sign-in that BeginDevice began. It needs no token.
func (c *caller) FinishDevice(ctx context.Context, state string) (DeviceSignedIn, error) {
	return ask[DeviceSignedIn](ctx, c, http.MethodPost, "/v1/signin/device/finish", DeviceState{state})
}

// Provider gives the identity provider that people sign in with. It needs no token.
func (c *caller) Provider(ctx context.Context) (Provider, error) {
	return ask[Provider](ctx, c, http.MethodGet, "/v1/signin/provider", nil)
}

// BeginProvider begins a sign-in with the identity provider, by a console of this origin. It
// needs no token.
func (c *caller) BeginProvider(ctx context.Context, origin string) (ProviderBegun, error) {
	return ask[ProviderBegun](ctx, c, http.MethodPost, "/v1/signin/provider/begin", ProviderOrigin{origin})
}

// FinishProvider gives a session with the role of the person's groups. It needs no token.
func (c *caller) FinishProvider(ctx context.Context, p ProviderReturn) (SignedIn, error) {
	return ask[SignedIn](ctx, c, http.MethodPost, "/v1/signin/provider/finish", p)
}

// SignOut ends the caller's session of the identity provider. For a token it is ErrConflict.
func (c *caller) SignOut(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/v1/signin/out", nil, nil)
}
