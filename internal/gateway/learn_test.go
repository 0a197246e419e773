package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/merchant"
)

// TestLearn: what comes while the gateway learns is kept and summed up, and nothing is booked. What
// came without the API key teaches nothing. With the right settings afterwards the same bodies are
// taken, and parts of them joined are not.
func TestLearn(t *testing.T) {
	for _, dialect := range dialects {
		t.Run(dialect.name, func(t *testing.T) {
			s := newService(t, countersigntest.ServiceConfig{Unbound: true})
			d := openDB(t, dialect.url(t))
			r := newRigOn(t, d, s, func(c *Config) { c.Learn = true })
			var bodies [][]byte
			for n := range 2 {
				body, _, err := s.Body(countersigntest.Deposit(n + 1))
				if err != nil {
					t.Fatal(err)
				}
				bodies = append(bodies, body)
				for range 2 {
					resp, err := countersign.ParseResponse(s.Post(t.Context(), r.to, "/odd", body).Raw)
					if err != nil || resp.ErrCode != countersign.CodeInternal || !s.APIKey().Equal(resp.APIKey) {
						t.Fatalf("%+v, %v", resp, err)
					}
				}
			}
			for _, key := range []string{"wrong", ""} {
				w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/odd", strings.NewReader(string(bodies[0])))
				req.Header.Set(merchant.DefaultHeader, key)
				if r.Callbacks().ServeHTTP(w, req); w.Code != http.StatusUnauthorized {
					t.Errorf("key %q: %d", key, w.Code)
				}
			}
			list := r.allRefused(2)
			if one := list[0]; one.Reason != client.RefusalLearning || one.Number != 2 || !one.Opened || one.CallbackID != "deposit-2" {
				t.Errorf("%+v", one)
			}
			if st, err := r.book.Stats(t.Context()); err != nil || st.Deposits != 0 {
				t.Errorf("%+v, %v", st, err)
			}
			learned, err := r.client.Learned(t.Context())
			if err != nil || !strings.Contains(learned.Settings, "2 callbacks, of which 0 would be refused") || !strings.Contains(learned.Settings, "notify-path = \"/odd\"") ||
				!strings.Contains(learned.Settings, "provider = \"other\"") || learned.Note != "" {
				t.Errorf("%+v, %v", learned, err)
			}
			// A dismissed one counts no more.
			if _, err := r.client.DismissRefused(t.Context(), list[0].ID, ""); err != nil {
				t.Fatal(err)
			}
			if learned, err = r.client.Learned(t.Context()); err != nil || !strings.Contains(learned.Settings, "1 callbacks, of") {
				t.Errorf("%+v, %v", learned, err)
			}

			join, err := countersigntest.Splice(bodies[0], bodies[1], 2, testPair().Size())
			if err != nil {
				t.Fatal(err)
			}
			r = newRigOn(t, d, s, nil)
			for i, body := range [][]byte{join, bodies[0], bodies[1]} {
				resp, err := countersign.ParseResponse(s.Post(t.Context(), r.to, merchant.DefaultNotifyPath, body).Raw)
				if err != nil || (resp.ErrCode == countersign.CodeAccepted) != (i > 0) {
					t.Errorf("body %d: errCode %d, %v", i, resp.ErrCode, err)
				}
			}
		})
	}
}
