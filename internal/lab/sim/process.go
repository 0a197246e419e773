package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"countersign/client"
	"countersign/internal/daemon"
	"countersign/internal/db"
)

// A process is one of the two daemons: what has its files, whichever run of it that is.
type process struct {
	w    *world
	name string
	make func(*process, daemon.Storage) (runner, error)
	busy chan struct{} // holds a token while a fault has it

	dir    string
	copies int
	now    *run // nil: it does not run
	clock  clock
	full   atomic.Int64 // faults that fill its disk
	locked atomic.Int64 // and that make it read-only

	held []client.AuditProof // checkpoints of its audit log; busy guards them
}

// runner is daemon.Service or daemon.Gateway.
type runner interface {
	Open(context.Context) error
	Run(context.Context) error
	Close() error
	TokenFile() string
}

// run is one life of a process.
type run struct {
	p       *process
	daemon  runner
	cancel  context.CancelFunc
	ended   chan struct{}
	err     error
	stopped atomic.Bool           // in order
	dead    atomic.Bool           // it was killed: it does nothing any more
	doom    atomic.Pointer[fault] // kills it before a statement
	struck  chan struct{}
}

var errDead = errors.New("the process was killed")

// world is what a run of a daemon takes from its machine.
func (r *run) world() daemon.World {
	p := r.p
	return daemon.World{
		Listen: func(_, address string) (net.Listener, error) { return p.w.net.listen(p.name, address) },
		Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			if r.dead.Load() {
				return nil, errDead
			}
			by := serviceToGateway
			switch address {
			case shopAddr:
				by = gatewayToShop
			case rogueAddr:
				by = serviceToRogue
			}
			return p.w.net.dial(ctx, p.name, by, address)
		},
		Random: func() float64 { return p.w.float(p.name) },
		World: db.World{
			Elapsed: p.clock.now,
			Every:   p.every,
			Write:   r.write,
		},
	}
}

// every makes each loop look Idle times less often than elsewhere, and at times of its own, because no seed chooses the
// order of what two loops do at the same moment.
func (p *process) every(usual time.Duration) time.Duration {
	_, file, _, _ := runtime.Caller(2)
	h := fnv.New32a()
	_, _ = io.WriteString(h, p.name+filepath.Base(file))
	return usual*time.Duration(p.w.c.Idle) + time.Duration(h.Sum32()%10_000_019)*time.Microsecond
}

// write is called before each statement of the one that writes.
func (r *run) write(statement string) error {
	switch doom := r.doom.Load(); {
	case r.dead.Load():
		return errDead
	case doom != nil && r.p.w.net.luck(r.p.name, statement).Int64N(doom.n) == 0 && r.doom.CompareAndSwap(doom, nil):
		r.p.w.say(r.p.name, "is killed before %.60q", strings.Join(strings.Fields(statement), " "))
		r.die()
		return errDead
	case r.p.locked.Load() > 0 && statement != "ROLLBACK":
		return fmt.Errorf("%w: the disk of the simulation is read-only", db.ErrUnavailable)
	case r.p.full.Load() > 0:
		return fmt.Errorf("%w: the disk of the simulation", db.ErrFull)
	}
	return nil
}

// start starts the process until it stays up. On a disk that takes nothing it waits longer each
// time, as a supervisor may: an hour of futile starts takes longer than the rest of a virtual day.
func (p *process) start(ctx context.Context) error {
	for wait := 10 * time.Second; ; wait = min(2*wait, 5*time.Minute) {
		err := p.begin(ctx)
		if err == nil {
			err = p.now.stays()
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		if p.full.Load()+p.locked.Load() == 0 {
			p.w.wrong("%s does not start: %v", p.name, err)
			return err
		}
		time.Sleep(wait)
	}
}

// stays waits a moment and returns why the run has ended by itself, as it does if the disk took its last write before.
func (r *run) stays() error {
	select {
	case <-r.ended:
	case <-time.After(time.Second):
		return nil
	}
	if r.stopped.Load() || r.dead.Load() {
		return nil
	}
	return r.err
}

func (p *process) begin(ctx context.Context) error {
	r := &run{p: p, ended: make(chan struct{}), struck: make(chan struct{})}
	var err error
	if r.daemon, err = p.make(p, daemon.Storage{Dir: p.dir, World: r.world()}); err != nil {
		return err
	}
	if err := r.daemon.Open(ctx); err != nil {
		return err
	}
	lives, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = cancel
	p.now = r
	p.w.runs.Go(func() {
		r.err = r.daemon.Run(lives)
		cancel()
		close(r.ended)
		if r.stopped.Load() || r.dead.Load() {
			return
		}
		if !errors.Is(r.err, db.ErrFull) && !errors.Is(r.err, db.ErrUnavailable) {
			p.w.wrong("%s ended by itself: %v", p.name, r.err)
		}
		p.busy <- struct{}{}
		defer func() { <-p.busy }()
		time.Sleep(10 * time.Second) // as a supervisor does
		if p.now == r && !p.w.over.Load() {
			_ = p.start(ctx)
		}
	})
	return nil
}

// stop ends the process in order.
func (p *process) stop() {
	r := p.now
	r.stopped.Store(true)
	r.cancel()
	<-r.ended
}

// die kills the run: the files are taken as they are, and it reaches nobody any more. No statement may run meanwhile.
func (r *run) die() {
	if r.dead.Swap(true) {
		return
	}
	p := r.p
	p.copies++
	to := filepath.Join(p.w.c.Dir, fmt.Sprintf("%s.%d", p.name, p.copies))
	if err := copyFiles(p.dir, to); err != nil {
		p.w.wrong("copying the files of %s: %v", p.name, err)
	}
	p.dir = to
	p.w.net.forget(p.name)
	r.cancel()
	close(r.struck)
}

// copyFiles copies a data directory. The database comes last, and its log after it, so that the database knows what the
// other files know.
func copyFiles(from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	list, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	var names []string
	for _, f := range list {
		if !strings.HasPrefix(f.Name(), daemon.DatabaseFile) {
			names = append(names, f.Name())
		}
	}
	for _, name := range append(names, daemon.DatabaseFile, daemon.DatabaseFile+"-wal") {
		if err := copyFile(filepath.Join(from, name), filepath.Join(to, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// forget drops what a process had open.
func (n *network) forget(owner string) {
	n.mu.Lock()
	var list []*listener
	for _, l := range n.listeners {
		if l.owner == owner {
			list = append(list, l)
		}
	}
	n.mu.Unlock()
	for _, l := range list {
		_ = l.Close()
	}
	n.drop(func(c *conn) bool { return c.owner == owner })
}
