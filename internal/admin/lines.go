package admin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"runtime/debug"
	"time"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/outbox"
)

// Limits of what is sent as lines.
const (
	maxLine     = 16 << 10         // bytes of one line; the longest valid deposit or withdrawal has fewer
	lineTimeout = time.Minute      // without a line, or without the client reading its answers
	defaultLife = 10 * time.Minute // of one request; its end says how far it got
	drainLimit  = 64 << 20         // bytes read and thrown away after a fault
	drainFor    = 10 * time.Second // likewise
	stoppedFor  = time.Second      // likewise, if the service stops
)

// line is one line that has been read: a callback or a withdrawal, or what is wrong with it.
type line struct {
	number     int64
	size       int // bytes that it holds of the budget of bodies
	merchant   string
	callback   outbox.NewCallback
	withdrawal outbox.NewWithdrawal
	fault      *client.Problem
}

// lineKind is what the lines of a route hold.
type lineKind struct {
	// read checks a line and fills l.
	read func(c *api.Call, text []byte, l *line) error
	// keep commits lines, all or none.
	keep func(c *api.Call, list []line) ([]keptLine, error)
}

// keptLine is what became of a line.
type keptLine struct {
	answer func(number int64) any // the line of the answer
	traced api.Traced
}

// linesOf makes h take lines of a kind beside objects and arrays.
func (s *Server) linesOf(h api.Handler, kind lineKind, in, out reflect.Type) api.Handler {
	h.Lines, h.LineIn, h.LineOut = func(c *api.Call) error { return s.addLines(c, kind) }, in, out
	return h
}

// addLines takes items one a line. Lines are committed in their
// order, up to maxBatch at once, and answered one a line as soon as they are
// committed. The first line at fault ends it: those before are taken, it and
// those after are not, and the last line of the answer says so. Where the very
// first line is at fault nothing was taken and the answer is an ordinary
// problem. A token that is revoked meanwhile, the end of StreamLife and a service that
// stops are such faults too, of the first line that was not taken. Each line counts in the
// token's rate; lines wait where requests are refused.
//
// One goroutine reads while this one commits, so that each commit has all lines
// that have arrived meanwhile. Neither the body nor the answer is ever held in
// memory whole.
func (s *Server) addLines(c *api.Call, kind lineKind) error {
	conn := http.NewResponseController(c.W)
	// Without full duplex the server would read the rest of the body before the
	// first byte of the answer. A test's recorder does not support it and does not
	// need it.
	_ = conn.EnableFullDuplex()
	lines := make(chan line, maxBatch)
	done := make(chan struct{})
	readerGone := make(chan struct{})
	go func() {
		defer close(readerGone)
		defer close(lines)
		s.readLines(c, kind, conn, lines, done)
	}()
	life, cancel := context.WithTimeout(c.R.Context(), s.StreamLife)
	defer cancel()
	go func() {
		select {
		case <-s.api.Stopping():
			cancel()
		case <-life.Done():
		}
	}()
	watched := make(chan struct{})
	go func() { // while no line comes nothing else looks at the token
		defer close(watched)
		if c.TokenEnds(life) {
			cancel()
		}
	}()
	defer func() { cancel(); <-watched }() // it reads the request
	err := s.commitLines(life, c, kind, conn, lines)
	close(done)
	defer func() {
		for l := range lines { // those that were read and not taken
			c.Release(l.size)
		}
	}()
	if err != nil {
		if !c.W.Answered() {
			api.WriteProblem(c.W, s.api.ProblemOf(err))
			_ = conn.Flush()
		}
		// The client may still be sending. It reads the answer only if the
		// connection stays open, so the rest of the body is read and discarded,
		// within bounds.
		drain := drainFor
		if s.stopping() {
			drain, err = stoppedFor, api.ErrStopping
		}
		deadline := time.Now().Add(drain)
		_ = conn.SetReadDeadline(deadline)
		<-readerGone
		_ = conn.SetReadDeadline(deadline) // the reader may have set its own after it
		_, _ = io.CopyN(io.Discard, c.R.Body, drainLimit)
	}
	<-readerGone
	return err
}

