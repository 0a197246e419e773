package outbox

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/db"
)

func TestMasterKey(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			url := d.url(t)
			s := openAt(t, url)
			addMerchants(t, s, 1, nil)
			s.Close()
			wrong, err := db.Open(ctx, db.Config{URL: url, Keys: db.NewMasterKey([32]byte{8})}, End())
			if !errors.Is(err, db.ErrMasterKey) {
				t.Fatalf("another key opens it: %v, %v", wrong, err)
			}
			// The refused one has let go of the file, and the right key still opens.
			s = openAt(t, url)
			if m := must(s.Merchant(ctx, "m0"))(t); m.APIKey.Reveal() != "api-key-of-m0" {
				t.Error("the secrets came back changed")
			}
		})
	}
	for verb := range strings.SplitSeq("v +v #v s x d q", " ") {
		if got := fmt.Sprintf("%"+verb, db.NewMasterKey([32]byte{7, 7, 7})); got != "master key" {
			t.Errorf("%%%s prints %s", verb, got)
		}
	}
}

func TestSecretsAreSealed(t *testing.T) {
	pem := must(testPair().PrivatePEM())(t)
	secrets := map[string][]byte{
		"API key": []byte("api-key-of-m0"), "callback API key": []byte("very-secret-callback-key"),
		"private key (PEM)": pem[40:80], "public key": []byte(testPair().PublicBase64()[20:60]), "data key seal": []byte("countersign data key"),
	}
	check := func(t *testing.T, where string, data []byte) {
		for name, secret := range secrets {
			if bytes.Contains(data, secret) || bytes.Contains(data, []byte(hex.EncodeToString(secret))) {
				t.Errorf("%s holds the %s in clear", where, name)
			}
		}
	}
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			url := d.url(t)
			s := openAt(t, url)
			addMerchants(t, s, 1, func(m *Merchant) { m.CallbackAPIKey, m.ResponseKey = "very-secret-callback-key", testPair() })
			must(s.UpdateMerchant(ctx, "m0", 5, func(m *Merchant) error { m.Name = "renamed"; return nil }))(t)
			if d.name == "postgres" {
				err := db.Each(ctx, s, `SELECT CAST(m AS TEXT) FROM merchants m UNION ALL SELECT CAST(m AS TEXT) FROM meta m`, nil, func(r db.Rows) error {
					var text string
					err := r.Scan(&text)
					check(t, "a row", []byte(text))
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			s.Close()
			files := must(filepath.Glob(url + "*"))(t)
			for _, f := range files {
				check(t, filepath.Base(f), must(os.ReadFile(f))(t))
			}
			if len(files) == 0 {
				t.Error("no files")
			}
		})
	}
}

func TestClosed(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			s := openAt(t, d.url(t))
			addMerchants(t, s, 1, nil)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Ingest(ctx, []NewCallback{deposit("m0", "a", 1)}, 1); !errors.Is(err, db.ErrClosed) {
				t.Errorf("ingest gives %v", err)
			}
			if err := s.Ping(ctx); err == nil {
				t.Error("it answers")
			}
			if err := s.Close(); err != nil {
				t.Errorf("closing again: %v", err)
			}
		})
	}
}
