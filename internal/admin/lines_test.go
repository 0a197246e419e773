package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/outbox"
)

func deposits(from, to int) iter.Seq[client.NewDeposit] {
	return func(yield func(client.NewDeposit) bool) {
		for i := from; i <= to; i++ {
			if !yield(newDeposit("acme", i)) {
				return
			}
		}
	}
}

// Ten thousand lines stream through; a line in their middle that is at fault
// ends it; sending all again takes the rest and nothing twice.
func TestLinesStreamThrough(t *testing.T) {
	const n, bad = 10_000, 6_321
	h := sqlite(t, func(c *Config) { c.MaxBody, c.RatePerSecond = 16<<10, 1e9 }) // lines have no such limit
	h.merchant("acme")
	c := h.client(client.RoleCore)
	spoiled := func(yield func(client.NewDeposit) bool) {
		for d := range deposits(1, n) {
			if d.TrackingID == fmt.Sprintf("dep-%d", bad) {
				d.RiskLevelFrom = 101
			}
			if !yield(d) {
				return
			}
		}
	}
	taken := 0
	var last error
	for a, err := range c.StreamDeposits(t.Context(), spoiled) {
		if err != nil {
			last = err
			break
		}
		taken++
		if want := fmt.Sprintf("dep-%d", taken); a.TrackingID != want || a.Duplicate {
			t.Fatalf("line %d is about %s, duplicate %v", taken, a.TrackingID, a.Duplicate)
		}
	}
	var line *client.LineError
	if !errors.As(last, &line) || line.Line != bad || len(line.Problem.Faults) != 1 || line.Problem.Faults[0].Location != "body.riskLevelFrom" {
		t.Fatalf("ended with %v, want a fault of line %d", last, bad)
	}
	if taken != bad-1 {
		t.Errorf("%d lines taken, want %d", taken, bad-1)
	}
	if stored := h.stored(); stored != bad-1 {
		t.Errorf("%d callbacks stored, want %d", stored, bad-1)
	}
	again, fresh := 0, 0
	for a, err := range c.StreamDeposits(t.Context(), deposits(1, n)) {
		if err != nil {
			t.Fatal(err)
		}
		if a.Duplicate {
			again++
		} else {
			fresh++
		}
	}
	if again != bad-1 || fresh != n-bad+1 {
		t.Errorf("%d duplicates and %d new, want %d and %d", again, fresh, bad-1, n-bad+1)
	}
	if stored := h.stored(); stored != n {
		t.Errorf("%d callbacks stored, want %d", stored, n)
	}
}

// stored counts pending callbacks.
func (h *harness) stored() (n int64) {
	stats, err := h.store.Stats(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	for _, l := range stats.Lanes {
		if l.State == outbox.CallbackPending {
			n += l.Count
		}
	}
	return n
}

// A conflict that only the store knows of ends it in the same way: what comes
// before it in the same chunk is taken.
func TestLinesUpToAConflict(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme")
	addDeposit(h, newDeposit("acme", 40))
	var body strings.Builder
	for d := range deposits(1, 100) {
		switch d.TrackingID {
		case "dep-40":
			d.Symbol = "OTHER"
		case "dep-50":
			d.Merchant = "none"
		}
		_ = api.EncodeJSON(&body, d)
	}
	a := h.raw(client.RoleCore, post, "/v1/deposits", api.TypeNDJSON, body.String())
	lines := strings.Split(strings.TrimSpace(a.body), "\n")
	var last client.AcceptedLine
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	if a.status != 202 || len(lines) != 40 || last.Line != 40 || last.Error == nil || last.Error.Status != 409 || last.Error.Faults[0].Location != "body.trackingId" {
		t.Errorf("%d, %d lines, the last %+v", a.status, len(lines), last)
	}
	if stored := h.stored(); stored != 40 {
		t.Errorf("%d stored, want 40", stored)
	}
	// The first line of all at fault: an ordinary problem.
	h.raw(client.RoleCore, post, "/v1/deposits", api.TypeNDJSON, encodeLine(t, newDeposit("none", 1))).names(t, 422, "body.merchant")
}

func encodeLine(t *testing.T, d client.NewDeposit) string { return string(encode(t, d)) + "\n" }

// Lines that trickle are committed and answered as they come: the answer to
// one is read before the next is sent.
func TestLinesTrickle(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme")
	s := h.stream(t)
	for i := 2; i <= 5; i++ {
		s.send()
		if text := s.text(); !strings.Contains(text, fmt.Sprintf(`"line":%d,`, i)) {
			t.Fatalf("answer %d: %q", i, text)
		}
	}
	_ = s.body.Close()
	if rest, err := io.ReadAll(s.in); err != nil || len(rest) > 0 {
		t.Errorf("more: %q, %v", rest, err)
	}
}

// A client that goes away leaves whole lines behind and no goroutine that the
// server waits for.
func TestLinesOfAClientThatGoesAway(t *testing.T) {
	h := sqlite(t, func(c *Config) { c.RatePerSecond = 1e9 })
	h.merchant("acme")
	ctx, cancel := context.WithCancel(t.Context())
	taken := 0
	endless := func(yield func(client.NewDeposit) bool) {
		for i := 1; ctx.Err() == nil && yield(newDeposit("acme", i)); i++ {
		}
	}
	for _, err := range h.client(client.RoleCore).StreamDeposits(ctx, endless) {
		if err != nil {
			break
		}
		if taken++; taken == 50 {
			cancel()
		}
	}
	cancel()
	if taken < 50 || h.stored() < 50 {
		t.Errorf("%d answered, %d stored", taken, h.stored())
	}
	if list, err := h.client(client.RoleCore).AddDeposits(t.Context(), newDeposit("acme", 1)); err != nil || !list[0].Duplicate {
		t.Errorf("afterwards: %+v, %v", list, err)
	}
}

// stream is an open request of lines: each is answered before the next is sent.
type stream struct {
	t    *testing.T
	body *io.PipeWriter
	in   *bufio.Reader
	line int64
}

// stream opens one whose first line was taken.
func (h *harness) stream(t *testing.T) *stream {
	t.Helper()
	s := h.open(t)
	text := s.text()
	if l := s.parse(text); l.Line != 1 || l.Error != nil || !strings.Contains(text, `"line":1,`) {
		t.Fatalf("the first line: %q", text)
	}
	return s
}

// open opens one and sends its first line.
func (h *harness) open(t *testing.T) *stream {
	t.Helper()
	body, w := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), post, h.url+"/v1/deposits", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.tokens[client.RoleCore])
	req.Header.Set("Content-Type", api.TypeNDJSON)
	go func() { _, _ = io.WriteString(w, encodeLine(t, newDeposit("acme", 1))) }()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close(); _ = resp.Body.Close() })
	return &stream{t: t, body: w, in: bufio.NewReader(resp.Body), line: 1}
}

