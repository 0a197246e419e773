package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"countersign/client"
	"countersign/internal/db"
)

// OIDCConfig describes the identity provider that people sign in with.
type OIDCConfig struct {
	Issuer string   `first:"" help:"Issuer (https) of the OpenID Connect provider for the console. Without it people use tokens." placeholder:"URL"`
	Client string   `help:"Id of the provider's client for this console." placeholder:"ID"`
	Groups []string `sep:"none" help:"Role of a group: GROUP=ROLE, or GROUP=ROLE:MERCHANT,MERCHANT. May be repeated; a person's first group decides." placeholder:"ROW"`
	Claim  string   `help:"Member of the provider's tokens with the groups, such as realm_access.roles." default:"groups" placeholder:"NAME"`
	Scopes []string `help:"Scopes beside openid. Without offline_access some providers' sessions last 15 minutes." default:"profile,email,offline_access" placeholder:"SCOPE"`
	// Secret is the client's secret. Empty: a public client, which relies on PKCE alone.
	Secret client.Secret `kong:"-"`
	// Dial opens connections to the provider. Nil: the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error) `kong:"-"`
}

// Check returns an error that says what is wrong with the configuration. roles are the roles of the end's tokens;
// bound says whether they can be bound to merchants.
func (c OIDCConfig) Check(roles []client.Role, bound bool) error {
	if c.Issuer == "" {
		if c.Client != "" || c.Secret != "" || len(c.Groups) > 0 {
			return errors.New("--oidc-issuer is missing: the other settings of OpenID Connect have no meaning without it")
		}
		return nil
	}
	if err := secureURL(c.Issuer); err != nil {
		return fmt.Errorf("--oidc-issuer %w", err)
	}
	if c.Client == "" {
		return errors.New("--oidc-client is missing: it is the id of the client that the identity provider made for this console")
	}
	if slices.Contains(strings.Split(c.Claim, "."), "") && c.Claim != "" {
		return fmt.Errorf("--oidc-claim %q is not a path: write the name of a member, or names with dots, such as realm_access.roles", c.Claim)
	}
	_, err := readGroups(c.Groups, roles, bound)
	return err
}

// secureURL returns an error for a URL over which an attacker on the network could impersonate the provider.
func secureURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("is not a URL such as https://id.example.com: %q", text)
	}
	if u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("must begin with https://: %q", text)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// identities asks the identity provider who people are. It sends no request before somebody signs in, so a daemon
// starts even if the provider is unavailable.
type identities struct {
	c      OIDCConfig
	groups []groupRow
	http   *http.Client
	now    func() time.Time
	log    *slog.Logger

	mu       sync.Mutex // held while the discovery document is read
	provider *oidc.Provider
	strict   bool // the provider names itself in its answers
	style    oauth2.AuthStyle
	failed   error
	at       time.Time // of failed
}

const (
	// providerTime is the time limit of one request to the provider.
	providerTime = 10 * time.Second
	// providerAgain is how long a failure to read the discovery document is remembered.
	providerAgain = 3 * time.Second
	// maxProviderBody is the longest answer of the provider, in bytes.
	maxProviderBody = 1 << 20
)

func newIdentities(c OIDCConfig, roles []client.Role, bound bool, now func() time.Time,
	log *slog.Logger) (*identities, error) {
	if err := c.Check(roles, bound); err != nil || c.Issuer == "" {
		return nil, err
	}
	groups, _ := readGroups(c.Groups, roles, bound) // Check has read them
	c.Claim = cmp.Or(c.Claim, "groups")
	if c.Scopes == nil {
		c.Scopes = []string{"profile", "email", oidc.ScopeOfflineAccess}
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	if c.Dial != nil {
		t.DialContext = c.Dial
	}
	t.IdleConnTimeout = 5 * time.Second // the provider is asked every few minutes
	return &identities{c: c, groups: groups, now: now, log: log, http: &http.Client{
		Transport: shortBodies{t}, Timeout: providerTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		// secrets go where the document says, and nowhere else
	}}, nil
}

// shortBodies cuts off answers longer than maxProviderBody.
type shortBodies struct{ next http.RoundTripper }

func (s shortBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxProviderBody)
	}
	return resp, err
}

// errAway means that the provider does not answer, or not as OpenID Connect requires. Its last answer about a person
// stays valid for a while.
var errAway = errors.New("the identity provider cannot be used now")

