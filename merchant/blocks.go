package merchant

import (
	"context"
	"crypto/sha256"
	"regexp"
	"strings"

	"countersign"
)

// Rememberer is an Inbox that also remembers the blocks of requests that opened but were refused before they reached
// it, for example because of a wrong setting. Otherwise a request spliced from them would be taken once the setting is
// right. The Inboxes of this project are Rememberers.
type Rememberer interface {
	// Remember remembers the blocks of e, as rule 1 of Claim does, if Judge finds nothing against them. Only At and
	// Blocks of e are set.
	Remember(ctx context.Context, e Entry) error
}

// SeenBlock is what an Inbox remembers of a block: the request that it first came
// in, and its owner there.
type SeenBlock struct{ Body, Owner BlockDigest }

// Finding is the result of Entry.Judge.
type Finding int

// The findings.
const (
	FindingNone    Finding = iota // nothing speaks against the request
	FindingSuspect                // record the deposit, as suspect: a person decides
	FindingSpliced                // refuse the request and remember nothing of it
)

// Judge applies the rules of seen blocks to a request for e (PROTOCOL.md, B5 and B7). seen has at
// least those of its blocks that the Inbox remembers; recorded and settled describe the state of the
// entry. An Inbox decides nothing else about blocks.
func (e *Entry) Judge(seen map[BlockDigest]SeenBlock, recorded, settled bool) Finding {
	if e.Blocks == nil {
		return FindingNone
	}
	t := countersign.TypeUnknown
	if e.Callback != nil {
		t = e.Callback.CallbackType()
	}
	own, foreign, fresh, mine := false, false, false, false
	for _, block := range e.Blocks.List {
		first, known := seen[block.Digest]
		switch {
		case !known:
			fresh = true
		case first.Body == e.Blocks.Body: // this very request came before, and may have been refused
			fresh, mine = true, true
		case block.Own:
			own = true
		case first.Owner != block.Owner:
			foreign = true
		}
	}
	suspect := t == countersign.TypeDeposited && !recorded
	switch {
	case mine && recorded:
		return FindingNone
	case (own || !fresh) && suspect && e.Blocks.ByPerson:
		return FindingSuspect
	case own:
		return FindingSpliced
	case settled && t != countersign.TypeRequestWithdraw:
		// It gets its recorded reply again, which moves nothing. A reply to type 2
		// is sealed with this requestUUID, and so must not go to a splice.
		return FindingNone
	case !fresh:
		return FindingSpliced
	case foreign && suspect:
		return FindingSuspect
	case foreign:
		return FindingSpliced
	}
	return FindingNone
}

// The least number of hexadecimal digits of a random value that a block must hold to count. 16 digits of a random UUID
// are 60 random bits. At a hundred requests a second, two requests of 30 days agree in them less than once in ten
// years, and the one that is refused passes with its next requestUUID. 12 are enough for an owner, since the rest of
// the block must agree as well.
const (
	ownDigits   = 16
	ownerDigits = 12
)

// blocksOf returns the blocks of a request that opened. cb is nil if it is not a callback. lengths has the bytes of
// plaintext in each sealed block. padded means that equal chunks give different blocks.
func blocksOf(cb countersign.Callback, plaintext, sealed []byte, lengths []int, padded bool) *Blocks {
	size := len(sealed) / len(lengths)
	names := []string{"requestUUID", "trackingId", "callBackId", "txId"}
	values := make([]cutValue, len(names))
	for i, span := range countersign.ValueSpans(plaintext, names...) {
		values[i] = newCutValue(plaintext, span)
	}
	if countersign.CheckBinding(plaintext) == countersign.BindingHolds {
		values[0].random = true
	}
	b := &Blocks{Body: blockDigest(sealed), List: make([]Block, len(lengths))}
	start := 0
	for i, n := range lengths {
		block, end := &b.List[i], start+n
		block.Digest = blockDigest(sealed[i*size : (i+1)*size])
		block.Own = values[0].owns(start, end)
		var owner []string
		if padded && cb != nil { // only the attempts of one callback can share such a block
			owner = append(owner, cb.CallbackType().String(), NewEntry(cb).ID)
		}
		for k, v := range values {
			least := ownerDigits
			if k == 0 {
				least = ownDigits // others may share the rest of a block that ends a requestUUID
			}
			if v.random && v.cut(start, end) && v.digitsIn(start, end) >= least {
				owner = append(owner, names[k], v.text)
			}
		}
		if owner != nil {
			d := digestOf("countersign block owner 1")
			d.text(owner...)
			sum := d.sum()
			copy(block.Owner[:], sum[:])
		}
		start = end
	}
	return b
}

func blockDigest(sealed []byte) (d BlockDigest) {
	sum := sha256.Sum256(sealed)
	copy(d[:], sum[:])
	return d
}

// cutValue is the value of a member, which the edges of blocks may cut.
type cutValue struct {
	text       string // with its quotes; empty: there is no such member
	start, end int    // in the plaintext
	digits     int    // where its digits begin, in the plaintext
	random     bool   // a random UUID or a hash
}

func newCutValue(plaintext []byte, span [2]int) cutValue {
	v := cutValue{text: string(plaintext[span[0]:span[1]]), start: span[0], end: span[1], digits: span[0] + 1}
	text := strings.Trim(v.text, `"`)
	v.random = randomUUID.MatchString(text) || hashText.MatchString(text)
	if strings.HasPrefix(text, "0x") || strings.HasPrefix(text, "0X") { // a UUID has no x
		v.digits += len("0x")
	}
	return v
}

// owns reports whether a block from start to end holds all of v, or enough of a random v to be the only one.
func (v cutValue) owns(start, end int) bool {
	if v.end <= start || end <= v.start {
		return false
	}
	return !v.cut(start, end) || v.random && v.digitsIn(start, end) >= ownDigits
}

// cut reports whether a block from start to end holds a part of v and not all.
func (v cutValue) cut(start, end int) bool {
	return v.start < end && start < v.end && (v.start < start || end < v.end)
}

// digitsIn returns how many digits of v a block from start to end holds.
func (v cutValue) digitsIn(start, end int) (n int) {
	for i := max(start, v.digits); i < min(end, v.end); i++ {
		if isHexDigit(v.text[i-v.start]) {
			n++
		}
	}
	return n
}

// The texts with random digits: a UUID of version 4, with hyphens or without, and 64 hexadecimal digits, as transactions
// are named on most chains.
var (
	randomUUID = regexp.MustCompile(`^(?i:[0-9a-f]{8}(-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-|[0-9a-f]{4}4[0-9a-f]{3}[89ab][0-9a-f]{3})[0-9a-f]{12})$`)
	hashText   = regexp.MustCompile(`^(?i:(0x)?[0-9a-f]{64})$`)
)

func isHexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