// readLines reads and checks lines until the body ends, one is at fault, or
// done is closed.
func (s *Server) readLines(c *api.Call, kind lineKind, conn *http.ResponseController, lines chan<- line, done <-chan struct{}) {
	put := func(l line) bool {
		select {
		case lines <- l:
			return l.fault == nil
		case <-done:
			c.Release(l.size)
			return false
		}
	}
	defer func() { // outside the handler's goroutine a panic would end the process
		if v := recover(); v != nil {
			s.Log.Error("panic", "route", c.Endpoint().Pattern(), "stack", string(debug.Stack()))
			put(line{fault: s.api.ProblemOf(errors.New("panic"))})
		}
	}()
	in := bufio.NewReaderSize(c.R.Body, maxLine)
	for n := int64(1); ; n++ {
		_ = conn.SetReadDeadline(time.Now().Add(lineTimeout))
		select {
		case <-done: // else it would wait here for all of lineTimeout
			return
		default:
		}
		text, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			put(line{number: n, fault: api.NewProblem(http.StatusRequestEntityTooLarge, "", api.At("body", fmt.Sprintf("is a line of more than %d bytes", maxLine)))})
			return
		case err != nil && err != io.EOF:
			put(line{number: n, fault: api.NewProblem(http.StatusBadRequest, "the body could not be read")})
			return
		}
		if len(bytes.TrimSpace(text)) > 0 && !put(s.readLine(c, kind, n, text)) {
			return
		}
		if err == io.EOF {
			// The server reads on, to see the client leave. At the deadline it would
			// think so while lines still wait.
			_ = conn.SetReadDeadline(time.Time{})
			return
		}
	}
}

func (s *Server) readLine(c *api.Call, kind lineKind, n int64, text []byte) line {
	l := line{number: n}
	if err := c.Hold(len(text)); err != nil {
		l.fault = s.api.ProblemOf(err)
		return l
	}
	l.size = len(text)
	if err := kind.read(c, text, &l); err != nil {
		l.fault = s.api.ProblemOf(err)
	}
	return l
}

// commitLines commits what has been read and answers it, until lines is closed
// or a line is at fault.
func (s *Server) commitLines(life context.Context, c *api.Call, kind lineKind, conn *http.ResponseController, lines <-chan line) error {
	out := bufio.NewWriterSize(c.W, 64<<10)
	next := int64(1)   // number of the line that comes next
	var waiting []line // have come and do not fit in the token's rate yet
	defer func() { release(c, waiting) }()
	for more := true; more || len(waiting) > 0; {
		if len(waiting) == 0 {
			waiting, more = gather(life, lines)
		}
		if len(waiting) > 0 {
			next = waiting[0].number
		}
		from := time.Now()
		var chunk []line
		var taken []keptLine
		var bad *line
		if len(waiting) > 0 || more && life.Err() != nil {
			n, fault := s.mayTake(life, c, len(waiting))
			chunk, waiting = waiting[:n], waiting[n:]
			if fault != nil {
				bad = &line{number: next, fault: fault}
			} else {
				taken, bad = s.takeLines(c, kind, chunk)
			}
			release(c, chunk)
		}
		if len(taken) > 0 {
			next = chunk[len(taken)-1].number + 1
		}
		if !c.W.Answered() {
			switch {
			case bad != nil && len(taken) == 0:
				bad.fault.Detail = fmt.Sprintf("line %d: %s; nothing was taken", bad.number, or(bad.fault.Detail, bad.fault.Title))
				return bad.fault
			case len(chunk) == 0:
				return api.NewProblem(http.StatusBadRequest, "", api.At("body", "is empty"))
			}
			c.WriteHeader(api.TypeNDJSON)
		}
		c.Items += len(taken)
		c.WriteWithin(lineTimeout)
		for i, k := range taken {
			c.Trace(from, k.traced)
			_ = api.EncodeJSON(out, k.answer(chunk[i].number))
		}
		if bad != nil {
			_ = api.EncodeJSON(out, client.AcceptedLine{Line: bad.number, Error: bad.fault})
		}
		// If the client is gone, committed lines stay accepted; sending them again
		// gives duplicates.
		if err := out.Flush(); err != nil {
			return fmt.Errorf("answering lines: %w", err)
		}
		_ = conn.Flush()
		if bad != nil {
			return bad.fault
		}
	}
	return nil
}

