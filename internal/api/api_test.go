package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"countersign/client"
	"countersign/internal/db"
)

// tokenList is a store of tokens in memory.
type tokenList struct {
	mu     sync.Mutex
	byHash map[[sha256.Size]byte]Token
	asked  int
	fails  error
}

func (l *tokenList) BySession(context.Context, string) (Token, error) { return Token{}, db.ErrNotFound }

func (l *tokenList) ByHash(_ context.Context, hash [sha256.Size]byte) (Token, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	t, ok := l.byHash[hash]
	if !ok && l.fails == nil {
		return t, db.ErrNotFound
	}
	return t, l.fails
}

func (l *tokenList) List(context.Context) (list []Token, err error) {
	l.asked++
	for hash, t := range l.byHash {
		t.Fingerprint = fingerprintOf(hash[:])
		list = append(list, t)
	}
	return list, l.fails
}

func (l *tokenList) revoke(id string, now db.Millis) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for hash, t := range l.byHash {
		if t.ID == id {
			t.Revoked = now
			l.byHash[hash] = t
		}
	}
}

func (l *tokenList) add(role client.Role) (id, secret string) {
	minted, hash := MintToken()
	t := NewStoreToken("test", role, 1)
	l.byHash[hash] = t
	return t.ID, minted.Reveal()
}

// end is an API with a clock that tests move.
type end struct {
	*API
	tokens *tokenList
	at     time.Time
}

func newEnd(t *testing.T, routes ...Route) *end {
	t.Helper()
	e := &end{tokens: &tokenList{byHash: map[[sha256.Size]byte]Token{}}, at: time.UnixMilli(1_750_000_000_000)}
	e.API = must(New(Config{
		Process: Process{Now: func() time.Time { return e.at }},
		Self:    "the end", Tags: map[string]string{"operation": "what the tests call"}, Tokens: e.tokens, MaxBody: 1000,
	}, routes))(t)
	return e
}

func (e *end) ask(secret string) error {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+secret)
	_, err := e.authenticate(r, false)
	return err
}

func (e *end) call(method, path, secret string) int {
	r, w := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
	r.Header.Set("Authorization", "Bearer "+secret)
	e.Mux().ServeHTTP(w, r)
	return w.Code
}

// Another node has a revoked token in its cache, and asks again after a second.
func TestRevokedTokenEndsWithTheCache(t *testing.T) {
	e := newEnd(t)
	id, secret := e.tokens.add("viewer")
	ok(t, e.ask(secret))
	e.tokens.revoke(id, 5)
	if err := e.ask(secret); err != nil {
		t.Errorf("within the cache's time: %v", err)
	}
	e.at = e.at.Add(tokenTTL)
	if err := e.ask(secret); !errors.Is(err, errRevoked) {
		t.Errorf("after the cache's time: %v, want it refused", err)
	}
}

// onRead calls do before each read.
type onRead struct {
	io.Reader
	do func()
}

func (r onRead) Read(p []byte) (int, error) {
	r.do()
	return r.Reader.Read(p)
}

// A token that is revoked after the headers of a call came, and before its body, makes no call. The time of a call is
// that of its body.
func TestRevokedBeforeTheBody(t *testing.T) {
	var acted []db.Millis
	e := newEnd(t, Route{Method: "POST", Path: "/act", ID: "act", Roles: Roles{"viewer"}, Status: 204,
		Handler: Handle(func(c *Call, _ None, _ struct{}) (None, error) { acted = append(acted, c.Now); return None{}, nil })})
	id, secret := e.tokens.add("viewer")
	for _, revoked := range []bool{false, true} {
		at := e.at.Add(25 * time.Second)
		r, w := httptest.NewRequest("POST", "/act", onRead{strings.NewReader("{}"), func() {
			if e.at = at; revoked {
				e.tokens.revoke(id, 5)
			}
		}}), httptest.NewRecorder()
		r.Header.Set("Authorization", "Bearer "+secret)
		r.Header.Set("Content-Type", TypeJSON)
		if e.Mux().ServeHTTP(w, r); w.Code != map[bool]int{false: 204, true: 401}[revoked] {
			t.Errorf("revoked %v: %d", revoked, w.Code)
		}
		if len(acted) != 1 || !revoked && !acted[0].Time().Equal(at) {
			t.Errorf("revoked %v: it acted at %v, and the body came at %v", revoked, acted, at)
		}
	}
}

