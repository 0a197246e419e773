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
		conn := must(net.Dial("tcp", strings.TrimPrefix(h.url, "http://")))(t)
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
		body := `{"reason": "an exercise"}`
		fmt.Fprintf(conn, "POST /v1/freeze HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
			strings.TrimPrefix(h.url, "http://"), secret, len(body))
		from := bufio.NewReader(conn)
		if line, err := from.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") { // it waits for the body
			t.Fatalf("%q, %v", line, err)
		}
		must(from.ReadString('\n'))(t)
		h.pass(25 * time.Second)
		if revoked {
			must(h.client(client.RoleAdmin).RevokeToken(t.Context(), token.ID))(t)
		}
		must(io.WriteString(conn, body))(t)
		res := must(http.ReadResponse(from, nil))(t)
		if want := map[bool]int{false: 200, true: 401}[revoked]; res.StatusCode != want {
			t.Errorf("revoked %v: status %d, want %d", revoked, res.StatusCode, want)
		}
		f := must(h.store.Frozen(t.Context()))(t)
		switch at := f.At.Time(); {
		case revoked && f.At != 0:
			t.Error("a revoked token froze the service")
		case !revoked && !at.Equal(h.now()):
			t.Errorf("it was frozen at %v, and the body came at %v", at, h.now())
		}
		ok(t, h.store.Thaw(t.Context(), f.At+1))
	}
}
