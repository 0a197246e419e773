package main

import (
	"cmp"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/envelope"
)

// recorder is a merchant that answers honestly and writes down when each
// request came and when its answer left.
type recorder struct {
	*httptest.Server
	mu       sync.Mutex
	key      *envelope.Key
	requests []*recorded
	loses    bool // now and then it does what it should and the answer is lost
	quick    bool // answers at once, and only counts
	counts   map[string]int
	refuses  bool // answers that it takes nothing
}

// recorded is one request that the merchant got.
type recorded struct {
	event        string // D and W with a number, as the load makes them
	path         string
	uuid         string
	withdraw     bool
	began, ended time.Time
	gone         bool // the sender had left before the answer: nobody knows when
}

func newRecorder(t *testing.T) *recorder {
	m := &recorder{counts: map[string]int{}}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.Close)
	return m
}

func (m *recorder) serve(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m.mu.Lock()
	key, loses, quick, refuses := m.key, m.loses, m.quick, m.refuses
	m.mu.Unlock()
	plain, err := envelope.Open(key, envelope.PKCS1v15, body)
	if err != nil || countersign.CheckBinding(plain) != countersign.BindingHolds {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	c, err := countersign.ParseCallback(plain, countersign.ParseOptions{})
	if err != nil {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	seen := &recorded{uuid: c.UUID(), event: c.EventID(), path: r.URL.Path, began: began}
	switch c.CallbackType() {
	case countersign.TypeRequestWithdraw:
		seen.withdraw = true
	case countersign.TypeWithdraw:
		seen.event = "done " + c.OrderID()
	case countersign.TypeInvalidAddress:
		seen.event = "ended " + c.OrderID()
	}
	m.mu.Lock()
	m.counts[seen.event]++
	if !quick {
		m.requests = append(m.requests, seen)
	}
	m.mu.Unlock()
	// The answer leaves when this function has returned.
	defer func() {
		m.mu.Lock()
		seen.ended, seen.gone = time.Now(), r.Context().Err() != nil
		m.mu.Unlock()
	}()
	if !quick {
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
	}
	if loses && rand.IntN(50) == 0 {
		panic(http.ErrAbortHandler)
	}
	if refuses {
		b, err := countersign.Response{APIKey: killAPIKey, ErrCode: 2003, Message: "refused"}.Marshal()
		if err != nil {
			panic(err)
		}
		_, _ = w.Write(b)
		return
	}
	b, err := answerTo(c, key)
	if err != nil {
		panic(err)
	}
	data, err := envelope.Seal(key, envelope.PKCS1v15, b)
	if err != nil {
		panic(err)
	}
	b, err = countersign.Response{APIKey: killAPIKey, Data: string(data)}.Marshal()
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(b)
}

// count is how many events the merchant knows of.
func (m *recorder) count() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(len(m.counts))
}

// change makes the merchant another one.
func (m *recorder) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// all gives the requests whose answers have left, in order of their arrival.
func (m *recorder) all() (list []recorded) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.requests {
		if !r.ended.IsZero() {
			list = append(list, *r)
		}
	}
	slices.SortStableFunc(list, func(a, b recorded) int { return a.began.Compare(b.began) })
	return list
}

// most is how many requests of a lane the merchant had at once.
func most(list []recorded, withdraw bool) int {
	type edge struct {
		at time.Time
		n  int
	}
	var edges []edge
	for _, r := range list {
		if r.withdraw == withdraw && !r.gone {
			edges = append(edges, edge{r.began, 1}, edge{r.ended, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), a.n-b.n) })
	now, top := 0, 0
	for _, e := range edges {
		now += e.n
		top = max(top, now)
	}
	return top
}

// checkOnceAtATime fails where one callback was with the merchant twice at the
// same time.
func checkOnceAtATime(t *testing.T, list []recorded) {
	t.Helper()
	last := map[string]recorded{}
	for _, r := range list {
		if r.gone {
			continue
		}
		if before, ok := last[r.event]; ok && r.began.Before(before.ended) {
			t.Errorf("%s was in two attempts at once: %v to %v, and from %v", r.event, before.began, before.ended, r.began)
		}
		if before, ok := last[r.event]; !ok || r.ended.After(before.ended) {
			last[r.event] = r
		}
	}
}
