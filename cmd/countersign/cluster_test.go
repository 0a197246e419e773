package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/client"
)

// Times of the nodes in these tests: a lease is an exchange and five seconds at
// least.
const (
	clusterExchange = time.Second
	clusterLease    = 6 * time.Second
)

// cluster is one or more services on one database, and what they have said.
type cluster struct {
	t           *testing.T
	args        []string // of every node, behind the others
	m           *recorder
	wide        *recorder // of a merchant that takes much at once; nil: none
	dir         string
	token       string
	concurrency int
	nodes       []*clusterNode
	stopped     map[string]int // by node: how often SIGSTOP met it

	// parted: two servers may answer at present. A node that has not noticed
	// yet reads from the one that was replaced, and does not find what others
	// have just made.
	parted atomic.Bool

	n           atomic.Int64
	mu          sync.Mutex
	deposits    map[string]bool              // trackingId
	withdrawals map[string]string            // id → callBackId
	permits     map[string]map[string]string // id → claim → permit
	feed        []string                     // decisions as they were read, from the first on
}

// clusterNode is one of them, in whatever process it lives now.
type clusterNode struct {
	name string
	db   string // URL of its database; empty: SQLite in the directory

	mu      sync.Mutex
	d       *process
	logs    []*lockedBuffer // of every process
	acks    []time.Time     // of what it took
	read    int             // how much of the last log settled has read
	settles []time.Time     // when it settled a callback, by what was read
}

func newCluster(t *testing.T, concurrency int, urls ...string) *cluster {
	return newClusterIn(t, t.TempDir(), nil, concurrency, urls...)
}

// newClusterIn keeps what the nodes share in dir and starts them with args.
func newClusterIn(t *testing.T, dir string, args []string, concurrency int, urls ...string) *cluster {
	c := &cluster{
		t: t, m: newRecorder(t), dir: dir, args: args, concurrency: concurrency,
		stopped: map[string]int{}, deposits: map[string]bool{}, withdrawals: map[string]string{}, permits: map[string]map[string]string{},
	}
	for i, url := range urls {
		n := &clusterNode{name: string(rune('a' + i)), db: url}
		c.nodes = append(c.nodes, n)
		c.start(n)
		if i == 0 { // it has made the token
			c.token = adminToken(t, c.dir)
		}
	}
	c.register("m", c.m)
	return c
}

// register makes a merchant.
func (c *cluster) register(id string, m *recorder) {
	c.t.Helper()
	c.registerWith(id, m, c.concurrency)
}

func (c *cluster) registerWith(id string, m *recorder, concurrency int) {
	c.t.Helper()
	var made struct {
		PublicKey string `json:"publicKey"`
	}
	delays := map[string]any{"delays": []string{"0s"}, "every": "1s"}
	err := c.call(c.t.Context(), c.nodes[0], "POST", "/v1/merchants", map[string]any{
		"id": id, "name": "M", "apiKey": testAPIKey.Reveal(), "key": map[string]any{"bits": 1024}, "concurrency": concurrency,
		"notifyUrl": m.URL + "/n", "withdrawUrl": m.URL + "/w", "finalCodes": client.ProtocolCodes(), "retry": map[string]any{"notify": delays, "withdraw": delays},
	}, &made)
	if err != nil {
		c.t.Fatal(err)
	}
	m.setKey(c.t, made.PublicKey)
}

// start starts a process for n. All share one directory: they need the same
// master key.
func (c *cluster) start(n *clusterNode) {
	c.t.Helper()
	args := []string{"serve", "--log-level", "debug", "--listen", "127.0.0.1:0", "--allow-private", "--allow-http", "--node", n.name,
		"--exchange-timeout", clusterExchange.String(), "--data", c.dir}
	if n.db != "" {
		args = append(args, "--db", n.db)
	}
	d := startDaemon(c.t, append(args, c.args...)...)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.d = d
	n.logs, n.read, n.settles = append(n.logs, d.output), 0, nil
}

func (n *clusterNode) daemon() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.d
}

// acked returns when the node first took something after a moment.
func (n *clusterNode) acked(after time.Time) (time.Time, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.IndexFunc(n.acks, after.Before)
	if i < 0 {
		return time.Time{}, false
	}
	return n.acks[i], true
}

