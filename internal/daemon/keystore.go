package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
)

const (
	// probeEvery is how often a token is asked whether it is there.
	probeEvery = 5 * time.Second
	// endEvery is how often alarms of nodes that are gone are looked for.
	endEvery = time.Minute
)

// keyStore watches the token of a node. A nil one is none.
type keyStore struct {
	*envelope.KeyStore
	db   *db.DB
	node string
	now  func() time.Time
	log  *slog.Logger
	away atomic.Bool
}

func openKeyStore(c envelope.KeyStoreConfig, d *db.DB, node string, now func() time.Time, log *slog.Logger) (*keyStore, error) {
	if c.URI == "" {
		return nil, nil
	}
	store, err := envelope.OpenKeyStore(withPIN(c))
	if err != nil {
		return nil, err
	}
	return &keyStore{KeyStore: store, db: d, node: node, now: now, log: log}, nil
}

// withPIN has the PIN read as every other secret: from no file that others can read.
func withPIN(c envelope.KeyStoreConfig) envelope.KeyStoreConfig {
	c.ReadFile = func(path string) ([]byte, error) { return ReadSecret(path, maxSecret) }
	return c
}

// store gives the store itself, nil if there is none.
func (k *keyStore) store() *envelope.KeyStore {
	if k == nil {
		return nil
	}
	return k.KeyStore
}

// cores is how many private operations a node does at once: those of a token do not take
// its processor.
func (c ServiceConfig) cores() int {
	if c.KeyStore.URI == "" {
		return 0
	}
	return max(runtime.GOMAXPROCS(0), cmp.Or(c.KeyStore.Sessions, envelope.DefaultSessions))
}

// await runs open until it does not fail for a token that is away. A first start makes keys in
// it: a process that ended instead would be started again, and each start tries the PIN.
func (k *keyStore) await(ctx context.Context, open func(*envelope.KeyStore) error) error {
	for told := false; ; told = true {
		err := open(k.store())
		if k == nil || !errors.Is(err, envelope.ErrKeyStore) {
			return err
		}
		if !told {
			k.log.Error("the first start makes keys in the key store, and waits for it", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(probeEvery):
		}
	}
}

func (k *keyStore) isAway() bool { return k != nil && k.away.Load() }

// run asks the token whether it is there until ctx ends. The alarm stands while it is not.
func (k *keyStore) run(ctx context.Context) error {
	if k == nil {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	told, last := false, time.Time{} // the database has what k.away says
	for first := true; ; first = false {
		err := k.Probe()
		if away := err != nil; away != k.away.Load() || first {
			k.away.Store(away)
			told = false
			if away {
				k.log.Error("the key store is away: what needs its keys waits", "error", err.Error())
			} else {
				k.log.Info("the key store answers")
			}
		}
		if !told || !k.away.Load() && time.Since(last) > endEvery {
			told, last = k.tell(ctx), time.Now()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// tell raises the alarm of this node. A node whose token answers ends its own, and those of
// nodes that do not run any more: their names may never come again.
func (k *keyStore) tell(ctx context.Context) bool {
	now := db.MillisOf(k.now())
	var err error
	if k.away.Load() {
		err = k.db.RaiseAlarm(ctx, db.Alarm{Kind: client.AlarmKeyStoreAway, Subject: k.node, At: now})
	} else {
		err = k.end(ctx, now)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		k.log.Warn("the alarm of the key store was not kept; it is tried again", "error", err.Error())
	}
	return err == nil
}

func (k *keyStore) end(ctx context.Context, now db.Millis) error {
	standing, err := k.db.StandingAlarms(ctx, client.AlarmKeyStoreAway)
	if err != nil || len(standing) == 0 {
		return err
	}
	nodes, err := k.db.Nodes(ctx)
	if err != nil {
		return err
	}
	over := slices.DeleteFunc(standing, func(a db.Alarm) bool {
		return a.Subject != k.node && slices.ContainsFunc(nodes, func(n db.Node) bool {
			return n.Name == a.Subject && n.Seen.Time().Add(db.NodeSilent).After(now.Time())
		})
	})
	return k.db.EndStanding(ctx, over, now)
}

// close ends the sessions.
func (k *keyStore) close() error {
	if k == nil {
		return nil
	}
	return k.Close()
}

// checkKeyStore says whether a start would find its token. It logs in once.
func checkKeyStore(c envelope.KeyStoreConfig) error {
	store, err := envelope.OpenKeyStore(withPIN(c))
	if err != nil {
		return err
	}
	return errors.Join(store.Probe(), store.Close())
}
