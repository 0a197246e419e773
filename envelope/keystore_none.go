//go:build !pkcs11 || !cgo

package envelope

// openDevice has no modules in this build.
func openDevice(tokenURI, int) (device, error) { return nil, ErrNoKeyStores }