// release returns what lines hold of the budget of bodies.
func release(c *api.Call, lines []line) {
	for i := range lines {
		c.Release(lines[i].size)
		lines[i].size = 0
	}
}

// mayTake waits until lines fit in the token's rate and says how many of most do, or
// why none is taken: the token was revoked, the request has gone on for too long, or
// the service stops.
func (s *Server) mayTake(life context.Context, c *api.Call, most int) (n int, fault *client.Problem) {
	n, err := c.Spend(life, most)
	switch {
	case c.R.Context().Err() != nil: // the client is gone
		err = c.R.Context().Err()
	case s.stopping():
		err = api.ErrStopping
	default:
		over := err != nil || life.Err() != nil
		if err = c.CheckToken(); err == nil && over {
			err = api.NewProblem(http.StatusRequestTimeout,
				fmt.Sprintf("a request of lines ends after %v; send this line and those after it in a new one", s.StreamLife))
		}
	}
	if err == nil {
		return n, nil
	}
	p := *s.api.ProblemOf(err) // a copy: some problems are shared
	if c.W.Answered() {
		p.Detail = "the lines before this one were taken; " + or(p.Detail, p.Title)
	}
	return 0, &p
}

func (s *Server) stopping() bool {
	select {
	case <-s.api.Stopping():
		return true
	default:
		return false
	}
}

// gather waits for a line and takes those that are there beside it, up to
// maxBatch. more is false at the end of the lines. At the end of life it gives none, and
// more is false only if there is none.
func gather(life context.Context, lines <-chan line) (chunk []line, more bool) {
	var l line
	var ok bool
	select {
	case l, ok = <-lines:
	case <-life.Done():
		select {
		case _, more = <-lines: // a line that is not taken
			return nil, more
		default:
			return nil, true
		}
	}
	for ok {
		chunk = append(chunk, l)
		if l.fault != nil || len(chunk) == maxBatch {
			return chunk, true
		}
		select {
		case l, ok = <-lines:
		default:
			return chunk, true
		}
	}
	return chunk, false
}

// takeLines commits the lines of chunk up to the first at fault.
func (s *Server) takeLines(c *api.Call, kind lineKind, chunk []line) (taken []keptLine, bad *line) {
	n := 0
	for ; n < len(chunk) && chunk[n].fault == nil; n++ {
		c.Concerns(chunk[n].merchant)
	}
	if n < len(chunk) {
		bad = &chunk[n]
	}
	taken, fault := s.keepLines(c, kind, chunk[:n])
	if fault != nil {
		bad = &line{number: chunk[len(taken)].number, fault: fault}
	}
	return taken, bad
}

// keepLines commits lines. A fault is about the first that was not accepted.
func (s *Server) keepLines(c *api.Call, kind lineKind, list []line) ([]keptLine, *client.Problem) {
	if len(list) == 0 {
		return nil, nil
	}
	taken, err := kind.keep(c, list)
	if err == nil {
		return taken, nil
	}
	at, fault := itemProblem(err, func(int) string { return "body" })
	if over := (*outbox.QuotaError)(nil); errors.As(err, &over) {
		at, fault = int(over.Left), s.api.ProblemOf(err)
		if at > 0 { // that many fit, and more where some of them are no new ones
			taken, earlier := s.keepLines(c, kind, list[:at])
			if earlier != nil {
				return taken, earlier
			}
			rest, fault := s.keepLines(c, kind, list[at:])
			return append(taken, rest...), fault
		}
	}
	if at < 0 {
		s.Log.Error("request failed", "token", c.Token.ID, "route", c.Endpoint().Pattern(), "error", err.Error())
		return nil, s.api.ProblemOf(err)
	}
	taken, earlier := s.keepLines(c, kind, list[:at])
	if earlier != nil {
		return taken, earlier
	}
	return taken, fault
}
