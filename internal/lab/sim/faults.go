package sim

import (
	"testing/synctest"
	"time"
)

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
