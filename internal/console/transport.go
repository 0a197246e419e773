package console

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// directTransport calls an API's handler without a connection.
type directTransport struct {
	API http.Handler
	// Remote is the address that the handler sees as the caller's, such as that of the
	// browser: guesses of tokens count against it.
	Remote string
}

// RoundTrip answers once the handler has returned.
func (t directTransport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	in := r.Clone(r.Context())
	in.RemoteAddr, in.RequestURI = t.Remote, r.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := &buffered{header: http.Header{}}
	defer func() {
		if p := recover(); p != nil { // http.ErrAbortHandler: the API handles the others
			resp, err = nil, fmt.Errorf("the API broke off: %v", p)
		}
	}()
	t.API.ServeHTTP(w, in)
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: r.Proto, ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// buffered is a http.ResponseWriter that keeps the answer.
type buffered struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *buffered) Header() http.Header { return w.header }

func (w *buffered) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *buffered) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}
