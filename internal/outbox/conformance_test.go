package outbox

import (
	"testing"

	"countersign/internal/lab/endtest"
)

// suite is what every database must do. Each case gets a fresh one.
var suite = []struct {
	name string
	run  func(*testing.T, *Outbox)
}{
	{"merchants", testMerchants},
	{"merchants/ages of keys", testKeySince},
	{"merchants/two sets of keys", testRotation},
	{"settle/under an older version", testOlderVersion},
	{"merchants/updates do not get lost", testMerchantUpdates},
	{"merchants/paused and resumed", testMerchantState},
	{"merchants/secrets open only in their place", testSecretsInPlace},
	{"ingest", testIngest},
	{"ingest/quota", testQuota},
	{"ingest/equal is equal", testEqualIsEqual},
	{"claim", testClaim},
	{"claim/shares", testClaimShares},
	{"claim/places", testClaimPlaces},
	{"claim/given back", testGiveBack},
	{"claim/the ready column", testReadyColumn},
	{"settle", testSettle},
	{"settle/guarded", testSettleGuarded},
	{"settle/repeated", testSettleRepeated},
	{"settle/opening failures pause", testOpenFailures},
	{"sweep/repairs", testRepairs},
	{"sweep/a clock set back", testClockBack},
	{"sweep/a clock far ahead", testClockFarAhead},
	{"release/of a merchant that signs", testSignedRelease},
	{"release/of a merchant that signs since", testKeySetLater},
	{"release/again of a merchant that signs", testSignedRepeat},
	{"withdrawals", testWithdrawals},
	{"withdrawals/the first decision stands", testFirstDecision},
	{"withdrawals/another outcome than the one that stands", testContradicted},
	{"withdrawals/many released", testReleaseMany},
	{"withdrawals/many outcomes", testOutcomesMany},
	{"withdrawals/many, all or nothing", testBatchAllOrNothing},
	{"stops/answers decide nothing", testStopped},
	{"stops/freeze", testFreeze},
	{"alarms/exhausted", testExhaustedAlarm},
	{"alarms/health", testHealth},
	{"alarms/overdue", testOverdueAlarm},
	{"alarms/end", testAlarmsEnd},
	{"withdrawals/every end is told", testEnds},
	{"withdrawals/nothing ends by time in a restore", testDeadlinesInRestore},
	{"callbacks/listed", testLists},
	{"callbacks/resent", testResend},
	{"callbacks/sent again though accepted", testRepeat},
	{"numbers/folded", testFolded},
	{"watch", testWatch},
	{"purge", testPurge},
	{"purge/two nodes", testNodesPurge},
	{"guards", testGuards},
	{"refused", testRefused},
	{"all of it together", testTogether},
}

func TestConformance(t *testing.T) {
	for name, url := range endtest.Kinds(End()) {
		t.Run(name, func(t *testing.T) {
			for _, c := range suite {
				t.Run(c.name, func(t *testing.T) { c.run(t, openAt(t, url(t))) })
			}
		})
	}
}
