package merchant_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/merchant"
)

// TestOuterForm: what a library or a proxy makes of a body is named, in the answer, in the log and in
// what is kept, and no setting is advised that does not help.
func TestOuterForm(t *testing.T) {
	s := countersigntest.NewService(t)
	var log bytes.Buffer
	var kept []merchant.Refused
	c := s.MerchantConfig()
	c.Inbox, c.Log = merchant.NewMemoryInbox(), slog.New(slog.NewTextHandler(&log, nil))
	c.OnRefused = func(_ context.Context, r merchant.Refused) { kept = append(kept, r) }
	h := must(merchant.New(c))(t)
	body := sealedBody(t, s, countersigntest.Deposit(1))
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = w.Write(body)
	_ = w.Close()
	for _, f := range []struct{ name, encoding, body, word, setting string }{
		{"gzip", "gzip", zipped.String(), "Content-Encoding says gzip: compressed bodies are not taken", ""},
		{"br", "br", "\x0b\x02\x80", "Content-Encoding says br", ""},
		{"gzip, and nothing says so", "", zipped.String(), "compressed", ""},
		{"a byte order mark", "", "\uFEFF" + string(body), "byte order mark (EF BB BF)", ""},
		{"a byte order mark in JSON", "", "\uFEFF{\"data\":\"" + string(body) + `"}`, "byte order mark (EF BB BF)", ""},
		{"URL alphabet", "", strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(string(body)), "URL alphabet", ""},
		{"no padding", "", strings.TrimRight(string(body), "="), "padding is missing", ""},
		{"multipart", "", "--x\r\nContent-Disposition: form-data; name=\"data\"\r\n\r\n" + string(body) + "\r\n--x--\r\n", "multipart/form-data", ""},
		{"nothing", "", "", "nothing there", ""},
		{"another field", "", "payload=" + strings.ReplaceAll(string(body), "+", "%2B"), "without a field data", "--body-field (Profile.BodyField)"},
	} {
		log.Reset()
		kept = nil
		r := httptest.NewRequest(http.MethodPost, merchant.DefaultNotifyPath, strings.NewReader(f.body))
		r.Header.Set("X-API-KEY", s.CallbackAPIKey().Reveal())
		if f.encoding != "" {
			r.Header.Set("Content-Encoding", f.encoding)
		}
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		resp, err := countersign.ParseResponse(answer.Body.Bytes())
		if err != nil || answer.Code != 400 || resp.ErrCode != countersign.CodeCannotOpen || !strings.Contains(resp.Message, f.word) {
			t.Errorf("%s: %d %d %q, %v", f.name, answer.Code, resp.ErrCode, resp.Message, err)
		}
		if !strings.Contains(log.String(), f.word) || strings.Contains(log.String(), "--oaep") {
			t.Errorf("%s: the log says %s", f.name, &log)
		}
		if len(kept) != 1 || kept[0].Setting != f.setting || !strings.Contains(fmt.Sprint(kept[0].Facts), f.word) {
			t.Errorf("%s: kept %+v", f.name, kept)
		}
	}
	if _, err := envelope.ParseKey([]byte("\uFEFF" + s.MerchantKey().PublicBase64())); err == nil || !strings.Contains(err.Error(), "byte order mark") {
		t.Errorf("a key: %v", err)
	}
	if _, err := envelope.ParseSigningKey([]byte("\uFEFF" + envelope.GenerateSigningKey().PublicBase64())); err == nil || !strings.Contains(err.Error(), "byte order mark") {
		t.Errorf("a signing key: %v", err)
	}
}
