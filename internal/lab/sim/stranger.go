package sim

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
)

// stranger is a second sender of the provider, which has the merchant's key: a bug, a backup of the
// service that was never put away, or a thief. When all else is done, it tells the gateway again what
// the whole life made of deposits and orders: the same transfers under other identifiers, indexes and
// spellings, questions about what has ended, and transactions after those that were told. Where
// messages are signed, it is refused before it is read, and has no part.
func (w *world) stranger() {
	if w.signs != nil {
		return
	}
	sender, err := countersigntest.MakeService(countersigntest.ServiceConfig{Key: w.c.Keys[0], APIKey: countersign.APIKey(*w.answers.Load())})
	if err != nil {
		w.wrong("a second sender: %v", err)
		return
	}
	shop, err := w.operator.Merchant(w.ctx, "shop")
	if err != nil {
		w.wrong("what a second sender sends to: %v", err)
		return
	}
	to := countersigntest.ToURLs(shop.NotifyURL, shop.WithdrawURL, w.http("stranger", operatorToBoth))
	tell := func(cb countersign.Callback) countersigntest.Result {
		w.count("told by a stranger")
		return sender.Deliver(w.ctx, to, cb)
	}
	w.core.mu.Lock()
	told, asked := maps.Clone(w.core.deposits), sorted(w.core.asked)
	w.core.mu.Unlock()
	w.tellCopies(told, tell)
	w.askEnded(asked, tell)
	w.payAgain(asked, tell)
}

// copies are ways to tell one transfer as another one.
var copies = map[string]func(*countersign.Deposit){
	"index":   func(d *countersign.Deposit) { d.TxIndex++ },
	"chain":   func(d *countersign.Deposit) { d.ChainName = strings.ToLower(d.ChainName) },
	"symbol":  func(d *countersign.Deposit) { d.Symbol += " " },
	"space":   func(d *countersign.Deposit) { d.TxID = "\ufeff" + d.TxID + "\u00a0" },
	"address": func(d *countersign.Deposit) { d.ToAddress, d.TxIndex = "\u200b"+d.ToAddress, d.TxIndex+1 },
}

// tellCopies tells deposits again under other identifiers: no copy may be credited or forwarded as taken.
func (w *world) tellCopies(told map[string]client.NewDeposit, tell func(countersign.Callback) countersigntest.Result) {
	n := 0
	for _, id := range sorted(told) {
		d := told[id]
		if n++; ofRogue(id) || n%5 != 0 {
			continue
		}
		for _, name := range sorted(copies) {
			cb := &countersign.Deposit{Head: countersign.Head{TrackingID: id + "-" + name, TenantUserID: d.TenantUserID}, TxID: d.TxID, ChainName: d.ChainName, Symbol: d.Symbol,
				Amount: d.Amount, FromAddress: d.FromAddress, ToAddress: d.ToAddress, TxIndex: d.TxIndex}
			copies[name](cb)
			tell(cb)
		}
	}
	time.Sleep(time.Hour)
	w.shop.read()
	w.checkDeposits()
}

// askEnded asks about withdrawals that have ended: none is confirmed.
func (w *world) askEnded(asked []string, tell func(countersign.Callback) countersigntest.Result) {
	for _, id := range asked {
		if ofRogue(id) {
			continue
		}
		// Who was never asked is not told of the end, and may confirm what nobody will execute.
		if o, err := w.shop.api.Order(w.ctx, id); err == nil && (o.State == client.OrderOpen || o.State == client.OrderHeld || o.State == client.OrderApproved) {
			continue
		}
		r := tell(&countersign.WithdrawalRequest{Head: countersign.Head{TrackingID: id, TenantUserID: user}, CallBackID: id})
		if r.Status == 200 && r.Response.ErrCode == countersign.CodeAccepted {
			w.wrong("withdrawal %s has ended, and is confirmed to whoever asks again", id)
		}
	}
}

// payAgain reports that ended orders were executed, in a transaction of which nobody knew. The gateway must say that
// money left twice, or left for what had ended.
func (w *world) payAgain(asked []string, tell func(countersign.Callback) countersigntest.Result) {
	left := map[client.OrderState]string{client.OrderExecuted: " (a second transaction)", client.OrderEnded: " (executed after its end)"}
	for _, id := range asked {
		o, err := w.shop.api.Order(w.ctx, id)
		cause := left[o.State]
		if err != nil || cause == "" || o.State == client.OrderExecuted && o.TxID == "" { // books that named no transaction
			continue
		}
		delete(left, o.State)
		tell(&countersign.WithdrawalDone{Head: countersign.Head{TrackingID: "again-" + id, TenantUserID: user}, CallBackID: id, TxID: "another-" + id,
			ChainName: o.ChainName, Symbol: o.Symbol, Amount: o.Amount, ToAddress: o.Address})
		w.wantAlarm(w.shop.api, client.AlarmFilter{Kind: client.AlarmExecutedTwice}, id+cause,
			fmt.Sprintf("%s was paid by another transaction when it was %s", id, o.State))
	}
}
