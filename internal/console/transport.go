package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
)

// directTransport calls an API's handler without a connection.
type directTransport struct {
	API http.Handler
	// Remote is the caller's address as the handler sees it, such as the browser's. Wrong guesses of tokens count
	// against it.
	Remote string
}

// RoundTrip answers once the handler has returned.
func (t directTransport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	in := r.Clone(r.Context())
	in.RemoteAddr, in.RequestURI = t.Remote, r.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	defer func() {
		if p := recover(); p != nil { // http.ErrAbortHandler: the API handles the others
			resp, err = nil, fmt.Errorf("the API broke off: %v", p)
		}
	}()
	w := httptest.NewRecorder()
	t.API.ServeHTTP(w, in)
	return w.Result(), nil
}
