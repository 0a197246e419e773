// Package merchant is the merchant's end of the custody callbacks: an
// http.Handler that opens what the service posts, asks the merchant's own
// functions, and seals the answer.
//
//	h, err := merchant.New(merchant.Config{
//		Key:                 key,    // the service's public part
//		APIKey:              apiKey, // goes into every response
//		CallbackAPIKeys:     []countersign.APIKey{callbackKey},
//		Inbox:               inbox,
//		OnDeposit:           credit,
//		OnPossibleDuplicate: merchant.KeepForReview,
//		OnWithdrawal:        lookUp,
//	})
//
// # What it promises
//
// A deposit that was answered with errCode 0 has been recorded, and OnDeposit has
// returned nil for it. OnDeposit is called for a deposit by one delivery at a
// time, and never again after it returned nil and the Inbox recorded that
// ([Renewer] says what holds across processes). If the process dies or the Inbox
// fails between the two, OnDeposit is called again. So it must credit a
// trackingId only once, for example by a unique column in the transaction that
// credits the user. Package sqlinbox closes this gap: there the function runs in the
// transaction that records the deposit. Without an OnDeposit, recording the deposit is one
// transaction of the Inbox, and nothing is done twice.
//
// A withdrawal is confirmed only if OnWithdrawal confirms it for the user that
// the request names, and always with the same details: they are recorded before
// they are sent, and every later request for the same callBackId gets them again,
// unless OnWithdrawal, which is called for each, refuses what has ended since. A final
// refusal is recorded for ever. A hold is not; the next request calls OnWithdrawal again.
//
// The answer to a callback is sent only after it was recorded. A panic, a
// time-out, an error and an Inbox that fails become errCode 5000 with empty data,
// and the service asks again. The service gets a fixed message; the log gets the
// cause.
//
// # Other providers
//
// The zero [Profile] is that of a service of this project. For any other, set Config.Profile to [OtherProvider] and
// change what you know of the service. Then a request may not be bound, members may be missing or have other forms, and
// a WithdrawalRequest may name no user: pass the user of your order to Confirm.
//
// # Mounting
//
// A Handler routes by the two paths of its Config. Its two halves can also be
// mounted separately, under any path:
//
//	net/http  mux.Handle("/callbacks/", h)
//	chi       r.Method("POST", "/in/notify", h.NotifyHandler())
//	gin       r.POST("/in/notify", gin.WrapH(h.NotifyHandler()))
//	echo      e.POST("/in/notify", echo.WrapHandler(h.NotifyHandler()))
//
// The service sends its Base64 under the Content-Type of an HTML form. Code that
// reads the form before the handler (ParseForm, FormValue, gin's Bind and
// PostForm, echo's Bind and FormValue, a logging or CSRF middleware) consumes the
// body and turns + into a space. So nothing before the handler may read the body;
// the handler detects it and says so. Middleware that decompresses or logs must
// put the bytes back unchanged.
//
// # Before the handler
//
// Run the handler behind TLS, in an http.Server whose ReadHeaderTimeout is set.
// The handler bounds the size and the time of a body, but not the number of
// connections. After http.Server.Shutdown call [Handler.Wait], which waits for
// functions that are still running.
package merchant
