package dbtest

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"
)

// Failer is a test, or one round of a property.
type Failer interface {
	Helper()
	Fatal(...any)
}

// Must returns a function that returns v, or fails the test for err.
func Must[T any](v T, err error) func(Failer) T {
	return func(t Failer) T {
		t.Helper()
		OK(t, err)
		return v
	}
}

// OK fails the test for err.
func OK(t Failer, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Until waits for what must come, as long as the run of tests may take: a bound of its own would make a test fail where
// the machine is busy. It fails with what was waited for, and with what log says.
func Until(t testing.TB, what string, is func() bool, log ...fmt.Stringer) {
	t.Helper()
	end := time.Now().Add(time.Hour)
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if at, has := d.Deadline(); has {
			end = at.Add(-10 * time.Second)
		}
	}
	for ; !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s\n%s", what, log)
		}
	}
}

// Log is what goroutines write while a test reads it.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
