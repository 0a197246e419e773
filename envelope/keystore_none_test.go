//go:build !pkcs11 || !cgo

package envelope

import (
	"errors"
	"strings"
	"testing"
)

// TestNoKeyStores: a build without modules says which build has them.
func TestNoKeyStores(t *testing.T) {
	_, err := OpenKeyStore(KeyStoreConfig{URI: "pkcs11:token=a?module-path=/m&pin-source=file:/p"})
	if !errors.Is(err, ErrNoKeyStores) || !strings.Contains(err.Error(), "-tags pkcs11") {
		t.Errorf("%v", err)
	}
}