// text is the next answer.
func (s *stream) text() string {
	s.t.Helper()
	text, err := s.in.ReadString('\n')
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

func (s *stream) parse(text string) (l client.AcceptedLine) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		s.t.Fatal(err)
	}
	return l
}

func (s *stream) answer() client.AcceptedLine {
	s.t.Helper()
	return s.parse(s.text())
}

// send sends one more line.
func (s *stream) send() {
	s.t.Helper()
	s.line++
	if _, err := io.WriteString(s.body, encodeLine(s.t, newDeposit("acme", int(s.line)))); err != nil {
		s.t.Fatal(err)
	}
}

// next sends one more line and gives its answer.
func (s *stream) next() client.AcceptedLine {
	s.t.Helper()
	s.send()
	return s.answer()
}

// A token that is revoked, at this node or another, takes no line more of a
// request that is open.
func TestLinesOfARevokedToken(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		h.merchant("acme")
		s := h.stream(t)
		if l := s.next(); l.Error != nil {
			t.Fatalf("%+v", l)
		}
		list, err := h.kept.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range list { // as another node does: this one is not told
			if k.Role == client.RoleCore {
				if err := h.kept.Revoke(t.Context(), k.ID, 1, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		l := s.next()
		if l.Line != 3 || l.Error == nil || l.Error.Status != 401 || !strings.Contains(l.Error.Detail, "the lines before this one were taken") {
			t.Errorf("after the revocation: %+v", l)
		}
		if stored := h.stored(); stored != 2 {
			t.Errorf("%d stored, want 2", stored)
		}
	})
}

// A request of lines ends after a time, and says where to go on; also one that
// sends nothing.
func TestLinesEnd(t *testing.T) {
	for name, busy := range map[string]bool{"busy": true, "idle": false} {
		t.Run(name, func(t *testing.T) {
			// A busy machine may need longer than the life for the first line.
			for life := time.Second; ; life *= 2 {
				h := sqlite(t, func(c *Config) { c.StreamLife = life })
				h.merchant("acme")
				s := h.open(t)
				l := s.answer()
				if l.Error != nil && life < time.Minute {
					continue
				}
				for l.Error == nil && busy {
					l = s.next()
				}
				if !busy {
					l = s.answer()
					s.line++
				}
				if l.Line != s.line || l.Error == nil || l.Error.Status != 408 || !strings.Contains(l.Error.Detail, fmt.Sprintf("ends after %v; send this line", life)) {
					t.Errorf("%+v after %d lines", l, s.line-1)
				}
				return
			}
		})
	}
}

// A service that stops ends a request of lines at its next line and says so, also while
// nothing comes. What was answered is in.
func TestLinesEndWhenTheServiceStops(t *testing.T) {
	for name, sends := range map[string]bool{"busy": true, "idle": false} {
		t.Run(name, func(t *testing.T) {
			h := sqlite(t)
			h.merchant("acme")
			s := h.stream(t)
			s.next()
			h.server.Stop()
			var l client.AcceptedLine
			for l.Error == nil && sends { // a line may be on its way
				l = s.next()
			}
			if !sends {
				l = s.answer()
				s.line++
			}
			if l.Line != s.line || l.Error == nil || l.Error.Status != 503 || !strings.Contains(l.Error.Detail, "the lines before this one were taken; the service is stopping") {
				t.Errorf("%+v after %d lines", l, s.line-1)
			}
			if stored := h.stored(); int64(stored) != s.line-1 {
				t.Errorf("%d stored, want %d", stored, s.line-1)
			}
			if _, err := s.in.ReadByte(); err != io.EOF {
				t.Errorf("then %v, want the end of the answer", err)
			}
		})
	}
}

// countedReader counts how often it is read.
type countedReader struct{ reads int }

func (r *countedReader) Read(p []byte) (int, error) {
	r.reads++
	return copy(p, "{}\n"), nil
}

// Where the lines ended while one was handed over, the reader does not wait for another:
// the service would stop only when its time is over.
func TestNoLineIsReadAfterTheEnd(t *testing.T) {
	body := &countedReader{}
	c := &api.Call{R: httptest.NewRequest(post, "/v1/deposits", body)}
	done := make(chan struct{})
	close(done)
	(&Server{}).readLines(c, lineKind{}, http.NewResponseController(httptest.NewRecorder()), make(chan line, maxBatch), done)
	if body.reads != 0 {
		t.Errorf("the body was read %d times", body.reads)
	}
}

// Lines count in the token's rate: they wait until they fit in, and leave room for
// the token's other requests.
func TestLinesCountInTheRate(t *testing.T) {
	h := sqlite(t, func(c *Config) { c.RatePerSecond = 100 })
	h.merchant("acme")
	taken := make(chan struct{}, 1000)
	ended := make(chan error, 1)
	go func() {
		defer close(taken)
		for _, err := range h.client(client.RoleCore).StreamDeposits(t.Context(), deposits(1, 120)) {
			if err != nil {
				ended <- err
				return
			}
			taken <- struct{}{}
		}
		ended <- nil
	}()
	got := 0
	take := func(n int) {
		for ; got < n; got++ {
			<-taken
		}
	}
	take(49) // the request itself was one
	time.Sleep(200 * time.Millisecond)
	if n := len(taken); n > 0 {
		t.Errorf("%d lines more than the rate lets in", n)
	}
	if _, err := h.client(client.RoleViewer).Merchants(t.Context(), client.PageOptions{}); err != nil {
		t.Errorf("another request of the token: %v", err)
	}
	h.pass(time.Second)
	take(99)
	h.pass(time.Second)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if stored := h.stored(); stored != 120 {
		t.Errorf("%d stored", stored)
	}
}

// A reader who waits for an entry of a feed is turned away when the token is
// revoked.
func TestWaitingReaderOfARevokedToken(t *testing.T) {
	h := sqlite(t)
	list, err := h.kept.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := h.client(client.RoleViewer).Decisions(t.Context(), client.FeedOptions{Wait: time.Minute})
		ended <- err
	}()
	time.Sleep(100 * time.Millisecond) // most likely it waits
	for _, k := range list {
		if k.Role == client.RoleViewer {
			if err := h.kept.Revoke(t.Context(), k.ID, 1, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	select {
	case err := <-ended:
		if !errors.Is(err, client.ErrUnauthorized) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(5 * time.Minute):
		t.Error("it waits on")
	}
}

func TestGather(t *testing.T) {
	lines := make(chan line, 2*maxBatch)
	for i := range maxBatch + 3 {
		lines <- line{number: int64(i + 1)}
	}
	lines <- line{number: maxBatch + 4, fault: api.Invalid()}
	lines <- line{number: maxBatch + 5}
	close(lines)
	for i, want := range []struct {
		n    int
		more bool
	}{{maxBatch, true}, {4, true}, {1, false}, {0, false}} {
		chunk, more := gather(t.Context(), lines)
		if len(chunk) != want.n || more != want.more {
			t.Errorf("chunk %d: %d lines, more %v; want %d, %v", i, len(chunk), more, want.n, want.more)
		}
	}
}

// How long a batch takes from the first byte to the answer.
func BenchmarkBatchOverHTTP(b *testing.B) {
	h := sqlite(b, func(c *Config) { c.RatePerSecond = 1e9 })
	h.merchant("acme")
	c := h.client(client.RoleCore)
	list := make([]client.NewDeposit, maxBatch)
	n := 0
	var worst time.Duration
	for b.Loop() {
		for i := range list {
			n++
			list[i] = newDeposit("acme", n)
		}
		start := time.Now()
		if _, err := c.AddDeposits(b.Context(), list...); err != nil {
			b.Fatal(err)
		}
		worst = max(worst, time.Since(start))
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "deposits/s")
	b.ReportMetric(float64(worst.Milliseconds()), "worst-ms/batch")
}

func BenchmarkLinesOverHTTP(b *testing.B) {
	h := sqlite(b, func(c *Config) { c.RatePerSecond = 1e9 })
	h.merchant("acme")
	c := h.client(client.RoleCore)
	const n = 10_000
	from := 1
	for b.Loop() {
		for _, err := range c.StreamDeposits(b.Context(), deposits(from, from+n-1)) {
			if err != nil {
				b.Fatal(err)
			}
		}
		from += n
	}
	b.ReportMetric(float64(from-1)/b.Elapsed().Seconds(), "deposits/s")
}