var settledLine = regexp.MustCompile(`(?m)^time=(\S+) \S+ msg=attempt .*result=accepted.*$`)

// settled returns when the node first settled a callback after a moment, by its
// log. It reads what the log has that it had not before: megabytes, asked for often.
func (n *clusterNode) settled(after time.Time) (time.Time, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := n.logs[len(n.logs)-1].lines(n.read)
	n.read += len(lines)
	for _, m := range settledLine.FindAllStringSubmatch(lines, -1) {
		at, err := time.Parse(time.RFC3339Nano, m[1])
		if err == nil && !strings.Contains(m[0], "settled=") {
			n.settles = append(n.settles, at)
		}
	}
	i := slices.IndexFunc(n.settles, after.Before)
	if i < 0 {
		return time.Time{}, false
	}
	return n.settles[i], true
}

func (c *cluster) call(ctx context.Context, n *clusterNode, method, path string, in, out any) error {
	return call(ctx, method, n.daemon().url+path, c.token, in, out)
}

// callTime is how long the wallet core waits for an answer before it asks again.
const callTime = 3 * time.Second

// insist makes a call of the wallet core: it repeats it until it is answered,
// first at n and then anywhere. It gives an error where ctx ended before, and
// where the answer is 4xx.
func (c *cluster) insist(ctx context.Context, n *clusterNode, method, path string, in, out any) error {
	for {
		bounded, cancel := context.WithTimeout(ctx, callTime)
		err := c.call(bounded, n, method, path, in, out)
		cancel()
		var refused *apiError
		switch {
		case err == nil:
			if method == "POST" {
				n.mu.Lock()
				n.acks = append(n.acks, time.Now())
				n.mu.Unlock()
			}
			return nil
		case errors.As(err, &refused) && refused.status < 500:
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if rand.IntN(2) == 0 {
			n = c.nodes[rand.IntN(len(c.nodes))]
		}
	}
}

// load is the wallet core at work on every node, until the function that it
// gives is called.
func (c *cluster) load() (stop func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var work sync.WaitGroup
	repeat := func(f func() error) {
		work.Go(func() {
			for ctx.Err() == nil {
				if err := f(); err != nil && ctx.Err() == nil {
					c.t.Error(err)
					return
				}
				time.Sleep(time.Duration(20+rand.IntN(80)) * time.Millisecond)
			}
		})
	}
	for i, n := range c.nodes {
		repeat(func() error { return c.addDeposits(ctx, n) })
		repeat(func() error { return c.addWithdrawal(ctx, n) })
		repeat(func() error { return c.release(ctx, n, fmt.Sprint("wallet", i%2)) })
	}
	repeat(func() error { return c.follow(ctx, c.nodes[rand.IntN(len(c.nodes))], "1s") })
	return func() {
		c.until("something of each kind happens under load", c.anyOfEach)
		cancel()
		work.Wait()
	}
}

// anyOfEach reports whether something was acknowledged, released and decided.
func (c *cluster) anyOfEach() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.deposits) > 0 && len(c.withdrawals) > 0 && len(c.permits) > 0 && len(c.feed) > 0
}

func (c *cluster) addDeposits(ctx context.Context, n *clusterNode) error {
	var batch []map[string]any
	for range 1 + rand.IntN(2) {
		batch = append(batch, aDeposit(c.n.Add(1)))
	}
	return c.kept(batch, c.insist(ctx, n, "POST", "/v1/deposits", batch, nil))
}

// addDeposit asks n once, for tests of what it says.
func (c *cluster) addDeposit(n *clusterNode) error {
	batch := []map[string]any{aDeposit(c.n.Add(1))}
	return c.kept(batch, c.call(c.t.Context(), n, "POST", "/v1/deposits", batch, nil))
}

// kept writes down the deposits of batch, unless err says that they were not acknowledged.
func (c *cluster) kept(batch []map[string]any, err error) error {
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range batch {
		c.deposits[d["trackingId"].(string)] = true
	}
	return nil
}

