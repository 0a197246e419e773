// Package merchant is the merchant's end of the custody callbacks: an
// http.Handler that opens what the service posts, asks the merchant's own
// functions, and seals the answer.
//
//	h, err := merchant.New(merchant.Config{
//		Key:             key,    // what the service handed over
//		APIKey:          apiKey, // said in every response
//		CallbackAPIKeys: []countersign.APIKey{callbackKey},
//		Inbox:           inbox,
//		OnDeposit:       credit,
//		OnWithdrawal:    lookUp,
//	})
//
// # What it promises
//
// A deposit that was answered with errCode 0 has been recorded, and OnDeposit
// has returned without an error for it. A deposit comes to OnDeposit by one
// delivery at a time, and never again once it returned nil and the inbox kept
// that. In between lies one gap that no library can close: where the process
// dies, or the inbox fails, after OnDeposit returned and before the outcome is
// kept, the deposit comes again. So OnDeposit does its work under the
// trackingId, as with a unique column in the transaction that credits the user.
// Without an OnDeposit, recording is the whole effect, one transaction of the
// Inbox, and there is no gap.
//
// A withdrawal is confirmed only by what OnWithdrawal confirms, and with the
// same details for ever: they are kept before they are sent, and every later
// request for the same callBackId gets them again without OnWithdrawal being
// asked. A refusal for good is kept likewise. A hold is not; the next request
// asks again.
//
// Nothing is sent that was not kept. A panic, a time-out, an error and a store
// that fails become errCode 5000 with empty data, and the service asks again.
// The peer gets a fixed word; the log gets the cause.
//
// # Mounting
//
// A Handler routes by the two paths of its Config. Its two halves can also be
// mounted one by one, under any path:
//
//	net/http  mux.Handle("/callbacks/", h)
//	chi       r.Method("POST", "/in/notify", h.NotifyHandler())
//	gin       r.POST("/in/notify", gin.WrapH(h.NotifyHandler()))
//	echo      e.POST("/in/notify", echo.WrapHandler(h.NotifyHandler()))
//
// The service sends its Base64 under the Content-Type of an HTML form. Whatever
// reads the form first (ParseForm, FormValue, gin's Bind and PostForm, echo's
// Bind and FormValue, a logging or CSRF middleware) eats the body and turns +
// into a space, so nothing before the handler may touch the body. The handler
// notices and says so. Middleware that decompresses or logs must put the bytes
// back unchanged.
//
// # Before the handler
//
// Run it behind TLS, with a http.Server whose ReadHeaderTimeout is set. The
// handler bounds the body in size and time, not the number of connections.
// After http.Server.Shutdown call [Handler.Wait], which waits for functions
// that outlived their request.
package merchant
