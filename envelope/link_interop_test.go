package envelope

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// needNodeModule skips where Node or a module of npm is not installed, and fails in CI.
// NODE_PATH says where .ci/run installs it, if the environment does not.
func needNodeModule(t *testing.T, module string) (node string) {
	t.Helper()
	node = needPeer(t, "node")
	if os.Getenv("NODE_PATH") == "" {
		cache := must(os.UserCacheDir())(t)
		t.Setenv("NODE_PATH", filepath.Join(cache, "countersign-node", "node_modules"))
	}
	if exec.Command(node, "-e", `require(process.argv[1])`, module).Run() == nil {
		return node
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s of npm is not installed, and CI must have it", module)
	}
	t.Skipf("%s of npm is not installed: nothing was compared with it", module)
	return ""
}

// TestLinkInteropNode signs and verifies requests and responses of the link with another
// implementation of RFC 9421, in both directions, and has it refuse what was changed.
func TestLinkInteropNode(t *testing.T) {
	node := needNodeModule(t, "http-message-signatures")
	type message struct {
		Method  string            `json:"method,omitempty"`
		URL     string            `json:"url,omitempty"`
		Status  int               `json:"status,omitempty"`
		Headers map[string]string `json:"headers"`
	}
	flat := func(h http.Header) map[string]string {
		m := map[string]string{}
		for name := range h {
			m[name] = h.Get(name)
		}
		return m
	}
	type ask struct {
		Seq       int      `json:"seq"`
		Op        string   `json:"op"`
		Message   message  `json:"message"`
		Request   *message `json:"request,omitempty"`
		Key       string   `json:"key"`
		Body      string   `json:"body"`
		Plaintext string   `json:"plaintext"`
	}
	service, merchant := GenerateSigningKey(), GenerateSigningKey()
	pemOfPair := func(k *SigningKey) string { return string(must(k.PrivatePEM())(t)) }
	publicPEM := func(k *SigningKey) string { return pemOf("PUBLIC KEY", k.parts().spki) }
	const url = "https://pay.shop.example:8443/callbacks/withdraw?shop=7"
	request := LinkRequest{Method: "POST", URL: url, Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, Body: []byte("c2VhbGVk")}
	ok(t, service.SignRequest(request, []byte("opened"), time.Now()))
	response := LinkResponse{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"data":"x"}`), Request: request.Header}
	ok(t, merchant.SignResponse(response, []byte("answer"), time.Now()))
	asked := &message{Method: "POST", URL: url, Headers: flat(request.Header)}
	answered := message{Status: 200, Headers: flat(response.Header)}
	other := *asked
	other.Headers = flat(request.Header)
	other.Headers["Signature"] = strings.Replace(other.Headers["Signature"], ":", ":AAAA", 1)
	var asks []string
	var checks []func(answer string)
	add := func(a ask, check func(answer string)) {
		a.Seq = len(asks)
		line := must(json.Marshal(a))(t)
		asks, checks = append(asks, string(line)), append(checks, check)
	}
	says := func(what, want string) func(string) {
		return func(answer string) {
			if answer != want {
				t.Errorf("%s: it says %s, not %s", what, answer, want)
			}
		}
	}
	add(ask{Op: "verify", Message: *asked, Key: publicPEM(service)}, says("our request", "true"))
	add(ask{Op: "verify", Message: message{Method: "PUT", URL: url, Headers: asked.Headers}, Key: publicPEM(service)}, says("our request with another method", "false"))
	add(ask{Op: "verify", Message: answered, Request: asked, Key: publicPEM(merchant)}, says("our response", "true"))
	add(ask{Op: "verify", Message: answered, Request: &other, Key: publicPEM(merchant)}, says("our response to another request", "false"))

	read := func(answer string) http.Header {
		var headers map[string]string
		if err := json.Unmarshal([]byte(answer), &headers); err != nil {
			t.Fatalf("%s: %v", answer, err)
		}
		h := http.Header{}
		for name, value := range headers {
			h.Set(name, value)
		}
		return h
	}
	unsigned := message{Method: "POST", URL: url, Headers: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}}
	add(ask{Op: "sign", Message: unsigned, Key: pemOfPair(service), Body: "c2VhbGVk", Plaintext: "opened"}, func(answer string) {
		r := request
		r.Header = read(answer)
		s, err := VerifyRequest(r, merchant, service)
		if err != nil || s.Old(time.Now().Add(time.Minute)) || !s.Covers([]byte("opened")) || s.Key != service {
			t.Errorf("its request: %v, %v", s, err)
		}
		r.Body = []byte("other")
		if _, err := VerifyRequest(r, service); err == nil {
			t.Error("its request with another body is taken")
		}
	})
	plain := message{Status: 200, Headers: map[string]string{"Content-Type": "application/json"}}
	add(ask{Op: "sign", Message: plain, Request: asked, Key: pemOfPair(merchant), Body: string(response.Body), Plaintext: "answer"}, func(answer string) {
		r := response
		r.Header = read(answer)
		s, err := VerifyResponse(r, merchant)
		if err != nil || !s.Covers([]byte("answer")) {
			t.Errorf("its response: %v, %v", s, err)
		}
		r.Request = other2(r.Request)
		if _, err := VerifyResponse(r, merchant); err == nil {
			t.Error("its response to another request is taken")
		}
	})
	for _, answer := range linePeer(t, []string{node, filepath.Join("testdata", "interop", "link.js")}, asks) {
		var n int
		seq, rest, _ := strings.Cut(string(answer), " ")
		must(fmt.Sscan(seq, &n))(t)
		checks[n](rest)
	}
}

// other2 is h with another signature of the link.
func other2(h http.Header) http.Header {
	h = h.Clone()
	h.Set(HeaderSignature, strings.Replace(h.Get(HeaderSignature), ":", ":AAAA", 1))
	return h
}
