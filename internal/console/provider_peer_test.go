package console_test

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/internal/daemon"
)

// peer is an identity provider that signs everybody in as one person, and lies as it is told.
type peer struct {
	*httptest.Server
	t   testing.TB
	key *rsa.PrivateKey

	mu       sync.Mutex
	sub      string
	claims   map[string]any                     // beside those that every token has; nil deletes one
	sign     func(claims map[string]any) string // nil: as it should be
	away     bool
	over     bool // no refresh token counts any more
	lost     bool // its answers to refresh tokens are lost
	codes    map[string]url.Values
	refresh  string       // the only one that counts
	asked    atomic.Int64 // with a refresh token
	replayed atomic.Int64 // codes and refresh tokens that had been used
	named    bool         // it says iss in its answers
	public   bool         // its client has no secret

	begun url.Values // of the last sign-in that began
}

const peerClient, peerSecret = "console", "a secret of the client, 32 long."

// peerKey is the key of every peer.
var peerKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func newPeer(t testing.TB, groups ...string) *peer {
	t.Helper()
	key := must(peerKey())(t)
	p := &peer{t: t, key: key, sub: "ann", codes: map[string]url.Values{}, claims: map[string]any{"groups": groups, "name": "Ann", "email": "ann@example.com"}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		is := map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"}, "authorization_response_iss_parameter_supported": p.named}
		p.json(w, 200, is)
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		e := big.NewInt(int64(key.E)).Bytes()
		p.json(w, 200, map[string]any{"keys": []any{map[string]any{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1", "n": text64(key.N.Bytes()), "e": text64(e)}}})
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		q, code := r.URL.Query(), rand.Text()
		p.mu.Lock()
		p.codes[code], p.begun = q, q
		p.mu.Unlock()
		back := url.Values{"code": {code}, "state": {q.Get("state")}}
		if p.named {
			back.Set("iss", p.URL)
		}
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		away := p.away
		p.mu.Unlock()
		if away {
			http.Error(w, "away", http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

func text64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (p *peer) json(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// knows reports whether a request is of its client.
func (p *peer) knows(r *http.Request) bool {
	id, secret, has := r.BasicAuth()
	if p.public {
		return !has && r.PostFormValue("client_id") == peerClient && !r.PostForm.Has("client_secret")
	}
	return id == peerClient && secret == url.QueryEscape(peerSecret)
}

// token takes each code and each refresh token once.
func (p *peer) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.knows(r) {
		p.json(w, 401, map[string]any{"error": "invalid_client"})
		return
	}
	claims := map[string]any{"iss": p.URL, "aud": peerClient, "sub": p.sub, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	refused := false
	switch r.PostFormValue("grant_type") {
	case "authorization_code":
		q, ok := p.codes[r.PostFormValue("code")]
		delete(p.codes, r.PostFormValue("code"))
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		refused = !ok || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") != text64(sum[:]) || q.Get("redirect_uri") != r.PostFormValue("redirect_uri")
		claims["nonce"] = q.Get("nonce")
		if !ok {
			p.replayed.Add(1)
		}
	case "refresh_token":
		p.asked.Add(1)
		refused = p.over || p.refresh == "" || r.PostFormValue("refresh_token") != p.refresh
		if refused && !p.over {
			p.replayed.Add(1)
		}
	default:
		refused = true
	}
	if refused {
		p.json(w, 400, map[string]any{"error": "invalid_grant"})
		return
	}
	maps.Copy(claims, p.claims)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	p.refresh = rand.Text()
	if p.lost && r.PostFormValue("grant_type") == "refresh_token" {
		panic(http.ErrAbortHandler)
	}
	sign := p.sign
	if sign == nil {
		sign = p.rs256
	}
	p.json(w, 200, map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 300, "refresh_token": p.refresh, "id_token": sign(claims)})
}

func jwt(header map[string]any, claims map[string]any, sign func(text string) []byte) string {
	h, _ := json.Marshal(header)
	c, _ := json.Marshal(claims)
	text := text64(h) + "." + text64(c)
	return text + "." + text64(sign(text))
}

func (p *peer) rs256(claims map[string]any) string { return rs256By(p.key, claims) }

func rs256By(key *rsa.PrivateKey, claims map[string]any) string {
	return jwt(map[string]any{"alg": "RS256", "kid": "1"}, claims, func(text string) []byte {
		sum := sha256.Sum256([]byte(text))
		b, _ := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
		return b
	})
}

func hs256By(secret string, claims map[string]any) string {
	return jwt(map[string]any{"alg": "HS256", "kid": "1"}, claims, func(text string) []byte {
		h := hmac.New(sha256.New, []byte(secret))
		h.Write([]byte(text))
		return h.Sum(nil)
	})
}

// set changes the peer while it runs.
func (p *peer) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// oidc is the configuration of an end that people sign in to with the peer.
func (p *peer) oidc(groups ...string) daemon.OIDC {
	c := daemon.OIDC{Issuer: p.URL, Client: peerClient, Secret: peerSecret, Groups: groups}
	if p.public {
		c.Secret = ""
	}
	return c
}

// atPeer begins to sign in, and gives the path that the peer sends the browser back to.
func (s *site) atPeer(next string) string {
	s.t.Helper()
	return s.throughPeer("/console/signin/provider?next=" + url.QueryEscape(next))
}

// throughPeer follows a link to the peer and gives the path that it sends the browser back to.
func (s *site) throughPeer(path string) string {
	s.t.Helper()
	to := s.get(path)
	if to.status != http.StatusSeeOther {
		s.t.Fatalf("to the provider: %d %s", to.status, to.body)
	}
	back, ok := strings.CutPrefix(atPeer(s.t, to.to()), s.base)
	if !ok {
		s.t.Fatalf("back from the provider: %s", back)
	}
	return back
}

// atPeer signs in at the peer and gives the address that it sends the browser back to.
func atPeer(t testing.TB, to string) string {
	t.Helper()
	r := must(http.NewRequestWithContext(t.Context(), http.MethodGet, to, nil))(t)
	resp := must(http.DefaultTransport.RoundTrip(r))(t)
	_ = resp.Body.Close()
	return resp.Header.Get("Location")
}

// signInPeer signs in with the peer.
func (s *site) signInPeer() *site {
	s.t.Helper()
	if p := s.get(s.atPeer("/console/")); p.status != http.StatusOK || p.header.Get("Refresh") != "0;url=/console/" {
		s.t.Fatalf("signing in with the provider: %d %s", p.status, p.body)
	}
	return s
}
