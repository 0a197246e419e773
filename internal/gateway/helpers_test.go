package gateway

import (
	"os"
	"testing"

	"countersign/internal/store"
	"countersign/internal/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Run(m)) }

// dialects gives a fresh database of each kind.
var dialects = []struct {
	name string
	url  func(testing.TB) string
}{{"sqlite", storetest.SQLite}, {"postgres", storetest.Postgres}}

var testKeys = store.NewMasterKey([32]byte{9})

func openStore(t testing.TB, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{URL: url, Keys: testKeys})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
