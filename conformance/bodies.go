package conformance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// bodySuffix ends the names of kept bodies.
const bodySuffix = ".b64"

// keep writes body to a file that is not there yet.
func (h *Listener) keep(body []byte) string {
	if h.c.Keep == "" {
		return ""
	}
	for i := h.n; ; i++ {
		path := filepath.Join(h.c.Keep, fmt.Sprintf("%05d"+bodySuffix, i))
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err == nil {
			_, err = f.Write(body)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return fmt.Sprintf("kept       no: %v\n", err)
		}
		return fmt.Sprintf("kept       %s\n", path)
	}
}

// Bodies reads bodies that were kept or captured: the files at the paths, and in directories those whose
// name ends as that of a kept one, in the order of their names.
func Bodies(paths []string) (bodies [][]byte, err error) {
	for _, path := range paths {
		files := []string{path}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(path, "*"+bodySuffix)); err != nil || files == nil { // sorted
				return nil, errors.Join(err, fmt.Errorf("%s has no file that ends with %s", path, bodySuffix))
			}
		}
		for _, file := range files {
			body, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			bodies = append(bodies, body)
		}
	}
	return bodies, nil
}
