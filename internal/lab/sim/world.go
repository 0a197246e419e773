package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/internal/gateway"
	"countersign/merchant"
)

// Config is what Run needs.
type Config struct {
	Seed uint64
	Dir  string           // an empty directory. Required
	Keys [2]*envelope.Key // of the merchant: the first, and the one of its next rotation. Required
	// RogueKey is of the merchant whose answers are faulty. Required.
	RogueKey *envelope.Key
	// Span is how long the world is bad. Required.
	Span time.Duration
	// Deposits and Withdrawals come within it, and as many Faults.
	Deposits, Withdrawals, Faults int
	// Pace is how long executors, the application and persons wait between two looks, at least.
	// Required.
	Pace time.Duration
	// Idle is how many times longer than elsewhere background loops wait.
	Idle int
	// Skip says which faults, by number, do not happen. Nil: none.
	Skip func(fault int) bool
	// Log gets what the daemons log. Nil: nothing does.
	Log *slog.Logger
}

// Result is the result of a run.
type Result struct {
	Story  []string       // what happened, in virtual time
	Wrong  []string       // what must not be; empty: all is well
	Counts map[string]int // deposits, withdrawals, executions, faults by kind
	Took   time.Duration  // virtual
	Faults int            // that were planned
}

// world is one run.
type world struct {
	c     Config
	net   *network
	begun time.Time
	runs  sync.WaitGroup // lives of processes
	ctx   context.Context

	service, gateway *process
	core             *core
	shop             *shop
	operator         *client.Service
	rogue            *rogue
	signs            *signs        // nil: the messages between both ends are not signed
	well             atomic.Bool   // the bad time is over
	over             atomic.Bool   // and the time of what must succeed, too
	operating        chan struct{} // holds a token while something is stopped or rotated
	rotations        int
	restores         int
	files            int                    // of books
	answers          atomic.Pointer[string] // the API key of the gateway's answers
	ended            map[string]bool        // withdrawals that have ended, as all know
	lost             map[string]bool        // processes whose database was restored
	unsaid           []string               // orders of a restored gateway that no books have

	mu     sync.Mutex
	result Result
}

// Run lives through a plan. It must be called in a bubble.
func Run(ctx context.Context, c Config) Result {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	w := &world{c: c, operating: make(chan struct{}, 1), net: newNetwork(c.Seed), begun: time.Now(), ctx: ctx}
	w.result.Counts, w.ended, w.lost = map[string]int{}, map[string]bool{}, map[string]bool{}
	w.service = &process{w: w, name: "service", dir: filepath.Join(c.Dir, "service"), busy: make(chan struct{}, 1), make: newService}
	w.gateway = &process{w: w, name: "gateway", dir: filepath.Join(c.Dir, "gateway"), busy: make(chan struct{}, 1), make: newGateway}
	if err := w.live(); err != nil {
		w.wrong("%v", err)
	}
	w.net.forget("shop")
	w.net.forget("rogue")
	for _, p := range []*process{w.service, w.gateway} {
		if p.now != nil {
			p.stop()
		}
	}
	w.runs.Wait()
	w.net.repeats.Wait()
	w.core.close()
	w.shop.close()
	w.rogue.close()
	w.result.Took = time.Since(w.begun)
	for what, n := range w.net.counts {
		w.result.Counts[what] += n
	}
	return w.result
}

func newService(p *process, s daemon.Storage) (runner, error) {
	return daemon.NewService(daemon.ServiceConfig{Common: daemon.Common{Storage: s, MaxConnections: 1000, NoConsole: true, Log: p.w.c.Log.With("end", p.name)},
		Listen: serviceAddr, Node: "node", AllowPrivate: true, AllowHTTP: true})
}

func newGateway(p *process, s daemon.Storage) (runner, error) {
	rules, err := p.w.rules()
	if err != nil {
		return nil, err
	}
	callbacks := merchant.Config{Key: p.w.c.Keys[0].Public(), NextKey: p.w.c.Keys[1].Public(), APIKey: countersign.APIKey(*p.w.answers.Load())}
	callbacks.Sign, callbacks.ServiceSigner = p.w.signs.of("shop")
	callbacks.PublicURL = "http://" + callbackAddr
	return daemon.NewGateway(daemon.GatewayConfig{Common: daemon.Common{Storage: s, MaxConnections: 1000, NoConsole: true, Log: p.w.c.Log.With("end", p.name)},
		Policy: rules, Listen: callbackAddr, APIListen: gatewayAddr,
		Callbacks: callbacks,
		Forward:   gateway.Forwarding{URL: "http://" + shopAddr + "/"}})
}

