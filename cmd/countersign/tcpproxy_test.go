package main

import (
	"io"
	"net"
	"sync"
	"testing"
)

// tcpProxy stands between a process and a server, for tests that cut the line.
type tcpProxy struct {
	addr    string
	network string
	targets []string
	ln      net.Listener

	mu     sync.Mutex
	change *sync.Cond
	mode   proxyMode
	next   int // of targets
	conns  map[net.Conn]bool
}

type proxyMode int

const (
	pass   proxyMode = iota
	cut              // every connection is reset, also new ones
	silent           // as with a pulled cable: nothing is taken, nothing comes, nobody is told
)

// newProxy leads to the targets in turn, TCP addresses or paths of sockets. It passes over those that nobody listens at.
func newProxy(t *testing.T, network string, targets ...string) *tcpProxy {
	t.Helper()
	ln := must(net.Listen("tcp", "127.0.0.1:0"))
	p := &tcpProxy{addr: ln.Addr().String(), network: network, targets: targets, ln: ln, conns: map[net.Conn]bool{}}
	p.change = sync.NewCond(&p.mu)
	go p.accept()
	t.Cleanup(func() {
		p.set(cut)
		ln.Close()
	})
	return p
}

// set changes what becomes of connections. What came in while the proxy was
// silent goes on when it passes again, as TCP would send it again.
func (p *tcpProxy) set(m proxyMode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
	if m == cut {
		for c := range p.conns {
			reset(c)
		}
		clear(p.conns)
	}
	p.change.Broadcast()
}

// reset closes without a farewell.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}

// wait returns the mode when it is not silent.
func (p *tcpProxy) wait() proxyMode {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.mode == silent {
		p.change.Wait()
	}
	return p.mode
}

func (p *tcpProxy) accept() {
	for {
		in, err := p.ln.Accept()
		if err != nil {
			return
		}
		go p.serve(in)
	}
}

func (p *tcpProxy) serve(in net.Conn) {
	if p.wait() != pass {
		reset(in)
		return
	}
	out, err := p.dial()
	if err != nil {
		reset(in)
		return
	}
	p.mu.Lock()
	for _, c := range []net.Conn{in, out} {
		p.conns[c] = true
		if p.mode == cut {
			reset(c)
		}
	}
	p.mu.Unlock()
	go p.pump(in, out)
	p.pump(out, in)
}

func (p *tcpProxy) dial() (out net.Conn, err error) {
	for range p.targets {
		p.mu.Lock()
		target := p.targets[p.next%len(p.targets)]
		p.next++
		p.mu.Unlock()
		if out, err = net.Dial(p.network, target); err == nil {
			break
		}
	}
	return out, err
}

// pump copies until one side ends, then ends both.
func (p *tcpProxy) pump(to, from net.Conn) {
	_, _ = io.Copy(gated{p, to}, from)
	p.wait() // the end of a connection is silent too
	for _, c := range []net.Conn{to, from} {
		c.Close()
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
	}
}

// gated writes when the proxy is not silent.
type gated struct {
	p  *tcpProxy
	to io.Writer
}

func (g gated) Write(b []byte) (int, error) {
	if g.p.wait() != pass {
		return 0, net.ErrClosed
	}
	return g.to.Write(b)
}
