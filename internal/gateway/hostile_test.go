package gateway

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/countersigntest"
	"countersign/merchant"
)

// TestHostilePosts posts everything but a genuine callback to the public
// listener. All of it is answered with a status of the protocol, and nothing is
// recorded.
func TestHostilePosts(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			service := newService(t, countersigntest.ServiceConfig{})
			r := newRig(t, d.url(t), service, func(c *Config) { c.Callbacks.BodyTimeout = 200 * time.Millisecond })
			server := httptest.NewServer(r.Callbacks())
			defer server.Close()
			r.order(1)
			genuine, _, err := service.Body(countersigntest.Deposit(1))
			if err != nil {
				t.Fatal(err)
			}
			other, _, err := service.Body(countersigntest.Deposit(2))
			if err != nil {
				t.Fatal(err)
			}
			bodies := map[string][]byte{
				"empty": nil, "one byte": {0}, "zeros": make([]byte, 4096), "not sealed": []byte(`{"type":1}`),
				"too large": bytes.Repeat([]byte("A"), 64<<10+1), "just fits": bytes.Repeat([]byte("A"), 64<<10),
				"JSON without data": []byte(`{"x":1}`), "form without data": []byte("a=b"), "half": genuine[:len(genuine)/2],
			}
			for blocks := 1; blocks < 4; blocks++ {
				spliced, err := countersigntest.Splice(genuine, other, blocks, testPair().Size())
				if err != nil {
					t.Fatal(err)
				}
				bodies["another tail after block "+string(rune('0'+blocks))] = spliced
			}
			for i := range 50 {
				bodies["random "+string(rune('0'+i))] = spoil(genuine)
			}
			for name, body := range bodies {
				for _, path := range []string{merchant.DefaultNotifyPath, merchant.DefaultWithdrawPath} {
					status, answer := hostile(t, http.MethodPost, server.URL+path, service.CallbackAPIKey().Reveal(), body)
					resp, err := countersign.ParseResponse(answer)
					if !slices.Contains([]int{200, 400, 413}, status) || err != nil || resp.ErrCode == countersign.CodeAccepted {
						t.Errorf("%s to %s: %d %v %s", name, path, status, err, answer)
					}
				}
			}
			for _, key := range []string{"", "wrong", service.APIKey().Reveal()} {
				if status, _ := hostile(t, http.MethodPost, server.URL+merchant.DefaultNotifyPath, key, genuine); status != http.StatusUnauthorized {
					t.Errorf("a wrong key: %d", status)
				}
			}
			for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodPatch} {
				if status, _ := hostile(t, method, server.URL+merchant.DefaultNotifyPath, service.CallbackAPIKey().Reveal(), genuine); status != http.StatusMethodNotAllowed {
					t.Errorf("%s: %d", method, status)
				}
			}
			if status, _ := hostile(t, http.MethodPost, server.URL+merchant.DefaultWithdrawPath, service.CallbackAPIKey().Reveal(), genuine); status != 200 {
				t.Errorf("a deposit to the other URL: %d", status) // with errCode 1004
			}
			slow(t, server.Listener.Addr().String(), service)
			if s, err := r.client.Stats(t.Context()); err != nil || s.Callbacks != 0 || s.Deposits != 0 || s.Events != 0 || s.Orders["open"] != 1 {
				t.Fatalf("something was recorded: %+v, %v", s, err)
			}
			if r.deliver(countersigntest.Deposit(1)) != countersign.CodeAccepted {
				t.Error("a genuine deposit is not taken afterwards")
			}
			for _, secret := range []string{service.APIKey().Reveal(), service.CallbackAPIKey().Reveal(), service.MerchantKey().PublicBase64()} {
				if strings.Contains(r.log.String(), secret) {
					t.Error("a secret is in the log")
				}
			}
		})
	}
}

// spoil changes a few bytes of a sealed body, or cuts it, or takes it twice.
func spoil(body []byte) []byte {
	b := slices.Clone(body)
	switch rand.IntN(4) {
	case 0:
		return append(b, b...)
	case 1:
		return b[:rand.IntN(len(b))]
	}
	for range 1 + rand.IntN(3) {
		b[rand.IntN(len(b))] ^= byte(1 + rand.IntN(255))
	}
	if bytes.Equal(b, body) { // changed back
		b[0] ^= 1
	}
	return b
}

func hostile(t *testing.T, method, url, key string, body []byte) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("X-API-KEY", key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer
}

// slow sends the head of a request and a part of its body, and must be answered
// all the same.
func slow(t *testing.T, addr string, service *countersigntest.Service) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	head := "POST " + merchant.DefaultNotifyPath + " HTTP/1.1\r\nHost: x\r\nX-API-KEY: " + service.CallbackAPIKey().Reveal() + "\r\nContent-Length: 1000\r\n\r\nAAAA"
	if _, err := conn.Write([]byte(head)); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn) // to the end: it is closed
	if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 408 ")) {
		t.Errorf("a slow body: %v %.200s", err, answer)
	}
}
