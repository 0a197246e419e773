package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
)

//go:embed static
var staticFiles embed.FS

// staticURL returns the address of a file. It contains the file's digest, so that a browser caches the file until it
// changes.
func staticURL(name string) (string, error) {
	b, err := staticFiles.ReadFile("static/" + name)
	sum := sha256.Sum256(b)
	return "/console/static/" + name + "?" + hex.EncodeToString(sum[:8]), err
}

func serveStatic(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	w.Header().Set("Cache-Control", "no-cache")
	if at, err := staticURL(name); err == nil && r.URL.RequestURI() == at {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeFileFS(w, r, staticFiles, "static/"+name)
}
