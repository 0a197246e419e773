package book

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

const (
	addressColumns = `seq, tenant_user_id, chain_name, symbol, address, old_address, state, taken, decided, decided_by, reason`

	readAddressSQL = `SELECT ` + addressColumns + ` FROM addresses WHERE seq = $1`

	lockAddressSQL = readAddressSQL + `{lock}`

	// The one that began to count last, of the same chain or where one of the two names none.
	countingAddressSQL = `
SELECT address FROM addresses
WHERE tenant_user_id = $1 AND counts > 0 AND ($2 = '' OR chain = '' OR chain = $2) ORDER BY counts DESC LIMIT 1`

	heldAddressSQL = `SELECT 1 FROM addresses WHERE tenant_user_id = $1 AND state = 'held' AND chain = $2 AND address = $3 LIMIT 1`

	unsettledAddressSQL = `
SELECT 1 FROM addresses
WHERE tenant_user_id = $1 AND state IN ('held', 'rejected') AND ($2 = '' OR chain = '' OR chain = $2) LIMIT 1`

	knownChainSQL = `
SELECT 1 WHERE EXISTS (SELECT 1 FROM deposited_at WHERE chain = $1) OR EXISTS (SELECT 1 FROM addresses WHERE chain = $1 AND counts > 0)`

	// $2 is empty: on any chain.
	depositedElsewhereSQL = `
SELECT 1 WHERE EXISTS (SELECT 1 FROM deposited_at WHERE tenant_user_id = $1 AND ($2 = '' OR chain = $2) AND address <> $3)`

	insertDepositedSQL = `
INSERT INTO deposited_at (tenant_user_id, chain, address) VALUES ($1, $2, $3) ON CONFLICT (tenant_user_id, chain, address) DO NOTHING`

	nextCountsSQL = `SELECT COALESCE(MAX(counts), 0) + 1 FROM addresses WHERE tenant_user_id = $1`

	insertAddressSQL = `
INSERT INTO addresses (tenant_user_id, chain_name, symbol, address, old_address, state, taken, chain, counts) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

	decideAddressSQL = `
UPDATE addresses SET state = $2, decided = $3, decided_by = $4, reason = $5, counts = $6 WHERE seq = $1 AND state = 'held'`
)

func scanAddress(r db.Rows) (a client.AddressEntry, err error) {
	err = r.Scan(&a.Seq, &a.TenantUserID, &a.ChainName, &a.Symbol, &a.Address, &a.OldAddress, &a.State, &a.Taken, &a.Decided, &a.DecidedBy, &a.Reason)
	return a, err
}

// takeAddress records an address that the service tells. One that replaces another waits
// for a person: until then the application shows the address that it knows.
func (in *inboxTx) takeAddress(ctx context.Context, c *countersign.AddressChange, at db.Millis) error {
	a := client.AddressEntry{TenantUserID: c.TenantUserID, ChainName: c.ChainName, Symbol: c.Symbol, Address: c.CountingAddress(), OldAddress: c.ToAddress,
		State: client.AddressTaken, Taken: at}
	if !in.b.takeAddresses {
		replaces, err := in.replaces(ctx, a)
		if err != nil {
			return err
		}
		if replaces {
			var one int64 // a callback without trackingId repeats itself with each attempt
			if held, err := db.One(ctx, in.t, heldAddressSQL, []any{a.TenantUserID, chainKey(a.ChainName), a.Address}, &one); err != nil || held {
				return err
			}
			a.State = client.AddressHeld
			in.ledger.alarm(client.AlarmAddressChanged, a.TenantUserID, at)
		}
	}
	in.ledger.event(addressEvent(a, at))
	counts, err := nextCounts(ctx, in.t, a)
	if err == nil {
		_, err = in.t.Exec(ctx, insertAddressSQL, a.TenantUserID, a.ChainName, a.Symbol, a.Address, a.OldAddress, string(a.State), int64(at), chainKey(a.ChainName), counts)
	}
	return err
}

// nextCounts returns what the column counts is for a: in the order in which the application is
// told of addresses, 0 for one that does not count.
func nextCounts(ctx context.Context, t *db.Tx, a client.AddressEntry) (n int64, err error) {
	if a.State == client.AddressTaken || a.State == client.AddressAccepted {
		_, err = db.One(ctx, t, nextCountsSQL, []any{a.TenantUserID}, &n)
	}
	return n, err
}

// chainKey is the stored form of the name of a chain, which may have any length.
func chainKey(name string) string {
	if name == "" {
		return ""
	}
	return db.Digest(countersign.FoldChain(name))[:32]
}

func depositedKey(address string) string { return db.Digest(countersign.AddressKey(address))[:32] }

// deposited notes to which address a deposit went.
func (l *ledger) deposited(d *countersign.Deposit) {
	if l.addresses == nil {
		l.addresses = map[[3]string]bool{}
	}
	l.addresses[[3]string{d.TenantUserID, chainKey(d.ChainName), depositedKey(d.ToAddress)}] = true
}

// writeDeposited writes what deposited noted, in one order: two nodes must not wait for each other.
func (l *ledger) writeDeposited(ctx context.Context, t *db.Tx) error {
	var statements []db.Statement
	for _, key := range slices.SortedFunc(maps.Keys(l.addresses), func(a, b [3]string) int { return slices.Compare(a[:], b[:]) }) {
		statements = append(statements, db.Statement{SQL: insertDepositedSQL, Args: []any{key[0], key[1], key[2]}})
	}
	return t.Batch(ctx, statements)
}

// replaces reports whether a may replace another address of its user: it does not only where the
// user has no told address and no deposit to another one on that chain, whatever its name is
// written like. The name of a chain that this gateway never met may be another name of one that it
// did. What the service says of the old address only counts against it: whoever makes a change up
// leaves the old address out.
func (in *inboxTx) replaces(ctx context.Context, a client.AddressEntry) (bool, error) {
	var known string
	chain := chainKey(a.ChainName)
	var one int64
	if chain != "" {
		met, err := db.One(ctx, in.t, knownChainSQL, []any{chain}, &one)
		if err != nil {
			return false, err
		}
		if !met {
			chain = ""
		}
	}
	found, err := db.One(ctx, in.t, countingAddressSQL, []any{a.TenantUserID, chain}, &known)
	if err != nil || found {
		return !countersign.SameAddress(known, a.Address), err
	}
	if in.restored || a.OldAddress != "" && !countersign.SameAddress(a.OldAddress, a.Address) {
		return true, nil
	}
	if found, err = db.One(ctx, in.t, unsettledAddressSQL, []any{a.TenantUserID, chain}, &one); err != nil || found {
		return true, err
	}
	return db.One(ctx, in.t, depositedElsewhereSQL, []any{a.TenantUserID, chain, depositedKey(a.Address)}, &one)
}

// addressEvents are the kinds of the events that say that an address is in a state.
var addressEvents = map[client.AddressState]client.EventKind{
	client.AddressTaken: client.EventAddressChanged, client.AddressHeld: client.EventAddressHeld,
	client.AddressAccepted: client.EventAddressChanged, client.AddressRejected: client.EventAddressRejected,
}

func addressEvent(a client.AddressEntry, at db.Millis) client.EventEntry {
	return client.EventEntry{Kind: addressEvents[a.State], At: at, TenantUserID: a.TenantUserID, State: string(a.State), OldAddress: a.OldAddress,
		Address: a.Address, ChainName: a.ChainName, Symbol: a.Symbol, Reason: a.Reason, DecidedBy: a.DecidedBy}
}

// Address returns one address by its number.
func (b *Book) Address(ctx context.Context, seq int64) (client.AddressEntry, error) {
	return db.Find(ctx, b, readAddressSQL, []any{seq}, scanAddress)
}

// Addresses lists addresses, as list does.
func (b *Book) Addresses(ctx context.Context, f client.AddressFilter, limit int, before int64) ([]client.AddressEntry, int64, error) {
	number := func(a client.AddressEntry) int64 { return a.Seq }
	return list(ctx, b, "addresses", addressColumns, addressMembers(f), limit, before, number, scanAddress)
}

func addressMembers(f client.AddressFilter) []member {
	return []member{longText("address", f.Address), longText("old_address", f.OldAddress).where("old_address <> ''"),
		text("tenant_user_id", f.TenantUserID), text("state", string(f.State))}
}

// DecideAddress makes a held address AddressAccepted or AddressRejected and appends the
// event. The same decision again changes nothing; another one is a *ConflictError.
func (b *Book) DecideAddress(ctx context.Context, seq int64, to client.AddressState, by, reason string, now db.Millis) (a client.AddressEntry, err error) {
	if to != client.AddressAccepted && to != client.AddressRejected {
		return client.AddressEntry{}, fmt.Errorf("state is %w: %q", db.ErrInvalid, to)
	}
	if err := db.CheckTexts("reason", reason, "by", by); err != nil {
		return client.AddressEntry{}, err
	}
	err = b.writeFeeds(ctx, func(ctx context.Context, t *db.Tx) error {
		a, err = db.Find(ctx, t, lockAddressSQL, []any{seq}, scanAddress)
		switch {
		case err != nil || a.State == to:
			return err
		case a.State != client.AddressHeld:
			return &db.ConflictError{Reason: "the address is " + string(a.State) + ", not held"}
		}
		a.State, a.Decided, a.DecidedBy, a.Reason = to, now, by, reason
		if _, err := db.LockFeed(ctx, t, feedEvents); err != nil { // two nodes accept one after the other
			return err
		}
		counts, err := nextCounts(ctx, t, a)
		if err != nil {
			return err
		}
		if n, err := t.Exec(ctx, decideAddressSQL, seq, string(to), int64(now), by, reason, counts); err != nil || n != 1 {
			return fmt.Errorf("deciding: %d rows: %w", n, err)
		}
		l := ledger{}
		l.event(addressEvent(a, now))
		return l.write(ctx, t)
	})
	if err != nil {
		return client.AddressEntry{}, err
	}
	return a, nil
}
