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

// TestLearnOuterForm: the note to the provider and the comments of the settings name what a library or a proxy makes of a body, and what the
// provider must change. No setting is advised.
func TestLearnOuterForm(t *testing.T) {
	s := newService(t, countersigntest.ServiceConfig{Unbound: true})
	sealed, _, err := s.Body(countersigntest.Deposit(1))
	if err != nil {
		t.Fatal(err)
	}
	body := string(sealed)
	for name, c := range map[string]struct{ body, word string }{
		"gzip":            {"\x1f\x8b\x08" + body, "it is compressed: the sender must send it as it is"},
		"byte order mark": {"\uFEFF" + body, "byte order mark (EF BB BF): the sender must leave that out"},
		"multipart":       {"--x\r\nContent-Disposition: form-data; name=\"data\"\r\n\r\n" + body + "\r\n--x--\r\n", "it is multipart/form-data: the sender must post the bare Base64"},
		"URL alphabet":    {strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(body), "URL alphabet"},
		"no padding":      {strings.TrimRight(body, "="), "padding is missing"},
		"nothing":         {"", "nothing there"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigOn(t, openDB(t, dialects[0].url(t)), s, func(c *Config) { c.Learn = true })
			w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, merchant.DefaultNotifyPath, strings.NewReader(c.body))
			req.Header.Set(merchant.DefaultHeader, s.CallbackAPIKey().Reveal())
			if r.Callbacks().ServeHTTP(w, req); w.Code != http.StatusOK {
				t.Fatal(w.Code, w.Body)
			}
			learned, err := r.client.Learned(t.Context())
			if !strings.Contains(learned.Note, c.word) || !strings.Contains(learned.Note, "sealed blocks in standard Base64, with + and / and padding, and nothing else") {
				t.Errorf("the note: %s", learned.Note)
			}
			if err != nil || !strings.Contains(learned.Settings, c.word) || strings.Contains(learned.Settings, "oaep") || strings.Contains(learned.Settings, "body-field") {
				t.Errorf("the settings: %s, %v", learned.Settings, err)
			}
		})
	}
}
