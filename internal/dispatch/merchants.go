package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/outbox"
)

// maxMerchants bounds the cache. An entry has two keys, or four, and takes about 10 KB.
const maxMerchants = 4096

// merchant is an outbox.Merchant prepared for exchanges.
type merchant struct {
	client.MerchantSettings
	keys
	version    int64
	urls       [2]*url.URL // by lane
	private    bool
	answerKeys []*envelope.SigningKey // nil: its answers need no signature
	schedules  [2]Schedule            // by lane
	openings   *openings
}

// errPaused means that the merchant was paused after the claim, or that its row was tampered with.
var errPaused = errors.New("it is paused")

// newMerchant prepares s.
func newMerchant(s outbox.Merchant, p TargetRules) (*merchant, error) {
	if s.State == client.MerchantPaused {
		return nil, errPaused
	}
	if s.Key == nil {
		return nil, errors.New("it has no key")
	}
	m := &merchant{MerchantSettings: s.MerchantSettings, keys: keysOf(s), version: s.Version,
		private: p.AllowPrivate || s.Private(), schedules: [2]Schedule{
			countersign.LaneNotify:   ScheduleFor(countersign.LaneNotify, s.RetryNotify),
			countersign.LaneWithdraw: ScheduleFor(countersign.LaneWithdraw, s.RetryWithdraw),
		}}
	var err error
	if m.answerKeys, err = envelope.ParseSigningKeys(s.AnswerKey); err != nil { // never less than was set
		return nil, fmt.Errorf("answerKey: %w", err)
	}
	// If a URL is no longer allowed after a restart with other flags, its attempts fail as blocked; the merchant's
	// other URL still works.
	p.AllowPrivate = m.private
	for lane, raw := range [2]string{s.NotifyURL, s.WithdrawURL} {
		m.urls[lane], _ = parseTarget(raw, p)
	}
	return m, nil
}

// cachedMerchants caches prepared merchants. The version in each claimed callback shows when an entry is out of date.
type cachedMerchants struct {
	cfg *Config

	mu      sync.Mutex
	entries map[string]*merchantEntry
}

type merchantEntry struct {
	mu sync.Mutex // locked while loading, so that one load serves all waiting exchanges
	m  *merchant
}

// get returns the merchant id as it was at version or later.
func (c *cachedMerchants) get(ctx context.Context, id string, version int64) (*merchant, error) {
	c.mu.Lock()
	e := c.entries[id]
	if e == nil {
		if len(c.entries) >= maxMerchants {
			for other := range c.entries { // any entry: one in use is loaded again
				delete(c.entries, other)
				break
			}
		}
		e = new(merchantEntry)
		c.entries[id] = e
	}
	c.mu.Unlock()

	e.mu.Lock()
	defer e.mu.Unlock()
	if e.m != nil && e.m.version >= version {
		return e.m, nil
	}
	s, err := c.cfg.Outbox.Merchant(ctx, id)
	var m *merchant
	if err == nil {
		m, err = newMerchant(s, c.cfg.TargetRules)
	}
	if err != nil {
		return nil, fmt.Errorf("loading merchant: %w", err)
	}
	m.openings = newOpenings(c.cfg.RSA+1, c.cfg.Now) // a merchant that is resumed begins anew
	e.m = m
	return m, nil
}
