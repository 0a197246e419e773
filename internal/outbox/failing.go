package outbox

import (
	"context"

	"countersign/client"
	"countersign/internal/db"
)

// FailingMerchant is a merchant that fails, by the rule of AlarmMerchantFailing.
type FailingMerchant struct {
	Merchant string
	Since    db.Millis     // the first failure since something was accepted; 0: the last attempt did not fail, too many before it did
	Reason   client.Reason // of the last failure
	Facts    client.Fact
}

const failingNowSQL = `
SELECT merchant, failing, reason, facts FROM health WHERE told = 1 ORDER BY CASE WHEN failing > 0 THEN failing ELSE 4611686018427387904 END, merchant`

// FailingMerchants returns all merchants that fail, those that fail for longest first.
func (o *Outbox) FailingMerchants(ctx context.Context) ([]FailingMerchant, error) {
	return db.List(ctx, o, failingNowSQL, nil, func(r db.Rows) (f FailingMerchant, err error) {
		facts := ""
		err = r.Scan(&f.Merchant, &f.Since, &f.Reason, &facts)
		f.Facts = factsOf(facts)
		return f, err
	})
}
