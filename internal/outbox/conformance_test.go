package outbox

import "testing"

// suite is what every database must do. Each case gets a fresh one.
var suite = []struct {
	name string
	run  func(*testing.T, *Outbox)
}{
	{"merchants", testMerchants},
	{"merchants/ages of keys", testKeySince},
	{"merchants/two sets of keys", testRotation},
	{"merchants/two sets of keys, against each other", testRotationRace},
	{"settle/withdrawn keys decide nothing", testWithdrawnKeys},
	{"merchants/refused", testMerchantsRefused},
	{"merchants/updates do not get lost", testMerchantUpdates},
	{"merchants/paused and resumed", testMerchantState},
	{"merchants/secrets open only in their place", testSecretsInPlace},
	{"merchants/changed by hand", testForgedMerchant},
	{"freeze/thawed by hand", testForgedFreeze},
	{"merchants/deleted", testDelete},
	{"merchants/deleted beside other nodes", testDeleteBeside},
	{"ingest", testIngest},
	{"ingest/all or none", testIngestAllOrNone},
	{"ingest/quota", testQuota},
	{"ingest/refused", testIngestRefused},
	{"ingest/same events from many callers", testIngestConcurrently},
	{"ingest/1000", testIngestThousand},
	{"claim", testClaim},
	{"claim/concurrency", testClaimConcurrency},
	{"claim/rate", testClaimRate},
	{"claim/breaker", testClaimBreaker},
	{"claim/shares", testClaimShares},
	{"claim/places", testClaimPlaces},
	{"claim/a dead merchant costs nobody", testClaimHeadOfLine},
	{"claim/no row twice", testClaimExclusive},
	{"claim/given back", testGiveBack},
	{"claim/nothing overlooked", testNothingOverlooked},
	{"claim/the ready column", testReadyColumn},
	{"settle", testSettle},
	{"settle/attempts are kept", testAttemptsKept},
	{"settle/guarded", testSettleGuarded},
	{"settle/repeated", testSettleRepeated},
	{"settle/refused", testSettleRefused},
	{"settle/opening failures pause", testOpenFailures},
	{"sweep/lost leases", testLostLeases},
	{"sweep/deadlines", testDeadlines},
	{"sweep/repairs", testRepairs},
	{"sweep/a clock set back", testClockBack},
	{"sweep/due too far away", testFar},
	{"lists of a time", testListsOfATime},
	{"withdrawals", testWithdrawals},
	{"withdrawals/refused", testWithdrawalsRefused},
	{"withdrawals/the first decision stands", testFirstDecision},
	{"withdrawals/at the deadline", testAtDeadline},
	{"withdrawals/expired by sweep", testExpired},
	{"withdrawals/a lost lease never decides", testLostLeaseNeverDecides},
	{"withdrawals/cancelled", testCancel},
	{"withdrawals/answers against cancellations", testCancelRace},
	{"withdrawals/one permit", testOnePermit},
	{"withdrawals/a foreign claim raises an alarm", testForeignClaim},
	{"withdrawals/outcome", testOutcome},
	{"withdrawals/another outcome than the one that stands", testContradicted},
	{"withdrawals/listed", testWithdrawalLists},
	{"stops/answers decide nothing", testStopped},
	{"stops/deadlines go on", testStoppedDeadline},
	{"stops/freeze", testFreeze},
	{"stops/nothing is released", testReleaseStopped},
	{"stops/blocked", testBlock},
	{"stops/hold when they have returned", testStopsHold},
	{"stops/in order", testStopsAreInOrder},
	{"alarms/exhausted", testExhaustedAlarm},
	{"alarms/breaker", testBreakerAlarm},
	{"alarms/overdue", testOverdueAlarm},
	{"alarms/end", testAlarmsEnd},
	{"alarms/many wrong answers", testManyWrong},
	{"lapse", testLapse},
	{"withdrawals/every end is told", testEndsAreTold},
	{"lapse/against releases and blocks", testLapseRace},
	{"feeds/no gaps", testFeedNoGaps},
	{"feeds/alarms", testAlarms},
	{"callbacks/listed", testCallbackLists},
	{"callbacks/found", testFind},
	{"callbacks/resent", testResend},
	{"callbacks/resent by filter", testResendMatching},
	{"callbacks/resent before they are due", testResendPending},
	{"callbacks/sent again though accepted", testRepeat},
	{"callbacks/possibly told", testPossiblyTold},
	{"numbers", testStats},
	{"numbers/folded", testFolded},
	{"callbacks/listed by short pages", testShortPages},
	{"watch", testWatch},
	{"all of it together", testTogether},
}

func TestConformance(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			for _, c := range suite {
				t.Run(c.name, func(t *testing.T) { c.run(t, openAt(t, d.url(t))) })
			}
		})
	}
}
