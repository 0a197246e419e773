package merchant

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
)

// A provider is a service that does not bind: it has an order of members, a size of
// chunks, and ways to make identifiers.
type provider struct {
	r     *rand.Rand
	chunk int
	order map[int][]string // by type
	uuid  func() string
	id    func() string
	txID  func() string
	n     int // of what it has made
}

func (p *provider) hex(n int) string {
	var b strings.Builder
	for range n {
		b.WriteByte("0123456789abcdef"[p.r.IntN(16)])
	}
	return b.String()
}

func (p *provider) uuid4() string {
	h := p.hex(32)
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-" + string("89ab"[p.r.IntN(4)]) + h[17:20] + "-" + h[20:]
}

// usual are the orders of PROTOCOL.md, M3.
var usual = map[int][]string{
	1: strings.Fields("type trackingId tenantUserId txId chainName symbol amount fromAddress toAddress riskLevelFrom riskLevelTo txIndex newAddress business requestUUID"),
	2: strings.Fields("type trackingId tenantUserId callBackId business requestUUID"),
	3: strings.Fields("type trackingId tenantUserId callBackId txId chainName symbol amount fromAddress toAddress newAddress business requestUUID"),
}

func newProvider(r *rand.Rand, chunk int, shuffled bool) *provider {
	p := &provider{r: r, chunk: chunk, order: map[int][]string{}}
	for typ, names := range usual {
		p.order[typ] = slices.Clone(names)
		if shuffled {
			r.Shuffle(len(names), func(i, k int) { p.order[typ][i], p.order[typ][k] = p.order[typ][k], p.order[typ][i] })
		}
	}
	p.uuid = p.uuid4
	p.id = func() string { return fmt.Sprintf("%08d-%04d", r.IntN(100_000_000), p.n) }
	p.txID = func() string { return "0x" + p.hex(64) }
	return p
}

// message is a callback: its members without a requestUUID.
type message struct {
	typ     int
	members map[string]string
}

func (p *provider) message(typ int) message {
	p.n++
	quote := func(s string) string { return `"` + s + `"` }
	m := message{typ, map[string]string{
		"type": fmt.Sprint(typ), "trackingId": quote(p.id()), "tenantUserId": quote(fmt.Sprint(65510 + p.r.IntN(3))),
		"callBackId": quote(fmt.Sprintf("order-%06d", p.n)), "txId": quote(p.txID()), "chainName": `"ETH"`, "symbol": `"USDT"`,
		"amount": quote([]string{"0.1", "900", "7.4"}[p.r.IntN(3)]), "riskLevelFrom": "44", "riskLevelTo": "40",
		"fromAddress": `"0xef1c6e67703c7bd7107eed8303fbe6ec2554bf6b"`, "toAddress": quote("0x" + strings.Repeat(fmt.Sprint(p.r.IntN(3)), 40)),
		"txIndex": fmt.Sprint(p.r.IntN(10)), "newAddress": `"0x7054b0f980a7eb5b3a6b3446f3c947d80162775c"`, "business": "0",
	}}
	return m
}

// body is a sealed request. Its blocks stand for RSA's: equal chunks, equal blocks.
type body struct {
	chunks []string
	of     message
}

func (p *provider) attempt(m message) body {
	var members []string
	for _, name := range p.order[m.typ] {
		value := m.members[name]
		if name == "requestUUID" {
			value = `"` + p.uuid() + `"`
		}
		members = append(members, `"`+name+`":`+value)
	}
	text := "{" + strings.Join(members, ",") + "}"
	b := body{of: m}
	for ; len(text) > p.chunk; text = text[p.chunk:] {
		b.chunks = append(b.chunks, text[:p.chunk])
	}
	b.chunks = append(b.chunks, text)
	return b
}

const sealedSize = 256

// read returns what a Handler gives its Inbox.
func read(chunks []string) (Entry, error) {
	plaintext := []byte(strings.Join(chunks, ""))
	cb, err := countersign.ParseCallback(plaintext, countersign.ParseOptions{})
	if err != nil {
		return Entry{}, err
	}
	var sealed []byte
	var lengths []int
	for _, c := range chunks {
		sealed = append(sealed, c...)
		sealed = append(sealed, make([]byte, sealedSize-len(c))...)
		lengths = append(lengths, len(c))
	}
	e := NewEntry(cb)
	e.At = time.UnixMilli(1_700_000_000_000)
	e.Blocks = blocksOf(cb, plaintext, sealed, lengths, false)
	return e, nil
}

