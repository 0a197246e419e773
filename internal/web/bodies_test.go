package web

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestRead: bodies of every length about the limits, announced truly, falsely or not,
// in one piece and byte by byte.
func TestRead(t *testing.T) {
	const limit = 10_000
	for _, length := range []int{0, 1, first - 1, first, first + 1, 9_999, limit, limit + 1, 3 * limit} {
		for _, announced := range []int64{-1, 0, int64(length), int64(length) + 1, limit, 1 << 40} {
			for _, slow := range []bool{false, true} {
				text := strings.Repeat("x", length)
				var r io.Reader = strings.NewReader(text)
				if slow {
					r = iotest.OneByteReader(r)
				}
				budget := NewBudget(1 << 20)
				b, err := ReadBody(r, announced, limit, budget)
				if length > limit && !errors.Is(err, ErrTooLong) || length <= limit && (err != nil || string(b.Bytes) != text) {
					t.Errorf("%d bytes, %d announced: %d came, %v", length, announced, len(b.Bytes), err)
				}
				if held := budget.Held(); length > 0 && held != int64(cap(b.Bytes)) || length == 0 && held != 0 || cap(b.Bytes) > 2*max(len(b.Bytes), first) {
					t.Errorf("%d bytes, %d announced: %d held, room for %d", length, announced, held, cap(b.Bytes))
				}
				b.Free()
				b.Free()
				if budget.Held() != 0 {
					t.Errorf("%d bytes are held", budget.Held())
				}
			}
		}
	}
}

// TestBudget: what is announced takes nothing; the sum of what came is bounded.
func TestBudget(t *testing.T) {
	budget := NewBudget(3 * first)
	var held []Body
	for range 3 {
		b, err := ReadBody(bytes.NewReader([]byte("little")), 1<<30, 1<<22, budget)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, b)
	}
	b, err := ReadBody(strings.NewReader("one more"), -1, 1<<22, budget)
	if !errors.Is(err, ErrBudget) {
		t.Errorf("a body beyond the budget: %v", err)
	}
	b.Free()
	held[0].Free()
	if b, err = ReadBody(strings.NewReader(strings.Repeat("long", first)), -1, 1<<22, budget); !errors.Is(err, ErrBudget) {
		t.Errorf("a body that grows beyond the budget: %v", err)
	}
	b.Free()
	if b, err = ReadBody(strings.NewReader("again"), -1, 1<<22, budget); err != nil {
		t.Error(err)
	}
	b.Free()
	var none *Budget
	if b, err = ReadBody(strings.NewReader("unbounded"), -1, 1<<22, none); err != nil {
		t.Error(err)
	}
	b.Free()
}

// TestShares: callers who hold all there is leave room for what is urgent, and strangers
// take nothing from either.
func TestShares(t *testing.T) {
	s := NewShares(3 * first)
	if !s.Callers.Take(3*first) || s.Callers.Take(1) {
		t.Error("callers do not have exactly their budget")
	}
	if !s.Strangers.Take(reserve) || s.Strangers.Take(1) {
		t.Error("strangers do not have exactly theirs")
	}
	if !s.Urgent.Take(reserve) || s.Urgent.Take(1) {
		t.Error("the reserve is not what it should be")
	}
	if NewShares(0).Callers.most != DefaultBudget {
		t.Error("nothing said is not the default")
	}
}
