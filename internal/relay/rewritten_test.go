package relay

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
)

// TestRewrittenWhileCarried: the core writes a row anew while the relay carries what it read
// before. The new content is not lost: it is carried, or refused where anybody can see it.
func TestRewrittenWhileCarried(t *testing.T) {
	c := newCore(t)
	s := newService(t, "shop")
	core := c.connect()
	var rewrites atomic.Int64
	rewrite := func(text string) {
		if _, err := core.Exec(context.Background(), text); err != nil {
			t.Error(err)
		}
		rewrites.Add(1)
	}
	s.set(nil, func(_ *http.Request, body []byte, _ int, _ []byte) bool {
		switch n := rewrites.Load(); {
		case n == 0 && bytes.Contains(body, []byte("moved-1")): // acknowledged, and not what the core means any more
			rewrite(`UPDATE countersign_outbox SET body = replace(body::text, 'moved-1', 'moved-2')::json WHERE body::text LIKE '%moved-1%'`)
		case n == 1 && bytes.Contains(body, []byte("nobody")): // refused, and mended
			rewrite(`UPDATE countersign_outbox SET body = replace(body::text, 'nobody', 'shop')::json WHERE body::text LIKE '%nobody%'`)
		case n == 2 && bytes.Contains(body, []byte("amount-1")): // another amount under the same trackingId
			rewrite(`UPDATE countersign_outbox SET body = replace(body::text, '"amount":"', '"amount":"9')::json WHERE body::text LIKE '%amount-1%'`)
		}
		return true
	})
	s.relay(c)
	for i, d := range []any{deposit("shop", "moved-1"), deposit("nobody", "mended-1"), deposit("shop", "amount-1")} {
		c.insert(kindDeposit, d)
		until(t, "the row was written anew, and is settled", func() bool { return rewrites.Load() == int64(i+1) && c.waiting() == "0" })
	}
	told := s.told("shop")
	slices.Sort(told)
	if want := []string{"amount-1", "mended-1", "moved-1", "moved-2"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	if got := c.one(`SELECT string_agg(body->>'trackingId' || ' ' || (problem->>'status'), ', ') FROM countersign_outbox WHERE refused IS NOT NULL`); got != "amount-1 409" {
		t.Errorf("refused: %s", got)
	}
}
