package sim

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/internal/gateway"
	"countersign/merchant"
)

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
	return daemon.NewService(daemon.ServiceConfig{Common: daemon.Common{Storage: s, NoConsole: true, Log: p.w.c.Log.With("end", p.name)},
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
	return daemon.NewGateway(daemon.GatewayConfig{Common: daemon.Common{Storage: s, NoConsole: true, Log: p.w.c.Log.With("end", p.name)},
		Policy: rules, Listen: callbackAddr, APIListen: gatewayAddr,
		Callbacks: callbacks,
		Forward:   gateway.Forwarding{URL: "http://" + shopAddr + "/", Secret: make([]byte, 32)}})
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
