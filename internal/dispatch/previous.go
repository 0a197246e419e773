package dispatch

import (
	"container/list"
	"sync"
)

// maxPrevious bounds the memory of previous, in bytes.
const maxPrevious = 8 << 20

// previous keeps the plaintext and the sealed body of the last attempts that did not
// settle. The requestUUID is at the end of the plaintext, so the next attempt of the
// same callback shares all blocks but the last one or two, and only those are sealed
// again. A missing entry only costs time.
type previous struct {
	mu    sync.Mutex
	size  int
	order *list.List // of *previousAttempt, latest first
	by    map[string]*list.Element
}

type previousAttempt struct {
	id              string
	plain, body     []byte
	merchantVersion int64
}

func (a *previousAttempt) size() int { return len(a.plain) + len(a.body) + 128 }

func newPrevious() *previous {
	return &previous{order: list.New(), by: make(map[string]*list.Element)}
}

// take gives and removes the last attempt of callback id, if it was made with this
// version of its merchant.
func (p *previous) take(id string, version int64) (plain, body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.by[id]
	if e == nil {
		return nil, nil
	}
	a := p.remove(e)
	if a.merchantVersion != version {
		return nil, nil // the key may have changed
	}
	return a.plain, a.body
}

func (p *previous) keep(id string, version int64, plain, body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.by[id]; e != nil {
		p.remove(e)
	}
	a := &previousAttempt{id: id, plain: plain, body: body, merchantVersion: version}
	p.by[id] = p.order.PushFront(a)
	p.size += a.size()
	for p.size > maxPrevious {
		p.remove(p.order.Back())
	}
}

func (p *previous) remove(e *list.Element) *previousAttempt {
	a := p.order.Remove(e).(*previousAttempt)
	delete(p.by, a.id)
	p.size -= a.size()
	return a
}