// TestGuessesAreThrottled: a guess is looked up and not cached. An address that guesses tokens is refused without a look
// at the database, and a caller from there with a valid token, which this node has not seen before, gets through.
func TestGuessesAreThrottled(t *testing.T) {
	e := newEnd(t, Route{Method: "GET", Path: "/a", ID: "a", Roles: Roles{"viewer", "operator"}, Status: 204, Handler: Handle(func(*Call, None, None) (None, error) { return None{}, nil })})
	_, secret := e.tokens.add("viewer")
	from := func(addr, secret string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest("GET", "/a", nil), httptest.NewRecorder()
		r.RemoteAddr = addr
		r.Header.Set("Authorization", "Bearer "+secret)
		e.Mux().ServeHTTP(w, r)
		return w
	}
	wrong := func() string { return tokenPrefix + RandomText(32) }
	for i := range guessesAtOnce {
		if w := from(fmt.Sprintf("[2001:db8:0:%x::1]:1", i+1), wrong()); w.Code != 401 { // one site: all its networks
			t.Fatalf("guess %d: %d", i, w.Code)
		}
	}
	asked := e.tokens.asked
	if asked != guessesAtOnce || len(e.API.tokens.known) != 0 {
		t.Errorf("%d look-ups, %d cached tokens", asked, len(e.API.tokens.known))
	}
	for range 1000 {
		if w := from("[2001:db8::1]:2", wrong()); w.Code != 429 || w.Header().Get("Retry-After") != "1" {
			t.Fatalf("one guess more: %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
		}
	}
	if e.tokens.asked > asked+1 {
		t.Errorf("the database was asked %d times", e.tokens.asked-asked)
	}
	if w := from("[2001:db8::1]:2", "no token"); w.Code != 429 {
		t.Errorf("what is no token: %d", w.Code)
	}
	if w := from("[2001:db8::1]:2", secret); w.Code != 204 {
		t.Errorf("the valid token from there: %d", w.Code)
	}
	elsewhere := netip.MustParseAddr("192.0.2.1")
	for e.guesses.limiter(elsewhere) == e.guesses.limiter(netip.MustParseAddr("2001:db8::")) {
		elsewhere = elsewhere.Next()
	}
	if w := from(elsewhere.String()+":1", wrong()); w.Code != 401 {
		t.Errorf("a guess from elsewhere: %d", w.Code)
	}
	e.at = e.at.Add(2 * time.Second)
	if w := from("[2001:db8::1]:2", wrong()); w.Code != 401 {
		t.Errorf("a guess later: %d", w.Code)
	}
	// Many addresses together.
	refused := 0
	for i := range 3 * guessers {
		if w := from(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255), wrong()); w.Code == 429 {
			refused++
		}
	}
	if refused < guessers {
		t.Errorf("%d of %d guesses from everywhere were throttled", refused, 3*guessers)
	}
	if w := from("10.0.0.1:1", secret); w.Code != 204 {
		t.Errorf("the valid token then: %d", w.Code)
	}
	e.tokens.fails = errors.New("disk says no")
	if e.at = e.at.Add(time.Minute); from("192.0.2.9:1", wrong()).Code != 500 {
		t.Error("a guess is answered where the database fails")
	}
}

