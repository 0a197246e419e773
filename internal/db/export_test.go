package db

import "context"

// What the tests of purges and of master keys, which are in another package, need.
const (
	LeastRows = leastRows
	Calm      = calm
	Hurried   = hurried
)

var Pauses = (*Purger).pauses

// HeldBack returns why p cannot go on.
func HeldBack(p *Purger) string { return p.held }

// RewrapSome calls do with every second data key of the tables, its bytes and what seals
// them anew.
func RewrapSome(ctx context.Context, q Querier, tables []SealedTable, do func(wrapped []byte, change func(wrapped []byte) Statement) error) error {
	return eachSealedKey(ctx, q, tables, func(list []sealedKey) error {
		for i := 0; i < len(list); i += 2 {
			if err := do(list[i].wrapped, list[i].change); err != nil {
				return err
			}
		}
		return nil
	})
}
