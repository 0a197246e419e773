package client

import (
	"context"
)

// Service calls the API of a wallet service. Make it with NewService. Its
// methods may be used from several goroutines at once.
type Service struct{ Common }

// NewService checks c. It makes no call.
func NewService(c Config) (*Service, error) {
	base, err := newCaller(c)
	if err != nil {
		return nil, err
	}
	return &Service{base}, nil
}

// Lane is one of a merchant's two queues of callbacks.
type Lane string

// The lanes. A backlog in one does not delay the other.
const (
	LaneNotify   Lane = "notify"   // callbacks of every type but 2
	LaneWithdraw Lane = "withdraw" // callbacks of type 2
)

var _ = plainWords(LaneNotify, LaneWithdraw)

// LaneStats counts the callbacks of one lane in one state.
type LaneStats struct {
	Lane      Lane          `json:"lane" doc:"notify, or withdraw for callbacks of type 2"`
	State     CallbackState `json:"state" doc:"the state of the callbacks that are counted"`
	Count     int64         `json:"count" doc:"how many callbacks"`
	OldestDue Time          `json:"oldestDue,omitzero" doc:"when the oldest pending callback became due; absent in the other states"`
}

// ServiceStats are the numbers of the service.
type ServiceStats struct {
	Lanes       []LaneStats               `json:"lanes" nullable:"false" doc:"callbacks by lane and state"`
	Withdrawals map[WithdrawalState]int64 `json:"withdrawals" doc:"how many withdrawals are in each state; absent: none"`
	Failing     []FailingMerchant         `json:"failing" nullable:"false" maxItems:"20" doc:"merchants whose last attempt failed, or that the alarm merchant_failing stands about, those that fail for longest first; at most 20"`
}

// MostFailing is how many failing merchants ServiceStats has at most.
const MostFailing = 20

// FailingMerchant is a merchant that fails, from its first failure on, with the last one.
type FailingMerchant struct {
	Merchant string `json:"merchant" doc:"id of the merchant"`
	Since    Time   `json:"since,omitzero" doc:"the first failure since something was accepted; absent: the last attempt did not fail, too many before it did"`
	Reason   Reason `json:"reason" doc:"of the last failure"`
	Facts    *Fact  `json:"facts,omitempty" doc:"what was wrong; absent: nothing more is known"`
}

// Stats returns the queues, withdrawals and failing merchants.
func (s *Service) Stats(ctx context.Context) (ServiceStats, error) {
	return Get[ServiceStats](ctx, s, "/v1/stats")
}