// A reader that waits is answered when something comes and when the end stops, and is turned away once its token has
// ended, also while nothing comes.
func TestFollowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake, found := make(chan struct{}, 1), false
		e := newEnd(t, Route{Method: "GET", Path: "/feed", ID: "feed", Roles: Roles{"viewer"}, Status: 200, Handler: Handle(func(c *Call, _ None, _ None) (None, error) {
			return None{}, c.Follow(time.Minute, wake, func(context.Context) (bool, error) { return found, nil })
		})})
		id, secret := e.tokens.add("viewer")
		ask := func(want int, within time.Duration, end func()) {
			t.Helper()
			done, began := make(chan int), time.Now()
			go func() { done <- e.call("GET", "/feed", secret) }()
			synctest.Wait()
			end()
			if status := <-done; status != want || time.Since(began) > within {
				t.Errorf("%d after %v, want %d", status, time.Since(began), want)
			}
		}
		ask(200, 0, func() { found = true; wake <- struct{}{} })
		found = false
		ask(401, pollEvery, func() { e.tokens.revoke(id, 5) })
		e.tokens.revoke(id, 0)
		ask(200, 0, e.Stop)
	})
}

// TestReadsAreBounded: one token makes some reads at once and its others wait,
// then get a clear answer; another token reads meanwhile. Calls that change something
// do not wait for reads.
func TestReadsAreBounded(t *testing.T) {
	begun, end := make(chan struct{}, maxTokenReads+1), make(chan struct{})
	e := newEnd(t, Route{Method: "GET", Path: "/list", ID: "list", Roles: Roles{"viewer", "operator"}, Status: 204, Handler: Handle(func(c *Call, _ None, _ None) (None, error) {
		if _, bounded := c.R.Context().Deadline(); !bounded {
			t.Error("a read has no bound in time")
		}
		begun <- struct{}{}
		<-end
		return None{}, nil
	})}, Route{Method: "POST", Path: "/act", ID: "act", Roles: Roles{"viewer", "operator"}, Status: 204, Handler: Handle(func(*Call, None, None) (None, error) { return None{}, nil })})
	e.patience = time.Millisecond
	_, greedy := e.tokens.add("viewer")
	_, modest := e.tokens.add("viewer")
	var reads sync.WaitGroup
	read := func(secret string) {
		reads.Go(func() {
			if status := e.call("GET", "/list", secret); status != 204 {
				t.Errorf("a read answers %d", status)
			}
		})
		<-begun
	}
	for range maxTokenReads {
		read(greedy)
	}
	if status := e.call("GET", "/list", greedy); status != 503 {
		t.Errorf("one read more of the token answers %d, want 503", status)
	}
	read(modest)
	if status := e.call("POST", "/act", greedy); status != 204 {
		t.Errorf("a call that changes something answers %d", status)
	}
	close(end)
	reads.Wait()
	if status := e.call("GET", "/list", greedy); status != 204 {
		t.Errorf("a read afterwards answers %d", status)
	}
}

// TestMalformedQuery: a filter that is malformed is refused by its name. Before, it was
// left out, and everything was listed.
func TestMalformedQuery(t *testing.T) {
	type filter struct {
		Merchant string `query:"merchant"`
	}
	e := newEnd(t, Route{Method: "GET", Path: "/act", ID: "act", Roles: Open, Status: 200,
		Handler: Handle(func(_ *Call, q filter, _ None) (string, error) { return q.Merchant, nil })})
	for query, want := range map[string]int{
		"merchant=sh%op": 400, "merchant=o1;x": 400, "merchant=o1;x=2": 400, "merchant=a&merch%ant=b": 400, "merchant=%": 400,
		"merchant=sh%25op": 200, "merchant=o1%3Bx": 200, "": 200, "&merchant=a&": 200, "shop=a": 422,
	} {
		r, w := httptest.NewRequest("GET", "/act", nil), httptest.NewRecorder()
		r.URL.RawQuery = query
		e.Mux().ServeHTTP(w, r)
		if w.Code != want || want == http.StatusBadRequest && !strings.Contains(w.Body.String(), `"query.merch`) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}
