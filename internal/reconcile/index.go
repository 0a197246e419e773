// Package reconcile compares what two systems recorded about the same deposits and withdrawals.
package reconcile

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"countersign"
	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/web"
)

// Line is a line of a file, one JSON object. Unknown members are ignored, so that books may have more.
type Line struct {
	Merchant     string             `json:"merchant,omitempty"`
	TrackingID   string             `json:"trackingId,omitempty"`
	CallBackID   string             `json:"callBackId,omitempty"`
	TenantUserID string             `json:"tenantUserId,omitempty"`
	Address      string             `json:"address,omitempty"`
	ChainName    string             `json:"chainName,omitempty"`
	Symbol       string             `json:"symbol,omitempty"`
	Amount       countersign.Amount `json:"amount,omitzero"`
	Claim        string             `json:"claim,omitempty"`
	Permit       string             `json:"permit,omitempty"`

	// State is what became of a withdrawal or an order. TxID is its transaction, or a deposit's. Confirmed is when the
	// merchant confirmed the order.
	State     string      `json:"state,omitempty"`
	TxID      string      `json:"txId,omitempty"`
	TxIndex   *int64      `json:"txIndex,omitempty"`
	ToAddress string      `json:"toAddress,omitempty"` // of a deposit; Address will do
	Confirmed client.Time `json:"confirmed,omitzero"`

	// Members of a row of the service's API. A line with one of them is refused.
	Details json.RawMessage `json:"details,omitempty"`
	Ordered json.RawMessage `json:"ordered,omitempty"`

	// Is occurs in files that this package writes itself. In others it has no meaning.
	Is flags `json:"~is,omitempty"`
}

// lineMembers are the names of the members of a Line.
var lineMembers = func() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Line]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}()

