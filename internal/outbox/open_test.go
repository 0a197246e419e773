package outbox

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/db"
	"countersign/internal/lab/endtest"
)

func TestSecretsAreSealed(t *testing.T) {
	for verb := range strings.SplitSeq("v +v #v s x d q", " ") {
		if got := fmt.Sprintf("%"+verb, db.NewMasterKey([32]byte{7, 7, 7})); got != "master key" {
			t.Errorf("%%%s prints %s", verb, got)
		}
	}
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
	endtest.Each(t, End(), func(t *testing.T, url string) {
		s := openAt(t, url)
		addMerchants(t, s, 1, func(m *Merchant) { m.CallbackAPIKey, m.ResponseKey = "very-secret-callback-key", testPair() })
		must(s.UpdateMerchant(ctx, "m0", 5, func(m *Merchant) error { m.Name = "renamed"; return nil }))(t)
		if s.Dialect().Shared {
			ok(t, db.Each(ctx, s, `SELECT CAST(m AS TEXT) FROM merchants m UNION ALL SELECT CAST(m AS TEXT) FROM meta m`, nil, func(r db.Rows) error {
				var text string
				err := r.Scan(&text)
				check(t, "a row", []byte(text))
				return err
			}))
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
