package dispatch

import (
	"os"
	"runtime"
	"sync"
	"time"
)

const restMost = time.Millisecond

// poller lets RSA wait until whatever else can run has run, the network's
// included. runtime.Gosched is not enough: Go's scheduler looks at the network
// when nothing is ready to run, or every 10 ms, and with RSA always ready on every
// core each step of an exchange, a request to the API among them, would wait
// those 10 ms. What rests here waits for a byte in a pipe, and so comes after
// everything that was ready and everything that had already arrived.
type poller struct {
	r, w *os.File
	most time.Duration // bounds a rest where the other work never ends
	done chan struct{}

	mu      sync.Mutex
	resting []*resting
	spare   sync.Pool // of *resting
}

// resting is one who rests. It is used again, and may find that somebody woke it
// for the last time: then it rests less.
type resting struct {
	ready chan struct{} // buffered 1
	timer *time.Timer
}

func newPoller() (*poller, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &poller{r: r, w: w, most: restMost, done: make(chan struct{})}
	p.spare.New = func() any {
		t := time.NewTimer(time.Hour)
		t.Stop()
		return &resting{make(chan struct{}, 1), t}
	}
	go p.run()
	return p, nil
}

// run wakes one for each byte, in the order in which they came.
func (p *poller) run() {
	defer close(p.done)
	buf := make([]byte, 64)
	for {
		n, err := p.r.Read(buf)
		p.mu.Lock()
		if err != nil {
			n = len(p.resting) // nobody rests for ever
		}
		n = min(n, len(p.resting))
		for _, one := range p.resting[:n] {
			select {
			case one.ready <- struct{}{}:
			default:
			}
		}
		p.resting = append(p.resting[:0], p.resting[n:]...)
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

var oneByte = []byte{0}

// rest returns when all else has had its turn, after p.most at the latest.
func (p *poller) rest() {
	one := p.spare.Get().(*resting)
	defer p.spare.Put(one)
	p.mu.Lock()
	p.resting = append(p.resting, one)
	p.mu.Unlock()
	if _, err := p.w.Write(oneByte); err != nil {
		return // closed: who was resting was woken, and nobody rests any more
	}
	one.timer.Reset(p.most)
	select {
	case <-one.ready:
	case <-one.timer.C:
	}
	one.timer.Stop()
	// The scheduler runs what it finds on the network in any order, and whom
	// that woke before the rest of it.
	runtime.Gosched()
}

func (p *poller) close() {
	_ = p.w.Close()
	<-p.done
	_ = p.r.Close()
}