// known returns the provider as its discovery document describes it. The document is read once; a failure is returned
// again for providerAgain.
func (o *identities) known(ctx context.Context) (*oidc.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.provider != nil {
		return o.provider, nil
	}
	if age := o.now().Sub(o.at); o.failed != nil && age >= 0 && age < providerAgain {
		return nil, o.failed
	}
	p, err := o.discover(ctx)
	if err != nil {
		o.failed, o.at = fmt.Errorf("%w: %w", errAway, err), o.now()
		o.log.Warn("the identity provider cannot be used", "error", err.Error())
		return nil, o.failed
	}
	o.provider, o.failed = p, nil
	return p, nil
}

func (o *identities) discover(ctx context.Context) (*oidc.Provider, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(context.WithoutCancel(ctx), o.http), providerTime)
	defer cancel()
	p, err := oidc.NewProvider(ctx, o.c.Issuer)
	if err != nil {
		return nil, err
	}
	var is struct {
		Authorization string   `json:"authorization_endpoint"`
		Token         string   `json:"token_endpoint"`
		Keys          string   `json:"jwks_uri"`
		UserInfo      string   `json:"userinfo_endpoint"`
		NamesItself   bool     `json:"authorization_response_iss_parameter_supported"`
		Secrets       []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := p.Claims(&is); err != nil {
		return nil, err
	}
	for _, used := range []string{is.Authorization, is.Token, is.Keys, cmp.Or(is.UserInfo, is.Token)} {
		if err := secureURL(used); err != nil {
			return nil, fmt.Errorf("a URL in its document %w", err)
		}
	}
	// The style is set here, because the library would otherwise try one style and then the other, and a code can be
	// used only once.
	o.strict, o.style = is.NamesItself, oauth2.AuthStyleInHeader
	if o.c.Secret == "" || len(is.Secrets) > 0 && !slices.Contains(is.Secrets, "client_secret_basic") {
		o.style = oauth2.AuthStyleInParams
	}
	return p, nil
}

// oauth returns the client of the provider. Its answers come back to redirect.
func (o *identities) oauth(p *oidc.Provider, redirect string) *oauth2.Config {
	at := p.Endpoint()
	at.AuthStyle = o.style
	return &oauth2.Config{ClientID: o.c.Client, ClientSecret: o.c.Secret.Reveal(), Endpoint: at, RedirectURL: redirect,
		Scopes: append([]string{oidc.ScopeOpenID}, o.c.Scopes...)}
}

// answered is the provider's answer about a person.
type answered struct {
	person  person
	refresh string // the refresh token for the next request; empty: it gave none
	// signedIn is when the person signed in at the provider, which may be long ago. 0: the provider did not say.
	signedIn db.Millis
}

// exchange redeems the code of a sign-in, which must have this nonce and verifier, and returns the person.
func (o *identities) exchange(ctx context.Context, code, redirect, verifier, nonce string) (answered, error) {
	return o.answer(ctx, redirect, nonce, "", func(ctx context.Context, c *oauth2.Config) (*oauth2.Token, error) {
		return c.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	})
}

// again asks with a refresh token whether the person is still signed in, and what the provider says of them now. The
// returned refresh token is valid even if the error is errAway.
func (o *identities) again(ctx context.Context, refresh, subject string) (answered, error) {
	return o.answer(ctx, "", "", subject, func(ctx context.Context, c *oauth2.Config) (*oauth2.Token, error) {
		return c.TokenSource(ctx, &oauth2.Token{RefreshToken: refresh}).Token()
	})
}

// answer gets a token with take and reads it. nonce is the sign-in's. subject is the person whom the token must be
// about. One of the two is empty.
func (o *identities) answer(ctx context.Context, redirect, nonce, subject string,
	take func(context.Context, *oauth2.Config) (*oauth2.Token, error)) (a answered, err error) {
	p, err := o.known(ctx)
	if err != nil {
		return a, err
	}
	ctx = oidc.ClientContext(ctx, o.http)
	token, err := take(ctx, o.oauth(p, redirect))
	if err != nil {
		return a, awayUnlessRefused(err)
	}
	a.refresh = token.RefreshToken
	claims, sub, err := o.claims(ctx, p, token, nonce, subject)
	if err != nil {
		return a, err
	}
	var at float64
	if json.Unmarshal(claims["auth_time"], &at) == nil && at > 0 && at < 1e11 {
		a.signedIn = db.Millis(at * 1000)
	}
	a.person, err = o.personOf(sub, claims)
	return a, err
}

// awayUnlessRefused returns errRefused if the provider refused, which is final, and errAway otherwise.
func awayUnlessRefused(err error) error {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) && (refused.ErrorCode == "invalid_grant" || refused.ErrorCode == "access_denied") {
		return fmt.Errorf("%w: %s", errRefused, refused.ErrorCode)
	}
	if errors.As(err, &refused) {
		code := 0
		if refused.Response != nil {
			code = refused.Response.StatusCode
		}
		return fmt.Errorf("%w: it answered %d %s", errAway, code,
			cleanName(refused.ErrorCode)) // its body may hold what was sent
	}
	return fmt.Errorf("%w: %w", errAway, err)
}

