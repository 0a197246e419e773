package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func TestDelay(t *testing.T) {
	var got []time.Duration
	for _, n := range []int{-1, 1, 2, 3, 10, 11, 1000} {
		got = append(got, delay(n))
	}
	s := time.Second
	if want := []time.Duration{5 * s, 5 * s, 10 * s, 20 * s, 2560 * s, 3600 * s, 3600 * s}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// TestPost: what arrives is signed, and what comes back is one of the results.
func TestPost(t *testing.T) {
	status := http.StatusNoContent
	slow := make(chan struct{})
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		receiver, _ := standardwebhooks.NewWebhook(vectorSecret)
		if err := receiver.Verify(body, r.Header); err != nil || string(body) != vectorBody || r.Header.Get(HeaderID) != vectorID {
			t.Errorf("%v: %s, %v", err, body, r.Header)
		}
		if status == 0 {
			<-slow
			return
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
	}))
	defer app.Close()
	defer close(slow)
	p, err := NewPoster(PosterConfig{URL: app.URL, Secret: mustSecret(t, vectorSecret), Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for s, want := range map[int]PostResult{204: Posted, 200: Posted, 307: PostStatus, 500: PostStatus, 404: PostStatus} {
		status = s
		if got, code, err := p.Post(t.Context(), vectorID, []byte(vectorBody)); got != want || code != s || err != nil {
			t.Errorf("%d: %s, %d, %v", s, got, code, err)
		}
	}
	status = 0
	if got, _, err := p.Post(t.Context(), vectorID, []byte(vectorBody)); got != PostTimeout || err == nil {
		t.Errorf("no answer: %s, %v", got, err)
	}
	for name, c := range map[string]PosterConfig{
		"no URL":         {Secret: mustSecret(t, vectorSecret)},
		"scheme":         {URL: "ftp://app.example/in", Secret: mustSecret(t, vectorSecret)},
		"user":           {URL: "https://u:p@app.example/in", Secret: mustSecret(t, vectorSecret)},
		"a short secret": {URL: "https://app.example/in", Secret: Secret("short")},
		"timeout":        {URL: "https://app.example/in", Secret: mustSecret(t, vectorSecret), Timeout: -1},
	} {
		if _, err := NewPoster(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