// live is the whole life: begin, be bad, heal, and compare.
func (w *world) live() error {
	w.core, w.shop = newCore(w), newShop(w)
	answers := "answers-0"
	w.answers.Store(&answers)
	var err error
	if w.net.luck("signs").IntN(2) == 0 {
		w.signs = newSigns()
	}
	if err := w.service.begin(w.ctx); err != nil {
		return err
	}
	if err := w.register(); err != nil {
		return err
	}
	if w.rogue, err = newRogue(w); err != nil {
		return err
	}
	if err := w.gateway.begin(w.ctx); err != nil {
		return err
	}
	if err := w.employ(); err != nil {
		return err
	}
	var all sync.WaitGroup
	p := draw(w.c)
	w.result.Faults = len(p.faults)
	for i, f := range p.faults {
		if w.c.Skip == nil || !w.c.Skip(i) {
			all.Go(func() { w.suffer(i, f) })
		}
	}
	happen := func(deposits []deposit, withdrawals []withdrawal) {
		for _, d := range deposits {
			all.Go(func() { w.core.deposit(d) })
		}
		for _, x := range withdrawals {
			all.Go(func() { w.core.withdrawal(x) })
			all.Go(func() { w.shop.order(x) })
		}
	}
	happen(p.deposits[:w.c.Deposits], p.withdrawals[:w.c.Withdrawals])
	time.Sleep(w.c.Span)
	w.say("world", "heals")
	w.net.heal()
	w.well.Store(true)
	w.rogue.honest.Store(true)
	late := time.AfterFunc(bound, func() { w.over.Store(true) })
	defer late.Stop()
	all.Wait()
	w.heal()
	time.Sleep(skew)
	happen(p.deposits[w.c.Deposits:], p.withdrawals[w.c.Withdrawals:])
	all.Wait()
	w.rest()
	w.check()
	w.stranger()
	return nil
}

// register makes the merchants and the clients of the service.
func (w *world) register() error {
	token, err := firstToken(w.service)
	if err != nil {
		return err
	}
	w.operator, err = client.NewService(client.Config{URL: "http://" + serviceAddr, Token: token, HTTPClient: w.http("operator", operatorToBoth)})
	if err != nil {
		return err
	}
	if err := w.core.connect(token); err != nil {
		return err
	}
	for _, m := range []struct {
		id, address, apiKey string
		key                 *envelope.Key
	}{{"shop", callbackAddr, *w.answers.Load(), w.c.Keys[0]}, {"rogue", rogueAddr, rogueAPIKey, w.c.RogueKey}} {
		secret, err := m.key.PrivatePEM()
		if err != nil {
			return err
		}
		yes := true
		_, err = w.operator.CreateMerchant(w.ctx, client.NewMerchant{ID: m.id, Key: &client.KeySpec{PrivateKey: client.Secret(secret)},
			MerchantSettings: client.MerchantSettings{FinalCodes: client.ProtocolCodes(), NotifyURL: "http://" + m.address + merchant.DefaultNotifyPath, WithdrawURL: "http://" + m.address + merchant.DefaultWithdrawPath,
				AllowPrivate: &yes, ReleaseWithin: client.Duration(6 * time.Hour), AnswerKey: w.signs.answerKey(m.id)},
			MerchantSecrets: client.MerchantSecrets{APIKey: client.Secret(m.apiKey)}})
		if err != nil {
			return err
		}
	}
	return errors.Join(w.signs.learn(w.ctx, w.operator), w.holdLog(w.service))
}

// employ makes what needs the gateway.
func (w *world) employ() error {
	token, err := firstToken(w.gateway)
	if err != nil {
		return err
	}
	if err := w.shop.connect(token); err != nil {
		return err
	}
	return errors.Join(w.shop.employ(), w.holdLog(w.gateway))
}

func firstToken(p *process) (client.Secret, error) {
	b, err := os.ReadFile(p.now.daemon.TokenFile())
	return client.Secret(strings.TrimSpace(string(b))), err
}

// http returns a party's client.
func (w *world) http(owner string, by link) *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return w.net.dial(ctx, owner, by, address)
	}}}
}

// suffer makes a fault happen.
func (w *world) suffer(i int, f fault) {
	time.Sleep(f.at)
	w.say("fault", "%d: %v", i, f)
	w.count(f.kind.String())
	switch f.kind {
	case weather:
		w.net.set(f.link, f.rates)
		time.Sleep(f.span)
		w.net.set(f.link, rates{})
		return
	case partition:
		w.net.cut(f.link, true)
		time.Sleep(f.span)
		w.net.cut(f.link, false)
		return
	case freeze, pause:
		w.operate(i, f)
		return
	case rotate:
		w.rotate(i, f)
		return
	case restore:
		w.restore(i, f)
		return
	case restoreGateway:
		w.restoreGateway(i, f)
		return
	case restoreBoth:
		w.restoreBoth(i, f)
		return
	}
	p := map[string]*process{"service": w.service, "gateway": w.gateway}[f.who]
	switch f.kind {
	case full:
		p.full.Add(1)
		time.Sleep(f.span)
		p.full.Add(-1)
		return
	case locked:
		p.locked.Add(1)
		time.Sleep(f.span)
		p.locked.Add(-1)
		return
	case sleep:
		p.clock.jump(f.jump)
		if w.signs == nil {
			return
		}
		time.Sleep(f.span)
		w.setClock(i, p)
		return
	case drift:
		p.clock.drift(f.rate)
		time.Sleep(f.span)
		p.clock.drift(-f.rate)
		if w.signs != nil {
			w.setClock(i, p)
		}
		return
	}
	w.turn(p.busy, "fault", i)
	defer func() { <-p.busy }()
	switch f.kind {
	case kill:
		synctest.Wait() // so that no statement runs
		p.now.die()
	case killAt:
		p.now.doom.Store(&f)
		select {
		case <-p.now.struck:
		case <-time.After(time.Hour):
			if p.now.doom.Swap(nil) == nil { // just now
				<-p.now.struck
				break
			}
			w.say(f.who, "writes too little to be killed")
			return
		}
	case restart:
		p.stop()
	}
	time.Sleep(f.span)
	if err := p.start(w.ctx); err == nil {
		w.say(f.who, "runs again")
		_ = w.holdLog(p) // it may be out of reach
	}
}

