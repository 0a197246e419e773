package outbox

import (
	"errors"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// testEqualIsEqual: a deposit that says the same in another spelling is a repetition, before and
// after the first was purged; another amount is not.
func testEqualIsEqual(t *testing.T, s *Outbox) {
	payload := func(amount, to string) []byte {
		d := countersign.Deposit{Head: countersign.Head{RequestUUID: countersign.UnboundUUID, TrackingID: "t-1", TenantUserID: "u"},
			TxID: "0xab", ChainName: "ETH", Symbol: "USDC", Amount: must(countersign.ParseAmount(amount))(t), FromAddress: "f", ToAddress: to, NewAddress: to, TxIndex: 1}
		return must(d.Marshal())(t)
	}
	const lower, mixed = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	first := payload("7.4", mixed)
	kept := purgedRow{digest: purgedArgs(nil, purgedKey{}, "", first)[4].([]byte)}
	addMerchants(t, s, 1, nil)
	add := func(p []byte) (client.Accepted, error) {
		done, err := s.Ingest(t.Context(), []NewCallback{{Merchant: "m0", Type: countersign.TypeDeposited, EventID: "t-1", TrackingID: "t-1", Payload: p, Due: 1}}, 1)
		if err != nil {
			return client.Accepted{}, err
		}
		return done[0], nil
	}
	if got, err := add(first); err != nil || got.Duplicate {
		t.Fatalf("%+v, %v", got, err)
	}
	for name, p := range map[string][]byte{"another scale": payload("7.400", mixed), "another case": payload("7.4", lower), "both": payload("7.40", lower)} {
		if got, err := add(p); err != nil || !got.Duplicate {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if !kept.Same(p) {
			t.Errorf("%s: it is another one once the first is purged", name)
		}
	}
	if _, err := add(payload("7.41", mixed)); !errors.Is(err, db.ErrConflict) || !strings.Contains(err.Error(), `another amount: "7.4" is known, and "7.41" came`) || kept.Same(payload("7.41", mixed)) {
		t.Errorf("another amount: %v", err)
	}
}
