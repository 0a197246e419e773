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

	// The newest counting address of the user on chain $2. An empty chain, of the address or in $2, matches any
	// chain.
	countingAddressSQL = `
SELECT address FROM addresses
WHERE tenant_user_id = $1 AND counts > 0 AND ($2 = '' OR chain = '' OR chain = $2) ORDER BY counts DESC LIMIT 1`

	heldAddressSQL = `SELECT 1 FROM addresses WHERE tenant_user_id = $1 AND state = 'held' AND chain = $2 AND address = $3 LIMIT 1`

	unsettledAddressSQL = `
SELECT 1 FROM addresses
WHERE tenant_user_id = $1 AND state IN ('held', 'rejected') AND ($2 = '' OR chain = '' OR chain = $2) LIMIT 1`

	knownChainSQL = `
SELECT 1 WHERE EXISTS (SELECT 1 FROM deposited_at WHERE chain = $1) OR EXISTS (SELECT 1 FROM addresses WHERE chain = $1 AND counts > 0)`

	// An empty $2 matches every chain.
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
	err = r.Scan(&a.Seq, &a.TenantUserID, &a.ChainName, &a.Symbol, &a.Address, &a.OldAddress, &a.State, &a.Taken,
		&a.Decided, &a.DecidedBy, &a.Reason)
	return a, err
}

// takeAddress records an address that the service sent. An address that replaces another is held until a person
// decides. Until then, the application shows the old address.
func (in *inboxTx) takeAddress(ctx context.Context, c *countersign.AddressChange, at db.Millis) error {
	a := client.AddressEntry{TenantUserID: c.TenantUserID, ChainName: c.ChainName, Symbol: c.Symbol,
		Address: c.CountingAddress(), OldAddress: c.ToAddress, State: client.AddressTaken, Taken: at}
	if !in.b.takeAddresses {
		replaces, err := in.replaces(ctx, a)
		if err != nil {
			return err
		}
		if replaces {
			// Without a trackingId, each attempt is a new callback.
			if held, err := db.One(ctx, in.t, heldAddressSQL, []any{a.TenantUserID, chainKey(a.ChainName), a.Address}); err != nil || held {
				return err
			}
			a.State = client.AddressHeld
			in.ledger.alarm(client.AlarmAddressChanged, a.TenantUserID, at)
		}
	}
	in.ledger.event(addressEvent(a, at))
	counts, err := nextCounts(ctx, in.t, a)
	if err == nil {
		_, err = in.t.Exec(ctx, insertAddressSQL, a.TenantUserID, a.ChainName, a.Symbol, a.Address, a.OldAddress,
			string(a.State), int64(at), chainKey(a.ChainName), counts)
	}
	return err
}

// nextCounts returns the value of the column counts for a. It is the next number in the order in which the
// application learns of addresses, or 0 if a does not count.
func nextCounts(ctx context.Context, t *db.Tx, a client.AddressEntry) (n int64, err error) {
	if a.State == client.AddressTaken || a.State == client.AddressAccepted {
		_, err = db.One(ctx, t, nextCountsSQL, []any{a.TenantUserID}, &n)
	}
	return n, err
}

// chainKey returns the stored form of a chain's name, which may have any length.
func chainKey(name string) string {
	if name == "" {
		return ""
	}
	return db.Digest(countersign.FoldChain(name))[:32]
}

func depositedKey(address string) string { return db.Digest(countersign.AddressKey(address))[:32] }

// deposited collects the address that a deposit went to, for writeDeposited.
func (l *ledger) deposited(d *countersign.Deposit) {
	if l.addresses == nil {
		l.addresses = map[[3]string]bool{}
	}
	l.addresses[[3]string{d.TenantUserID, chainKey(d.ChainName), depositedKey(d.ToAddress)}] = true
}

// writeDeposited writes the addresses that deposited collected. They are sorted, so that two nodes cannot wait for
// each other.
func (l *ledger) writeDeposited(ctx context.Context, t *db.Tx) error {
	var statements []db.Statement
	for _, key := range slices.SortedFunc(maps.Keys(l.addresses),
		func(a, b [3]string) int { return slices.Compare(a[:], b[:]) }) {
		statements = append(statements, db.Statement{SQL: insertDepositedSQL, Args: []any{key[0], key[1], key[2]}})
	}
	return t.Batch(ctx, statements)
}

// replaces reports whether a may replace another address of its user. It does not if the same address counts already,
// or if the user has no other address and no deposit to another address on that chain. The spelling of the chain's
// name does not matter. A chain that this gateway has never seen matches every chain, because its name may be an
// alias. An old address that the service sends can only show that a is a replacement. Its absence shows nothing,
// because a forger would leave it out.
func (in *inboxTx) replaces(ctx context.Context, a client.AddressEntry) (bool, error) {
	var known string
	chain := chainKey(a.ChainName)
	if chain != "" {
		met, err := db.One(ctx, in.t, knownChainSQL, []any{chain})
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
	if found, err = db.One(ctx, in.t, unsettledAddressSQL, []any{a.TenantUserID, chain}); err != nil || found {
		return true, err
	}
	return db.One(ctx, in.t, depositedElsewhereSQL, []any{a.TenantUserID, chain, depositedKey(a.Address)})
}

// addressEvents maps the state of an address to the kind of its event.
var addressEvents = map[client.AddressState]client.EventKind{
	client.AddressTaken: client.EventAddressChanged, client.AddressHeld: client.EventAddressHeld,
	client.AddressAccepted: client.EventAddressChanged, client.AddressRejected: client.EventAddressRejected,
}

func addressEvent(a client.AddressEntry, at db.Millis) client.EventEntry {
	return client.EventEntry{Kind: addressEvents[a.State], At: at, TenantUserID: a.TenantUserID, State: string(a.State),
		OldAddress: a.OldAddress, Address: a.Address, ChainName: a.ChainName, Symbol: a.Symbol, Reason: a.Reason,
		DecidedBy: a.DecidedBy}
}

// Address returns the address with the number seq.
func (b *Book) Address(ctx context.Context, seq int64) (client.AddressEntry, error) {
	return db.Find(ctx, b, readAddressSQL, []any{seq}, scanAddress)
}

// Addresses returns a page of addresses; see list.
func (b *Book) Addresses(ctx context.Context, f client.AddressFilter, limit int,
	before int64) ([]client.AddressEntry, int64, error) {
	number := func(a client.AddressEntry) int64 { return a.Seq }
	return list(ctx, b, "addresses", addressColumns, addressMembers(f), limit, before, number, scanAddress)
}

func addressMembers(f client.AddressFilter) []member {
	return []member{longText("address", f.Address), longText("old_address", f.OldAddress).where("old_address <> ''"),
		text("tenant_user_id", f.TenantUserID), text("state", string(f.State))}
}

// DecideAddress moves a held address to AddressAccepted or AddressRejected and appends the event. Repeating the
// decision changes nothing. It returns a *ConflictError if another decision was made.
func (b *Book) DecideAddress(ctx context.Context, seq int64, to client.AddressState, by, reason string,
	now db.Millis) (a client.AddressEntry, err error) {
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
		if _, err := db.LockFeed(ctx, t, feedEvents); err != nil { // nodes accept addresses one after another
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
	return a, err
}