// setClock corrects a clock of which the other end says that it is wrong, because signatures look old. A daemon reads
// the time when it starts.
func (w *world) setClock(i int, p *process) {
	w.turn(p.busy, "clock", i)
	defer func() { <-p.busy }()
	p.stop()
	if err := p.start(w.ctx); err == nil {
		w.say(p.name, "has the right time again")
	}
}

// heal is what an operator does after the bad time: what was given up is sent again.
func (w *world) heal() {
	w.wantGivenUp()
	w.persist("resending", func() error {
		_, err := w.operator.ResendCallbacks(w.ctx, client.Resend{Filter: client.CallbackFilter{State: client.CallbackExhausted}})
		return err
	})
	if w.lost["gateway"] { // what it lost is told again
		w.compare()
	}
}

// look fires when somebody looks for work again: after one pace and up to more further ones.
func (w *world) look(who string, more float64) <-chan time.Time {
	return time.After(w.c.Pace + time.Duration(w.float(who)*more*float64(w.c.Pace)))
}

// skew is how far a clock is ahead at most before it is set right. What was noted then has been in
// the future, and an alarm ends with what comes after it.
const skew = 4 * time.Hour

// bound is how long after the bad time everything that is due must be done.
const bound = 60 * time.Hour

// rest waits until everything is done.
func (w *world) rest() {
	left := ""
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(10 * time.Minute) {
		w.resumeRogue()
		w.decideRefused()
		w.resendRefused()
		if left = w.left(); left == "" {
			w.say("world", "all is done")
			return
		}
	}
	w.say("world", "not all is done: %s", left)
}

// resumeRogue is what an operator does who has heard that the service paused a merchant whose
// answers did not open, and that they do now. A restore may bring the pause back.
func (w *world) resumeRogue() {
	m, err := w.operator.Merchant(w.ctx, "rogue")
	if err != nil || m.State != client.MerchantPaused {
		return
	}
	w.wantAlarm(w.operator, client.AlarmFilter{Kind: client.AlarmOpenFailures, Merchant: "rogue"}, "", "the rogue is paused")
	if _, err := w.operator.ResumeMerchant(w.ctx, "rogue", client.Resume{}); err == nil {
		w.say("operator", "resumes the rogue, which was paused: %s", m.PausedReason)
	}
}

// turn takes a token, which another may hold for long, and then waits a moment of its own. Otherwise those that waited
// for one thing would go on together, in an order that no seed chooses.
func (w *world) turn(token chan struct{}, who ...any) {
	token <- struct{}{}
	time.Sleep(time.Millisecond + time.Duration(w.net.luck(who...).Int64N(int64(time.Second))))
}

// persist repeats do until it succeeds, is refused for good, or the run is over. It reports whether do succeeded.
func (w *world) persist(what string, do func() error) bool {
	for n := 0; n == 0 || !w.over.Load(); n++ {
		err := do()
		if err == nil {
			return true
		}
		if errors.Is(err, client.ErrInvalid) || errors.Is(err, client.ErrConflict) || errors.Is(err, client.ErrNotFound) || errors.Is(err, client.ErrForbidden) {
			w.say("world", "%s is refused: %v", what, err)
			return false
		}
		time.Sleep(min(time.Second<<min(n, 10), 5*time.Minute) + time.Duration(w.net.luck(what).Int64N(int64(time.Second))))
	}
	w.wrong("%s does not succeed", what)
	return false
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.Counts[what]++
}

// say adds a line to the story.
func (w *world) say(who, format string, args ...any) {
	at, text := time.Since(w.begun).Truncate(time.Millisecond), fmt.Sprintf(format, args...)
	w.c.Log.Info("story", "who", who, "what", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.Story = append(w.result.Story, fmt.Sprintf("%v\t%s\t%s", at, who, text))
}

// wrong adds what must not be.
func (w *world) wrong(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.say("WRONG", "%s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.Wrong = append(w.result.Wrong, text)
}
