package client_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"countersign/client"
)

func TestConfigRefuses(t *testing.T) {
	for _, base := range []string{"", "127.0.0.1:8080", "ftp://a/", "http://", "http://user:pass@a/", "http://a/?x=1", "http://a/#x", "http://a:b/"} {
		c := client.Config{URL: base, Token: "x"}
		_, service := client.NewService(c)
		_, gateway := client.NewGateway(c)
		if service == nil || gateway == nil {
			t.Errorf("%q: %v, %v", base, service, gateway)
		} else if strings.Contains(service.Error(), "pass") {
			t.Errorf("%q: the error shows it", base)
		}
	}
	for _, token := range []client.Secret{"cst_with a space", "cst_line\n", "cst_\u00fc"} {
		if _, err := client.NewService(client.Config{URL: "http://a", Token: token}); err == nil || strings.Contains(err.Error(), "cst_") {
			t.Errorf("a token that is none: %v", err)
		}
	}
}

// The token reaches the server and nothing else: no verb and no logger prints
// it.
func TestTokenDoesNotPrint(t *testing.T) {
	const secret = "cst_0123456789abcdef"
	got := ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		_, _ = io.WriteString(w, "{}")
	}))
	defer srv.Close()
	config := client.Config{URL: srv.URL, Token: secret}
	s := must(client.NewService(config))
	if _, err := s.Stats(t.Context()); err != nil || got != "Bearer "+secret {
		t.Fatalf("%v; the server got %q", err, got)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("made", "token", config.Token, "client", s)
	key, keys := client.KeySpec{PrivateKey: secret}, client.MerchantSecrets{APIKey: secret}
	for _, v := range []any{s, config.Token, client.NewMerchant{Key: &key, MerchantSecrets: keys}, client.CreatedMerchant{APIKey: secret, PublicKey: secret}, client.NewRotation{Key: &key},
		client.MerchantPatch{MerchantSecrets: keys}, client.CreatedToken{Secret: secret}, client.Permit{Permit: secret}, client.Outcome{Permit: secret}} {
		slog.New(slog.NewJSONHandler(&log, nil)).Info("made", "value", v)
		slog.New(slog.NewTextHandler(&log, nil)).Info("made", "value", v)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{config, s, config.Token, []client.Secret{secret}, key, client.Permit{Permit: secret}, client.MerchantPatch{MerchantSecrets: keys},
			client.NewMerchant{Key: &key}, client.NewRotation{Key: &key}} {
			fmt.Fprintf(&log, verb, v)
		}
	}
	for _, form := range []string{secret, hex.EncodeToString([]byte(secret))} {
		if strings.Contains(log.String(), form) {
			t.Fatalf("the token was printed:\n%s", &log)
		}
	}
}

// Each status is its sentinel, and no other.
func TestProblemIsItsSentinel(t *testing.T) {
	sentinels := []error{client.ErrInvalid, client.ErrUnauthorized, client.ErrForbidden, client.ErrNotFound, client.ErrPurged, client.ErrConflict,
		client.ErrTooMany, client.ErrUnavailable}
	for status, want := range map[int]error{
		400: client.ErrInvalid, 413: client.ErrInvalid, 415: client.ErrInvalid, 422: client.ErrInvalid, 401: client.ErrUnauthorized,
		403: client.ErrForbidden, 404: client.ErrNotFound, 410: client.ErrPurged, 409: client.ErrConflict, 429: client.ErrTooMany,
		502: client.ErrUnavailable, 503: client.ErrUnavailable, 504: client.ErrUnavailable, 500: nil, 405: nil, 302: nil,
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"title":"No","status":299,"detail":"so","errors":[{"location":"body.amount","message":"is missing"},{"location":"body.symbol","message":"is empty"}]}`)
		}))
		_, err := must(client.NewService(client.Config{URL: srv.URL})).Stats(t.Context())
		var p *client.Problem
		if !errors.As(err, &p) || p.Status != status || p.RetryAfter != 3*time.Second || len(p.Faults) != 2 || p.Faults[0].Location != "body.amount" {
			t.Errorf("%d: %#v", status, err)
		} else if text := fmt.Sprintf("%d No: so: body.amount is missing; body.symbol is empty", status); err.Error() != text {
			t.Errorf("%v, want %s", err, text)
		}
		for _, sentinel := range sentinels {
			if errors.Is(err, sentinel) != (sentinel == want) {
				t.Errorf("%d is %v: %t", status, sentinel, errors.Is(err, sentinel))
			}
		}
		srv.Close()
	}
}

// What the detail says is not said twice.
func TestProblemSaysItOnce(t *testing.T) {
	p := &client.Problem{Title: "Conflict", Status: 409, Detail: "callBackId is in use", Faults: []client.Fault{
		{Location: "body.callBackId", Message: "is in use"}, {Location: "body.amount", Message: "is missing"}}}
	if want := "409 Conflict: callBackId is in use: body.amount is missing"; p.Error() != want {
		t.Errorf("%v, want %s", p, want)
	}
}

// A call that its own context ended is that and nothing else; one that did not
// reach a server may be repeated.
func TestUnreachable(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	s := must(client.NewService(client.Config{URL: srv.URL}))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := s.Stats(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, client.ErrUnavailable) {
		t.Errorf("given up: %v", err)
	}
	srv.Close()
	if _, err := s.Stats(t.Context()); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("no server: %v", err)
	}
	for _, err := range s.AllMerchants(t.Context()) {
		if err == nil {
			t.Error("no error without a server")
		}
	}
	for _, err := range client.Follow(t.Context(), s.Decisions, 0) {
		if err == nil {
			t.Error("no error without a server")
		}
	}
}

// Answers that are not the API's: a proxy's page, half an answer.
func TestAnswersOfOthers(t *testing.T) {
	stats := func(status int, answer string) error {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, answer)
		}))
		defer srv.Close()
		_, err := must(client.NewService(client.Config{URL: srv.URL, Token: "x"})).Stats(t.Context())
		return err
	}
	var p *client.Problem
	if err := stats(http.StatusBadGateway, "<html>"); !errors.As(err, &p) || p.Status != 502 || p.Title != "Bad Gateway" {
		t.Errorf("%v", err)
	}
	if err := stats(http.StatusOK, `{"lanes":[`); err == nil || !strings.Contains(err.Error(), "reading the answer") {
		t.Errorf("%v", err)
	}
}
