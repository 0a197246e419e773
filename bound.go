package countersign

import (
	"slices"
	"strings"

	"countersign/internal/web"
)

// detailNames are the members of an answer that say what is moved and where to.
var detailNames = [...]string{"address", "chainName", "symbol", "amount"}

// DetailsBound reports whether the details of an opened answer to type 2 belong
// to its callBackId or its requestUUID by the blocks that they came in
// (PROTOCOL.md, Decision, D7): each of address, chainName, symbol and amount lies
// whole in one block, and that block also holds the whole of callBackId or of
// requestUUID. blocks are the lengths that envelope.OpenBlocks returns.
//
// A member that lies in two blocks does not count, even if both of them name the withdrawal. The order may have changed
// between two answers, and halves of both would join to an amount or an address that neither said: "1999" and later
// "2000", cut after the first digit, join to "2999".
//
// The caller checks that callBackId and requestUUID are the expected ones. DetailsBound is false if plaintext is not a
// JSON object or blocks do not add up to its length.
func DetailsBound(plaintext []byte, blocks []int) bool {
	obj, err := scan(plaintext)
	if err != nil {
		return false
	}
	sum := 0
	for _, n := range blocks {
		if n <= 0 {
			return false
		}
		sum += n
	}
	if sum != len(plaintext) {
		return false
	}
	callback, named := wholeIn(obj, "callBackId", blocks)
	attempt, bound := wholeIn(obj, "requestUUID", blocks)
	for _, name := range detailNames {
		block, ok := wholeIn(obj, name, blocks)
		if !ok || !(named && block == callback || bound && block == attempt) {
			return false
		}
	}
	return true
}

// ValueSpans finds the values of members of the outermost object as they are written: plaintext[span[0]:span[1]]. The
// span of a missing member is two zeros. If plaintext is not a JSON object, all spans are.
func ValueSpans(plaintext []byte, names ...string) [][2]int {
	spans := make([][2]int, len(names))
	obj, err := scan(plaintext)
	if err != nil {
		return spans
	}
	for i, name := range names {
		if m, found := obj.Find(name); found {
			spans[i] = [2]int{m.Start, m.End}
		}
	}
	return spans
}

// wholeIn finds the block that holds all of a member: from the quote before its
// name to the last byte of its value.
func wholeIn(obj *web.Object, name string, blocks []int) (block int, ok bool) {
	m, found := obj.Find(name)
	if !found {
		return 0, false
	}
	start := 0
	for i, n := range blocks {
		if m.From >= start && m.From < start+n {
			return i, m.End <= start+n
		}
		start += n
	}
	return 0, false
}

// MarshalBlocks returns the bytes of a for a sealer that cuts them into chunks of chunk bytes, and whether DetailsBound
// will hold for them. If it holds for the canonical bytes, it returns those. Otherwise it reorders the members and puts
// spaces before some of them, so that it holds in as few blocks as possible (PROTOCOL.md, Answers, R7). If members are
// too long for that, it returns the canonical bytes and false. Errors are those of Marshal.
func (a WithdrawalAnswer) MarshalBlocks(chunk int) (b []byte, bound bool, err error) {
	canonical, err := a.Marshal()
	if err != nil || chunk <= 0 {
		return canonical, false, err
	}
	if DetailsBound(canonical, fullBlocks(len(canonical), chunk)) {
		return canonical, true, nil
	}
	obj, err := scan(canonical)
	if err != nil {
		return nil, false, err
	}
	best := packing{blocks: len(canonical) + 1}
	for together := 1<<len(detailNames) - 1; together >= 0; together-- {
		best.improve(obj, string(canonical), uint(together), chunk)
	}
	if best.pieces == nil {
		return canonical, false, nil
	}
	packed := best.write(chunk)
	if len(packed) > MaxMessage {
		return canonical, false, nil
	}
	return packed, true, nil
}

// fullBlocks is the layout of n bytes where every chunk but the last is full.
func fullBlocks(n, chunk int) []int {
	blocks := make([]int, 0, n/chunk+1)
	for ; n > chunk; n -= chunk {
		blocks = append(blocks, chunk)
	}
	return append(blocks, n)
}

// piece is a part of an object: one member, or several with commas between.
type piece struct {
	text  string
	whole bool // must lie in one block
}

// packing is an order of pieces and what it costs.
type packing struct {
	pieces         []piece
	blocks, length int
}

// improve tries all orders in which the details in together share a block with callBackId, and the others share one
// with requestUUID. It keeps the order with the fewest blocks, then the fewest bytes.
func (p *packing) improve(obj *web.Object, src string, together uint, chunk int) {
	raw := func(name string) string {
		m, _ := obj.Find(name)
		return src[m.From:m.End]
	}
	withCallback, withAttempt := []string{raw("callBackId")}, []string{}
	for i, name := range detailNames {
		if together>>i&1 == 1 {
			withCallback = append(withCallback, raw(name))
		} else {
			withAttempt = append(withAttempt, raw(name))
		}
	}
	groups := []piece{
		{strings.Join(withCallback, ","), len(withCallback) > 1},
		{strings.Join(append(withAttempt, raw("requestUUID")), ","), len(withAttempt) > 0},
	}
	if groups[0].whole && len(groups[0].text) > chunk || groups[1].whole && len(groups[1].text) > chunk {
		return
	}
	free := []piece{{text: raw("type")}, {text: raw("tenantUserId")}}
	var others []string
	for _, m := range obj.Members {
		if !slices.Contains([]string{"type", "tenantUserId", "callBackId", "requestUUID"}, m.Name) &&
			!slices.Contains(detailNames[:], m.Name) {
			others = append(others, src[m.From:m.End])
		}
	}
	if others != nil {
		free = append(free, piece{text: strings.Join(others, ",")})
	}
	// Each free piece goes before, between or behind the two groups.
	places := 1
	for range free {
		places *= 3
	}
	order := make([]piece, 0, len(free)+len(groups))
	for place := range 2 * places {
		order = order[:0]
		for slot := range 3 {
			for i, at := 0, place/2; i < len(free); i, at = i+1, at/3 {
				if at%3 == slot {
					order = append(order, free[i])
				}
			}
			if slot < 2 {
				order = append(order, groups[(slot+place)%2])
			}
		}
		length := packedLength(order, chunk)
		if blocks := (length-1)/chunk + 1; blocks < p.blocks || blocks == p.blocks && length < p.length {
			*p = packing{slices.Clone(order), blocks, length}
		}
	}
}

// gap returns how many spaces to put before a piece that would begin at byte at.
func (p piece) gap(at, chunk int) int {
	if room := chunk - at%chunk; p.whole && len(p.text) > room {
		return room
	}
	return 0
}

func packedLength(order []piece, chunk int) int {
	n := 0
	for _, p := range order {
		n++ // the brace or the comma
		n += p.gap(n, chunk) + len(p.text)
	}
	return n + 1
}

func (p *packing) write(chunk int) []byte {
	b := make([]byte, 0, p.length)
	for i, piece := range p.pieces {
		separator := byte(',')
		if i == 0 {
			separator = '{'
		}
		b = append(b, separator)
		for range piece.gap(len(b), chunk) {
			b = append(b, ' ')
		}
		b = append(b, piece.text...)
	}
	return append(b, '}')
}