func (m *MemoryInbox) take(t *testing.T, chunks []string) Claimed {
	t.Helper()
	e, err := read(chunks)
	if err != nil {
		t.Fatalf("%v: %s", err, strings.Join(chunks, "|"))
	}
	c, err := m.Claim(context.Background(), e)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// copy returns an inbox that knows the same and is changed alone.
func (m *MemoryInbox) copy() *MemoryInbox {
	n := NewMemoryInbox()
	n.seq, n.blocks, n.transfers = m.seq, maps.Clone(m.blocks), maps.Clone(m.transfers)
	for key, row := range m.entries {
		entry := *row
		n.entries[key] = &entry
	}
	return n
}

// says is what a callback makes a merchant do.
func says(e Entry) string {
	return fmt.Sprint(e.Callback.CallbackType(), e.ID, e.Callback.Content())
}

// world is what a merchant has received and what a thief has beside.
type world struct {
	*provider
	inbox    *MemoryInbox
	bodies   []*body
	received []*body
	honest   map[string]bool // what honest requests say
	whole    map[string]bool // the honest requests
}

func newWorldOf(t *testing.T, p *provider) *world {
	t.Helper()
	w := &world{provider: p, inbox: NewMemoryInbox(), honest: map[string]bool{}, whole: map[string]bool{}}
	for range 6 {
		m := p.message([]int{1, 1, 1, 2, 3}[p.r.IntN(5)])
		arrived := p.r.IntN(3) > 0
		for range 1 + p.r.IntN(3) {
			b := p.attempt(m)
			e, err := read(b.chunks)
			if err != nil {
				t.Fatal(err)
			}
			w.bodies = append(w.bodies, &b)
			w.honest[says(e)], w.whole[strings.Join(b.chunks, "|")] = true, true
			// Of what arrived in one attempt another may be held back.
			if arrived && p.r.IntN(4) > 0 {
				w.received = append(w.received, &b)
				if got := w.inbox.take(t, b.chunks); got.State != StateTaken && got.State != StateSettled || got.Suspect {
					t.Fatalf("an honest request gave %v, suspect %v", got.State, got.Suspect)
				}
			}
		}
	}
	return w
}

// join returns the blocks of a request that is joined from those of several.
func (w *world) join() []string {
	base := w.bodies[w.r.IntN(len(w.bodies))]
	join := slices.Clone(base.chunks)
	for i := range join {
		other := w.bodies[w.r.IntN(len(w.bodies))]
		switch k := w.r.IntN(20); {
		case k < 10 && other.of.typ == base.of.typ && i < len(other.chunks):
			join[i] = other.chunks[i]
		case k == 19:
			join[i] = other.chunks[w.r.IntN(len(other.chunks))]
		}
	}
	return join
}

// forbidden says why no rule may let a join pass that says what no honest request
// said; it is empty where the join cannot be told from an honest request.
func (w *world) forbidden(join []string) string {
	plaintext := strings.Join(join, "")
	spans := countersign.ValueSpans([]byte(plaintext), "requestUUID", "txId", "amount")
	start, fresh := 0, false
	for i, c := range join {
		end := start + len(c)
		known := false
		for _, b := range w.received {
			for k, chunk := range b.chunks {
				if chunk != c {
					continue
				}
				known = true
				if digits, txID := b.digitsOfTx(k); digits >= 12 && txID != plaintext[spans[1][0]:spans[1][1]] {
					return fmt.Sprintf("block %d holds %d digits of another txId", i, digits)
				}
			}
		}
		held := min(end, spans[0][1]) - max(start, spans[0][0])
		fresh = fresh || held > 0 && !known
		if known && held >= 20 {
			return fmt.Sprintf("block %d holds %d characters of a requestUUID that came before", i, held)
		}
		if known && w.order[1][len(w.order[1])-1] == "requestUUID" && slices.Equal(w.order[1], usual[1]) && start < spans[2][1] && spans[2][1] > 0 && w.typeOf(join) == 1 {
			return fmt.Sprintf("block %d of a deposit in the usual order is from a request that came before", i)
		}
		start = end
	}
	if !fresh {
		return "no block of the requestUUID is new"
	}
	return ""
}

func (w *world) typeOf(join []string) int {
	e, _ := read(join)
	return int(e.Callback.CallbackType())
}

// digitsOfTx is how many digits of its txId block k of b holds where an edge of the
// block cuts the txId, 0 if none does.
func (b *body) digitsOfTx(k int) (n int, txID string) {
	txID = b.of.members["txId"]
	text := strings.Join(b.chunks, "")
	from := strings.Index(text, `"txId":`+txID)
	if from < 0 {
		return 0, ""
	}
	from += len(`"txId":`)
	start := len(strings.Join(b.chunks[:k], ""))
	end := start + len(b.chunks[k])
	if start <= from && from+len(txID) <= end {
		return 0, txID
	}
	for i := max(start, from+len(`"0x`)); i < min(end, from+len(txID)-1); i++ {
		n++
	}
	return n, txID
}

// TestJoins joins blocks of honest requests, in all orders of members and both sizes
// of keys. Some of the requests were received before, some were held back. Every
// join that says what no honest request said is refused or held, unless it cannot
// be told from an honest one (SECURITY.md).
func TestJoins(t *testing.T) {
	t.Parallel()
	passed, tried := 0, 0
	for round := range 110 {
		chunk := []int{117, 245}[round%2]
		w := newWorldOf(t, newProvider(rand.New(rand.NewPCG(uint64(round), 1)), chunk, round >= 25))
		for range 300 {
			join := w.join()
			e, err := read(join)
			if err != nil || w.whole[strings.Join(join, "|")] {
				continue
			}
			tried++
			got := w.inbox.copy().take(t, join)
			harm := got.State == StateTaken && !got.Suspect && !got.PossibleDuplicate && !w.honest[says(e)]
			if e.Callback.CallbackType() == countersign.TypeRequestWithdraw {
				// The answer to what an honest request said is sealed with the requestUUID
				// of the join, so it must not go to one either.
				harm = got.State == StateTaken || got.State == StateSettled
			}
			if !harm {
				continue
			}
			passed++
			if why := w.forbidden(join); why != "" {
				t.Fatalf("round %d, chunks of %d: %s\n%s\nwas taken as %s", round, chunk, why, strings.Join(join, "\n"), says(e))
			}
		}
	}
	if tried < 10_000 || passed == 0 {
		t.Errorf("%d joins could be read and %d of those were taken", tried, passed)
	}
	t.Logf("%d joins could be read; %d cannot be told from honest requests", tried, passed)
}

// TestNothingHeldBack: of requests that were all received no join passes.
func TestNothingHeldBack(t *testing.T) {
	t.Parallel()
	tried := 0
	for round := range 100 {
		w := newWorldOf(t, newProvider(rand.New(rand.NewPCG(uint64(round), 2)), []int{117, 245}[round%2], round >= 20))
		for _, b := range w.bodies {
			w.inbox.take(t, b.chunks)
		}
		for range 100 {
			join := w.join()
			e, err := read(join)
			if err != nil || w.whole[strings.Join(join, "|")] {
				continue
			}
			tried++
			got := w.inbox.copy().take(t, join)
			repeats := got.State == StateSettled && w.honest[says(e)] && e.Callback.CallbackType() != countersign.TypeRequestWithdraw
			if got.State != StateSpliced && got.State != StateOtherContent && !repeats {
				t.Fatalf("round %d: %v\n%s", round, got.State, strings.Join(join, "\n"))
			}
		}
	}
	if tried < 1000 {
		t.Errorf("%d joins could be read", tried)
	}
}

// TestHonestRequests: whatever an honest service sends that does not bind is taken,
// also where its requests share blocks.
func TestHonestRequests(t *testing.T) {
	t.Parallel()
	shared := 0
	for round := range 200 {
		r := rand.New(rand.NewPCG(uint64(round), 3))
		chunk := []int{117, 245, 117, 245, 50}[r.IntN(5)]
		p := newProvider(r, chunk, round >= 20)
		p.uuid = p.uuids()[r.IntN(len(p.uuids()))]
		tx := "0x" + p.hex(64)
		p.txID = []func() string{
			p.txID, func() string { return p.hex(64) },
			func() string { return tx }, // one transaction that pays many
			func() string { return fmt.Sprintf("internal-transfer-2026-11-22-%06d", p.n) },
		}[r.IntN(4)]
		p.id = []func() string{
			p.id, p.uuid4, func() string { return fmt.Sprintf("%s-%d", tx, p.n) },
			func() string { return fmt.Sprintf("deposit/mainnet/2026/11/22/%06d", p.n) },
		}[r.IntN(4)]
		inbox := NewMemoryInbox()
		var all []message
		for range 30 {
			m := p.message([]int{1, 1, 1, 1, 3}[r.IntN(5)])
			all = append(all, m)
			if k := r.IntN(len(all)); r.IntN(3) == 0 {
				m = all[k] // another attempt
			}
			b := p.attempt(m)
			for _, c := range b.chunks {
				if _, known := inbox.blocks[sealedDigest(c)]; known {
					shared++
				}
			}
			for range 1 + r.IntN(2) { // the same body again
				if got := inbox.take(t, b.chunks); got.State != StateTaken && got.State != StateSettled || got.Suspect {
					t.Fatalf("round %d: %v, suspect %v\n%s", round, got.State, got.Suspect, strings.Join(b.chunks, "\n"))
				}
			}
		}
	}
	if shared < 1000 {
		t.Errorf("honest requests shared %d blocks", shared)
	}
}

func sealedDigest(chunk string) BlockDigest {
	e, err := read([]string{chunk})
	if err == nil {
		return e.Blocks.List[0].Digest
	}
	return blockDigest(append([]byte(chunk), make([]byte, sealedSize-len(chunk))...))
}

// uuids are ways to make a requestUUID.
func (p *provider) uuids() []func() string {
	n := 0
	return []func() string{
		p.uuid4,
		func() string { return strings.ReplaceAll(p.uuid4(), "-", "") },
		func() string { n++; return fmt.Sprintf("%08x-2fa1-11d2-883f-0016d3cca427", 0x1b4e28ba+n) }, // version 1
		func() string { n++; return fmt.Sprintf("0193%08x-7%s-9%s", n, p.hex(3), p.hex(15)) },       // like version 7
		func() string { n++; return fmt.Sprintf("request-%08d", n) },
		func() string { n++; return fmt.Sprintf("20261122%09d", n) },
	}
}