func aDeposit(k int64) map[string]any {
	return map[string]any{
		"merchant": "m", "trackingId": fmt.Sprint("D", k), "tenantUserId": "7", "txId": fmt.Sprint("x", k), "chainName": "TRON",
		"symbol": "USDT", "amount": "1.50", "fromAddress": "TA", "toAddress": "TB", "riskLevelFrom": 1, "riskLevelTo": 2, "txIndex": -1,
	}
}

func (c *cluster) addWithdrawal(ctx context.Context, n *clusterNode) error {
	callBackID := fmt.Sprint("W", c.n.Add(1))
	in := map[string]any{"merchant": "m", "callBackId": callBackID, "tenantUserId": "7"}
	if rand.IntN(2) == 0 {
		o := orderOf(callBackID)
		in["details"] = map[string]any{"address": o.Address, "chainName": o.ChainName, "symbol": o.Symbol, "amount": o.Amount.String()}
	}
	var out client.List[client.AcceptedWithdrawal]
	if err := c.insist(ctx, n, "POST", "/v1/withdrawals", in, &out); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.withdrawals[out.Items[0].ID] = callBackID
	return nil
}

// release lets a wallet try for the permit of any withdrawal, old or new. What
// was given before must come again, whatever has happened since.
func (c *cluster) release(ctx context.Context, n *clusterNode, claim string) error {
	c.mu.Lock()
	ids := slices.Collect(maps.Keys(c.withdrawals))
	c.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	return c.releaseOne(ctx, n, ids[rand.IntN(len(ids))], claim)
}

func (c *cluster) releaseOne(ctx context.Context, n *clusterNode, id, claim string) error {
	var out struct {
		Permit string `json:"permit"`
	}
	c.mu.Lock()
	_, asked := c.permits[id][claim] // before this request; another may get it meanwhile
	c.mu.Unlock()
	err := c.insist(ctx, n, "POST", "/v1/withdrawals/"+id+"/release", map[string]any{"claim": claim}, &out)
	c.mu.Lock()
	defer c.mu.Unlock()
	before, had := c.permits[id][claim]
	var refused *apiError
	if errors.As(err, &refused) && refused.status == http.StatusConflict {
		if asked {
			c.t.Errorf("withdrawal %s: claim %s lost its permit: %v", id, claim, refused)
		}
		return nil // not decided yet, or the other wallet has it
	}
	if refused != nil && refused.status == http.StatusNotFound && c.parted.Load() {
		return nil
	}
	if err != nil {
		return err
	}
	if had && before != out.Permit {
		c.t.Errorf("withdrawal %s: claim %s got another permit than before", id, claim)
	}
	if c.permits[id] == nil {
		c.permits[id] = map[string]string{}
	}
	c.permits[id][claim] = out.Permit
	if len(c.permits[id]) > 1 {
		c.t.Errorf("withdrawal %s was released twice, to %v", id, slices.Collect(maps.Keys(c.permits[id])))
	}
	return nil
}

// follow reads on in the feed of decisions. Only one goroutine does.
func (c *cluster) follow(ctx context.Context, n *clusterNode, wait string) error {
	page, err := c.decisions(ctx, n, len(c.feed), wait)
	if err != nil {
		return err
	}
	c.feed = append(c.feed, page...)
	return nil
}

// decisions reads a page of the feed, each entry as one text.
func (c *cluster) decisions(ctx context.Context, n *clusterNode, after int, wait string) (list []string, err error) {
	var page struct {
		Items []struct {
			Seq        int
			Withdrawal struct{ ID, Decision string }
		}
	}
	err = c.insist(ctx, n, "GET", fmt.Sprintf("/v1/decisions?limit=1000&after=%d&wait=%s", after, wait), nil, &page)
	var refused *apiError
	if errors.As(err, &refused) && refused.status == http.StatusConflict && c.parted.Load() {
		return nil, nil // the end of the feed that was replaced lies before what others have read
	}
	if err != nil {
		return nil, err
	}
	for _, d := range page.Items {
		after++
		if d.Seq != after {
			c.t.Errorf("in the feed of decisions %d stands where %d belongs", d.Seq, after)
		}
		list = append(list, fmt.Sprint(d.Seq, " ", d.Withdrawal.ID, " ", d.Withdrawal.Decision))
	}
	return list, nil
}
