//go:build unix

package relay

import (
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// shortIdle is after what time the database ends the transaction of a stopped relay here.
const shortIdle = time.Second

// A relay that stands still for longer than the database waits for it loses its merchants to another. What it had sent
// arrives late, and what it was answered it reads late: both change nothing, and it works again.
func TestStopped(t *testing.T) {
	c := newCore(t)
	s := newService(t, "shop")
	var want []string
	insert := func(name string) {
		for n := range 5 {
			id := fmt.Sprintf("%s-%d", name, n)
			want = append(want, id)
			if n == 3 {
				c.insert(kindWithdrawal, withdrawal("shop", id))
			} else {
				c.insert(kindDeposit, deposit("shop", id))
			}
		}
	}
	for _, late := range []string{"request", "answer"} {
		t.Run("its "+late+" is late", func(t *testing.T) {
			reached, on, passed := make(chan struct{}), make(chan struct{}), make(chan struct{})
			var once atomic.Bool
			hang := func(r *http.Request) (first bool) {
				first = r.Method == http.MethodPost && once.CompareAndSwap(false, true)
				if first {
					close(reached)
					<-on
				}
				return first
			}
			if late == "request" {
				s.set(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
					if !hang(r) {
						return false
					}
					defer close(passed)
					s.passOn(w, r, body)
					return true
				}, nil)
			} else {
				s.set(nil, func(r *http.Request, _ []byte, _ int, _ []byte) bool {
					if hang(r) {
						close(passed)
					}
					return true
				})
			}
			stopped, kill := s.spawn(c, shortIdle)
			insert(late)
			<-reached
			signal(t, stopped, syscall.SIGSTOP)
			_, killOther := s.spawn(c, shortIdle)
			c.carried() // another relay carries
			insert(late + "-meanwhile")
			c.carried() // another relay goes on
			close(on)
			<-passed
			signal(t, stopped, syscall.SIGCONT)
			insert(late + "-again")
			c.carried() // both carry
			killOther()
			insert(late + "-alone")
			c.carried() // it carries alone
			kill()
			s.set(nil, nil)
			if diff := cmp.Diff(want, s.told("shop")); diff != "" {
				t.Error(diff)
			}
		})
	}
	if n := c.refused(); n != "0" {
		t.Errorf("%s rows are refused", n)
	}
}

func signal(t *testing.T, p *os.Process, sig syscall.Signal) {
	t.Helper()
	ok(t, p.Signal(sig))
}
