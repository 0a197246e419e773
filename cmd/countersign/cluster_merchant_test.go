package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/merchant"
)

// recorder is countersigntest's merchant, which knows the orders of orderOf, with a note of
// when each request came and when its answer left.
type recorder struct {
	*httptest.Server
	mu       sync.Mutex
	key      *envelope.Key
	merchant *countersigntest.Merchant
	requests []*recorded
	loses    bool // now and then it does what it should and the answer is lost
	counts   map[string]int
	refuses  bool // answers that it takes nothing
}

const testAPIKey countersign.APIKey = "test-merchant"

// orderOf is what the merchant knows of every withdrawal.
func orderOf(callBackID string) countersign.Details {
	a, err := countersign.ParseAmount("1.0" + fmt.Sprint(len(callBackID)))
	if err != nil {
		panic(err)
	}
	return countersign.Details{Address: "T" + callBackID, ChainName: "TRON", Symbol: "USDT", Amount: a}
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

// setKey returns the merchant the key that the service made.
func (m *recorder) setKey(t *testing.T, public string) {
	t.Helper()
	key, err := envelope.ParseKey([]byte(public))
	if err != nil {
		t.Fatal(err)
	}
	made, err := countersigntest.MakeMerchant(countersigntest.MerchantConfig{Key: key, APIKey: testAPIKey,
		Orders: func(callBackID string) (countersign.Details, bool) { return orderOf(callBackID), true },
		Fault: func(int, countersign.Callback) countersigntest.MerchantFault {
			m.mu.Lock()
			defer m.mu.Unlock()
			switch {
			case m.refuses:
				return countersigntest.FaultRefuse
			case m.loses && rand.IntN(50) == 0:
				return countersigntest.FaultAnswerLost
			}
			return countersigntest.NoMerchantFault
		}})
	if err != nil {
		t.Fatal(err)
	}
	m.change(func() { m.key, m.merchant = key, made })
}

// serve notes the request and lets the merchant answer it, whatever its path is.
func (m *recorder) serve(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m.mu.Lock()
	key, answers := m.key, m.merchant
	m.mu.Unlock()
	plain, err := envelope.Open(key, envelope.PKCS1v15, body)
	if err != nil {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	c, err := countersign.ParseCallback(plain, countersign.ParseOptions{})
	if err != nil {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	seen := &recorded{uuid: c.UUID(), event: c.EventID(), path: r.URL.Path, began: began}
	r.URL.Path = merchant.DefaultNotifyPath
	switch c.CallbackType() {
	case countersign.TypeRequestWithdraw:
		seen.withdraw, r.URL.Path = true, merchant.DefaultWithdrawPath
	case countersign.TypeWithdraw:
		seen.event = "done " + c.OrderID()
	case countersign.TypeInvalidAddress:
		seen.event = "ended " + c.OrderID()
	}
	m.mu.Lock()
	m.counts[seen.event]++
	m.requests = append(m.requests, seen)
	m.mu.Unlock()
	// The answer leaves when this function has returned.
	defer func() {
		m.mu.Lock()
		seen.ended, seen.gone = time.Now(), r.Context().Err() != nil
		m.mu.Unlock()
	}()
	time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
	r.Body = io.NopCloser(bytes.NewReader(body))
	answers.ServeHTTP(w, r)
}

// knows reports whether the merchant got something of every event.
func (m *recorder) knows(events map[string]bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for event := range events {
		if m.counts[event] == 0 {
			return false
		}
	}
	return true
}

// known is how many events the merchant got something of.
func (m *recorder) known() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.counts)
}

// change makes the merchant another one.
func (m *recorder) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// all returns the requests whose answers have left, in order of their arrival.
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
