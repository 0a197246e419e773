package sim

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
)

// rogue is a second merchant, without a gateway, whose server answers as faulty and hostile
// merchants do until the world heals.
type rogue struct {
	w        *world
	merchant *countersigntest.Merchant
	server   *http.Server
	served   sync.WaitGroup
	most     float64 // how often an answer is faulty
	honest   atomic.Bool

	mu        sync.Mutex
	ordered   map[string]client.Details
	confirmed map[string]bool // answered in a way that counts as a confirmation
	refused   map[string]bool // and told that it refuses, by trackingId or callBackId
	twice     map[string]bool // took it again by its own fault
	lied      map[string]bool // said another amount than its order's, or wrote it otherwise
}

const rogueAPIKey = "answers-of-the-rogue"

func newRogue(w *world) (*rogue, error) {
	r := &rogue{w: w, most: w.float("rogue"), ordered: map[string]client.Details{}, confirmed: map[string]bool{}, refused: map[string]bool{}, twice: map[string]bool{}, lied: map[string]bool{}}
	var err error
	c := countersigntest.MerchantConfig{Key: w.c.RogueKey.Public(), APIKey: rogueAPIKey, Fault: r.fault, Orders: r.order}
	c.Sign, c.ServiceSigner = w.signs.of("rogue")
	r.merchant, err = countersigntest.MakeMerchant(c)
	if err != nil {
		return nil, err
	}
	l, err := w.net.listen("rogue", rogueAddr)
	if err != nil {
		return nil, err
	}
	r.server = &http.Server{Handler: r.merchant}
	r.served.Go(func() { _ = r.server.Serve(l) })
	return r, nil
}

func (r *rogue) close() {
	if r == nil {
		return
	}
	r.merchant.Close()
	_ = r.server.Close()
	r.served.Wait()
}

// order knows each order, from the first time on that it is asked.
func (r *rogue) order(id string) (countersign.Details, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, known := r.ordered[id]
	return d, known
}

// unsignedFaults are those of a merchant that signs nothing, signedFaults those that forge signatures.
var unsignedFaults, signedFaults = func() (unsigned, signed []countersigntest.MerchantFault) {
	for _, f := range countersigntest.MerchantFaults {
		if f.NeedsSigning() {
			signed = append(signed, f)
		} else {
			unsigned = append(unsigned, f)
		}
	}
	return unsigned, signed
}()

// fault chooses what is wrong with an answer.
func (r *rogue) fault(_ int, cb countersign.Callback) countersigntest.MerchantFault {
	id := cb.EventID()
	luck := r.w.net.luck("rogue", cb.CallbackType(), id)
	f := countersigntest.NoMerchantFault
	if !r.honest.Load() && luck.Float64() < r.most {
		list := unsignedFaults
		if r.w.signs != nil && luck.IntN(3) == 0 {
			list = signedFaults
		}
		f = list[luck.IntN(len(list))]
		r.w.count("faulty answers")
	}
	if f == countersigntest.FaultAnswersLate {
		time.AfterFunc(time.Minute, r.merchant.Release)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case f.Tolerated(), f == countersigntest.FaultAnswersLate, f == countersigntest.FaultTrickle:
		r.confirmed[id] = true
	case f == countersigntest.FaultRefuse:
		r.refused[id] = true
	}
	switch f {
	case countersigntest.FaultDoneTwice:
		r.twice[id] = true
	case countersigntest.FaultDetailsDiffer, countersigntest.FaultTrailingZeros: // where the core told no details, this confirms what it says
		r.confirmed[id], r.lied[id] = true, true
	}
	return f
}
