package merchant

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"countersign"
	"countersign/internal/web"
)

// readBody reads the whole body, at most MaxBody bytes of it, for at most
// BodyTimeout. If deadline is true, the caller has set the connection's read
// deadline. If it is false, because a middleware hides the connection, the read
// goes on in its goroutine after the time-out and ends with the connection. The caller
// frees the body, also one that is refused.
func (h *Handler) readBody(r *http.Request, deadline bool) (web.Body, *reply) {
	if r.ContentLength > int64(h.c.MaxBody) {
		return web.Body{}, tooLarge(fmt.Errorf("Content-Length is %d", r.ContentLength))
	}
	if r.Body == nil {
		return web.Body{}, bodyProblem(r, 0, nil)
	}
	if deadline {
		return h.readAll(r)
	}
	type result struct {
		body    web.Body
		refused *reply
	}
	done := make(chan result, 1)
	go func() {
		body, refused := h.readAll(r)
		done <- result{body, refused}
	}()
	timer := time.NewTimer(h.c.BodyTimeout)
	defer timer.Stop()
	select {
	case got := <-done:
		return got.body, got.refused
	case <-timer.C:
		select {
		case got := <-done: // both at the same time: the body did come in time
			return got.body, got.refused
		default:
			go func() {
				late := <-done
				late.body.Free()
			}()
			return web.Body{}, tooSlow(errors.New("reading the body: time-out"))
		}
	}
}

func (h *Handler) readAll(r *http.Request) (web.Body, *reply) {
	body, err := web.ReadBody(r.Body, r.ContentLength, h.c.MaxBody, h.bodies)
	switch {
	case errors.Is(err, web.ErrTooLong):
		return body, tooLarge(fmt.Errorf("more than %d bytes", h.c.MaxBody))
	case errors.Is(err, web.ErrBudget):
		return body, overloaded(err)
	}
	return body, bodyProblem(r, len(body.Bytes), err)
}

// bodyProblem returns what is wrong with a body of which n bytes came before err or,
// if err is nil, before its end. It is nil for a complete body.
func bodyProblem(r *http.Request, n int, err error) *reply {
	var limit *http.MaxBytesError
	switch {
	case errors.Is(err, http.ErrBodyReadAfterClose):
		return consumed(r, n)
	case errors.As(err, &limit):
		return tooLarge(err)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return tooSlow(err)
	case err != nil:
		return refuse(http.StatusBadRequest, countersign.CodeCannotOpen, wordCut, ReasonBodyCut, err)
	// net/http reports a body that ends before its Content-Length. One that
	// ends early without an error was read before the handler.
	case int64(n) < r.ContentLength, n == 0 && formParsed(r):
		return consumed(r, n)
	}
	return nil
}

func formParsed(r *http.Request) bool {
	return r.Form != nil || r.PostForm != nil || r.MultipartForm != nil
}

func consumed(r *http.Request, n int) *reply {
	cause := fmt.Errorf("only %d of %d bytes of the body were left: a middleware read them, and the handler needs them raw",
		n, r.ContentLength)
	if formParsed(r) {
		cause = errors.New("a middleware has parsed the request as a form (ParseForm, FormValue or a framework's Bind), " +
			"which consumes the body; mount the handler before it")
	}
	return refuse(http.StatusBadRequest, countersign.CodeCannotOpen, wordConsumed, ReasonBodyConsumed, cause)
}

func tooLarge(cause error) *reply {
	return refuse(http.StatusRequestEntityTooLarge, countersign.CodeCannotOpen, wordTooLarge, ReasonTooLarge, cause)
}

func tooSlow(cause error) *reply {
	return refuse(http.StatusRequestTimeout, countersign.CodeCannotOpen, wordSlow, ReasonBodySlow, cause)
}
