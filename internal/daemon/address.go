package daemon

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
)

// AddressFile is the file of a data directory that holds the address of the daemon's API. A command that takes the
// token from a data directory sends it to no other address.
const AddressFile = "api.json"

// The names of the ends in data directories.
const (
	ServiceEnd = "service"
	GatewayEnd = "gateway"
)

// Address is the address of an API.
type Address struct {
	URL string `json:"url"`
	// End is whose API it is: ServiceEnd or GatewayEnd.
	End string `json:"end"`
	// Certificate is the SHA-256 of the certificate in hexadecimal digits. Empty: plain HTTP.
	Certificate string `json:"certificate,omitempty"`
}

// ReadAddress reads the file of a data directory. Its error wraps fs.ErrNotExist if no daemon has run.
func ReadAddress(dir string) (a Address, err error) {
	b, err := ReadSecretOf(dir, AddressFile, 1<<20)
	if err := AllowExposed(err); err != nil {
		return a, err
	}
	if err := json.Unmarshal(b, &a); err != nil || a.URL == "" {
		return a, fmt.Errorf("%s has no address of an API; the daemon writes it when it starts",
			filepath.Join(dir, AddressFile))
	}
	return a, nil
}

// EndOf returns the end whose data directory dir is, or "" if dir does not say.
func EndOf(dir string) string {
	a, _ := ReadAddress(dir) // without one it does not say
	return a.End
}

// Verify is a tls.Config.VerifyConnection that accepts only the certificate of a.
func (a Address) Verify(c tls.ConnectionState) error {
	if len(c.PeerCertificates) == 0 || fingerprintOf(c.PeerCertificates[0].Raw) != a.Certificate {
		return errors.New("its certificate is not the one that the daemon noted in its data directory (" + AddressFile + ")")
	}
	return nil
}

func fingerprintOf(leaf []byte) string {
	sum := sha256.Sum256(leaf)
	return hex.EncodeToString(sum[:])
}

// noteAddress returns a ListenConfig.Note that writes the file. A daemon starts even if the file cannot be written.
func (s Storage) noteAddress(end string, log *slog.Logger) func(url string, secure *tls.Config) {
	return func(url string, secure *tls.Config) {
		a := Address{URL: url, End: end}
		if secure != nil {
			a.Certificate = fingerprintOf(secure.Certificates[0].Certificate[0])
		}
		if err := s.replaceJSON(AddressFile, a); err != nil {
			log.Warn("the address of the API was not noted, so commands need --api", "file", AddressFile, "error", err.Error())
		}
	}
}
