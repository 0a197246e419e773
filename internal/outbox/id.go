package outbox

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"

	"countersign/internal/db"
	"countersign/internal/db/page"
	"countersign/internal/merchants"
)

// idLength is the length of the part of an id that follows the merchant.
const idLength = 26

// idAlphabet is Crockford's base 32 in lower case: texts sort like their numbers.
const idAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// idMaker makes ids that sort by time: 48 bits of milliseconds, then 80 bits that
// start at random and count up within a millisecond.
type idMaker struct {
	mu     sync.Mutex
	last   db.Millis
	hi, lo uint64 // the 80 bits: 16 and 64
}

// next gives the 26 characters of a new id. Each id of a maker is greater than the one
// before if now does not go back.
func (m *idMaker) next(now db.Millis) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	now = max(0, min(now, 1<<48-1))
	if now != m.last {
		var b [10]byte
		rand.Read(b[:])
		m.last, m.hi, m.lo = now, uint64(binary.BigEndian.Uint16(b[:2]))&0x7fff, binary.BigEndian.Uint64(b[2:])
	} else if m.lo++; m.lo == 0 {
		m.hi++ // from at most 2¹⁵: no overflow within a millisecond
	}
	return formID(uint64(now)<<16|m.hi, m.lo)
}

// IDAt is the least id that can be made at a time, without the merchant.
func IDAt(at db.Millis) string {
	return formID(uint64(max(0, min(at, 1<<48-1)))<<16, 0)
}

// formID writes 128 bits.
func formID(hi, lo uint64) string {
	var out [idLength]byte
	for i := idLength - 1; i >= 0; i-- { // 5 bits at a time from the end
		out[i] = idAlphabet[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(out[:])
}

// joinID makes the id that callers see.
func joinID(merchant, id string) string { return merchant + "." + id }

// splitID inverts joinID. Any other text is ErrNotFound.
func splitID(id string) (merchant, rest string, err error) {
	merchant, rest, ok := strings.Cut(id, ".")
	if !ok || len(rest) != idLength || !merchants.ValidID(merchant) || strings.Trim(rest, idAlphabet) != "" {
		return "", "", db.ErrNotFound
	}
	return merchant, rest, nil
}

// from continues a list after a cursor, which names a row by its id and is empty at the
// beginning. It precedes EndWalk.
func from(l *page.Listing, cursor string) error {
	if cursor == "" {
		return nil
	}
	p, err := cursorPlace(cursor)
	if err == nil {
		l.Below(p)
	}
	return err
}

func cursorPlace(cursor string) (page.Place, error) {
	merchant, id, err := splitID(cursor)
	if err != nil {
		return page.Place{}, fmt.Errorf("cursor is %w", db.ErrInvalid)
	}
	return page.Place{ID: id, Owner: merchant}, nil
}

// readPage is page.Read of rows with an id that joinID made, which idOf gives. next is
// the cursor of the next page.
func readPage[T any](ctx context.Context, o *Outbox, columns string, ls []page.Listing, limit int, idOf func(T) string,
	scan func(db.Rows) (T, error)) (list []T, next string, err error) {
	list, last, err := page.Read(ctx, o, columns, ls, limit, func(r db.Rows) (v page.Row[T], err error) {
		v.Value, err = scan(r)
		v.Owner, v.ID, _ = strings.Cut(idOf(v.Value), ".")
		return v, err
	})
	if last != (page.Place{}) {
		next = joinID(last.Owner, last.ID)
	}
	return list, next, err
}
