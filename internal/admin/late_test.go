package admin

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/api"
)

// A token that is revoked after the headers of a call came, and before its body, makes no call.
func TestRevokedBeforeTheBody(t *testing.T) {
	h := sqlite(t)
	token := api.NewStoreToken("late", client.RoleAdmin, 1)
	secret := h.keep(token)
	for _, revoked := range []bool{false, true} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
		body := `{"reason": "an exercise"}`
		fmt.Fprintf(conn, "POST /v1/freeze HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
			strings.TrimPrefix(h.url, "http://"), secret, len(body))
		from := bufio.NewReader(conn)
		if line, err := from.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") { // it waits for the body
			t.Fatalf("%q, %v", line, err)
		}
		if _, err := from.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		h.pass(25 * time.Second)
		if revoked {
			if _, err := h.client(client.RoleAdmin).RevokeToken(t.Context(), token.ID); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := io.WriteString(conn, body); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(from, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{false: 200, true: 401}[revoked]; res.StatusCode != want {
			t.Errorf("revoked %v: status %d, want %d", revoked, res.StatusCode, want)
		}
		f, err := h.store.Frozen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		switch at := f.At.Time(); {
		case revoked && f.At != 0:
			t.Error("a revoked token froze the service")
		case !revoked && !at.Equal(h.now()):
			t.Errorf("it was frozen at %v, and the body came at %v", at, h.now())
		}
		if err := h.store.Thaw(t.Context(), f.At+1); err != nil {
			t.Fatal(err)
		}
	}
}
