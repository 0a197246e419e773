package sim

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// link is who dials and who listens, such as core>service.
type link string

// The links.
const (
	coreToService    link = "core>service"
	operatorToBoth   link = "operator>both"
	serviceToGateway link = "service>gateway"
	shopToGateway    link = "shop>gateway"
	gatewayToShop    link = "gateway>shop"
	serviceToRogue   link = "service>rogue"
)

// links are those that have faults. The others have none, because an operator tries again until it works.
var links = []link{coreToService, serviceToGateway, shopToGateway, gatewayToShop, serviceToRogue}

// The addresses of the parties.
const (
	serviceAddr  = "127.0.0.1:1001"
	callbackAddr = "127.0.0.1:1002"
	gatewayAddr  = "127.0.0.1:1003"
	shopAddr     = "127.0.0.1:1004"
	rogueAddr    = "127.0.0.1:1005"
)

// rates are how often something happens to a write on a link.
type rates struct {
	cut    float64       // it is not sent, and the connection ends
	half   float64       // half of it is sent, and the connection ends
	lose   float64       // it and all that follows vanish, and the connection stays
	repeat float64       // of a request: it comes once more, later
	delay  time.Duration // at most, before it
}

func (r rates) String() string {
	return fmt.Sprintf("cut %.3f half %.3f lose %.3f repeat %.3f delay %v", r.cut, r.half, r.lose, r.repeat, r.delay)
}

// network connects the parties by pipes.
type network struct {
	seed  uint64
	begun time.Time

	mu        sync.Mutex
	listeners map[string]*listener
	bad       map[link]rates
	down      map[link]bool
	open      map[*conn]bool
	dialed    int
	counts    map[string]int // what happened to writes
	repeats   sync.WaitGroup
	healed    chan struct{} // no repetition begins any more
}

func newNetwork(seed uint64) *network {
	return &network{seed: seed, begun: time.Now(), listeners: map[string]*listener{}, bad: map[link]rates{}, down: map[link]bool{}, open: map[*conn]bool{}, counts: map[string]int{}, healed: make(chan struct{})}
}

// luck returns randomness that depends on the seed, the virtual time and its purpose, but not on who draws first,
// because no seed controls Go's scheduler. Two draws for one purpose at the same time are equal.
func (n *network) luck(what ...any) *rand.Rand {
	h := fnv.New64a()
	var at [8]byte
	binary.LittleEndian.PutUint64(at[:], uint64(time.Since(n.begun)))
	_, _ = h.Write(at[:])
	_, _ = fmt.Fprintln(h, what...)
	return rand.New(rand.NewPCG(n.seed, h.Sum64()))
}

// set changes what happens on a link.
func (n *network) set(l link, r rates) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bad[l] = r
}

// cut takes a link down or up.
func (n *network) cut(l link, down bool) {
	n.mu.Lock()
	n.down[l] = down
	n.mu.Unlock()
	if down {
		n.drop(func(c *conn) bool { return c.link == l })
	}
}

// heal ends everything that is bad, for ever.
func (n *network) heal() {
	n.mu.Lock()
	clear(n.bad)
	clear(n.down)
	n.mu.Unlock()
	close(n.healed)
	n.drop(func(c *conn) bool { return c.lost })
}

// drop ends connections.
func (n *network) drop(which func(*conn) bool) {
	n.mu.Lock()
	var list []*conn
	for c := range n.open {
		if which(c) {
			list = append(list, c)
		}
	}
	n.mu.Unlock()
	slices.SortFunc(list, func(a, b *conn) int { return cmp.Compare(a.number, b.number) })
	for _, c := range list {
		_ = c.Close()
	}
}

type listener struct {
	n     *network
	owner string
	addr  *net.TCPAddr
	come  chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// listen opens a listener of a party.
func (n *network) listen(owner, address string) (net.Listener, error) {
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	l := &listener{n: n, owner: owner, addr: addr, come: make(chan net.Conn, 128), done: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[address] != nil {
		return nil, errors.New("the address is in use")
	}
	n.listeners[address] = l
	return l, nil
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.come:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.done)
		l.n.mu.Lock()
		defer l.n.mu.Unlock()
		delete(l.n.listeners, l.addr.String())
	})
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}

// dial connects a party.
func (n *network) dial(ctx context.Context, owner string, by link, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	if n.down[by] || l == nil {
		n.mu.Unlock()
		return nil, errRefused
	}
	a, b := net.Pipe()
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 40000}
	here := &conn{Conn: a, n: n, link: by, owner: owner, local: from, remote: l.addr, to: address, dialed: true}
	there := &conn{Conn: b, n: n, link: by, owner: l.owner, local: l.addr, remote: from}
	here.number, there.number = n.dialed, n.dialed+1
	n.dialed += 2
	n.open[here], n.open[there] = true, true
	n.mu.Unlock()
	select {
	case l.come <- there:
		return here, nil
	case <-l.done:
	case <-ctx.Done():
	}
	_, _ = here.Close(), there.Close()
	return nil, errRefused
}

// conn is one end of a connection.
type conn struct {
	net.Conn
	n             *network
	link          link
	number        int    // of this end, in the order of dialing
	owner         string // the party that is gone with its process
	local, remote net.Addr
	to            string
	dialed        bool

	mu      sync.Mutex
	lost    bool   // what is written vanishes
	request []byte // what was written since the last read
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) Close() error {
	c.n.mu.Lock()
	delete(c.n.open, c)
	c.n.mu.Unlock()
	return c.Conn.Close()
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.dialed && n > 0 {
		c.mu.Lock()
		request := c.request
		c.request = nil
		c.mu.Unlock()
		luck := c.n.luck(c.link, "again", len(request))
		again := len(request) > 0 && luck.Float64() < c.rates().repeat
		var after time.Duration
		if again {
			after = time.Duration(luck.Int64N(int64(time.Hour)))
		}
		if again {
			c.n.count("repeated")
			c.n.repeats.Go(func() { c.n.repeat(c.to, request, after) })
		}
	}
	return n, err
}

func (c *conn) rates() rates {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	return c.n.bad[c.link]
}

func (n *network) count(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counts[what]++
}

func (c *conn) Write(b []byte) (int, error) {
	r, random := c.rates(), c.n.luck(c.link, c.dialed, len(b))
	luck := random.Float64()
	var delay time.Duration
	if r.delay > 0 {
		delay = time.Duration(random.Int64N(int64(r.delay)))
	}
	c.mu.Lock()
	if c.dialed && len(c.request) < 1<<16 {
		c.request = append(c.request, b...)
	}
	if luck -= r.cut + r.half; luck >= 0 && luck < r.lose && !c.lost {
		c.lost = true
		c.n.count("lost")
	}
	lost := c.lost
	c.mu.Unlock()
	time.Sleep(delay)
	switch {
	case lost:
		return len(b), nil
	case luck >= 0:
		return c.Conn.Write(b)
	case luck < -r.half:
		c.n.count("cut")
		_ = c.Close()
		return 0, net.ErrClosed
	}
	c.n.count("half sent")
	n, _ := c.Conn.Write(b[:len(b)/2])
	_ = c.Close()
	return n, net.ErrClosed
}

// repeat sends a request again, as a proxy or a thief would.
func (n *network) repeat(to string, request []byte, after time.Duration) {
	select {
	case <-time.After(after):
	case <-n.healed:
		return
	}
	c, err := n.dial(context.Background(), "", "again", to)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := c.Write(request); err == nil {
		_, _ = c.Read(make([]byte, 1<<12))
	}
}