// readLine reads one line strictly. encoding/json would take the last of two members with one name, and names in
// another case; whoever wrote such a line may have meant the other.
func readLine(text []byte) (l Line, err error) {
	o, err := web.ParseObject(text, maxLine)
	if err != nil {
		return l, err
	}
	for _, m := range o.Members {
		i := slices.IndexFunc(lineMembers, func(name string) bool { return strings.EqualFold(name, m.Name) })
		switch {
		case i < 0:
		case lineMembers[i] != m.Name:
			return l, fmt.Errorf("%s is in another case; write %s", web.Printable(m.Name), lineMembers[i])
		case m.Name == "amount" && !strings.HasPrefix(o.Raw(m), `"`):
			return l, errors.New(`amount is not a text; write it as a text, such as "1.50", since programs round numbers`)
		}
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return l, err
	}
	// If ignored, they would agree with anything.
	if present(l.Details) || present(l.Ordered) {
		return l, errors.New("details and ordered are of the service's own rows; write what the other side has in its books: address, chainName, symbol and amount beside callBackId")
	}
	return l, nil
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// checkEnd refuses a line whose state contradicts its members. What was not executed has no transaction. With without,
// it has no permit either.
func (l Line) checkEnd(without bool) error {
	for name, text := range map[string]string{"txId": l.TxID, "claim": l.Claim, "permit": l.Permit} {
		if text != "" && (without || name == "txId") {
			return fmt.Errorf("state %q is contradicted by %s; write what became of it, or nothing of %s if there was none",
				l.State, name, name)
		}
	}
	return nil
}

// checkDetails returns an error if a member of the line contradicts what is known here of its withdrawal or order.
func (l Line) checkDetails(what, tenantUserID string, known *countersign.Details) error {
	member := ""
	switch {
	case l.TenantUserID != "" && l.TenantUserID != tenantUserID:
		member = "tenantUserId"
	case known != nil && known.Address != "": // else details are not known here
		d := countersign.Details{Address: cmp.Or(l.Address, known.Address), ChainName: cmp.Or(l.ChainName, known.ChainName),
			Symbol: cmp.Or(l.Symbol, known.Symbol), Amount: l.Amount}
		if !d.Amount.IsSet() {
			d.Amount = known.Amount
		}
		member = d.Differs(*known)
	}
	if member == "" {
		return nil
	}
	return fmt.Errorf("%s is not that of %s here: the line is about another %s", member, l.CallBackID, what)
}

// otherTx reports whether the line names a transaction other than the one known here.
func (l Line) otherTx(known string) bool {
	return l.TxID != "" && known != "" && countersign.FoldTxID(l.TxID) != countersign.FoldTxID(known)
}

// booked is a deposit that the application has booked.
func (l Line) booked() book.Booked {
	b := book.Booked{TrackingID: l.TrackingID, Sum: book.SumOf(l.Symbol, l.Amount), TxIndex: -1}
	b.Transfer, b.Payment = book.KeysOf(countersign.Deposit{TxID: l.TxID, ChainName: l.ChainName, Symbol: l.Symbol,
		Amount: l.Amount, ToAddress: cmp.Or(l.ToAddress, l.Address)})
	if l.TxIndex != nil {
		b.TxIndex = *l.TxIndex
	}
	return b
}

// maxLine bounds a line, in bytes.
const maxLine = 1 << 20

// Lines calls fn for each line of the file at path.
func Lines(path string, fn func(Line) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(make([]byte, 64<<10), maxLine)
	for n := 1; in.Scan(); n++ {
		if len(in.Bytes()) == 0 {
			continue
		}
		l, err := readLine(in.Bytes())
		if err != nil {
			return fmt.Errorf("%s, line %d: %w", path, n, err)
		}
		if err := fn(l); err != nil {
			return fmt.Errorf("%s, line %d: %w", path, n, err)
		}
	}
	if err := in.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("%s: a line is longer than %d bytes", path, maxLine)
	} else if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// key is part of the digest of an identifier. A million lines take some 60 MB, and two identifiers have the same key
// with a probability below 10⁻²⁶.
type key [16]byte

// entry is what the lines with one identifier say.
type entry struct {
	sum [7]byte // of the sum; zero: the lines do not say it
	is  flags
}

// flags are further facts about a line.
type flags byte

const (
	hit       flags = 1 << iota // the other side has it
	waits                       // a deposit that does not count: it is held or was rejected
	confirmed                   // an order that the merchant has confirmed
	executed                    // an order that the service reported as executed, or a withdrawal that the core executed
	ended                       // an order that ended in any other way, or a withdrawal that ended without a permit
	permitted                   // a withdrawal that had a permit, whatever became of it
	failed                      // one that had a permit, and nothing moved
	untouched                   // one of which nothing became
)

// Index holds the identifiers of a file's lines, not the lines themselves.
type Index struct {
	c       Config
	path    string
	core    bool // see Line.name
	entries map[key]entry
	twice   int // lines that repeat the name of another deposit
}

func keyOf(merchant, id string) (k key) {
	d := sha256.Sum256([]byte(merchant + "\x00" + id))
	copy(k[:], d[:])
	return k
}

func sumOf(text string) (s [7]byte) {
	if text != "" {
		d := sha256.Sum256([]byte(text))
		copy(s[:], d[:])
	}
	return s
}

// Add adds a line. Of several lines with one identifier, the first that says a sum counts.
func (x *Index) Add(merchant, id, sum string, is flags) {
	if x.entries == nil {
		x.entries = map[key]entry{}
	}
	k := keyOf(merchant, id)
	e, known := x.entries[k]
	if known && strings.HasPrefix(id, depositName("")) {
		x.twice++
	}
	if e.sum == [7]byte{} {
		e.sum = sumOf(sum)
	}
	e.is |= is
	x.entries[k] = e
}

// Match looks up an item of the other side. It reports whether a line has it, the flags of the line, and whether the
// two agree on the sum. They agree if either does not state it.
func (x *Index) Match(merchant, id, sum string) (is flags, found, agrees bool) {
	k := keyOf(merchant, id)
	e, found := x.entries[k]
	if !found {
		return 0, false, false
	}
	e.is |= hit
	x.entries[k] = e
	return e.is, true, sameSum(sumOf(sum), e.sum)
}

func sameSum(a, b [7]byte) bool { return a == b || a == [7]byte{} || b == [7]byte{} }

// Matched reports whether the other side has the item of a line.
func (x *Index) Matched(merchant, id string) bool { return x.says(merchant, id)&hit != 0 }

// says returns the flags of all lines with an identifier.
func (x *Index) says(merchant, id string) flags { return x.entries[keyOf(merchant, id)].is }

// rest calls fn for the lines that the other side does not have.
func (x *Index) rest(fn func(Line) error) error {
	return Lines(x.path, func(l Line) error {
		if x.Matched(x.c.merchant(l), l.name(x.core)) {
			return nil
		}
		return fn(l)
	})
}

// Has reports whether a line has the identifier.
func (x *Index) Has(merchant, id string) bool {
	_, has := x.entries[keyOf(merchant, id)]
	return has
}