// errRefused means that the person is not signed in at the provider, or not any more, or that its answer is not valid
// here.
var errRefused = errors.New("the identity provider's answer does not sign in")

// maxSkew is how much the provider's clock may be ahead of ours.
const maxSkew = 2 * time.Minute

// claims returns the provider's claims about a person, and the person's id at the provider.
func (o *identities) claims(ctx context.Context, p *oidc.Provider, token *oauth2.Token, nonce,
	subject string) (_ map[string]json.RawMessage, sub string, err error) {
	claims := map[string]json.RawMessage{}
	raw, _ := token.Extra("id_token").(string)
	if raw == "" && subject == "" {
		return nil, "", fmt.Errorf("%w: it has no ID token", errRefused)
	}
	sub = subject
	if raw != "" {
		id, err := p.VerifierContext(ctx, &oidc.Config{ClientID: o.c.Client, Now: o.now}).Verify(ctx, raw)
		var net *url.Error
		switch {
		case errors.As(err, &net):
			return nil, "", fmt.Errorf("%w: %w", errAway, err)
		case err != nil:
			return nil, "", fmt.Errorf("%w: %w", errRefused, err)
		case nonce != "" && id.Nonce != nonce:
			return nil, "", fmt.Errorf("%w: its nonce belongs to another sign-in", errRefused)
		case subject != "" && id.Subject != subject:
			return nil, "", fmt.Errorf("%w: it is of another person", errRefused)
		case id.IssuedAt.After(o.now().Add(maxSkew)):
			return nil, "", fmt.Errorf("%w: its iat is %s ahead of the clock here", errRefused,
				id.IssuedAt.Sub(o.now()).Round(time.Second))
		case id.AccessTokenHash != "" && id.VerifyAccessToken(token.AccessToken) != nil:
			return nil, "", fmt.Errorf("%w: its access token does not belong to its ID token", errRefused)
		}
		if err := id.Claims(&claims); err != nil {
			return nil, "", fmt.Errorf("%w: %w", errRefused, err)
		}
		var party string
		_ = json.Unmarshal(claims["azp"], &party)
		if party != "" && party != o.c.Client || party == "" && len(id.Audience) > 1 {
			return nil, "", fmt.Errorf("%w: it is for another client", errRefused)
		}
		sub = id.Subject
	}
	if claimAt(claims, o.c.Claim) == nil && (p.UserInfoEndpoint() != "" || raw == "") {
		info, err := p.UserInfo(ctx, oauth2.StaticTokenSource(token))
		switch {
		case err != nil:
			return nil, "", fmt.Errorf("%w: %w", errAway, err)
		case info.Subject != sub:
			return nil, "", fmt.Errorf("%w: it is of another person", errRefused)
		}
		more := map[string]json.RawMessage{}
		if err := info.Claims(&more); err != nil {
			return nil, "", fmt.Errorf("%w: %w", errRefused, err)
		}
		top, _, _ := strings.Cut(o.c.Claim, ".")
		delete(claims, top) // it lacks the groups, and would hide the member that has them
		maps.Copy(more, claims)
		claims = more
	}
	return claims, sub, nil
}

// personOf returns the person whom the claims describe. It returns errNoRole if no group has a role here; the
// person's other members are set even then.
func (o *identities) personOf(sub string, claims map[string]json.RawMessage) (person, error) {
	if !subjectText.MatchString(sub) {
		return person{}, fmt.Errorf("%w: its subject is empty, longer than 255 characters or not printable", errRefused)
	}
	p := person{Subject: o.c.Issuer + " " + sub}
	text := func(claim string) (s string) {
		_ = json.Unmarshal(claims[claim], &s)
		return cleanName(s)
	}
	name, login := text("name"), text("preferred_username")
	if login == "" {
		login = text("email")
	}
	switch {
	case name == "" || name == login:
		p.Name = login
	case login == "":
		p.Name = name
	default:
		p.Name = name + " (" + login + ")"
	}
	if p.Name == "" {
		p.Name = cleanName(sub)
	}
	groups := claimAt(claims, o.c.Claim)
	switch p.Role, p.Merchants, p.Group = roleOf(o.groups, groupsOf(groups)); {
	case p.Role != "":
		return p, nil
	case groups == nil && leftOut(claims):
		return p, errLeftOut
	}
	return p, errNoRole
}
