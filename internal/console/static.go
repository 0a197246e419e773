package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"time"
)

//go:embed static
var staticFiles embed.FS

// staticFile is a file with the digest that its address carries, so that a browser keeps
// it until it changes.
type staticFile struct {
	content []byte
	digest  string
}

var statics = func() map[string]staticFile {
	entries, err := staticFiles.ReadDir("static")
	if err != nil {
		panic(err) // embedded
	}
	files := map[string]staticFile{}
	for _, e := range entries {
		b, err := staticFiles.ReadFile("static/" + e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(b)
		files[e.Name()] = staticFile{b, hex.EncodeToString(sum[:8])}
	}
	return files
}()

func staticURL(name string) string { return "/console/static/" + name + "?" + statics[name].digest }

func serveStatic(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	f, ok := statics[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "no-cache")
	if r.URL.RawQuery == f.digest {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	w.Header().Set("ETag", `"`+f.digest+`"`)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.content))
}
